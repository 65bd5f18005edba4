"""Whether a figure is that of the load generator instead of what it measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# From this share of its CPU limit on, a generator's own queueing is in its figures.
CPU_BOUND_SHARE = 0.85
# Of a closed loop's threads, those that had a request under way, on average (Little's law).
BUSY_THREADS_SHARE = 0.8
# Idle threads of a client that hardly computes wait for something else than it.
HARDLY_ANY_CPU_SHARE = 0.05
# From this share of its time on, a device is the limit, whatever the client's threads do.
DISK_AT_LIMIT_SHARE = 0.9
RATE_KEPT_SHARE = 0.98
# Below these there is no sign that what is measured is the limit.
IDLE_SHARE = 0.6

ClientBound = Literal["yes", "no", "unknown"]


@dataclass(frozen=True)
class LoadEvidence:
    """What was seen of one client while it measured, and of what it measured.

    CPU in cores; `cpu_limit_cores` is that of its control group or host. `threads` and
    `busy_threads` are of a closed loop (`mean_busy_threads`), the rates of an open one, in which
    `busy_threads` are those that had work and `queue_length` the requests that waited for one.
    Shares of the server's CPU and of its busiest disk are 0 to 1. None: not known.
    """

    cpu_used_cores: float | None
    cpu_limit_cores: float | None
    threads: int | None = None
    busy_threads: float | None = None
    asked_rate_per_s: float | None = None
    reached_rate_per_s: float | None = None
    server_cpu_share: float | None = None
    server_disk_share: float | None = None


@dataclass(frozen=True)
class ClientVerdict:
    """`bound` is `unknown` when what was seen does not decide it. `evidence` are sentences.

    `by_threads_alone`: bound for idle threads alone, which a device at its limit refutes.
    """

    bound: ClientBound
    evidence: tuple[str, ...]
    by_threads_alone: bool = False


def mean_busy_threads(*, operations_per_s: float, average_us: float) -> float:
    """How many requests of a closed loop were under way on average (Little's law)."""
    return operations_per_s * average_us / 1_000_000


def is_client_bound(seen: LoadEvidence) -> ClientVerdict:
    """Whether the client was the limit, and the evidence for it.

    CPU at its limit decides alone. Idle threads of a closed loop do: while a thread is not in
    a request, it is the client's own work that delays the next one; unless the client hardly works,
    or a device is at its limit. A rate that was not reached
    decides only when the server is seen to be idle.
    """
    by_cpu, by_threads = _cpu_evidence(seen), _thread_evidence(seen)
    against = [*by_cpu, *by_threads]
    server, idle = _server_evidence(seen)
    rate = _missed_rate(seen)
    if rate is not None and idle:
        against.append(f"{rate} though {server[0].lower()}{server[1:]}")
    if against:
        return ClientVerdict("yes", tuple(against), by_threads_alone=against == by_threads)
    if rate is not None and idle is None:
        return ClientVerdict("unknown", (f"{rate}.", server))
    cpu_share = _cpu_share(seen)
    if cpu_share is None:
        return ClientVerdict("unknown", ("The client's CPU time is not known.", server))
    favour = [f"The client used {100 * cpu_share:.0f} % of its CPU limit."]
    if rate is not None:
        favour.append(f"{rate}, and {server[0].lower()}{server[1:]}")
    return ClientVerdict("no", tuple(favour))


def _cpu_share(seen: LoadEvidence) -> float | None:
    if seen.cpu_used_cores is None or not seen.cpu_limit_cores:
        return None
    return seen.cpu_used_cores / seen.cpu_limit_cores


def _cpu_evidence(seen: LoadEvidence) -> list[str]:
    evidence = []
    share = _cpu_share(seen)
    if share is not None and share >= CPU_BOUND_SHARE:
        evidence.append(
            f"The client used {seen.cpu_used_cores:.2f} of its {seen.cpu_limit_cores:g} cores "
            f"({100 * share:.0f} %)."
        )
    return evidence


def _thread_evidence(seen: LoadEvidence) -> list[str]:
    if seen.busy_threads is None or not seen.threads:
        return []
    share = seen.busy_threads / seen.threads
    if seen.asked_rate_per_s is not None or share >= BUSY_THREADS_SHARE:
        return []
    cpu_share, disk_share = _cpu_share(seen), seen.server_disk_share
    if cpu_share is not None and cpu_share < HARDLY_ANY_CPU_SHARE:
        return []
    if disk_share is not None and disk_share >= DISK_AT_LIMIT_SHARE:
        return []
    return [
        f"On average {seen.busy_threads:.1f} of {seen.threads} threads had a request under way: "
        "the client was slow to send the next one."
    ]


def _missed_rate(seen: LoadEvidence) -> str | None:
    """That the rate was not reached, as a sentence without its end; None when it was."""
    if seen.asked_rate_per_s is None or seen.reached_rate_per_s is None:
        return None
    if seen.reached_rate_per_s >= RATE_KEPT_SHARE * seen.asked_rate_per_s:
        return None
    words = f"The client sent {seen.reached_rate_per_s:.0f}/s of {seen.asked_rate_per_s:.0f}/s"
    if seen.busy_threads is not None and seen.threads and seen.busy_threads >= seen.threads - 0.5:
        return f"{words} with all of its {seen.threads} threads busy"
    return words


def _server_evidence(seen: LoadEvidence) -> tuple[str, bool | None]:
    """What the server did, as a sentence, and whether it was idle; None: not known."""
    known = [
        (name, share)
        for name, share in (("CPU", seen.server_cpu_share), ("disk", seen.server_disk_share))
        if share is not None
    ]
    if not known:
        return "It is not known how busy the server was.", None
    words = " and ".join(f"its {name} to {100 * share:.0f} %" for name, share in known)
    idle = all(share < IDLE_SHARE for _, share in known)
    if idle and len(known) < 2:
        return f"The server was busy with {words}, and nothing else is known of it.", None
    return f"The server was busy with {words}.", idle
