"""How far each layer was used: at each moment, and over the time that counts. All pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from grampus.bench.layers.subjects import Consumer, Subjects
from grampus.bench.layers.times import CpuUse
from grampus.hosts.port import WHOLE_HOST
from grampus.state.matrix_layers import LAYERS, Layer, LayerUse, SeriesPoint

# As many parts of a trial are kept of each layer's use: as fine as a page draws them.
PARTS = 40


@dataclass(frozen=True)
class TimeSpan:
    """A trial on the clock (Unix time): warm-up from `from_s`, measuring until `to_s`."""

    from_s: float
    measured_from_s: float
    to_s: float

    def part_of(self, at_s: float) -> int | None:
        """Which of the PARTS `at_s` is in; None outside."""
        length_s = self.to_s - self.from_s
        if length_s <= 0 or not self.from_s < at_s <= self.to_s:
            return None
        return min(math.ceil((at_s - self.from_s) / length_s * PARTS), PARTS) - 1


@dataclass(frozen=True)
class Shares:
    """Of one layer: what was used of its limit, point by point (Unix time, share)."""

    layer: Layer
    points: tuple[tuple[float, float], ...]


def decide_shares(points: Sequence[SeriesPoint], subjects: Subjects) -> list[Shares]:
    """The layers of which anything is known, in the order of `LAYERS`.

    Of several subjects of a layer the one that is used most at a moment stands for it: a load is
    held up by the busiest server or disk, not by their mean.
    """
    found: dict[Layer, list[tuple[float, float]]] = defaultdict(list)
    osd_cores: dict[tuple[float, str], float] = defaultdict(float)
    for point in points:
        for layer, share in _shares_of(point, subjects):
            found[layer].append((point.at_s, share))
        if point.kind == "daemon" and subjects.consumer_of(point.name) == "osd":
            host = point.name.rpartition("@")[2]
            osd_cores[point.at_s, host] += point.values.get("cpu_cores", 0.0)
    limit = subjects.osd_cores_per_host or decide_cores(points, subjects)
    found["osd-cpu"] += [(at_s, cores / limit) for (at_s, _), cores in osd_cores.items()]
    return [Shares(layer, _busiest(found[layer])) for layer in LAYERS if found[layer]]


def decide_cores(points: Sequence[SeriesPoint], subjects: Subjects) -> float:
    """Those of the machine, or of the clients where nothing was seen of it."""
    machine = [point for point in points if point.kind == "machine"]
    return mean_of(machine, "cores") or subjects.client_cores


def decide_uses(shares: Sequence[Shares], span: TimeSpan) -> tuple[LayerUse, ...]:
    """Means and peaks of what was measured, and the course of the whole trial."""
    uses = []
    for one in shares:
        counted = [share for at_s, share in one.points if span.measured_from_s < at_s <= span.to_s]
        if counted:
            uses.append(
                LayerUse(
                    layer=one.layer,
                    share=_short(fmean(counted)),
                    peak=_short(max(counted)),
                    over_time=over_time(one.points, span),
                )
            )
    return tuple(uses)


def over_time(points: Iterable[tuple[float, float]], span: TimeSpan) -> tuple[float | None, ...]:
    """Means in PARTS of the trial; None in those without a point.

    A part shorter than the time between two points has the value of the next one: a point is of the
    time before it.
    """
    parts: list[list[float]] = [[] for _ in range(PARTS)]
    ordered = sorted(points)
    for at_s, value in ordered:
        part = span.part_of(at_s)
        if part is not None:
            parts[part].append(value)
    means = [_short(fmean(values)) if values else None for values in parts]
    widest = _widest_gap(ordered, span)
    for at in range(PARTS - 2, -1, -1):
        later = next((n for n in range(at + 1, min(at + 1 + widest, PARTS)) if parts[n]), None)
        if means[at] is None and later is not None:
            means[at] = means[later]
    return tuple(means)


def decide_throughput(points: Sequence[SeriesPoint], span: TimeSpan) -> tuple[float | None, ...]:
    """All clients' operations a second in PARTS of the trial."""
    together: dict[int, float] = defaultdict(float)
    for point in points:
        if point.kind == "client" and "operations_per_s" in point.values:
            # Clients start together, so their seconds end together too, but for a little.
            together[round(point.at_s)] += point.values["operations_per_s"]
    return over_time(((float(at_s), value) for at_s, value in together.items()), span)


def mean_of(points: Iterable[SeriesPoint], metric: str) -> float | None:
    """The mean of one metric over points; None where none has it."""
    values = [point.values[metric] for point in points if metric in point.values]
    return fmean(values) if values else None


def cpu_by_consumer(points: Sequence[SeriesPoint], subjects: Subjects) -> Mapping[Consumer, CpuUse]:
    """What each consumer used of the CPU; what no daemon or client used is `other`'s.

    Of several daemons of a consumer, the limit of the one that waited most counts: its own, or the
    budget of its host.
    """
    budgets = throttled_hosts(points)
    by_subject: dict[tuple[Consumer, str], list[SeriesPoint]] = defaultdict(list)
    machine = []
    for point in points:
        if point.kind == "daemon":
            by_subject[subjects.consumer_of(point.name), point.name].append(point)
        elif point.kind == "client":
            by_subject["client", point.name].append(point)
        elif point.kind == "machine":
            machine.append(point)
    uses: dict[Consumer, list[CpuUse]] = defaultdict(list)
    for (consumer, name), of_it in by_subject.items():
        if (cores := mean_of(of_it, "cpu_cores")) is not None:
            waiting = mean_of(of_it, "cpu_waiting") or 0.0
            throttled = max(
                mean_of(of_it, "throttled_share") or 0.0,
                budgets.get(name.rpartition("@")[2], 0.0),
            )
            uses[consumer].append(CpuUse(cores, waiting, throttled))
    # What else runs waits too, but holds up nothing that is measured.
    found: dict[Consumer, CpuUse] = {
        consumer: CpuUse(
            math.fsum(one.cores for one in of_it),
            math.fsum(one.waiting for one in of_it) if consumer != "other" else 0.0,
            max(of_it, key=lambda one: one.waiting).throttled_share,
        )
        for consumer, of_it in uses.items()
    }
    busy = mean_of(machine, "cpu_cores")
    if busy is not None:
        known = math.fsum(one.cores for who, one in found.items() if who != "other")
        stolen = (mean_of(machine, "steal_share") or 0.0) * (mean_of(machine, "cores") or 0.0)
        found["other"] = CpuUse(max(busy - known, 0.0) + stolen)
    return found


def throttled_hosts(points: Sequence[SeriesPoint]) -> Mapping[str, float]:
    """Of the hosts with a CPU budget, the part of the time in which it was used up (0 to 1)."""
    shares: dict[str, list[float]] = defaultdict(list)
    for point in points:
        daemon, _, host = point.name.rpartition("@")
        if point.kind == "daemon" and daemon == WHOLE_HOST and "throttled_share" in point.values:
            shares[host].append(point.values["throttled_share"])
    return {host: fmean(values) for host, values in shares.items()}


def _shares_of(point: SeriesPoint, subjects: Subjects) -> list[tuple[Layer, float]]:
    values = point.values
    shares: list[tuple[Layer, float | None]] = []
    if point.kind == "machine":
        shares.append(("machine", values.get("cpu_share")))
    elif point.kind == "client" and "cpu_cores" in values:
        shares.append(("client", values["cpu_cores"] / subjects.client_cores))
    elif point.kind == "daemon" and point.name in subjects.servers and "cpu_cores" in values:
        shares.append(("server-cpu", values["cpu_cores"] / subjects.servers[point.name]))
    elif point.kind == "innodb":
        waiting = values.get("row_lock_waiting")
        shares.append(("innodb", None if waiting is None else waiting / subjects.threads))
        shares.append(("innodb", values.get("log_busy_share")))
        shares.append(("innodb", values.get("binlog_busy_share")))
    elif point.kind == "volume":
        shares.append(("volume", values.get("busy_share")))
    elif point.kind == "device":
        shares.append(("osd-device", values.get("busy_share")))
        shares.append(("osd-device", values.get("limit_share")))
    elif point.kind == "network":
        shares.append(("network", values.get("limit_share")))
    return [(layer, min(share, 1.0)) for layer, share in shares if share is not None]


def _busiest(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """One point a second: what was read within one of them counts as one moment."""
    found: dict[int, float] = {}
    for at_s, share in points:
        second = round(at_s)
        found[second] = max(found.get(second, 0.0), min(share, 1.0))
    return tuple((float(second), share) for second, share in sorted(found.items()))


def _widest_gap(ordered: Sequence[tuple[float, float]], span: TimeSpan) -> int:
    """So many parts lie between two points, at about one a second."""
    part_s = (span.to_s - span.from_s) / PARTS
    return math.ceil(1.5 / part_s) if ordered and part_s > 0 else 0


def _short(value: float) -> float:
    return float(f"{value:.4g}")
