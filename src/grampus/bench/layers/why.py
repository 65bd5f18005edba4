"""From the points of a trial to its bottleneck and the use of each layer. All pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from statistics import fmean

from grampus.bench.drivers.client_bound import ClientVerdict
from grampus.bench.layers.bottleneck import LayerEvidence, decide_bottleneck, describe_passed_limit
from grampus.bench.layers.subjects import Subjects
from grampus.bench.layers.times import Activity, decide_times
from grampus.bench.layers.use import (
    TimeSpan,
    cpu_by_consumer,
    decide_cores,
    decide_shares,
    decide_throughput,
    decide_uses,
    mean_of,
    throttled_hosts,
)
from grampus.state.matrix_layers import LayerTime, SeriesKind, SeriesPoint, Why

# An emulated disk that works less says nothing of the figures.
LEAST_BUSY_SHARE = 0.05

Points = Sequence[SeriesPoint]


def decide_why(
    points: Points,
    subjects: Subjects,
    span: TimeSpan,
    client: ClientVerdict | None,
    gaps: Sequence[str] = (),
    *,
    busy_threads: float | None = None,
    operations_per_s: float | None = None,
    is_open: bool = False,
) -> Why:
    """What held the trial up; `gaps` say what could not be read.

    `busy_threads` had an operation under way on average. The others of an open loop (`is_open`)
    had none to do, those of a closed loop were slow to begin the next one.
    """
    uses = decide_uses(decide_shares(points, subjects), span)
    measured = [point for point in points if span.measured_from_s < point.at_s <= span.to_s]
    activity = decide_activity(measured, subjects, busy_threads, operations_per_s, is_open=is_open)
    evidence = decide_evidence(measured, subjects, client, decide_times(activity))
    found = decide_bottleneck(evidence)
    monitors = [
        mean
        for name in sorted({point.name for point in measured if point.kind == "monitor"})
        if (mean := mean_of(_of(measured, "monitor", name), "cpu_cores")) is not None
    ]
    return Why(
        bottleneck=found.word,
        evidence=found.evidence,
        confidence=found.confidence,
        times=tuple(evidence.times),
        layers=uses,
        from_s=span.from_s,
        to_s=span.to_s,
        measured_from_s=span.measured_from_s,
        throughput=decide_throughput(points, span),
        gaps=tuple(gaps),
        passed_limit=describe_passed_limit(evidence),
        monitor_cpu_cores=sum(monitors) if monitors else None,
    )


def decide_activity(
    points: Points,
    subjects: Subjects,
    busy_threads: float | None,
    operations_per_s: float | None,
    *,
    is_open: bool,
) -> Activity:
    """What the points, all of them measured, say was under way on average."""
    copies = _summed(points, "osd", "copies_in_flight")
    clients = _summed(points, "osd", "in_flight")
    cpu = cpu_by_consumer(points, subjects)
    threads = busy_threads if is_open and busy_threads is not None else float(subjects.threads)
    return Activity(
        threads=threads,
        busy_threads=None if is_open else busy_threads,
        operations_per_s=operations_per_s,
        has_server=bool(subjects.servers),
        cpu=cpu,
        cores=decide_cores(points, subjects),
        machine_share=mean_of(_of(points, "machine"), "cpu_share"),
        lock_waiting=_summed(points, "innodb", "row_lock_waiting"),
        volume_busy_share=_over_metrics(points, "volume", _greatest, "busy_share", max),
        device_waiting=_decide_device_waiting(
            _over_metrics(points, "device", _summed, "in_flight", sum),
            _summed(points, "osd", "device_waiting"),
            cpu["osd"].waiting if "osd" in cpu else 0.0,
        ),
        device_serving=_over_metrics(points, "device", _summed, "busy_share", sum),
        network_waiting=_decide_network(points, subjects),
        copies_share=copies / (copies + clients) if copies and clients else 0.0,
    )


def _decide_device_waiting(
    block: float | None, store: float | None, osd_waiting: float
) -> float | None:
    """Requests that wait for a device, of those that the kernel and BlueStore count.

    A limit may hold requests back before the device counts them, and BlueStore sees them wait. It
    also counts what its threads wait for a CPU (`osd_waiting`), which is no time of a device.
    """
    if block is None or store is None:
        return store if block is None else block
    return block + max(0.0, store - block - osd_waiting)


def _decide_network(points: Points, subjects: Subjects) -> float | None:
    """Requests on the way from the load's hosts to the OSDs, and from these to the copies.

    Where no OSD can be observed, each read and write of a volume is one of them at least.
    """
    load = {subjects.machine}
    load |= {
        name.rpartition("@")[2] for name in (*subjects.servers, *subjects.volumes.values()) if name
    }
    osds = {
        point.name.rpartition("@")[2]
        for point in points
        if point.kind == "daemon" and subjects.consumer_of(point.name) == "osd"
    }
    requests: tuple[tuple[SeriesKind, str], ...] = (
        (("osd", "writes_per_s"), ("osd", "reads_per_s"))
        if _of(points, "osd")
        else (("volume", "write_iops"), ("volume", "read_iops"))
    )
    sent = [
        (rate, load)
        for kind, metric in requests
        if (rate := _summed(points, kind, metric)) is not None
    ]
    copied = _summed(points, "osd", "copy_writes_per_s")
    sent += [(copied, osds)] if copied is not None else []
    waiting = []
    for rate, hosts in sent:
        trip_ms = _round_trip_ms(points, hosts)
        if trip_ms is not None:
            waiting.append(rate * trip_ms / 1000)
    return sum(waiting) if waiting else None


def _round_trip_ms(points: Points, hosts: Collection[str]) -> float | None:
    """The mean over these hosts; None where none of them got an answer."""
    return mean_of(
        (point for host in hosts for point in _of(points, "network", f"osds@{host}")),
        "osd_round_trip_ms",
    )


def decide_evidence(
    points: Points,
    subjects: Subjects,
    client: ClientVerdict | None,
    times: Sequence[LayerTime] = (),
) -> LayerEvidence:
    """What the points, all of them measured, say of each layer on average."""
    shares = {
        one.layer: fmean(share for _, share in one.points)
        for one in decide_shares(points, subjects)
    }
    volumes = [point for point in points if point.kind == "volume"]
    device = _busiest_device(points)
    of_device = _of(points, "device", device)
    logs = [
        share
        for metric in ("log_busy_share", "binlog_busy_share")
        if (share := _greatest(points, "innodb", metric)) is not None
    ]
    return LayerEvidence(
        threads=subjects.threads,
        cores=decide_cores(points, subjects),
        times=times,
        client=client,
        machine_share=shares.get("machine"),
        cpu_cores={who: use.cores for who, use in cpu_by_consumer(points, subjects).items()},
        server_share=shares.get("server-cpu"),
        lock_waiting=_summed(points, "innodb", "row_lock_waiting"),
        log_busy_share=max(logs, default=None),
        flushes_per_s=_summed(points, "volume", "flushes_per_s"),
        flush_ms=mean_of(volumes, "flush_ms"),
        volume_busy_share=_greatest(points, "volume", "busy_share"),
        volume_latency_ms=mean_of(volumes, "latency_ms"),
        osd_share=shares.get("osd-cpu"),
        osd_write_ms=mean_of(_of(points, "osd"), "write_ms"),
        osd_read_ms=mean_of(_of(points, "osd"), "read_ms"),
        device=device,
        device_busy_share=mean_of(of_device, "busy_share"),
        device_limit_share=mean_of(of_device, "limit_share"),
        late_disk=_latest_disk(points),
        device_latency_ms=mean_of(of_device, "latency_ms"),
        network_share=_greatest(points, "network", "limit_share"),
        round_trip_ms=mean_of(_of(points, "network"), "osd_round_trip_ms"),
        throttled_hosts=throttled_hosts(points),
    )


def _of(points: Points, kind: SeriesKind, name: str | None = None) -> list[SeriesPoint]:
    return [point for point in points if point.kind == kind and name in (None, point.name)]


def _greatest(points: Points, kind: SeriesKind, metric: str) -> float | None:
    """Of the subjects' means the greatest."""
    return _over_subjects(points, kind, metric, max)


def _summed(points: Points, kind: SeriesKind, metric: str) -> float | None:
    """The sum of the subjects' means."""
    return _over_subjects(points, kind, metric, sum)


def _over_metrics(
    points: Points,
    kind: SeriesKind,
    over_subjects: Callable[[Points, SeriesKind, str], float | None],
    metric: str,
    together: Callable[[list[float]], float],
) -> float | None:
    """Of reads and writes (`metric`) and of flushes, which Linux counts apart."""
    values = [over_subjects(points, kind, one) for one in (metric, "flush_busy_share")]
    known = [value for value in values if value is not None]
    return together(known) if known else None


def _over_subjects(
    points: Points, kind: SeriesKind, metric: str, together: Callable[[list[float]], float]
) -> float | None:
    names = {point.name for point in points if point.kind == kind}
    means = [mean_of(_of(points, kind, name), metric) for name in sorted(names)]
    known = [mean for mean in means if mean is not None]
    return together(known) if known else None


def _latest_disk(points: Points) -> tuple[str, float] | None:
    """The emulated disk that was latest, of those that worked; None without any."""
    found: dict[str, float] = {}
    for name in sorted({point.name for point in points if point.kind == "device"}):
        of_it = _of(points, "device", name)
        busy_share, late_share = mean_of(of_it, "model_busy_share"), mean_of(of_it, "late_share")
        if busy_share is not None and late_share is not None and busy_share >= LEAST_BUSY_SHARE:
            found[name] = late_share / busy_share
    return max(found.items(), key=lambda one: one[1], default=None)


def _busiest_device(points: Points) -> str | None:
    """The device of the greatest share, be it of the time or of its limit."""
    found: dict[str, float] = {}
    for name in sorted({point.name for point in points if point.kind == "device"}):
        of_it = _of(points, "device", name)
        shares = [mean_of(of_it, metric) for metric in ("busy_share", "limit_share")]
        found[name] = max((share for share in shares if share is not None), default=0.0)
    return max(found, key=lambda name: found[name], default=None)
