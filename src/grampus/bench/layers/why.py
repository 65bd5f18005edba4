"""From the points of a trial to its bottleneck and the use of each layer. All pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from grampus.bench.drivers.client_bound import ClientVerdict
from grampus.bench.layers.bottleneck import LayerEvidence, decide_bottleneck, describe_passed_limit
from grampus.bench.layers.subjects import Subjects
from grampus.bench.layers.use import (
    TimeSpan,
    cores_by_consumer,
    decide_cores,
    decide_shares,
    decide_throughput,
    decide_uses,
    mean_of,
)
from grampus.state.matrix_layers import SeriesKind, SeriesPoint, Why

Points = Sequence[SeriesPoint]


def decide_why(
    points: Points,
    subjects: Subjects,
    span: TimeSpan,
    client: ClientVerdict | None,
    gaps: Sequence[str] = (),
) -> Why:
    """What held the trial up; `gaps` say what could not be read."""
    uses = decide_uses(decide_shares(points, subjects), span)
    measured = [point for point in points if span.measured_from_s < point.at_s <= span.to_s]
    evidence = decide_evidence(measured, subjects, client)
    found = decide_bottleneck(evidence)
    monitors = [
        mean
        for name in sorted({point.name for point in measured if point.kind == "monitor"})
        if (mean := mean_of(_of(measured, "monitor", name), "cpu_cores")) is not None
    ]
    return Why(
        bottleneck=found.word,
        evidence=found.evidence,
        layers=uses,
        from_s=span.from_s,
        to_s=span.to_s,
        measured_from_s=span.measured_from_s,
        throughput=decide_throughput(points, span),
        gaps=tuple(gaps),
        passed_limit=describe_passed_limit(evidence),
        monitor_cpu_cores=sum(monitors) if monitors else None,
    )


def decide_evidence(
    points: Points, subjects: Subjects, client: ClientVerdict | None
) -> LayerEvidence:
    """What the points, all of them measured, say of each layer on average."""
    shares = {
        one.layer: fmean(share for _, share in one.points)
        for one in decide_shares(points, subjects)
    }
    volumes = [point for point in points if point.kind == "volume"]
    device = _busiest_device(points)
    logs = [
        share
        for metric in ("log_busy_share", "binlog_busy_share")
        if (share := _greatest(points, "innodb", metric)) is not None
    ]
    return LayerEvidence(
        threads=subjects.threads,
        cores=decide_cores(points, subjects),
        client=client,
        machine_share=shares.get("machine"),
        cpu_cores=cores_by_consumer(points, subjects),
        server_share=shares.get("server-cpu"),
        lock_waiting=_summed(points, "innodb", "row_lock_waiting"),
        log_busy_share=max(logs, default=None),
        flushes_per_s=_summed(points, "volume", "flushes_per_s"),
        flush_busy_share=_greatest(points, "volume", "flush_busy_share"),
        flush_ms=mean_of(volumes, "flush_ms"),
        volume_busy_share=_greatest(points, "volume", "busy_share"),
        volume_in_flight=_summed(points, "volume", "in_flight"),
        volume_latency_ms=mean_of(volumes, "latency_ms"),
        osd_share=shares.get("osd-cpu"),
        osd_write_ms=mean_of(_of(points, "osd"), "write_ms"),
        osd_read_ms=mean_of(_of(points, "osd"), "read_ms"),
        device=device,
        device_busy_share=_greatest(points, "device", "busy_share"),
        device_limit_share=_greatest(points, "device", "limit_share"),
        device_latency_ms=mean_of(_of(points, "device", device), "latency_ms"),
        network_share=_greatest(points, "network", "limit_share"),
    )


def _of(points: Points, kind: SeriesKind, name: str | None = None) -> list[SeriesPoint]:
    return [point for point in points if point.kind == kind and name in (None, point.name)]


def _greatest(points: Points, kind: SeriesKind, metric: str) -> float | None:
    """Of the subjects' means the greatest."""
    return _over_subjects(points, kind, metric, max)


def _summed(points: Points, kind: SeriesKind, metric: str) -> float | None:
    """The sum of the subjects' means."""
    return _over_subjects(points, kind, metric, sum)


def _over_subjects(
    points: Points, kind: SeriesKind, metric: str, together: Callable[[list[float]], float]
) -> float | None:
    names = {point.name for point in points if point.kind == kind}
    means = [mean_of(_of(points, kind, name), metric) for name in sorted(names)]
    known = [mean for mean in means if mean is not None]
    return together(known) if known else None


def _busiest_device(points: Points) -> str | None:
    """The device of the greatest share, be it of the time or of its limit."""
    found: dict[str, float] = {}
    for name in sorted({point.name for point in points if point.kind == "device"}):
        of_it = _of(points, "device", name)
        shares = [mean_of(of_it, metric) for metric in ("busy_share", "limit_share")]
        found[name] = max((share for share in shares if share is not None), default=0.0)
    return max(found, key=lambda name: found[name], default=None)
