"""What the report of a run of a matrix suite shows, decided before any HTML."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grampus.report.drawing import Charts
from grampus.report.figures import (
    MISSING,
    format_duration,
    format_number,
    format_utc,
    instant,
    join_words,
)
from grampus.report.matrix.findings import (
    Findings,
    FoundCell,
    FoundClaim,
    FoundConclusion,
    FoundSource,
)
from grampus.report.matrix.forest import Forest, decide_forests
from grampus.report.matrix.heat_maps import HeatMaps, draw_heat_maps
from grampus.report.matrix.layer_strips import LAYER_TITLES, Strip, draw_strips
from grampus.report.matrix.layer_times import TimeTable, tabulate_times
from grampus.report.matrix.load_curves import draw_load_curves
from grampus.report.matrix.percentile_plots import draw_percentile_plots
from grampus.report.matrix.remarks import Remark, gather_remarks
from grampus.report.matrix.source_figures import (
    OurTable,
    PublishedRow,
    our_tables,
    published_rows,
)
from grampus.report.matrix.trial_series import CellSeries, draw_series
from grampus.report.matrix.words import (
    format_highest,
    format_percentile,
    format_range,
    format_ratio,
    format_spread,
    is_database,
)
from grampus.report.page import Fact, FactGroup, RawFile, group_facts
from grampus.state.matrix_runs import MatrixRun, Trial

_SHOWN_CLAIMS = 40


@dataclass(frozen=True)
class Detail:
    """How much is drawn: of a long run less, so that its page stays small."""

    points_a_round: int
    charts: int


@dataclass(frozen=True)
class ClaimRow:
    """The ratio of two cells beside what it had to be."""

    what: str
    ratio: str
    interval: str
    rounds: str
    verdict: str


@dataclass(frozen=True)
class ConclusionRow:
    """A conclusion of the source. `repeats` is the one whose fact it is, or empty.

    `ours` and `interval` are those of its only claim, if it is one; `claims` are all, where it has
    several.
    """

    name: str
    says: str
    quantity: str
    verdict: str
    repeats: str
    ours: str
    interval: str
    published: str
    sentence: str
    why: str
    claims: tuple[ClaimRow, ...]
    claims_left_out: int


@dataclass(frozen=True)
class Badge:
    """A remark on a cell; `kind` is bad, warn or calm."""

    kind: str
    text: str


@dataclass(frozen=True)
class CellRow:
    """A cell in the table; the figures are in the order of the page's columns."""

    cell_id: str
    name: str
    figures: tuple[str, ...]
    badges: tuple[Badge, ...]
    has_figure: bool


@dataclass(frozen=True)
class SourceSection:
    """What was published, and ours in the same quantities."""

    title: str
    publisher: str
    conclusion: str
    statement: str
    shown_in: str
    conditions: tuple[Fact, ...]
    figures: tuple[PublishedRow, ...]
    has_first: bool
    ours: tuple[OurTable, ...]


@dataclass(frozen=True)
class MatrixPage:
    """A whole report."""

    run_id: str
    title: str
    question: str
    started: str
    facts: tuple[Fact, ...]
    statement: str | None
    remarks: tuple[str, ...]
    warnings: tuple[str, ...]
    headline: str
    conclusions: tuple[ConclusionRow, ...]
    forests: tuple[Forest, ...]
    comparisons_line: str
    curves: Charts
    heat: HeatMaps
    percentiles: Charts
    cell_columns: tuple[str, ...]
    cells: tuple[CellRow, ...]
    cells_line: str
    cell_remarks: tuple[Remark, ...]
    series: tuple[CellSeries, ...]
    times: TimeTable | None
    strips: tuple[Strip, ...]
    source: SourceSection | None
    environment: tuple[FactGroup, ...]
    raw_files: tuple[RawFile, ...]


def describe_matrix_page(
    run: MatrixRun, trials: Sequence[Trial], findings: Findings, detail: Detail
) -> MatrixPage:
    """The page of `run`; series and charts are as many and as fine as `detail` says."""
    columns, cells = cell_rows(findings.cells)
    return MatrixPage(
        run_id=run.run_id,
        title=findings.title,
        question=findings.question,
        started=format_utc(run.started_at_s),
        facts=_facts(run, findings),
        statement=findings.statement,
        remarks=findings.remarks,
        warnings=_warnings(run, findings),
        headline=describe_conclusions(findings.conclusions),
        conclusions=tuple(_conclusion_row(one) for one in findings.conclusions),
        forests=decide_forests(findings.comparisons),
        comparisons_line=findings.comparisons_line,
        curves=draw_load_curves(findings.cells, detail.charts),
        heat=draw_heat_maps(findings.cells, detail.charts),
        percentiles=draw_percentile_plots(findings.cells, detail.charts),
        cell_columns=columns,
        cells=cells,
        cells_line=describe_cells(findings.cells),
        cell_remarks=cell_remarks(findings.cells),
        series=draw_series(findings.cells, trials, detail.points_a_round),
        times=tabulate_times(findings.cells),
        strips=draw_strips(findings.cells, trials, detail.points_a_round),
        source=_source_section(findings.source, findings.cells),
        environment=group_facts(run.environment),
        raw_files=(
            RawFile("run.json", "the suite as it was, the cells, and the order of the trials"),
            RawFile("visits.jsonl", "every trial with seconds and full histogram, or its reason"),
            RawFile("moments.jsonl", "when processes worked on the run"),
            RawFile("series/CELL/ROUND.jsonl", "what monitors saw of every layer, where they ran"),
            RawFile("raw/CELL/ROUND/", "what the drivers printed, unchanged; CELL is a cell's id"),
        ),
    )


def describe_conclusions(conclusions: Sequence[FoundConclusion]) -> str:
    """How many hold, in one sentence; one that repeats the fact of another does not count."""
    conclusions = [one for one in conclusions if one.repeats is None]
    if not conclusions:
        return "The suite has no conclusion to test."
    count = dict.fromkeys(("holds", "does-not-hold", "undecided", "not-tested"), 0)
    for one in conclusions:
        count[one.word] = count.get(one.word, 0) + 1
    said = [
        f"{number} {word}"
        for word, number in (
            ("does not" if count["does-not-hold"] == 1 else "do not", count["does-not-hold"]),
            ("is undecided" if count["undecided"] == 1 else "are undecided", count["undecided"]),
            (
                "is not tested" if count["not-tested"] == 1 else "are not tested",
                count["not-tested"],
            ),
        )
        if number
    ]
    what = "conclusion holds" if len(conclusions) == 1 else "conclusions hold"
    sentence = f"{count['holds']} of {len(conclusions)} {what}"
    return f"{sentence}; {join_words(said)}." if said else f"{sentence}."


def describe_cells(cells: Sequence[FoundCell]) -> str:
    """How many cells there are, and of how many there is something to know before they are read."""
    if not cells:
        return "The run has no cell."
    counts = (
        (sum(cell.no_figure is not None for cell in cells), "without any figure"),
        (sum(cell.marked > 0 for cell in cells), "with marked rounds"),
        (sum(cell.client_bound == "yes" for cell in cells), "client-bound"),
    )
    said = [f"{number} {what}" for number, what in counts if number]
    sentence = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
    return f"{sentence}; {join_words(said)}." if said else f"{sentence}."


def cell_rows(cells: Sequence[FoundCell]) -> tuple[tuple[str, ...], tuple[CellRow, ...]]:
    """The columns that some cell has figures for, and a row for each cell."""
    has_queries = any(cell.queries_per_s is not None for cell in cells)
    has_bytes = any(cell.mb_per_s is not None for cell in cells)
    rate = "TPS" if cells and all(is_database(c) or c.no_figure for c in cells) else "Operations/s"
    columns = ["Rounds", rate, "Lowest to highest"]
    columns += ["Queries/s"] * has_queries + ["MB/s"] * has_bytes
    columns += ["Average ms", "p50 ms", "p99 ms", "Highest percentile, ms"]
    has_bottleneck = any(cell.bottleneck != "unknown" for cell in cells)
    columns += ["Bottleneck"] * has_bottleneck
    rows = []
    for cell in cells:
        latency = cell.latency
        average_us = latency.average_us if latency else None
        figures = [f"{cell.measured} of {cell.planned}", format_spread(cell.operations_per_s)]
        figures.append(format_range(cell.operations_per_s))
        figures += [format_spread(cell.queries_per_s)] * has_queries
        figures += [format_spread(cell.mb_per_s)] * has_bytes
        figures.append(MISSING if average_us is None else format_number(average_us / 1000))
        figures += [
            format_percentile(latency.percentile(percent) if latency else None)
            for percent in (50.0, 99.0)
        ]
        figures.append(format_highest(latency.highest if latency else None))
        figures += [_bottleneck(cell)] * has_bottleneck
        rows.append(
            CellRow(
                cell_id=cell.cell_id,
                name=cell.name,
                figures=tuple(figures),
                badges=cell_badges(cell),
                has_figure=cell.no_figure is None,
            )
        )
    return tuple(columns), tuple(rows)


def _bottleneck(cell: FoundCell) -> str:
    """The layer, how sure that is, and in how many rounds it was that one if they do not agree."""
    if cell.bottleneck == "unknown":
        return MISSING
    title = LAYER_TITLES.get(cell.bottleneck, cell.bottleneck)
    named = len(cell.bottleneck_rounds)
    said = (
        [] if cell.bottleneck_confidence is None else [f"{cell.bottleneck_confidence} confidence"]
    )
    said += [] if named == cell.measured else [f"{named} of {cell.measured}"]
    return f"{title} ({', '.join(said)})" if said else title


def cell_badges(cell: FoundCell) -> tuple[Badge, ...]:
    """Why there is no figure; else what limits the trust in it."""
    if cell.no_figure is not None:
        word = "marked" if cell.marked else "no figure"
        return (Badge("bad", f"{word}: {cell.no_figure}"),)
    said = []
    if cell.marked:
        said.append(Badge("bad", f"{cell.marked} marked"))
    if cell.missing:
        said.append(Badge("warn", f"{cell.missing} missing"))
    if cell.client_bound == "yes":
        said.append(Badge("warn", "client-bound"))
    if cell.is_open:
        said.append(Badge("calm", "open loop"))
    if cell.steady is not None:
        said.append(Badge("calm", "steady") if cell.steady else Badge("warn", "unsteady"))
    if cell.errors:
        said.append(Badge("warn", f"{cell.errors:,.0f} errors"))
    if cell.reconnects:
        said.append(Badge("warn", f"{cell.reconnects:,.0f} reconnects"))
    return tuple(said)


def cell_remarks(cells: Sequence[FoundCell]) -> tuple[Remark, ...]:
    """What the table has no room for; what is said of several cells is there once."""
    said = (one for cell in cells for one in _said_of(cell))
    return gather_remarks(said, [cell.name for cell in cells])


def _said_of(cell: FoundCell) -> Iterable[tuple[str, str, str]]:
    for reason in cell.reasons:
        what = "round" if len(reason.rounds) == 1 else "rounds"
        rounds = join_words(str(number) for number in reason.rounds)
        yield "Marked", reason.text, f"{cell.name} ({what} {rounds})"
    if cell.client_bound == "yes":
        for text in cell.evidence[:1]:
            yield "Client-bound", text, cell.name
    for text in cell.unsteady_reasons[:1]:
        yield "Unsteady" if cell.steady is False else "Not known to be steady", text, cell.name
    for text in cell.notes:
        yield "Note", text, cell.name


def _facts(run: MatrixRun, findings: Findings) -> tuple[Fact, ...]:
    started, ended = instant(run.started_at_s), instant(run.ended_at_s)
    took = format_duration(ended - started) if started and ended else MISSING
    facts = [
        Fact("Suite", run.suite),
        Fact("Scale", run.scale),
        Fact("Place", run.place),
        Fact("Started", format_utc(run.started_at_s)),
        Fact("Ended", format_utc(ended) if ended else "not yet"),
        Fact("Took", took),
        Fact("Rounds", str(run.rounds)),
        Fact("Trials", f"{findings.visits_done:,} of {findings.visits_planned:,}"),
        Fact(
            "Warm-up and measuring",
            f"{format_duration(run.warmup_s)} and {format_duration(run.measure_s)}",
        ),
        Fact("Seed", str(run.seed)),
    ]
    if (besides := findings.overhead) is not None:
        said = f"{besides.median_s:.1f} s (median), {besides.longest_s:.1f} s (longest)"
        name = "Overhead of a trial"
        if besides.change_s is not None and besides.calm_s is not None:
            name = "Overhead of a trial, beside its load"
            said += (
                f"; in medians {besides.change_s:.1f} s of it to set what the cell asks, "
                f"{besides.calm_s:.1f} s until the servers were calm"
            )
        facts.append(Fact(name, said))
    if run.budget_s is not None:
        facts.append(Fact("Budget", format_duration(run.budget_s)))
    if run.enough is not None:
        facts.append(Fact("Ended early", run.enough))
    if run.environments == "each-round":
        facts.append(Fact("Environments", "created again for each round"))
    return tuple(facts)


def _warnings(run: MatrixRun, findings: Findings) -> tuple[str, ...]:
    said = []
    if run.ended_at_s is None:
        said.append(
            f"The run is unfinished: {findings.visits_done:,} of {findings.visits_planned:,} "
            "trials were made. The findings may change when the run is resumed."
        )
    if run.cut_short is not None:
        said.append(run.cut_short)
    return tuple(said)


def _conclusion_row(conclusion: FoundConclusion) -> ConclusionRow:
    claims = conclusion.claims
    only = claims[0] if len(claims) == 1 else None
    return ConclusionRow(
        name=conclusion.name,
        says=conclusion.says,
        quantity=conclusion.quantity,
        verdict=conclusion.word.replace("-", " "),
        repeats=conclusion.repeats or "",
        ours=format_ratio(only.ratio) if only else f"{len(claims)} ratios",
        interval=_interval(only) if only else MISSING,
        published=format_ratio(conclusion.published),
        sentence=conclusion.sentence,
        why=conclusion.why,
        claims=() if only else tuple(_claim_row(one) for one in claims[:_SHOWN_CLAIMS]),
        claims_left_out=0 if only else max(0, len(claims) - _SHOWN_CLAIMS),
    )


_TRUTHS = {"yes": "within", "no": "outside", "unknown": "not known", "untested": "not tested"}


def _claim_row(claim: FoundClaim) -> ClaimRow:
    verdict = _TRUTHS.get(claim.truth, claim.truth)
    return ClaimRow(
        what=claim.what or MISSING,
        ratio=format_ratio(claim.ratio),
        interval=_interval(claim),
        rounds=str(claim.rounds) if claim.rounds else MISSING,
        verdict=f"{verdict}: {claim.reason}" if claim.reason else verdict,
    )


def _interval(claim: FoundClaim) -> str:
    if claim.low is None or claim.high is None:
        return MISSING
    # Rounded down: no interval promises more than it keeps.
    confidence = f"{math.floor(claim.confidence * 1000 + 1e-6) / 10:g}%"
    return f"{format_ratio(claim.low)} to {format_ratio(claim.high)} ({confidence})"


def _source_section(source: FoundSource | None, cells: Sequence[FoundCell]) -> SourceSection | None:
    if source is None:
        return None
    date = "" if source.date == "unknown" else f", {source.date}"
    return SourceSection(
        title=source.title,
        publisher=f"{source.publisher}{date}",
        conclusion=source.conclusion,
        statement=source.statement,
        shown_in=join_words(source.shown_in),
        conditions=tuple(
            Fact(name.replace("-", " "), value) for name, value in source.conditions.items()
        ),
        figures=published_rows(source.figures),
        has_first=any(one.of_first is not None for one in source.figures),
        ours=our_tables(source.figures, cells),
    )
