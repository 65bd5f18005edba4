"""A run of a suite at a made place: what is archived, marked, extended and left out."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from grampus.bench.drivers.client_bound import ClientVerdict
from grampus.bench.drivers.outcome import DriverFailure
from grampus.bench.trials.trial_runner import FIT_TIMEOUT_S
from grampus.core.errors import GrampusError, RefusedError
from grampus.state.matrix_runs import MatrixRun, PlannedTrial, Spent, Trial
from tests.unit.bench.trials.made_place import PREPARE_S, World
from tests.unit.full_disk import files_of_at_most

NOT_HEALTHY = "The cluster is not healthy (1 OSD is down)."


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def _rising(second: int) -> float:
    return 100.0 + second


def _measured(world: World, run: MatrixRun) -> list[tuple[str, int]]:
    return [(trial.cell_id, trial.round) for trial in world.trials(run)]


def _planned(run: MatrixRun) -> list[tuple[str, int]]:
    return [(one.cell_id, one.round) for one in run.visits]


def _of(world: World, run: MatrixRun, cell_id: str) -> list[Trial]:
    return [trial for trial in world.trials(run) if trial.cell_id == cell_id]


def test_a_run_measures_everything_in_its_order_and_leaves_nothing(world: World) -> None:
    plan = world.plan()
    run = world.run(plan)
    assert _measured(world, run) == _planned(plan)
    assert run.cut_short is None
    assert run.ended_at_s == world.clock.now().timestamp()
    assert world.archive.load(run.run_id) == run
    assert world.archive.latest_unfinished(run.suite, run.scale) is None
    assert not world.place.made
    assert not world.place.is_quiet
    for trial in world.trials(run):
        assert trial.marked is None
        assert trial.figures is not None
        assert trial.figures.operations_per_s == 100.0
        assert trial.ended_at_s - trial.started_at_s == 8
        raw = world.archive.run_dir(run.run_id) / "raw" / trial.cell_id / str(trial.round)
        assert (raw / "sysbench.txt").read_text() == f"6 s of {trial.cell_id}"


def test_everything_is_prepared_once_before_the_first_trial(world: World) -> None:
    plan = world.plan()
    world.run(plan)
    assert [sorted(one) for one in world.place.prepared] == [
        sorted(cell.cell_id for cell in plan.cells)
    ]


def test_what_was_made_is_kept_when_it_shall_be(world: World) -> None:
    plan = world.plan(rounds=1)
    run = world.run(plan, keep=True)
    assert run.ended_at_s is not None
    assert world.place.made == {cell.cell_id for cell in plan.cells}
    assert not world.place.is_quiet


def test_a_run_that_has_ended_is_not_made_again(world: World) -> None:
    plan = world.plan(rounds=1)
    run = world.run(plan)
    assert world.run(plan) == run
    assert len(world.place.measured) == 4
    assert world.place.dismantled == 1


def _two_rounds(
    run: MatrixRun, trials: Sequence[Trial], _missing: Sequence[PlannedTrial]
) -> str | None:
    return "Enough is known." if len(trials) == 2 * len(run.cells) else None


def test_a_run_ends_when_enough_is_known(world: World) -> None:
    world.enough = _two_rounds
    plan = world.plan()
    run = world.run(plan)
    assert _measured(world, run) == _planned(plan)[: 2 * len(plan.cells)]
    assert (run.cut_short, run.enough) == (None, "Enough is known.")
    assert run.ended_at_s is not None
    assert not world.place.made


def test_a_run_that_was_killed_when_enough_was_known_prepares_nothing_again(world: World) -> None:
    plan = world.plan()
    whole = world.run(plan.model_copy(update={"run_id": "20260101-000000-another"}))
    world.archive.begin(plan)
    for trial in world.trials(whole)[: 2 * len(plan.cells)]:
        world.archive.append(plan.run_id, trial)
    world.enough, prepared = _two_rounds, len(world.place.prepared)
    assert world.run(plan).enough == "Enough is known."
    assert len(world.place.prepared) == prepared


def test_a_run_of_another_place_is_refused(world: World) -> None:
    plan = world.plan()
    world.archive.begin(plan.model_copy(update={"place": "lab other"}))
    with pytest.raises(RefusedError) as refused:
        world.run(plan)
    assert refused.value.code == "other-place"
    assert not world.place.prepared


def test_a_suite_of_which_nothing_can_be_run_ends_at_once(world: World) -> None:
    world.place.offers = {}
    run = world.run(world.plan())
    assert all(cell.not_runnable for cell in run.cells)
    assert run.ended_at_s is not None
    assert not world.place.prepared


def test_progress_says_where_it_is_and_how_long_it_takes(world: World) -> None:
    plan = world.plan(rounds=2)
    world.run(plan)
    labels = {cell.cell_id: cell.label for cell in plan.cells}
    assert world.progress.phases == [
        "Prepare 4 cells",
        *(
            f"{number} of 8: {labels[one.cell_id]} (round {one.round})"
            for number, one in enumerate(plan.visits, start=1)
        ),
        "Remove what was made for it",
    ]
    # As declared at first (18 s each), then as measured (8 s).
    assert world.progress.details == [
        ("about 2 min left", 0.0),
        *((f"about {8 * left} s left", 1 - left / 8) for left in range(7, 0, -1)),
    ]


def test_what_is_marked_and_what_is_not_finished_is_told_at_once(world: World) -> None:
    plan = world.plan(rounds=1)
    world.place.failures[plan.visits[0].cell_id] = GrampusError("It does not answer.", "Look.")
    world.place.unfit = _interrupted_at(4)
    with pytest.raises(KeyboardInterrupt):
        world.run(plan)
    labels = {cell.cell_id: cell.label for cell in plan.cells}
    assert world.progress.notes == [
        f"{labels[plan.visits[0].cell_id]}: It does not answer.",
        f"The run {plan.run_id} is not finished. "
        "`grampus bench run made-layers --lab made --scale tiny --resume` resumes it.",
    ]


# What ends in a marked trial.


def test_a_broken_cell_is_marked_and_the_others_are_measured(world: World) -> None:
    plan = world.plan()
    broken = plan.visits[1].cell_id
    world.place.failures[broken] = GrampusError("The server of it-1 does not answer.", "Look.")
    run = world.run(plan)
    assert _measured(world, run) == _planned(plan)
    for trial in world.trials(run):
        assert (trial.figures is None) == (trial.cell_id == broken)
    assert {one.marked for one in _of(world, run, broken)} == {
        "The server of it-1 does not answer."
    }


def test_a_client_that_dies_marks_the_trial_and_its_output_is_kept(world: World) -> None:
    plan = world.plan()
    dying = plan.visits[0].cell_id
    reason = "Client h2 has no figures: sysbench was killed (signal 9)."
    world.place.failures[dying] = DriverFailure("killed", reason)
    run = world.run(plan)
    assert {(one.marked, one.figures) for one in _of(world, run, dying)} == {(reason, None)}
    raw = world.archive.run_dir(run.run_id) / "raw" / dying
    assert len(list(raw.glob("*/sysbench.txt"))) == 3


def test_a_full_disk_at_the_place_marks_the_trial(world: World) -> None:
    plan = world.plan()
    full = plan.visits[2].cell_id
    world.place.failures[full] = GrampusError("The pool rbd is full.", "Add OSDs.")
    run = world.run(plan)
    assert {(one.marked, one.figures) for one in _of(world, run, full)} == {
        ("The pool rbd is full.", None)
    }


def test_a_file_that_cannot_be_written_marks_the_trial_and_the_run_goes_on(world: World) -> None:
    plan = world.plan()
    full = plan.visits[2].cell_id
    world.place.failures[full] = OSError(errno.ENOSPC, "No space left on device", "job.fio")
    run = world.run(plan)
    assert {(one.marked, one.figures) for one in _of(world, run, full)} == {
        ("The system refused it: job.fio: No space left on device.", None)
    }
    assert _measured(world, run) == _planned(plan)


def test_what_cannot_be_made_has_one_marked_trial_and_no_others(world: World) -> None:
    plan = world.plan()
    unmade = plan.visits[3].cell_id
    world.place.unmade[unmade] = "No pool of 5 copies can be made on 3 hosts."
    run = world.run(plan)
    assert [(one.round, one.marked) for one in _of(world, run, unmade)] == [
        (1, "No pool of 5 copies can be made on 3 hosts.")
    ]
    assert len(world.trials(run)) == 3 * 3 + 1
    assert run.ended_at_s is not None


def test_what_could_not_be_made_is_tried_again_by_the_next_process(world: World) -> None:
    plan = world.plan()
    unmade = plan.visits[0].cell_id
    world.place.unmade[unmade] = "There was no room."
    world.place.unfit = _interrupted_at(6)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            world.run(plan)
        assert [one.marked for one in _of(world, plan, unmade)] == ["There was no room."]
        world.place.unfit = _interrupted_at(2)
    world.place.unmade.clear()
    world.place.unfit = lambda: None
    run = world.run(plan)
    assert [one.marked for one in _of(world, run, unmade)] == ["There was no room.", None, None]
    assert sorted(_measured(world, run)) == sorted(_planned(plan))


def _interrupted_at(count: int) -> Callable[[], str | None]:
    calls = itertools.count(1)

    def unfit() -> str | None:
        if next(calls) == count:
            raise KeyboardInterrupt
        return None

    return unfit


def test_an_unhealthy_cluster_marks_the_trial_after_a_bounded_wait(world: World) -> None:
    plan = world.plan(rounds=1)
    world.place.unfit = lambda: NOT_HEALTHY
    run = world.run(plan)
    assert [(one.marked, one.figures) for one in world.trials(run)] == [
        (f"{NOT_HEALTHY} That did not change in 2 min.", None)
    ] * 4
    assert not world.place.measured
    assert world.clock.slept_s == PREPARE_S + 4 * FIT_TIMEOUT_S


def test_a_cluster_that_recovers_in_time_is_measured(world: World) -> None:
    plan = world.plan(rounds=1)
    world.place.unfit = lambda: NOT_HEALTHY if world.clock.slept_s < 50 else None
    run = world.run(plan)
    first = world.trials(run)[0]
    assert first.figures is not None
    # The waiting is no part of what a trial takes.
    assert first.ended_at_s - first.started_at_s == 8


def test_a_cluster_that_does_not_answer_is_not_fit(world: World) -> None:
    def unfit() -> str | None:
        raise GrampusError("No monitor answers.", "Look after them.")

    world.place.unfit = unfit
    run = world.run(world.plan(rounds=1))
    assert {one.marked for one in world.trials(run)} == {
        "No monitor answers. That did not change in 2 min."
    }


def test_what_falls_ill_while_it_is_measured_gives_no_figure(world: World) -> None:
    plan = world.plan(rounds=1)
    world.place.unfit = lambda: NOT_HEALTHY if len(world.place.measured) == 2 else None
    run = world.run(plan)
    second = world.trials(run)[1]
    assert second.figures is None
    assert second.marked == (
        f"{NOT_HEALTHY} That came while it was measured, so its figures do not count."
    )


def test_an_ill_cluster_is_told_beside_what_a_client_said(world: World) -> None:
    plan = world.plan(rounds=1)
    second = _planned(plan)[1][0]
    world.place.failures[second] = DriverFailure("failed", "sysbench failed: forcing shutdown.")
    world.place.unfit = lambda: NOT_HEALTHY if len(world.place.measured) == 2 else None
    run = world.run(plan)
    assert world.trials(run)[1].marked == f"sysbench failed: forcing shutdown. {NOT_HEALTHY}"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 0.0])
def test_what_is_no_number_is_marked(world: World, value: float) -> None:
    world.place.series = lambda _: value
    run = world.run(world.plan(rounds=1))
    assert all(one.marked and one.figures is None for one in world.trials(run))


def test_a_figure_of_the_client_says_so(world: World) -> None:
    world.place.client = ClientVerdict("yes", ("The client used 99 % of its CPU limit.",))
    run = world.run(world.plan(rounds=1))
    for trial in world.trials(run):
        assert trial.figures is not None
        assert trial.figures.client_bound == "yes"
        assert trial.figures.evidence == ("The client used 99 % of its CPU limit.",)


# Steady state.


def test_a_few_seconds_are_too_short_to_be_steady(world: World) -> None:
    run = world.run(world.plan(rounds=1))
    assert {length_s for _, length_s in world.place.measured} == {6}
    for trial in world.trials(run):
        assert trial.figures is not None
        assert trial.figures.steady is None
        assert trial.figures.unsteady_reason == "6 s are too short to judge."


def _long(world: World, scale: str = "small") -> None:
    scales = world.content["scales"]
    world.content["scales"] = {**scales, scale: {**scales[scale], "measure_s": 60}}


def test_a_steady_series_is_measured_once(world: World) -> None:
    _long(world)
    run = world.run(world.plan(scale="small", rounds=1))
    assert [length_s for _, length_s in world.place.measured] == [60] * 4
    assert [one.figures and one.figures.steady for one in world.trials(run)] == [True] * 4


def test_a_series_that_is_not_steady_is_measured_once_more_for_twice_as_long(world: World) -> None:
    _long(world)
    world.place.series = _rising
    run = world.run(world.plan(scale="small", rounds=1))
    assert [length_s for _, length_s in world.place.measured] == [60, 120] * 4
    for trial in world.trials(run):
        assert trial.figures is not None
        assert trial.figures.steady is False
        assert trial.figures.measured_s == 120
        # Of both, with 2 s of warm-up each.
        assert trial.figures.spent == Spent(load_s=2 + 60 + 2 + 120, change_s=2, calm_s=4)
        assert "longest allowed" in (trial.figures.unsteady_reason or "")
        raw = world.archive.run_dir(run.run_id) / "raw" / trial.cell_id / "1"
        assert (raw / "sysbench.txt").read_text().startswith("60 s")
        assert (raw / "extended-sysbench.txt").read_text().startswith("120 s")
        # The series are those of the figures.
        assert len(world.archive.series(run.run_id, trial.cell_id, 1)) == 120
        assert trial.figures.why is not None
        assert trial.figures.why.to_s == 1120


def test_nothing_is_measured_longer_at_tiny(world: World) -> None:
    _long(world, scale="tiny")
    world.place.series = _rising
    run = world.run(world.plan(rounds=1))
    assert [length_s for _, length_s in world.place.measured] == [60] * 4
    assert [one.figures and one.figures.steady for one in world.trials(run)] == [False] * 4


def test_where_no_monitor_runs_there_are_no_series(world: World) -> None:
    world.place.is_watched = False
    run = world.run(world.plan(rounds=1))
    for trial in world.trials(run):
        assert trial.figures is not None
        assert trial.figures.why is None
        assert world.archive.series(run.run_id, trial.cell_id, 1) == []


def test_a_series_that_is_steady_when_measured_longer_is_called_so(world: World) -> None:
    _long(world)
    world.place.series = lambda at: _rising(at) if len(world.place.measured) % 2 else 100.0
    run = world.run(world.plan(scale="small", rounds=1))
    assert [length_s for _, length_s in world.place.measured] == [60, 120] * 4
    assert [one.figures and one.figures.steady for one in world.trials(run)] == [True] * 4


def test_without_time_for_it_nothing_is_measured_longer(world: World) -> None:
    _long(world)
    world.place.series = _rising
    run = world.run(world.plan(scale="small", rounds=1, budget_s=PREPARE_S + 190))
    # After the first, 128 s are left: two trials more, or one extension but for its overhead.
    assert [length_s for _, length_s in world.place.measured] == [60, 60, 60]
    first = world.trials(run)[0]
    assert first.figures is not None
    assert first.figures.steady is False
    reason = first.figures.unsteady_reason or ""
    assert reason.endswith("There was no time to measure longer.")


def test_an_extension_that_fails_is_marked(world: World) -> None:
    _long(world)
    world.place.series = lambda at: _rising(at) if len(world.place.measured) % 2 else 0.0
    run = world.run(world.plan(scale="small", rounds=1))
    assert {(one.marked, one.figures) for one in world.trials(run)} == {
        ("No client finished anything in the window.", None)
    }


# The budget.


@pytest.mark.parametrize(
    ("budget_s", "trials", "said"),
    [
        # Preparing takes 7 s and a trial 8 s, which is declared as 18 s.
        (PREPARE_S + 12 * 8, 12, None),
        (PREPARE_S + 12 * 8 - 1, 8, "after 8 of 12 trials: 2 of 3 rounds are whole."),
        (PREPARE_S + 8 * 8 - 1, 4, "after 4 of 12 trials: 1 of 3 rounds are whole."),
        (PREPARE_S + 4 * 8 - 1, 3, "after 3 of 12 trials: 0 of 3 rounds are whole."),
        (PREPARE_S + 17, 0, "after 0 of 12 trials: 0 of 3 rounds are whole."),
        (10.0, 0, "after 0 of 12 trials"),
    ],
)
def test_a_budget_ends_a_run_whole_and_says_so(
    world: World, budget_s: float, trials: int, said: str | None
) -> None:
    plan = world.plan(budget_s=budget_s)
    run = world.run(plan)
    assert _measured(world, run) == _planned(plan)[:trials]
    assert run.ended_at_s is not None
    assert not world.place.made
    assert (run.cut_short is None) == (said is None)
    assert said is None or said in (run.cut_short or "")
    assert world.clock.slept_s <= budget_s


def test_without_time_for_one_trial_nothing_is_prepared(world: World) -> None:
    world.run(world.plan(budget_s=10.0))
    assert not world.place.prepared


@pytest.mark.parametrize(("spare_s", "trials"), [(0.5, 12), (-0.5, 8)])
def test_the_time_of_earlier_processes_counts_and_that_between_them_does_not(
    world: World, spare_s: float, trials: int
) -> None:
    plan = world.plan(budget_s=3 * PREPARE_S + 12 * 8 + spare_s)
    # The first process is stopped in its first trial, the second in its sixth: the place is asked
    # before and behind each whether it is fit.
    for looks, made in ((1, 0), (2 * 5 + 1, 5)):
        world.place.unfit = _interrupted_at(looks)
        with pytest.raises(KeyboardInterrupt):
            world.run(plan)
        assert len(world.trials(plan)) == made
        world.revive()
    world.place.unfit = lambda: None
    run = world.run(plan)
    assert _measured(world, run) == _planned(plan)[:trials]
    assert (run.cut_short is not None) == (trials < len(plan.visits))


# An archive that cannot be written to.


@pytest.mark.parametrize("raw", [True, False])
def test_a_full_archive_ends_the_run_which_can_be_gone_on_with(world: World, raw: bool) -> None:
    plan = world.plan()
    world.place.unfit = _interrupted_at(2 * 5 + 1)
    with pytest.raises(KeyboardInterrupt):
        world.run(plan)
    made = world.trials(plan)
    assert len(made) == 5
    world.place.unfit = lambda: None
    file = world.archive.run_dir(plan.run_id) / "visits.jsonl"
    # Room for raw output or not, but never for a whole trial more.
    room_bytes = file.stat().st_size + 100 if raw else 10
    with files_of_at_most(room_bytes), pytest.raises(GrampusError) as failed:
        world.run(plan)
    assert failed.value.code == "no-space"
    assert world.trials(plan) == made
    assert not world.place.made
    assert not world.place.is_quiet
    assert world.archive.latest_unfinished(plan.suite, plan.scale) == plan
    run = world.run(plan)
    assert _measured(world, run) == _planned(plan)
    assert world.trials(run)[:5] == made
