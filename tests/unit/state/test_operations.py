"""Invariant: stopped at any step, by a kill or an error, work is finished or undone later.

The operation here is made up. A child process carries it out and is stopped at a failpoint;
this process then opens the same state file with a new journal, as the next command would.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, RefusedError, SupersededError
from grampus.core.failpoints import VARIABLE, FailpointError
from grampus.core.progress import SilentProgress
from grampus.state.operations import Operation, OperationJournal, Step
from grampus.state.store import Store
from tests.fakes.clock import FakeClock
from tests.fakes.progress import RecordedProgress

from .fakes import FULL, KIND, LAB, PARTS, SPEC, SUBJECT, Bowl, bake, make_steps

STEPS = (*PARTS, "taste")
FORWARD_POINTS = [
    f"{KIND}/begun",
    *(f"{KIND}/{step}/{when}" for step in STEPS for when in ("before", "after")),
    *(f"{KIND}/{part}/middle" for part in PARTS),
]
UNDO_POINTS = [f"{KIND}/{part}/{when}" for part in PARTS for when in ("undo", "undo-middle")]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By failpoint: what is left of an operation that was killed there.

    One child forks a process for each, so that what they import is imported once.
    """
    points = {
        **{point: f"{point}=kill" for point in FORWARD_POINTS},
        **{point: f"{KIND}/taste/before=error,{point}=kill" for point in UNDO_POINTS},
    }
    places = {point: tmp_path_factory.mktemp("killed") for point in points}
    jobs = [(str(places[point]), failpoints) for point, failpoints in points.items()]
    child = subprocess.run(
        [sys.executable, "-m", "tests.unit.state.fakes"],
        cwd=Path(__file__).parents[3],
        input=json.dumps(jobs),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert json.loads(child.stdout) == [-signal.SIGKILL] * len(jobs)
    return places


def found_again(store: Store) -> Operation:
    (operation,) = OperationJournal(store, FakeClock()).unfinished(LAB)
    assert (operation.kind, operation.subject, operation.spec) == (KIND, SUBJECT, SPEC)
    return operation


def finish_then_undo(directory: Path) -> None:
    """Both ways out of the state that is found; the second starts from the first's end."""
    store = Store(directory / "state.db")
    journal, bowl = OperationJournal(store, FakeClock()), Bowl(directory / "bowl")
    progress, steps = RecordedProgress(), make_steps(Bowl(directory / "bowl"))
    operation = found_again(store)
    journal.apply(operation, steps, progress, undo_on_failure=False)
    assert bowl.content() == FULL
    assert journal.unfinished(LAB) == []
    journal.undo(operation, steps, progress, error="interrupted")
    assert bowl.content() == []
    assert journal.unfinished(LAB) == []
    store.close()


def undo_at_once(directory: Path) -> None:
    """The way of an operation that is undone when it is found cut off."""
    store = Store(directory / "state.db")
    journal, bowl = OperationJournal(store, FakeClock()), Bowl(directory / "bowl")
    journal.undo(found_again(store), make_steps(bowl), RecordedProgress(), error="interrupted")
    assert bowl.content() == []
    assert journal.unfinished(LAB) == []
    store.close()


@pytest.mark.parametrize("point", FORWARD_POINTS)
def test_killed_anywhere_it_can_be_finished_or_undone(
    tmp_path: Path, killed: dict[str, Path], point: str
) -> None:
    shutil.copytree(killed[point], tmp_path / "one")
    finish_then_undo(tmp_path / "one")
    shutil.copytree(killed[point], tmp_path / "other")
    undo_at_once(tmp_path / "other")


@pytest.mark.parametrize("point", UNDO_POINTS)
def test_killed_while_undoing_it_can_still_go_either_way(
    tmp_path: Path, killed: dict[str, Path], point: str
) -> None:
    shutil.copytree(killed[point], tmp_path / "one")
    store = Store(tmp_path / "one" / "state.db")
    assert found_again(store).status == "undoing"
    assert "taste" in found_again(store).error
    store.close()
    finish_then_undo(tmp_path / "one")
    shutil.copytree(killed[point], tmp_path / "other")
    undo_at_once(tmp_path / "other")


@pytest.mark.parametrize("point", FORWARD_POINTS[1:])
def test_error_anywhere_undoes_all_and_is_raised_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    monkeypatch.setenv(VARIABLE, f"{point}=error")
    with pytest.raises(FailpointError, match=point):
        bake(tmp_path, undo_on_failure=True)
    assert Bowl(tmp_path / "bowl").content() == []
    store = Store(tmp_path / "state.db")
    assert OperationJournal(store, FakeClock()).unfinished(LAB) == []
    store.close()


@pytest.mark.parametrize("point", FORWARD_POINTS)
def test_error_without_undo_leaves_it_to_be_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    monkeypatch.setenv(VARIABLE, f"{point}=error")
    with pytest.raises(FailpointError, match=point):
        bake(tmp_path, undo_on_failure=False)
    monkeypatch.delenv(VARIABLE)
    finish_then_undo(tmp_path)


@pytest.mark.parametrize("fails_at", range(len(PARTS)))
@pytest.mark.parametrize("no_way_back", PARTS)
def test_what_fails_is_undone_up_to_the_step_without_a_way_back(
    store: Store, no_way_back: str, fails_at: int
) -> None:
    undone: list[str] = []

    def fail() -> None:
        raise GrampusError("no room")

    def make(at: int, name: str) -> Step:
        apply = fail if at == fails_at else lambda: None
        return Step(name, name, apply, lambda: undone.append(name))

    steps = [make(at, name) for at, name in enumerate(PARTS)]
    journal = OperationJournal(store, FakeClock())
    operation = journal.begin(KIND, LAB, SUBJECT, SPEC)
    with pytest.raises(GrampusError):
        journal.apply(
            operation,
            steps,
            RecordedProgress(),
            undo_on_failure=True,
            no_way_back=no_way_back,
        )
    is_past = fails_at >= PARTS.index(no_way_back)
    assert undone == ([] if is_past else list(reversed(PARTS)))
    assert [one.step for one in journal.unfinished(LAB)] == ([PARTS[fails_at]] if is_past else [])


def test_undo_that_fails_stays_unfinished_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, f"{KIND}/taste/before=error,{KIND}/eggs/undo=error")
    with pytest.raises(FailpointError, match="eggs/undo"):
        bake(tmp_path, undo_on_failure=True)
    monkeypatch.delenv(VARIABLE)
    store = Store(tmp_path / "state.db")
    operation = found_again(store)
    assert (operation.status, operation.step) == ("undoing", "eggs")
    store.close()
    finish_then_undo(tmp_path)


def test_without_trouble_it_is_done(tmp_path: Path) -> None:
    bake(tmp_path, undo_on_failure=True)
    assert Bowl(tmp_path / "bowl").content() == FULL
    store = Store(tmp_path / "state.db")
    assert OperationJournal(store, FakeClock()).unfinished(LAB) == []
    store.close()


@pytest.mark.parametrize("strikes_at", range(3))
def test_ctrl_c_undoes(store: Store, strikes_at: int) -> None:
    done: list[str] = []

    def step(number: int) -> Step:
        def apply() -> None:
            if number == strikes_at:
                raise KeyboardInterrupt
            done.append(str(number))

        return Step(str(number), f"Step {number}", apply, lambda: done.append(f"undo {number}"))

    journal, progress = OperationJournal(store, FakeClock()), RecordedProgress()
    operation = journal.begin("made.up", LAB, "it", {})
    with pytest.raises(KeyboardInterrupt):
        journal.apply(operation, [step(n) for n in range(3)], progress, undo_on_failure=True)
    assert done == [
        *(str(number) for number in range(strikes_at)),
        "undo 2",
        "undo 1",
        "undo 0",
    ]
    assert progress.notes == ["Undoing: interrupted by Ctrl-C"]
    assert journal.unfinished(LAB) == []


def test_user_reads_every_step_and_every_undo(store: Store, tmp_path: Path) -> None:
    journal, progress = OperationJournal(store, FakeClock()), RecordedProgress()
    steps = make_steps(Bowl(tmp_path / "bowl"))

    def burn() -> None:
        raise GrampusError("The oven is cold.", "Heat it.")

    steps.append(Step("oven", "Heat the oven", burn))
    operation = journal.begin(KIND, LAB, SUBJECT, SPEC)
    with pytest.raises(GrampusError, match="cold"):
        journal.apply(operation, steps, progress, undo_on_failure=True)
    assert progress.phases == [
        *("Add flour", "Add eggs", "Add sugar", "Taste it", "Heat the oven"),
        *("Undo: Add sugar", "Undo: Add eggs", "Undo: Add flour"),
    ]
    assert progress.notes == ["Undoing: The oven is cold. Heat it."]


def test_step_is_journaled_before_it_begins(store: Store) -> None:
    journal = OperationJournal(store, FakeClock())
    seen: list[tuple[str, str]] = []

    def look() -> None:
        (operation,) = OperationJournal(store, FakeClock()).unfinished(LAB)
        seen.append((operation.status, operation.step))

    operation = journal.begin(KIND, LAB, SUBJECT, SPEC)
    steps = [Step("one", "One", look), Step("two", "Two", look)]
    journal.apply(operation, steps, RecordedProgress(), undo_on_failure=False)
    assert seen == [("running", "one"), ("running", "two")]


def test_unfinished_ones_are_told_apart_by_lab_and_kind_oldest_first(store: Store) -> None:
    journal = OperationJournal(store, FakeClock())
    journal.begin("db.create", LAB, "second", {})
    journal.begin("db.delete", LAB, "first", {"a": [1, None, "ä"]})
    journal.begin("volume.create", LAB, "third", {})
    journal.begin("db.create", "other", "fourth", {})
    assert [op.subject for op in journal.unfinished(LAB)] == ["second", "first", "third"]
    found = journal.unfinished(LAB, kind_prefix="db.")
    assert [op.subject for op in found] == ["second", "first"]
    assert found[1].spec == {"a": [1, None, "ä"]}
    assert [op.subject for op in journal.unfinished("other")] == ["fourth"]
    assert journal.unfinished("none-such") == []


def test_operation_whose_subject_is_gone_is_closed_without_undo(store: Store) -> None:
    journal = OperationJournal(store, FakeClock())
    operation = journal.begin(KIND, LAB, SUBJECT, SPEC)
    journal.close_unapplied(operation, "taken over by operation 2")
    assert journal.unfinished(LAB) == []


def test_numbers_are_never_given_twice(store: Store) -> None:
    journal = OperationJournal(store, FakeClock())
    numbers = [journal.begin(KIND, LAB, SUBJECT, SPEC).id for _ in range(3)]
    assert numbers == sorted(set(numbers))
    assert journal.begin(KIND, LAB, SUBJECT, SPEC).started_at == "2026-01-01T00:00:00+00:00"


def test_the_error_of_a_command_names_what_it_was_for(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.db")
    journal = OperationJournal(store, FakeClock())

    def fail() -> None:
        raise GrampusError("`rbd snap` failed on h1: no.", code="command-failed")

    operation = journal.begin("db.snapshot", LAB, "shop", {})
    with pytest.raises(GrampusError) as caught:
        journal.apply(
            operation, [Step("take", "Take it", fail)], SilentProgress(), undo_on_failure=True
        )
    assert caught.value.problem == (
        "`rbd snap` failed on h1: no. This was the step \"Take it\" for 'shop'."
    )
    store.close()


# -- another machine controls the site -------------------------------------------------------------


class Controlled:
    """Says who controls the site: this machine, for the first `lasts` questions."""

    def __init__(self, lasts: int) -> None:
        self.left = lasts
        self.ages_s: list[float] = []

    def __call__(self, seen_within_s: float) -> None:
        self.ages_s.append(seen_within_s)
        self.left -= 1
        if self.left < 0:
            raise SupersededError("It is controlled from admin2.")


def test_who_does_not_control_the_site_begins_nothing(store: Store) -> None:
    journal = OperationJournal(store, FakeClock(), require_controller=Controlled(0))
    with pytest.raises(RefusedError, match="admin2"):
        journal.begin("cake.bake", "sea", "sponge", {})
    assert journal.unfinished("sea") == []


@pytest.mark.parametrize("lasts", [1, 2])
def test_who_is_taken_over_from_goes_no_step_further_and_undoes_nothing(
    store: Store, lasts: int
) -> None:
    done: list[str] = []
    steps = [
        Step(
            name,
            name,
            apply=lambda name=name: done.append(name),
            undo=lambda name=name: done.append(f"undo {name}"),
        )
        for name in ("first", "second")
    ]
    controlled = Controlled(lasts)
    journal = OperationJournal(store, FakeClock(), require_controller=controlled)
    operation = journal.begin("cake.bake", "sea", "sponge", {})
    progress = RecordedProgress()
    with pytest.raises(RefusedError, match="admin2"):
        journal.apply(operation, steps, progress, undo_on_failure=True)
    assert progress.notes == [], "it does not say that it undoes anything"
    assert done == ["first", "second"][: lasts - 1]
    (left,) = journal.unfinished("sea")
    assert left.status == "running"
    assert controlled.ages_s[0] == 0.0
    # Nor does a later command of this machine.
    later = OperationJournal(store, FakeClock(), require_controller=Controlled(0))
    for settle in (
        lambda: later.apply(left, steps, SilentProgress(), undo_on_failure=False),
        lambda: later.undo(left, steps, SilentProgress(), error="late"),
    ):
        with pytest.raises(RefusedError, match="admin2"):
            settle()
    assert done == ["first", "second"][: lasts - 1]
