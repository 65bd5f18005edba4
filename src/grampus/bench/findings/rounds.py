"""What the trials of a run hold, by cell and round; and which cells may decide anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from grampus.bench.latency.histogram import LatencyHistogram
from grampus.bench.latency.histogram_documents import parse_histogram
from grampus.bench.matrix.dimensions import DIMENSIONS
from grampus.state.matrix_runs import Figures, MatrixRun, PlannedCell, Trial


@dataclass(frozen=True)
class Round:
    """The figures of one round, with their latencies read; None where they were left out."""

    figures: Figures
    latency: LatencyHistogram | None


@dataclass(frozen=True)
class CellRounds:
    """The rounds of one cell, by number. `missing` are those that nobody came to (yet), and
    `why_missing` says why, as a sentence."""

    cell: PlannedCell
    measured: Mapping[int, Round]
    marked: Mapping[int, str]
    missing: tuple[int, ...]
    why_missing: str

    @property
    def client_bound(self) -> tuple[int, ...]:
        """The rounds in which the load generator was the limit."""
        return tuple(
            number for number, one in self.measured.items() if one.figures.client_bound == "yes"
        )


def gather_rounds(run: MatrixRun, trials: Sequence[Trial]) -> dict[str, CellRounds]:
    """The trials by cell id, in the order of the run's cells; of two of one round, the later.

    Raises GrampusError with code `latency-document` for a latency that cannot be read.
    """
    planned: dict[str, list[int]] = {cell.cell_id: [] for cell in run.cells}
    for plan in run.visits:
        planned[plan.cell_id].append(plan.round)
    last = {(trial.cell_id, trial.round): trial for trial in trials}
    gathered = {}
    for cell in run.cells:
        measured: dict[int, Round] = {}
        marked: dict[int, str] = {}
        for number in sorted(planned[cell.cell_id]):
            trial = last.get((cell.cell_id, number))
            if trial is None:
                continue
            if trial.figures is None:
                marked[number] = trial.marked or "There is no figure, and no reason for it."
            else:
                measured[number] = _read_round(trial.figures)
        # What was not needed is not missing.
        wanted = () if run.enough is not None else sorted(planned[cell.cell_id])
        missing = [number for number in wanted if number not in {*measured, *marked}]
        gathered[cell.cell_id] = CellRounds(
            cell, measured, marked, tuple(missing), _why_missing(run)
        )
    return gathered


def why_no_figure(rounds: CellRounds) -> str | None:
    """Why the cell has no figure at all, in sentences; None: it has one."""
    if rounds.measured:
        return None
    if rounds.cell.not_runnable is not None:
        return rounds.cell.not_runnable
    if rounds.marked:
        return " ".join(distinct(rounds.marked.values()))
    return rounds.why_missing if rounds.missing else "The run left it out."


def why_undeciding(rounds: CellRounds) -> str | None:
    """Why the cell's figures decide nothing, in sentences; None: they may.

    One round in which the load generator was the limit is enough. Leaving such rounds out would
    leave out those in which what is measured was quickest. So is one in which it was not what it is
    called: an emulated processor, or a medium whose limit something passed by.
    """
    reason = why_no_figure(rounds)
    if reason is not None:
        return reason
    bound = rounds.client_bound
    if not bound:
        return _why_not_itself(rounds)
    evidence = distinct(one for n in bound for one in rounds.measured[n].figures.evidence)
    return " ".join(
        [
            f"The load generator was the limit in {len(bound)} of {len(rounds.measured)} rounds.",
            *evidence[:1],
        ]
    )


def _why_not_itself(rounds: CellRounds) -> str | None:
    emulated = distinct(one for r in rounds.measured.values() for one in r.figures.undeciding)
    if emulated:
        return " ".join(emulated)
    passed = [
        one.figures.why.passed_limit
        for one in rounds.measured.values()
        if one.figures.why is not None and one.figures.why.passed_limit is not None
    ]
    if not passed:
        return None
    more = f" That was so in {len(passed)} of {len(rounds.measured)} rounds."
    return f"{passed[0]}{more}"


def distinct(sentences: Iterable[str]) -> list[str]:
    """Each sentence once, in the order in which they first came."""
    return list(dict.fromkeys(sentences))


def varied_names(cells: Sequence[PlannedCell]) -> tuple[str, ...]:
    """The dimensions in which `cells` differ."""
    return tuple(name for name in DIMENSIONS if len({cell.point.get(name) for cell in cells}) > 1)


def describe_cell(cell: PlannedCell, names: Sequence[str]) -> str:
    """The cell by the dimensions `names`: `update-index, threads 8`; by its label without any."""
    words = [
        str(cell.point[name]) if name == "workload" else f"{name} {cell.point[name]}"
        for name in names
        if name in cell.point
    ]
    return ", ".join(words) or cell.label


def _why_missing(run: MatrixRun) -> str:
    if run.cut_short is not None:
        return run.cut_short
    return "It was not measured yet." if run.ended_at_s is None else "It was not measured."


def _read_round(figures: Figures) -> Round:
    latency = None if figures.latency is None else parse_histogram(figures.latency)
    return Round(figures, latency)
