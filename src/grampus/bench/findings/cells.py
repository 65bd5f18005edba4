"""What a run says of each cell: figures over its rounds, or the reason why there are none."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

from grampus.bench.findings.quantities import MEGABYTE, is_database, read_quantity
from grampus.bench.findings.rounds import (
    CellRounds,
    Round,
    describe_cell,
    distinct,
    gather_rounds,
    varied_names,
    why_no_figure,
)
from grampus.bench.latency.histogram import merge_histograms
from grampus.bench.latency.percentile import Percentile
from grampus.bench.layers.confidence import grade
from grampus.state.matrix_layers import LAYERS, Confidence, Layer, LayerUse, Why
from grampus.state.matrix_runs import Figures, MatrixRun, Trial

# A number as in sentences, not one that is a part of a name (`h1`, `osd-0`).
_FIRST_FIGURE = re.compile(r"(?<![\w.-])\d+(\.\d+)?(?![\w.-])")


@dataclass(frozen=True)
class Spread:
    """The geometric mean over so many rounds, and the lowest and highest of them."""

    mean: float
    low: float
    high: float
    rounds: int


@dataclass(frozen=True)
class Reason:
    """Why rounds were marked, as sentences, and which they were."""

    text: str
    rounds: tuple[int, ...]


@dataclass(frozen=True)
class CellLatency:
    """Of the merged histograms of so many rounds. `note` says how finely they are known.

    `percentiles` are those that so many operations support, and `sampled` their intervals.
    """

    rounds: int
    operations: int
    average_us: float | None
    percentiles: tuple[Percentile, ...]
    sampled: tuple[Percentile, ...]
    note: str


@dataclass(frozen=True)
class LayerFinding:
    """How far a layer was used of its limit (0 to 1): the rounds' mean, and the highest second."""

    layer: str
    share: float
    peak: float


@dataclass(frozen=True)
class TimeFinding:
    """The time that a layer adds to an operation, on average over the rounds.

    `share` is of the operation's time (0 to 1), `queued_share` that part of it in which the
    operation was queued in the layer; `ms` is None where it is not known of every round.
    """

    layer: Layer
    share: float
    queued_share: float
    ms: float | None


@dataclass(frozen=True)
class CellFinding:
    """One cell over its rounds. `no_figure` is why there is none at all; then figures are None.

    An operation is a transaction, a request or an I/O; `iops` of a database are those
    of its volumes, `queries_per_s` is None of all else. `iops_per_gb` are by room that is
    provisioned (see `Measured`). `errors` and `reconnects` are those of all rounds together.
    `steady` is None where it is not known of any round, nor of all together, and none was unsteady;
    `client_bound` is `yes` as soon as it was so in one round.

    `bottleneck` is the layer that most rounds name (`unknown`: too little was seen; `none`, in old
    runs: no layer was at its limit), with the evidence of the first of them.
    `bottleneck_confidence` is that of the mean `times`. `monitor_cpu_cores` is what seeing all that
    took.
    """

    cell_id: str
    name: str
    label: str
    arm: str | None
    loop: str | None
    planned: int
    measured: int
    marked: int
    missing: int
    reasons: tuple[Reason, ...]
    no_figure: str | None
    operations_per_s: Spread | None
    queries_per_s: Spread | None
    mb_per_s: Spread | None
    iops: Spread | None
    iops_per_gb: Spread | None
    latency: CellLatency | None
    errors: float
    reconnects: float
    steady: bool | None
    unsteady_reasons: tuple[str, ...]
    client_bound: str
    client_bound_rounds: tuple[int, ...]
    evidence: tuple[str, ...]
    notes: tuple[str, ...]
    osd_device_busy_share: Spread | None
    osd_device_latency_ms: Spread | None
    bottleneck: str
    bottleneck_rounds: tuple[int, ...]
    bottleneck_confidence: Confidence | None
    bottleneck_evidence: tuple[str, ...]
    times: tuple[TimeFinding, ...]
    layers: tuple[LayerFinding, ...]
    monitor_cpu_cores: float | None


def decide_cells(run: MatrixRun, trials: Sequence[Trial]) -> list[CellFinding]:
    """A finding for each cell of the run, in its order.

    Raises GrampusError with code `latency-document` for a latency that cannot be read.
    """
    names = varied_names(run.cells)
    return [_decide_cell(rounds, names) for rounds in gather_rounds(run, trials).values()]


def merge_notes(notes: Sequence[str]) -> list[str]:
    """Each note once; those that differ in their first figure alone as one, with its range.

    `10.1 % of ...` and `13.3 % of ...` are `10.1 to 13.3 % of ...`.
    """
    figures: dict[tuple[str, str], list[str]] = {}
    for note in notes:
        before, figure, after = note, "", ""
        if found := _FIRST_FIGURE.search(note):
            before, figure, after = note[: found.start()], found.group(), note[found.end() :]
        figures.setdefault((before, after), []).append(figure)
    return [f"{before}{_range_of(found)}{after}" for (before, after), found in figures.items()]


def _range_of(figures: Sequence[str]) -> str:
    ranked = sorted(set(figures), key=lambda figure: float(figure or 0))
    return ranked[0] if len(ranked) == 1 else f"{ranked[0]} to {ranked[-1]}"


def spread_of(values: Sequence[float]) -> Spread | None:
    """The spread of one figure a round; None without any."""
    if not values:
        return None
    low = min(values)
    # The logarithm of nothing is none, but the product is.
    mean = 0.0 if low <= 0 else math.exp(math.fsum(map(math.log, values)) / len(values))
    return Spread(mean, low, max(values), len(values))


def _decide_cell(rounds: CellRounds, names: Sequence[str]) -> CellFinding:
    cell = rounds.cell
    measured = list(rounds.measured.values())
    figures = [one.figures for one in measured]
    operations_per_s = spread_of([one.operations_per_s for one in figures])
    bound = rounds.client_bound
    steady, unsteady_reasons = _decide_steady(figures)
    bottleneck, bottleneck_rounds = _bottleneck(rounds)
    whys = [one.why for one in figures if one.why is not None]
    times = _times(whys)
    return CellFinding(
        cell_id=cell.cell_id,
        name=describe_cell(cell, names),
        label=cell.label,
        arm=cell.arm,
        loop=figures[0].loop if figures else None,
        planned=len(measured) + len(rounds.marked) + len(rounds.missing),
        measured=len(measured),
        marked=len(rounds.marked),
        missing=len(rounds.missing),
        reasons=_reasons(rounds),
        no_figure=why_no_figure(rounds),
        operations_per_s=operations_per_s,
        queries_per_s=spread_of(_known([one.queries_per_s for one in figures])),
        mb_per_s=spread_of(
            [moved / MEGABYTE for moved in _known([one.moved_bytes_per_s for one in figures])]
        ),
        iops=spread_of(_known([one.volume_iops for one in figures]))
        if is_database(cell.point)
        else operations_per_s,
        iops_per_gb=spread_of(
            _known([read_quantity("iops-per-gb", cell.point, one).value for one in measured])
        ),
        latency=_merge_latency(measured),
        errors=sum(one.errors for one in figures),
        reconnects=sum(one.reconnects for one in figures),
        steady=steady,
        unsteady_reasons=unsteady_reasons,
        client_bound=_client_bound(rounds),
        client_bound_rounds=bound,
        evidence=tuple(
            distinct(
                sentence
                for number, one in rounds.measured.items()
                if number in bound or not bound
                for sentence in one.figures.evidence
            )
        ),
        notes=tuple(merge_notes([note for one in figures for note in one.notes])),
        osd_device_busy_share=spread_of(_known([one.osd_device_busy_share for one in figures])),
        osd_device_latency_ms=spread_of(_known([one.osd_device_latency_ms for one in figures])),
        bottleneck=bottleneck,
        bottleneck_rounds=bottleneck_rounds,
        bottleneck_confidence=_confidence(bottleneck, times, whys),
        bottleneck_evidence=_evidence(rounds, bottleneck_rounds),
        times=times,
        layers=_layers(whys),
        monitor_cpu_cores=_mean(_known([one.monitor_cpu_cores for one in whys])),
    )


def _bottleneck(rounds: CellRounds) -> tuple[str, tuple[int, ...]]:
    """What most rounds name, and which these are; of as many, what the first one names."""
    named: dict[str, list[int]] = {}
    for number, one in rounds.measured.items():
        if one.figures.why is not None and one.figures.why.bottleneck != "unknown":
            named.setdefault(one.figures.why.bottleneck, []).append(number)
    if not named:
        return "unknown", ()
    word = max(named, key=lambda one: len(named[one]))
    return word, tuple(named[word])


def _evidence(rounds: CellRounds, numbers: Sequence[int]) -> tuple[str, ...]:
    for number in numbers[:1]:
        why = rounds.measured[number].figures.why
        return why.evidence if why is not None else ()
    return ()


def _times(whys: Sequence[Why]) -> tuple[TimeFinding, ...]:
    """Means over the rounds that have times; a layer that one of them lacks added nothing there."""
    timed = [{one.layer: one for one in why.times} for why in whys if why.times]
    found = []
    for layer in LAYERS:
        of_it = [one[layer] for one in timed if layer in one]
        if of_it:
            known_ms = [one.ms for one in of_it if one.ms is not None]
            found.append(
                TimeFinding(
                    layer,
                    math.fsum(one.share for one in of_it) / len(timed),
                    math.fsum(one.queued_share for one in of_it) / len(timed),
                    math.fsum(known_ms) / len(timed) if len(known_ms) == len(of_it) else None,
                )
            )
    return tuple(sorted(found, key=lambda one: one.share, reverse=True))


def _confidence(
    bottleneck: str, times: Sequence[TimeFinding], whys: Sequence[Why]
) -> Confidence | None:
    """Of the rounds together; where they name another layer than their mean, it is low."""
    if all(one.confidence is None for one in whys):
        return None
    if not times or times[0].layer != bottleneck:
        # A load generator at its own limit is named whatever the times are.
        named = [one.confidence for one in whys if one.bottleneck == bottleneck == "client"]
        return "high" if named and all(one == "high" for one in named) else "low"
    return grade([one.share for one in times])


def _layers(whys: Sequence[Why]) -> tuple[LayerFinding, ...]:
    uses: dict[str, list[LayerUse]] = {layer: [] for layer in LAYERS}
    for why in whys:
        for use in why.layers:
            uses[use.layer].append(use)
    return tuple(
        LayerFinding(
            layer, math.fsum(one.share for one in of) / len(of), max(one.peak for one in of)
        )
        for layer, of in uses.items()
        if of
    )


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _reasons(rounds: CellRounds) -> tuple[Reason, ...]:
    found: dict[str, list[int]] = {}
    for number, reason in rounds.marked.items():
        found.setdefault(reason, []).append(number)
    return tuple(Reason(text, tuple(numbers)) for text, numbers in found.items())


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _merge_latency(measured: Sequence[Round]) -> CellLatency | None:
    known = [one.latency for one in measured if one.latency is not None]
    merged = merge_histograms(known)
    percents = merged.supported()
    percentiles = [merged.percentile(percent) for percent in percents]
    sampled = [merged.sampled(percent) for percent in percents]
    if not merged.operations:
        return None
    return CellLatency(
        rounds=len(known),
        operations=merged.operations,
        average_us=merged.average_us,
        percentiles=tuple(one for one in percentiles if one is not None),
        sampled=tuple(one for one in sampled if one is not None),
        note=merged.resolution.note,
    )


def _decide_steady(figures: Sequence[Figures]) -> tuple[bool | None, tuple[str, ...]]:
    """Whether the cell was steady, and why not or why it is not known.

    Trials that are too short one by one are judged together.
    """
    steady = _all_steady([one.steady for one in figures])
    if steady is None:
        # Only for trials that are too short to be judged one by one.
        module = import_module("grampus.bench.statistics.short_trials")
        together = module.decide_together(
            [[now.operations for now in one.seconds] for one in figures]
        )
        if together is not None:
            return together.steady, () if together.steady else (together.reason,)
    reasons = distinct(one.unsteady_reason for one in figures if one.unsteady_reason is not None)
    return steady, tuple(reasons)


def _all_steady(seen: Sequence[bool | None]) -> bool | None:
    if False in seen:
        return False
    return True if True in seen else None


def _client_bound(rounds: CellRounds) -> str:
    seen = {one.figures.client_bound for one in rounds.measured.values()}
    if "yes" in seen:
        return "yes"
    return "no" if seen == {"no"} else "unknown"
