"""What a run of a matrix suite needs of the place that it measures, as a port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from grampus.bench.drivers.client_bound import ClientVerdict
from grampus.bench.drivers.outcome import DriverFailure, Loop
from grampus.bench.drivers.together import JointSample
from grampus.bench.layers.subjects import Subjects
from grampus.bench.matrix.capabilities import Capabilities
from grampus.bench.matrix.cells import Cell
from grampus.core.errors import GrampusError
from grampus.state.matrix_layers import SeriesPoint
from grampus.state.runs import Setting

# What fails at a place and is the reason of a marked trial: a refusal, a host that cannot be used,
# a disk on which a job's file cannot be written.
PLACE_ERRORS = (GrampusError, OSError)


def tell_problem(error: GrampusError | OSError) -> str:
    """What is wrong, as a sentence."""
    if isinstance(error, GrampusError):
        return error.problem
    where = f"{error.filename}: " if error.filename else ""
    return f"The system refused it: {where}{error.strerror or type(error).__name__}."


@dataclass(frozen=True)
class Watched:
    """What monitors saw of one trial from `from_s` (Unix time) on, warm-up and all; `gaps` say what
    could not be read."""

    points: tuple[SeriesPoint, ...]
    subjects: Subjects
    from_s: float
    gaps: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measured:
    """One trial as the place saw it: the clients' common sample, or why there is none.

    `queries_per_operation` is None without SQL, `bytes_per_operation` with it. `raw` holds what
    the drivers printed, by file name; `watched` is None where no monitor ran. `busy_threads` of the
    load had an operation under way, on average. `volume_iops` are
    reads and writes of the volumes' block devices, of all together; `provisioned_bytes` is the room
    on the cell's OSDs, before copies, that they stand for.

    `undeciding` are sentences: why no conclusion may rest on the figures.

    Seconds: `load_s` of load, warm-up and last operations and all; before it `change_s` until all
    was as the cell asks, and `calm_s` until nothing was written any more of what came before.
    """

    outcome: JointSample | DriverFailure
    loop: Loop
    client: ClientVerdict | None = None
    queries_per_operation: float | None = None
    bytes_per_operation: float | None = None
    osd_device_busy_share: float | None = None
    osd_device_latency_ms: float | None = None
    volume_iops: float | None = None
    provisioned_bytes: float | None = None
    raw: Mapping[str, str] = field(default_factory=dict)
    watched: Watched | None = None
    busy_threads: float | None = None
    load_s: float = 0.0
    change_s: float = 0.0
    calm_s: float = 0.0
    undeciding: tuple[str, ...] = ()


class CellPlace(Protocol):
    """A lab or cluster on which cells are measured. Whatever it makes for that is its own.

    A run that was killed is resumed by another process: `prepare` finds what is there, and
    `quiet` and `dismantle` also end what a killed run left.
    """

    @property
    def name(self) -> str:
        """Such as `lab dev`."""
        ...

    @property
    def options(self) -> str:
        """Options of a command that name the place, with a space before; none if none is needed."""
        ...

    @property
    def shape_only(self) -> bool:
        """Whether figures of this place tell shapes and ratios alone, no capacity."""
        ...

    def capabilities(self) -> Capabilities:
        """What the place can do."""
        ...

    def facts(self, cells: Sequence[Cell]) -> list[Setting]:
        """Versions, kernel, machine, and what `cells` stand on with its limits, for the run's
        record.
        """
        ...

    def quiet(self) -> AbstractContextManager[None]:
        """While it lasts, the cluster neither scrubs, balances nor scales its pools."""
        ...

    def prepare(self, cells: Sequence[Cell]) -> Mapping[str, str]:
        """Make what `cells` stand on, with their data, where it is not there yet.

        Returns the reasons of those that could not be made, by cell id, as sentences. What fails
        for one leaves the others as they are.
        """
        ...

    def why_unfit(self) -> str | None:
        """Why nothing measured now would count (unhealthy, full), as a sentence; None: fit."""
        ...

    def measure(self, cell: Cell, *, warmup_s: int, measure_s: int) -> Measured:
        """Put the cell's load on what was prepared for it, and say what came of it.

        Raises GrampusError when what it stands on is not there (any more), and OSError where the
        system refuses something, such as room for a file.
        """
        ...

    def remove_prepared(self) -> None:
        """Remove what `prepare` made while the cluster stays quiet, so that it is made anew."""
        ...

    def dismantle(self) -> None:
        """Remove everything that `prepare` made. Nothing happens where there is nothing."""
        ...
