"""What comes of a driver's run: figures, or the reason why there are none. Never both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from grampus.bench.latency.histogram import LatencyHistogram
from grampus.core.errors import GrampusError

DriverName = Literal["sysbench", "rados bench", "rbd bench", "fio"]
# open: requests come at a rate, whether or not the ones before are answered.
Loop = Literal["closed", "open"]
FailureKind = Literal["killed", "failed", "cut-off", "no-operations", "unreadable"]


@dataclass(frozen=True)
class DriverOutput:
    """What a driver that has ended left behind, as it came."""

    stdout: str
    stderr: str
    returncode: int


@dataclass(frozen=True)
class Second:
    """One line of a driver's series: what was done up to `ended_s`, in about a second.

    `ended_s` counts from the start of the load. `latency_p99_ms` is of the operations that ended
    in it. `threads` is how many ran; in an open loop `busy_threads` had a request at its end, and
    `queue_length` requests waited for one. None where the driver does not say.
    """

    ended_s: float
    duration_s: float
    operations: float
    errors: float = 0.0
    reconnects: float = 0.0
    queries: float | None = None
    latency_p99_ms: float | None = None
    threads: int | None = None
    busy_threads: int | None = None
    queue_length: int | None = None

    @property
    def operations_per_s(self) -> float:
        return self.operations / self.duration_s


@dataclass(frozen=True)
class DriverResult:
    """A run that ended as it should. Operations are transactions, requests or I/Os.

    In an open loop latencies begin when a request was due, so they include its time in the queue.
    `errors` were met and passed over; `reconnects` are connections lost and made anew. `warnings`
    are the driver's own words. `flush` holds the flushes that a driver counts apart.
    `started_at_s` (Unix time) is when operations began to count, where the driver says that.
    """

    driver: DriverName
    loop: Loop
    operations: int
    elapsed_s: float
    seconds: tuple[Second, ...]
    latency: LatencyHistogram
    errors: int = 0
    reconnects: int = 0
    queries: int | None = None
    moved_bytes: int | None = None
    flush: LatencyHistogram = field(default_factory=LatencyHistogram)
    warnings: tuple[str, ...] = ()
    started_at_s: float | None = None

    @property
    def operations_per_s(self) -> float:
        return self.operations / self.elapsed_s

    @property
    def bytes_per_s(self) -> float:
        return (self.moved_bytes or 0) / self.elapsed_s


@dataclass(frozen=True)
class DriverFailure:
    """A run without figures. `reason` is a sentence for a user; it begins with the driver."""

    kind: FailureKind
    reason: str


class DriverError(GrampusError):
    """A load generator failed, or printed something that cannot be read."""

    default_code = "driver-failed"


# What follows the driver's name in the code of its error.
_CODES: Mapping[FailureKind, str] = {
    "killed": "failed",
    "failed": "failed",
    "cut-off": "output",
    "unreadable": "output",
    "no-operations": "no-io",
}


def require_result(
    found: DriverResult | DriverFailure, driver: DriverName, *, during: str
) -> DriverResult:
    """The result, where there must be one; `during` says in words what the driver did.

    Raises DriverError with code `DRIVER-failed`, `DRIVER-output` or `DRIVER-no-io`.
    """
    if isinstance(found, DriverResult):
        return found
    remedy = (
        "Read its output in the run's raw directory."
        if _CODES[found.kind] == "output"
        else "`grampus lab status` and `grampus db list` show whether the cluster, the host and "
        "the database are healthy. Then run it again."
    )
    raise DriverError(
        f"{found.reason.rstrip('.')}, during {during}.",
        remedy,
        code=f"{driver.replace(' ', '-')}-{_CODES[found.kind]}",
    )


def classify_exit(
    driver: DriverName, output: DriverOutput, words: str | None
) -> DriverFailure | None:
    """The failure of a driver that did not end by itself with code 0; None when it did.

    `words` are the driver's own, if it said anything. 124 and 137 are those of coreutils' timeout,
    which bounds every driver; a negative code is a signal.
    """
    code = output.returncode
    if code == 0:
        return None
    said = words.strip().rstrip(".") if words is not None else None
    if code < 0 or code == 124 or code > 128:
        signal = -code if code < 0 else code - 128
        how = "did not end in time and was stopped"
        how = how if code == 124 else f"was killed (signal {signal})"
        # Not the cause: a driver that is stopped complains of that, too.
        return DriverFailure("killed", f"{driver} {how}{f', after: {said}' if said else ''}.")
    if said:
        return DriverFailure("failed", f"{driver} failed: {said}.")
    return DriverFailure("failed", f"{driver} ended with code {code} and said nothing of why.")


def last_words(text: str, *, count: int = 2) -> str | None:
    """The last lines of what a program wrote to stderr, as one; None when there are none."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(lines[-count:]) or None
