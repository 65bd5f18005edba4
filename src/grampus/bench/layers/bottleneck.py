"""Which layer a trial was held up by, and the evidence for it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from grampus.bench.drivers.client_bound import ClientVerdict
from grampus.bench.layers.subjects import Consumer
from grampus.state.matrix_layers import BottleneckWord, Layer

# From this share of its limit on, a layer makes what is above it wait.
AT_LIMIT_SHARE = 0.9
# From this share of a medium's limit on, some of what was done passed by it. Hard disks that
# nothing passes by were seen at up to 104% over a trial, at up to 133% in a second (2026-11-26).
PASSES_LIMIT_SHARE = 1.25
# From this share of its medium's limit on, a device that is always busy counts as held up by it.
NEAR_LIMIT_SHARE = 0.5
# Of the time of an OSD's operation, that in its device.
DEVICE_TIME_SHARE = 0.5
# Of the load's threads, those that wait for one and the same thing.
WAITING_SHARE = 0.5
# Commits queue up behind a redo log whose flushes leave it hardly any pause.
FLUSHING_SHARE = 0.6
# Of the load's requests under way, those in the volume's queue.
QUEUED_SHARE = 0.7
# Evidence beside that which decides is there to be read, not to be searched.
MAX_FURTHER = 4

_CONSUMERS: Mapping[Consumer, str] = {
    "client": "the load generator",
    "server": "the database's server",
    "volume": "the volume's driver",
    "osd": "the OSDs",
    "other": "all else on it",
}
_LAYER_OF: Mapping[Consumer, Layer] = {
    "client": "client",
    "server": "server-cpu",
    "volume": "volume",
    "osd": "osd-cpu",
    "other": "machine",
}


@dataclass(frozen=True)
class LayerEvidence:
    """What was seen of all layers while it was measured, on average; None: not known.

    Shares are of the layer's limit (0 to 1). `cpu_cores` is by consumer. `lock_waiting` are threads
    that waited for row locks. `log_busy_share` is of the redo log or the binary log, whichever was
    busier; `flush_*` are of the volume's device, `volume_*` of its reads and writes. `device` is
    the busiest OSD's, and `device_limit_share` of its medium's limit.
    """

    threads: int
    cores: float
    client: ClientVerdict | None = None
    machine_share: float | None = None
    cpu_cores: Mapping[Consumer, float] = field(default_factory=dict)
    server_share: float | None = None
    lock_waiting: float | None = None
    log_busy_share: float | None = None
    flushes_per_s: float | None = None
    flush_busy_share: float | None = None
    flush_ms: float | None = None
    volume_busy_share: float | None = None
    volume_in_flight: float | None = None
    volume_latency_ms: float | None = None
    osd_share: float | None = None
    osd_write_ms: float | None = None
    osd_read_ms: float | None = None
    device: str | None = None
    device_busy_share: float | None = None
    device_limit_share: float | None = None
    device_latency_ms: float | None = None
    network_share: float | None = None


@dataclass(frozen=True)
class Bottleneck:
    """`evidence` are sentences, the deciding one first."""

    word: BottleneckWord
    evidence: tuple[str, ...]


def decide_bottleneck(seen: LayerEvidence) -> Bottleneck:
    """The layer that held the load up.

    A load generator at its limit is named before all else: then nothing beneath it was tested. Of
    layers at their limits the lowest is named, since those above it wait for it. A machine whose
    cores are all at work is the limit of whoever used most of them. Where no layer is at its limit,
    what the requests waited for is named: locks, the redo log's flushes, the volume's queue. Where
    nothing of that is seen, and nothing of the OSDs either, the layer is not known.
    """
    if seen.client is not None and seen.client.bound == "yes" and not _refutes(seen, seen.client):
        return Bottleneck("client", (*seen.client.evidence, *_further(seen, "client")))
    for held in (*_at_limit(seen), *_waits(seen)):
        return Bottleneck(held.layer, (held.sentence, *_further(seen, held.layer, held.tells_of)))
    further = _further(seen)
    if not further:
        return Bottleneck("unknown", ("Too little is known of what was under load.",))
    if seen.osd_share is None and seen.device_busy_share is None:
        said = "The OSDs could not be observed, and nothing else was at its limit."
        return Bottleneck("unknown", (said, *further))
    sentence = "No layer was at its limit: requests took the time that they take."
    return Bottleneck("none", (sentence, *further))


def describe_passed_limit(seen: LayerEvidence) -> str | None:
    """That the busiest device did more than its medium is limited to, as a sentence; None: no.

    What was measured then is no such medium, and figures of it say nothing of one.
    """
    if not _reaches(seen.device_limit_share, PASSES_LIMIT_SHARE):
        return None
    return (
        f"The device of {seen.device or 'an OSD'} did {_percent(seen.device_limit_share)} of what "
        "its medium is limited to, so something passes by the limit and it is not such a medium."
    )


def _refutes(seen: LayerEvidence, client: ClientVerdict) -> bool:
    """Whether a device at its medium's limit says that idle threads waited for it."""
    return client.by_threads_alone and _reaches(seen.device_limit_share, AT_LIMIT_SHARE)


@dataclass(frozen=True)
class _Held:
    """A layer that holds the load up, and of which other one the sentence tells as well."""

    layer: Layer
    sentence: str
    tells_of: Layer | None = None


def _at_limit(seen: LayerEvidence) -> list[_Held]:
    """The layers at their limit, the lowest first."""
    found = []
    device = seen.device or "an OSD"
    if _reaches(seen.device_limit_share, AT_LIMIT_SHARE):
        said = f"did {_percent(seen.device_limit_share)} of what its medium is limited to"
        sentence = describe_passed_limit(seen) or f"The device of {device} {said}."
        found.append(_Held("osd-device", sentence))
    elif _reaches(seen.device_busy_share, AT_LIMIT_SHARE) and _adds_most(seen):
        said = f"was busy {_percent(seen.device_busy_share)} of the time"
        found.append(_Held("osd-device", f"The device of {device} {said}."))
    if _reaches(seen.network_share, AT_LIMIT_SHARE):
        said = f"A link carried {_percent(seen.network_share)} of what it can."
        found.append(_Held("network", said))
    if _reaches(seen.machine_share, AT_LIMIT_SHARE) and seen.cpu_cores:
        found.append(_machine_at_limit(seen))
    if _reaches(seen.osd_share, AT_LIMIT_SHARE):
        said = f"The OSDs of a host used {_percent(seen.osd_share)} of the CPU that they may use."
        found.append(_Held("osd-cpu", said))
    if _reaches(seen.server_share, AT_LIMIT_SHARE):
        said = f"The database's server used {_percent(seen.server_share)} of its CPU limit."
        found.append(_Held("server-cpu", said))
    return found


def _adds_most(seen: LayerEvidence) -> bool:
    """Whether an OSD's operations pass most of their time in its device.

    Flash that always has a request under way may carry many more: busy is no limit of it (iostat(1)
    says so of devices that serve requests in parallel). The slower of reads and writes counts: the
    others may come from a cache. Where the times are not known, a device far below its limit is not
    taken for the bottleneck.
    """
    took = [one for one in (seen.osd_write_ms, seen.osd_read_ms) if one]
    if seen.device_latency_ms is None or not took:
        return seen.device_limit_share is None or seen.device_limit_share >= NEAR_LIMIT_SHARE
    return seen.device_latency_ms >= DEVICE_TIME_SHARE * max(took)


def _machine_at_limit(seen: LayerEvidence) -> _Held:
    ranked = sorted(seen.cpu_cores.items(), key=lambda one: one[1], reverse=True)
    most, most_cores = ranked[0]
    others = [f"{_CONSUMERS[who]} {cores:.2f}" for who, cores in ranked[1:] if cores >= 0.01]
    beside = f" ({', '.join(others)})" if others else ""
    said = (
        f"The machine's {seen.cores:g} cores were at work {_percent(seen.machine_share)} of the "
        f"time, most for {_CONSUMERS[most]}: {most_cores:.2f} cores{beside}."
    )
    return _Held(_LAYER_OF[most], said, tells_of="machine")


def _waits(seen: LayerEvidence) -> list[_Held]:
    """What requests waited for where no layer was at its limit."""
    found = []
    if seen.lock_waiting is not None and seen.lock_waiting >= WAITING_SHARE * seen.threads:
        said = (
            f"On average {seen.lock_waiting:.1f} of {seen.threads} threads waited for a row lock."
        )
        found.append(_Held("innodb", said))
    if _reaches(seen.log_busy_share, FLUSHING_SHARE):
        said = (
            "The redo log or the binary log was written or flushed "
            f"{_percent(seen.log_busy_share)} of the time{_flushes(seen)}."
        )
        found.append(_Held("innodb", said))
    elif _reaches(seen.flush_busy_share, FLUSHING_SHARE):
        # Of a database's volume it is the redo log and the binary log that are flushed.
        layer: Layer = "volume" if seen.server_share is None else "innodb"
        writers = "writers wait" if seen.server_share is None else "commits wait"
        said = (
            f"A flush of the volume was under way {_percent(seen.flush_busy_share)} of the "
            f"time{_flushes(seen)}: {writers} for it."
        )
        found.append(_Held(layer, said))
    queued = seen.volume_in_flight
    if queued is not None and queued >= max(QUEUED_SHARE * seen.threads, 1.0):
        took = "" if seen.volume_latency_ms is None else f", {seen.volume_latency_ms:.2f} ms each"
        said = (
            f"On average {queued:.1f} requests were in the volume's queue{took}, of {seen.threads} "
            "threads."
        )
        found.append(_Held("volume", said))
    return found


def _further(seen: LayerEvidence, *told: Layer | None) -> list[str]:
    """What is known of layers that were not `told` of, so that a reader can follow the decision."""
    return [sentence for layer, sentence in _facts(seen) if layer not in told][:MAX_FURTHER]


def _facts(seen: LayerEvidence) -> list[tuple[Layer, str]]:
    facts: list[tuple[Layer, str]] = []
    if seen.machine_share is not None:
        said = f"The machine's cores were at work {_percent(seen.machine_share)} of the time."
        facts.append(("machine", said))
    if seen.server_share is not None:
        said = f"The server used {_percent(seen.server_share)} of its CPU limit."
        facts.append(("server-cpu", said))
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
        said = f"The busiest OSD's device was busy {_percent(seen.device_busy_share)} of the time"
        took_ms = seen.device_latency_ms
        took = "" if took_ms is None else f", {took_ms:.2f} ms for a request"
        facts.append(("osd-device", f"{said}{took}."))
    return facts


def _flushes(seen: LayerEvidence) -> str:
    if not seen.flushes_per_s or seen.flush_ms is None:
        return ""
    return f", {seen.flushes_per_s:.0f} flushes a second of {seen.flush_ms:.2f} ms"


def _reaches(share: float | None, limit: float) -> bool:
    return share is not None and share >= limit


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"
