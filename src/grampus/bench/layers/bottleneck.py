"""Which layer holds a load up, how sure that is, and the evidence for it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from grampus.bench.drivers.client_bound import ClientVerdict
from grampus.bench.layers.confidence import grade
from grampus.bench.layers.subjects import Consumer
from grampus.state.matrix_layers import (
    LAYER_NAMES,
    BottleneckWord,
    Confidence,
    Layer,
    LayerTime,
)

# From this share of a medium's limit on, some of what was done passed by it. Media that nothing
# passes by were seen at up to 104% over a trial, at up to 133% in a second (2026-11-26).
PASSES_LIMIT_SHARE = 1.25
# From here on an emulated disk is another one than its model: as far as the model is true at all.
LATE_SHARE = 0.1
# The layers after the first that are named, and the least share that is worth it.
MAX_NEXT, LEAST_NEXT_SHARE = 3, 0.05
# Evidence beside the times is there to be read, not to be searched.
MAX_FURTHER = 3

_CONSUMERS: Mapping[Consumer, str] = {
    "client": "the load generator",
    "server": "the database's server",
    "volume": "the volume's driver",
    "osd": "the OSDs",
    "other": "other programs and the kernel",
}


@dataclass(frozen=True)
class LayerEvidence:
    """What was seen of all layers while it was measured, on average; None: not known.

    `times` are those of `decide_times`. Shares are of the layer's limit (0 to 1). `cpu_cores` is by
    consumer. `lock_waiting` are threads that waited for row locks. `log_busy_share` is of the redo
    log or the binary log, whichever was busier. `device` is the busiest OSD's, and
    `device_limit_share` of its medium's limit; `late_disk` is an emulated disk with what it took
    beyond its model's time, as a part of that time. `throttled_hosts` have a CPU budget, with the
    part of the time in which it was used up.
    """

    threads: int
    cores: float
    times: Sequence[LayerTime] = ()
    client: ClientVerdict | None = None
    machine_share: float | None = None
    cpu_cores: Mapping[Consumer, float] = field(default_factory=dict)
    server_share: float | None = None
    lock_waiting: float | None = None
    log_busy_share: float | None = None
    flushes_per_s: float | None = None
    flush_ms: float | None = None
    volume_busy_share: float | None = None
    volume_latency_ms: float | None = None
    osd_share: float | None = None
    osd_write_ms: float | None = None
    osd_read_ms: float | None = None
    device: str | None = None
    device_busy_share: float | None = None
    device_limit_share: float | None = None
    late_disk: tuple[str, float] | None = None
    device_latency_ms: float | None = None
    network_share: float | None = None
    round_trip_ms: float | None = None
    throttled_hosts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Bottleneck:
    """`evidence` are sentences, the deciding one first. `confidence` is None of an unknown one."""

    word: BottleneckWord
    evidence: tuple[str, ...]
    confidence: Confidence | None = None


def decide_bottleneck(seen: LayerEvidence) -> Bottleneck:
    """The layer that adds most to an operation's time.

    A load generator at its own limit is named before all others: then nothing beneath it was
    tested. Where most of the time goes by in layers that could not be observed, none is named.
    """
    if seen.client is not None and seen.client.bound == "yes" and not seen.client.by_threads_alone:
        evidence = (*seen.client.evidence, *_say_times(seen.times), *_further(seen, "client"))
        return Bottleneck("client", evidence, "high")
    if not seen.times:
        return Bottleneck("unknown", ("Too little is known of what was under load.",))
    first = seen.times[0]
    unseen = 1 - sum(one.share for one in seen.times)
    if unseen > first.share:
        said = (
            f"Layers that could not be observed take {_percent(unseen)} of an operation's time.",
            *_say_times(seen.times),
        )
        return Bottleneck("unknown", (*said, *_further(seen, None)))
    confidence = grade([one.share for one in seen.times])
    doubt = ("No layer stands out.",) if confidence == "low" else ()
    evidence = (*_say_times(seen.times), *doubt, *_further(seen, first.layer))
    return Bottleneck(first.layer, evidence, confidence)


def describe_passed_limit(seen: LayerEvidence) -> str | None:
    """That a device was faster or slower than its medium, as a sentence; None: none was.

    What was measured then is no such medium, and figures of it say nothing of one.
    """
    if seen.late_disk is not None and seen.late_disk[1] >= LATE_SHARE:
        device, late = seen.late_disk
        return (
            f"The emulated disk of {device} took {_percent(late)} longer than its model says: what "
            "it is kept on is slower than such a disk."
        )
    share = seen.device_limit_share
    if share is None or share < PASSES_LIMIT_SHARE:
        return None
    return (
        f"The device of {seen.device or 'an OSD'} did {_percent(share)} of what "
        "its medium is limited to, so something passes by the limit and it is not such a medium."
    )


def _say_times(times: Sequence[LayerTime]) -> list[str]:
    if not times:
        return []
    first, *others = times
    name = LAYER_NAMES[first.layer]
    verb = "take" if first.layer == "osd-device" else "takes"  # the only name in the plural
    said = [
        f"{name[0].upper()}{name[1:]} {verb} {_percent(first.share)} of an operation's time"
        f"{_say_ms(first)}."
    ]
    following = [
        f"{LAYER_NAMES[one.layer]} {_percent(one.share)}"
        for one in others[:MAX_NEXT]
        if one.share >= LEAST_NEXT_SHARE
    ]
    return [*said, *([f"Next: {', '.join(following)}."] if following else [])]


def _say_ms(one: LayerTime) -> str:
    if one.ms is None or one.share <= 0:
        return ""
    queued_ms = one.ms * one.queued_share / one.share
    queued = f", {_short(queued_ms)} ms of it in queues" if queued_ms >= 0.1 * one.ms else ""
    return f": {_short(one.ms)} of {_short(one.ms / one.share)} ms{queued}"


def _further(seen: LayerEvidence, layer: Layer | None) -> list[str]:
    """What else is known, that of the named layer first, so that a reader can follow."""
    passed = describe_passed_limit(seen)
    facts = sorted(_facts(seen), key=lambda fact: fact[0] != layer)
    budgets = [
        f"The CPU budget of the host {host} was used up {_percent(share)} of the time."
        for host, share in sorted(seen.throttled_hosts.items())
        if share >= LEAST_NEXT_SHARE
    ]
    first = [*([passed] if passed else []), *budgets]
    return [*first, *(said for _, said in facts[:MAX_FURTHER])]


def _facts(seen: LayerEvidence) -> list[tuple[Layer, str]]:
    facts: list[tuple[Layer, str]] = []
    if seen.machine_share is not None:
        facts.append(("machine", _say_machine(seen)))
    if seen.server_share is not None:
        said = f"The server used {_percent(seen.server_share)} of its CPU limit."
        facts.append(("server-cpu", said))
    if seen.lock_waiting is not None and seen.lock_waiting >= LEAST_NEXT_SHARE * seen.threads:
        said = f"{seen.lock_waiting:.1f} of {seen.threads} threads waited for a row lock."
        facts.append(("innodb", f"On average {said}"))
    if seen.log_busy_share is not None:
        said = f"was written or flushed {_percent(seen.log_busy_share)} of the time{_flushes(seen)}"
        facts.append(("innodb", f"The redo log or the binary log {said}."))
    if seen.volume_busy_share is not None:
        said = f"The volume had requests under way {_percent(seen.volume_busy_share)} of the time"
        took = "" if seen.volume_latency_ms is None else f", {seen.volume_latency_ms:.2f} ms each"
        facts.append(("volume", f"{said}{took}."))
    osd = [
        f"{took_ms:.2f} ms for a {what}"
        for what, took_ms in (("write", seen.osd_write_ms), ("read", seen.osd_read_ms))
        if took_ms is not None
    ]
    if seen.osd_share is not None:
        took = f", and took {' and '.join(osd)}" if osd else ""
        said = f"The OSDs of a host used {_percent(seen.osd_share)} of the CPU that they may use"
        facts.append(("osd-cpu", f"{said}{took}."))
    if seen.device_busy_share is not None:
        facts.append(("osd-device", _say_device(seen, seen.device_busy_share)))
    if seen.round_trip_ms is not None:
        said = f"A packet to an OSD's host and back took {_short(seen.round_trip_ms)} ms."
        facts.append(("network", said))
    if seen.network_share is not None:
        facts.append(("network", f"A link carried {_percent(seen.network_share)} of its speed."))
    return facts


def _say_machine(seen: LayerEvidence) -> str:
    ranked = sorted(seen.cpu_cores.items(), key=lambda one: one[1], reverse=True)
    used = [f"{_CONSUMERS[who]} {cores:.2f}" for who, cores in ranked if cores >= 0.01]
    of_whom = f": {', '.join(used)}" if used else ""
    return (
        f"The machine's {seen.cores:g} cores were at work {_percent(seen.machine_share)} of the "
        f"time{of_whom}."
    )


def _say_device(seen: LayerEvidence, busy_share: float) -> str:
    said = f"The device of {seen.device or 'an OSD'} was busy {_percent(busy_share)} of the time"
    took_ms, limit_share = seen.device_latency_ms, seen.device_limit_share
    took = "" if took_ms is None else f", {took_ms:.2f} ms for a request"
    limit = (
        "" if limit_share is None else f", and did {_percent(limit_share)} of its medium's limit"
    )
    return f"{said}{took}{limit}."


def _flushes(seen: LayerEvidence) -> str:
    if not seen.flushes_per_s or seen.flush_ms is None:
        return ""
    return f", {seen.flushes_per_s:.0f} flushes a second of {seen.flush_ms:.2f} ms"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _short(value: float) -> str:
    return f"{value:.3g}"
