"""A place at the port: what it makes, whether it is quiet, and what it is told to spoil."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from grampus.bench.drivers.client_bound import ClientVerdict
from grampus.bench.drivers.outcome import DriverFailure
from grampus.bench.drivers.together import JointSample, SampleSecond, Window
from grampus.bench.latency.histogram import LatencyHistogram, histogram_of_latencies
from grampus.bench.layers.subjects import Subjects
from grampus.bench.matrix.capabilities import Capabilities, Offer
from grampus.bench.matrix.cells import Cell
from grampus.bench.matrix.suite import ScaleName
from grampus.bench.trials.matrix_runner import Enough, MatrixRunner, RunPorts
from grampus.bench.trials.place import Measured, Watched
from grampus.bench.trials.plan import plan_run
from grampus.core.errors import GrampusError
from grampus.state.matrix_archive import MatrixArchive
from grampus.state.matrix_layers import SeriesPoint
from grampus.state.matrix_runs import MatrixRun, Moment, Trial
from grampus.state.runs import Setting
from tests.fakes.clock import FakeClock
from tests.fakes.interruption import Fuse, Killed
from tests.fakes.progress import RecordedProgress
from tests.unit.bench.matrix.made_suites import made_content, made_suite

PREPARE_S = 7.0
OFFERS = {
    "workload": Offer(values=("update-index", "point-select")),
    "media": Offer(values=("hdd", "nvme"), because="that is all there is"),
    "threads": Offer(at_least=1, at_most=16),
}

Series = Callable[[int], float]


def made_latency(operations: int) -> LatencyHistogram:
    return histogram_of_latencies([1_000_000] * operations, source="sysbench")


def made_sample(
    series: Sequence[float],
    *,
    begin_at_s: int = 1000,
    latency: LatencyHistogram | None = None,
    outside_share: float = 0.0,
    notes: tuple[str, ...] = (),
) -> JointSample:
    """A sample whose seconds have so many operations, and an error and a reconnect in the first."""
    firsts = [1.0] + [0.0] * (len(series) - 1)
    return JointSample(
        window=Window(begin_at_s, begin_at_s + len(series)),
        seconds=tuple(
            SampleSecond(begin_at_s + at, operations, firsts[at], firsts[at])
            for at, operations in enumerate(series)
        ),
        operations_per_s=sum(series) / max(len(series), 1),
        errors=1.0,
        reconnects=1.0,
        latency=latency,
        outside_share=outside_share,
        notes=notes,
    )


def made_watched(seconds: int) -> Watched:
    """The machine at work for two thirds, in as many seconds as were measured."""
    points = [
        SeriesPoint(at_s=1000.0 + at, kind="machine", name="machine", values={"cpu_share": 0.66})
        for at in range(1, seconds + 1)
    ]
    return Watched(tuple(points), Subjects(machine="h1", client_cores=2.0, threads=8), from_s=998.0)


class MadePlace:
    """Cells can be measured when they were prepared and while it is quiet, and never otherwise.

    What the keyword arguments of the tests spoil is public. `measured` is what was asked for:
    cell id, measuring time. `environments` are those that cells were measured on, by the time: each
    has a number. Time passes in `prepare` and `measure` alone.
    """

    name = "lab made"
    options = " --lab made"
    shape_only = True

    def __init__(self, world: World) -> None:
        self._world = world
        self.offers: Mapping[str, Offer] = OFFERS
        self.unmade: dict[str, str] = {}
        self.failures: dict[str, DriverFailure | GrampusError | OSError] = {}
        self.unfit: Callable[[], str | None] = lambda: None
        self.series: Series = lambda _: 100.0
        self.client: ClientVerdict | None = None
        self.is_watched = True
        self.made: set[str] = set()
        self.is_quiet = False
        self.dismantled = 0
        self.removed = 0
        self.measured: list[tuple[str, int]] = []
        self.environments: dict[float, int] = {}
        self._numbers: dict[str, int] = {}
        self.prepared: list[list[str]] = []

    def capabilities(self) -> Capabilities:
        return Capabilities(place="this place", offers=self.offers)

    def facts(self, cells: Sequence[Cell]) -> list[Setting]:
        count = str(len(cells))
        return [Setting(group="Ceph", name="cells that stand on it", value=count)]

    @contextmanager
    def quiet(self) -> Iterator[None]:
        try:
            self._world.burn()
            self.is_quiet = True
            self._world.burn()
            yield
        finally:
            try:
                self._world.burn()
            finally:
                # The dead end nothing.
                self.is_quiet = self.is_quiet and self._world.is_dead
            self._world.burn()

    def prepare(self, cells: Sequence[Cell]) -> Mapping[str, str]:
        assert self.is_quiet
        self._world.burn()
        self._world.clock.sleep(PREPARE_S)
        wanted = [cell.cell_id for cell in cells]
        self.prepared.append(wanted)
        anew = {one for one in wanted if one not in self.unmade} - self.made
        self._numbers |= dict.fromkeys(anew, max(self._numbers.values(), default=0) + 1)
        self.made |= anew
        self._world.burn()
        return {cell_id: self.unmade[cell_id] for cell_id in wanted if cell_id in self.unmade}

    def why_unfit(self) -> str | None:
        self._world.burn()
        return self.unfit()

    def measure(self, cell: Cell, *, warmup_s: int, measure_s: int) -> Measured:
        assert self.is_quiet
        assert cell.cell_id in self.made
        self._world.burn()
        self.measured.append((cell.cell_id, measure_s))
        self.environments[self._world.clock.now().timestamp()] = self._numbers[cell.cell_id]
        failure = self.failures.get(cell.cell_id)
        if isinstance(failure, GrampusError | OSError):
            raise failure
        self._world.clock.sleep(warmup_s + measure_s)
        self._world.burn()
        series = [self.series(second) for second in range(measure_s)]
        raw = {"sysbench.txt": f"{measure_s} s of {cell.cell_id}"}
        return Measured(
            failure or made_sample(series),
            "closed",
            client=self.client,
            raw=raw,
            watched=made_watched(measure_s) if self.is_watched else None,
            load_s=warmup_s + measure_s,
            change_s=1,
            calm_s=2,
        )

    def remove_prepared(self) -> None:
        assert self.is_quiet
        self._world.burn()
        self.removed += 1
        self.made.clear()
        self._world.burn()

    def dismantle(self) -> None:
        self._world.burn()
        self.dismantled += 1
        self.made.clear()
        self._world.burn()


class FusedArchive(MatrixArchive):
    """An archive that can be stopped before, in the middle of, and after each write."""

    def __init__(self, directory: Path, world: World) -> None:
        super().__init__(directory)
        self._world = world

    def begin(self, run: MatrixRun) -> None:
        self._world.burn()
        super().begin(run)
        self._world.burn()

    def end(self, run: MatrixRun) -> None:
        self._world.burn()
        super().end(run)
        self._world.burn()

    def append(self, run_id: str, trial: Trial) -> None:
        self._stop_in_the_middle(self.run_dir(run_id) / "visits.jsonl", trial.model_dump_json())
        super().append(run_id, trial)
        self._world.burn()

    def append_moment(self, run_id: str, moment: Moment) -> None:
        self._stop_in_the_middle(self.run_dir(run_id) / "moments.jsonl", moment.model_dump_json())
        super().append_moment(run_id, moment)
        self._world.burn()

    def write_raw(self, run_id: str, cell_id: str, round_: int, name: str, text: str) -> None:
        self._world.burn()
        super().write_raw(run_id, cell_id, round_, name, text)
        self._world.burn()

    def write_series(
        self, run_id: str, cell_id: str, round_: int, points: Iterable[SeriesPoint]
    ) -> None:
        self._world.burn()
        super().write_series(run_id, cell_id, round_, points)
        self._world.burn()

    def _stop_in_the_middle(self, file: Path, line: str) -> None:
        try:
            self._world.burn()
        except BaseException:
            with file.open("a") as stream:
                stream.write(line[: len(line) // 2])
            raise


class World:
    """A made suite, the place that it runs at and the archive, under one fuse."""

    def __init__(self, directory: Path, **changed: object) -> None:
        self.fuse = Fuse()
        self.is_dead = False
        self.clock = FakeClock()
        self.progress = RecordedProgress()
        self.place = MadePlace(self)
        self.archive = FusedArchive(directory, self)
        self.content = made_content(**changed)
        self.enough: Enough = lambda _run, _trials, _missing: None

    def close(self) -> None:
        """There is nothing to close."""

    def burn(self) -> None:
        if self.is_dead:
            raise self.fuse.error
        try:
            self.fuse.burn()
        except Killed:
            self.is_dead = True
            raise

    def revive(self) -> None:
        """Another process goes on, an hour later."""
        self.is_dead = False
        self.clock.sleep(3600)

    def plan(
        self,
        *,
        scale: ScaleName = "tiny",
        rounds: int | None = None,
        budget_s: float | None = None,
    ) -> MatrixRun:
        return plan_run(
            made_suite(**self.content),
            yaml.safe_dump(self.content, sort_keys=False),
            scale,
            self.place,
            run_id="20260101-000000-made-layers",
            seed=5,
            rounds=rounds,
            budget_s=budget_s,
            started_at_s=self.clock.now().timestamp(),
        )

    def run(self, plan: MatrixRun, *, keep: bool = False) -> MatrixRun:
        runner = MatrixRunner(
            RunPorts(self.place, self.archive, self.clock, self.progress, self.enough)
        )
        return runner.run(plan, keep=keep)

    def trials(self, run: MatrixRun) -> list[Trial]:
        return self.archive.trials(run.run_id)
