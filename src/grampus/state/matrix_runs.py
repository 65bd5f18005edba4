"""The archive of runs of matrix suites: what is kept of a run, and where.

One directory a run, beside those of `runs.py`:

    run.json       the MatrixRun below, written before the first trial, and once more at the end
    visits.jsonl   one Trial a line, appended and flushed to disk as each trial ends
    moments.jsonl  one Moment a line: when processes worked on the run, for its budget
    raw/           what the drivers printed: raw/CELL_ID/ROUND/NAME
    series/        what monitors saw: series/CELL_ID/ROUND.jsonl (`matrix_layers.py`)

A run that was killed is one without `ended_at_s`. A last line that a kill cut off is no trial: that
one is made again. All times are seconds since the Unix epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from grampus.state.matrix_layers import Why
from grampus.state.runs import Frozen, Setting

MATRIX_SCHEMA_VERSION = 1
Environments = Literal["kept", "each-round"]


class PlannedCell(Frozen):
    """A cell of the run. `point` holds every dimension's value; `arm` is its arm's name, if any."""

    cell_id: str
    label: str = Field(description="the workload and what is not at its default")
    point: Mapping[str, str | int | float]
    arm: str | None = None
    not_runnable: str | None = Field(
        default=None, description="why this place cannot measure it, as a sentence"
    )


class PlannedTrial(Frozen):
    """One cell in one round (from 1), in the order of the run."""

    cell_id: str
    round: int


class MatrixRun(Frozen):
    """What a run set out to do, where. `suite_text` is the suite's file as it was."""

    schema_version: int = MATRIX_SCHEMA_VERSION
    kind: Literal["matrix"] = "matrix"
    run_id: str
    suite: str
    suite_text: str
    scale: str
    place: str = Field(description="such as lab dev")
    shape_only: bool = Field(
        description="a shared or emulated place: its figures tell shapes and ratios, no capacity"
    )
    seed: int
    rounds: int = Field(description="at most, where the run is looked at before")
    first_look: int | None = Field(
        default=None,
        description="after so many rounds it may end, once each conclusion has its answer; None: "
        "never before all rounds",
    )
    environments: Environments = Field(
        default="kept",
        description="whether databases, pools and OSDs of cells were created once (kept), or again "
        "for each round",
    )
    budget_s: float | None
    started_at_s: float
    warmup_s: float
    measure_s: float
    cells: tuple[PlannedCell, ...]
    # The archive's format calls a trial a visit, so this field keeps its name.
    visits: tuple[PlannedTrial, ...]
    environment: tuple[Setting, ...]
    ended_at_s: float | None = Field(default=None, description="None: it can be resumed")
    cut_short: str | None = Field(
        default=None, description="why there was no time for all rounds, as a sentence"
    )
    enough: str | None = Field(
        default=None, description="why not all rounds were needed, as a sentence"
    )


class Moment(Frozen):
    """A process began to work on the run, or had prepared what its trials need."""

    at_s: float
    what: Literal["began", "prepared"]


class TrialSecond(Frozen):
    """What all clients did together in the second that begins at `at_s`."""

    at_s: int
    operations: float
    errors: float


class Spent(Frozen):
    """Seconds that a trial took for its load, warm-up and last operations and all, and before it:
    until all was as the cell asks, and until nothing was written any more of what came before.

    Of a trial that was measured longer: of both measurings.
    """

    load_s: float
    change_s: float
    calm_s: float


class Figures(Frozen):
    """What was measured. An operation is a transaction, a request or an I/O.

    `latency` is a document of `bench/latency/histogram_documents.py`; None where it would tell of
    another time. `loop` is open where requests came at a rate.
    """

    loop: Literal["closed", "open"]
    measured_s: float
    operations: int
    operations_per_s: float
    queries_per_s: float | None = None
    moved_bytes_per_s: float | None = None
    errors: float = 0
    reconnects: float = 0
    latency: Mapping[str, Any] | None = None
    client_bound: Literal["yes", "no", "unknown"] = "unknown"
    evidence: tuple[str, ...] = ()
    steady: bool | None = None
    unsteady_reason: str | None = None
    notes: tuple[str, ...] = ()
    osd_device_busy_share: float | None = None
    osd_device_latency_ms: float | None = None
    volume_iops: float | None = None
    provisioned_bytes: float | None = None
    seconds: tuple[TrialSecond, ...] = ()
    why: Why | None = Field(default=None, description="None: no monitor ran")
    spent: Spent | None = Field(default=None, description="None: an older run")
    undeciding: tuple[str, ...] = Field(
        default=(), description="why no conclusion may rest on these figures, as sentences"
    )


class Trial(Frozen):
    """How one trial ended: with `figures`, or with the reason why there are none. Never both."""

    cell_id: str
    round: int
    started_at_s: float
    ended_at_s: float
    figures: Figures | None = None
    marked: str | None = Field(default=None, description="why there is no figure, as a sentence")
