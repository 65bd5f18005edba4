"""What a page needs of the findings of a run, read from the document of `grampus bench show`.

The findings are computed elsewhere, and handed over as that document: a report knows the archive
and nothing of how verdicts are reached. Fields that no page shows are left out here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from grampus.core.errors import GrampusError
from grampus.core.models import Model

Value = str | int | float


class Found(Model):
    model_config = ConfigDict(frozen=True, extra="ignore")


class FoundSpread(Found):
    """The geometric mean over so many rounds, and the lowest and highest of them."""

    mean: float
    low: float
    high: float
    rounds: int


class FoundPercentile(Found):
    """`latency_us` is None when only the bounds are known."""

    percent: float
    latency_us: float | None
    low_us: float
    high_us: float
    # By the number of operations; documents of earlier releases have none.
    interval_low_us: float | None = None
    interval_high_us: float | None = None


class Latency(Found):
    """Of the merged histograms of so many rounds."""

    rounds: int
    operations: int
    average_us: float | None
    percentiles: tuple[FoundPercentile, ...]
    note: str

    @property
    def highest(self) -> FoundPercentile | None:
        """The highest percentile that there are operations enough for."""
        return max(self.percentiles, key=lambda one: one.percent, default=None)

    def percentile(self, percent: float) -> FoundPercentile | None:
        """The percentile `percent`; None where the document does not have it."""
        return next((one for one in self.percentiles if one.percent == percent), None)


class MarkedReason(Found):
    """Why rounds were marked, and which they were."""

    text: str
    rounds: tuple[int, ...]


class FoundTime(Found):
    """The time that a layer adds to an operation: its share (0 to 1), and in milliseconds."""

    layer: str
    share: float
    queued_share: float
    ms: float | None


class FoundCell(Found):
    """One cell over its rounds; `no_figure` is why there is none at all."""

    cell_id: str
    name: str
    label: str
    arm: str | None
    loop: str | None
    point: Mapping[str, Value]
    planned: int
    measured: int
    marked: int
    missing: int
    reasons: tuple[MarkedReason, ...]
    no_figure: str | None
    operations_per_s: FoundSpread | None
    queries_per_s: FoundSpread | None
    mb_per_s: FoundSpread | None
    iops: FoundSpread | None
    iops_per_gb: FoundSpread | None = None
    latency: Latency | None
    errors: float
    reconnects: float
    steady: bool | None
    unsteady_reasons: tuple[str, ...]
    client_bound: str
    evidence: tuple[str, ...]
    notes: tuple[str, ...]
    bottleneck: str = "unknown"
    bottleneck_rounds: tuple[int, ...] = ()
    bottleneck_confidence: str | None = None
    bottleneck_evidence: tuple[str, ...] = ()
    times: tuple[FoundTime, ...] = ()

    @property
    def is_open(self) -> bool:
        """Its requests come at a rate; also where nothing was measured of it."""
        return self.loop == "open" or self.point.get("rate", "none") != "none"


class FoundEffect(Found):
    """The ratio of an arm to the baseline; `low` and `high` are None with fewer than two rounds."""

    ratio: float | None
    low: float | None
    high: float | None
    rounds: int
    detectable: float | None = None


class FoundComparison(Found):
    """An arm over the baseline in one quantity; `reason` is why there is no effect."""

    arm: str
    baseline: str
    name: str
    quantity: str
    better: str
    word: str
    effect: FoundEffect | None
    reason: str | None
    remains: bool | None = None


class FoundClaim(Found):
    """The ratio of two cells, held against limits."""

    what: str
    truth: str
    at_least: float | None
    at_most: float | None
    ratio: float | None
    low: float | None
    high: float | None
    confidence: float = 0.95  # of the interval; documents of earlier releases do not have it
    rounds: int
    reason: str | None


class FoundConclusion(Found):
    """What a conclusion of the source says, and whether it holds here."""

    name: str
    says: str
    test: str
    quantity: str
    word: str
    sentence: str
    claims: tuple[FoundClaim, ...]
    published: float | None
    why: str
    repeats: str | None = None  # documents of earlier releases do not have it


class SourceFigure(Found):
    """A published figure; `of_first` is its ratio to the first of its quantity."""

    labels: Mapping[str, str]
    quantity: str
    value: float | None
    unit: str
    bound: str
    shown_in: str | None
    remark: str | None
    of_first: float | None


class FoundSource(Found):
    """What the source says of the experiment."""

    title: str
    publisher: str
    date: str
    question: str
    conclusion: str
    shown_in: tuple[str, ...]
    conditions: Mapping[str, str]
    figures: tuple[SourceFigure, ...]
    statement: str


class FoundOverhead(Found):
    """What trials took besides their load, and of that, in medians: until all was as the cell asks,
    and until what came before was written."""

    median_s: float
    longest_s: float
    change_s: float | None = None
    calm_s: float | None = None


class Findings(Found):
    """All that follows from the trials of a run."""

    title: str
    question: str
    remarks: tuple[str, ...]
    statement: str | None
    visits_planned: int = Field(ge=0)
    visits_done: int = Field(ge=0)
    overhead: FoundOverhead | None
    cells: tuple[FoundCell, ...]
    comparisons: tuple[FoundComparison, ...]
    comparisons_line: str
    conclusions: tuple[FoundConclusion, ...]
    source: FoundSource | None


def parse_findings(document: Mapping[str, Any]) -> Findings:
    """The findings in `document`. Raises GrampusError with code `findings-unreadable`."""
    try:
        return Findings.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise GrampusError(
            f"The findings of the run cannot be read: {place}: {first['msg']}.",
            "Build the report with the version of Grampus that ran the benchmark.",
            code="findings-unreadable",
        ) from error
