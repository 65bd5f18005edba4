"""The one runner of operations: begun, planned, recovered, also in the midst of another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from pydantic import BaseModel

from grampus.core.errors import GrampusError, Planned
from grampus.operations.operation_type import OperationType, WhenCutOff
from grampus.operations.runner import OperationRunner, Subject
from grampus.state.operations import OperationJournal, Step
from grampus.state.store import Store
from tests.fakes.clock import FakeClock
from tests.unit.operation_runner import make_runner, planned

LAB = "t"
SUBJECT = Subject("pie")


class Recipe(BaseModel):
    """What an operation of these tests is journaled with."""

    fillings: tuple[str, ...] = ("apple", "pear")


class OvenError(GrampusError):
    """What was baked must not stay."""


@dataclass
class Kitchen:
    """What steps work with: what lies there, and what happens at a step."""

    content: list[str] = field(default_factory=list)
    at: dict[str, Callable[[], object]] = field(default_factory=dict)

    def steps(self, recipe: Recipe) -> list[Step]:
        return [self._step(filling) for filling in recipe.fillings]

    def _step(self, filling: str) -> Step:
        def add() -> None:
            self.at.get(filling, lambda: None)()
            if filling not in self.content:
                self.content.append(filling)

        def remove() -> None:
            if filling in self.content:
                self.content.remove(filling)

        return Step(filling, f"Add {filling}", add, remove)


def bake(when_cut_off: WhenCutOff = "undo") -> OperationType[Kitchen, Recipe]:
    return OperationType(
        "pie.bake",
        "baking of the pie",
        document=Recipe,
        build=lambda kitchen, recipe: kitchen.steps(recipe),
        when_cut_off=when_cut_off,
    )


def fails(error: BaseException) -> Callable[[], object]:
    def fail() -> None:
        raise error

    return fail


@pytest.fixture
def store() -> Store:
    return Store(None)


@pytest.fixture
def journal(store: Store) -> OperationJournal:
    return OperationJournal(store, FakeClock())


@pytest.fixture
def runner(store: Store, journal: OperationJournal) -> OperationRunner:
    return make_runner(LAB, store, journal, FakeClock())


def interrupted(
    runner: OperationRunner, kind: OperationType[Kitchen, Recipe], kitchen: Kitchen, step: str
) -> None:
    """As its process leaves it that dies at that step."""
    kitchen.at[step] = fails(SystemExit())
    with pytest.raises(SystemExit):
        runner.run(kind, kitchen, Recipe(), SUBJECT)
    kitchen.at.clear()


def test_a_dry_run_tells_the_steps_and_journals_nothing(runner: OperationRunner) -> None:
    kitchen = Kitchen()
    titles = planned(runner, lambda: runner.run(bake(), kitchen, Recipe(), SUBJECT))
    assert titles == ["Add apple", "Add pear"]
    assert (kitchen.content, runner.unfinished("")) == ([], [])
    runner.run(bake(), kitchen, Recipe(), SUBJECT)
    assert kitchen.content == ["apple", "pear"]


def test_a_dry_run_of_several_operations_tells_the_steps_of_all(runner: OperationRunner) -> None:
    kitchen = Kitchen()

    def change() -> None:
        for filling in ("apple", "pear"):
            with runner.part_of_plan():
                runner.run(bake(), kitchen, Recipe(fillings=(filling,)), SUBJECT)
        runner.propose(lambda: ["Eat it"])

    assert planned(runner, change) == ["Add apple", "Add pear", "Eat it"]
    assert planned(runner, lambda: None) == []
    assert kitchen.content == []
    change()
    assert kitchen.content == ["apple", "pear"]


def test_a_dry_run_recovers_what_was_interrupted(runner: OperationRunner) -> None:
    """Also with operations that its steps begin."""
    kitchen, kind = Kitchen(), bake("finish")
    interrupted(runner, kind, kitchen, "pear")
    (operation,) = runner.unfinished("pie.")
    kitchen.at["pear"] = lambda: runner.run(
        bake(), kitchen, Recipe(fillings=("cream",)), Subject("cream")
    )
    with pytest.raises(Planned), runner.planning():
        assert runner.recover(operation, kind, kitchen, Recipe()) == "finished"
    assert kitchen.content == ["apple", "cream", "pear"]


@pytest.mark.parametrize(
    ("when_cut_off", "recovery", "content"),
    [
        ("finish", "finished", ["apple", "pear"]),
        ("finish-or-undo", "finished", ["apple", "pear"]),
        ("undo", "undone", []),
    ],
)
def test_an_interrupted_one_is_finished_or_undone(
    runner: OperationRunner, when_cut_off: WhenCutOff, recovery: str, content: list[str]
) -> None:
    kitchen, kind = Kitchen(), bake(when_cut_off)
    interrupted(runner, kind, kitchen, "pear")
    (operation,) = runner.unfinished("pie.", "pie")
    assert runner.recover(operation, kind, kitchen, Recipe()) == recovery
    assert kitchen.content == content
    assert runner.unfinished("") == []


def test_what_may_take_long_waits_for_who_asks_for_it(runner: OperationRunner) -> None:
    kitchen, kind = Kitchen(), replace(bake("finish"), waits_at="pear", waits_for="ask again")
    interrupted(runner, kind, kitchen, "apple")
    for _ in range(2):
        (operation,) = runner.unfinished("pie.")
        recovery = runner.recover(operation, kind, kitchen, Recipe(), completes=False)
        assert kind.describe_recovered("pie", recovery) == (
            "The baking of the pie pie was interrupted. It waits: ask again."
        )
        assert kitchen.content == ["apple"]
    (operation,) = runner.unfinished("pie.")
    assert runner.recover(operation, kind, kitchen, Recipe()) == "finished"


def test_a_failure_after_which_nothing_may_stay_undoes_it_also_when_recovered(
    runner: OperationRunner,
) -> None:
    kind = replace(bake("finish"), is_undone_by=lambda error: isinstance(error, OvenError))
    kitchen = Kitchen(at={"pear": fails(OvenError("The oven is on fire."))})
    with pytest.raises(OvenError):
        runner.run(kind, kitchen, Recipe(), SUBJECT)
    assert (kitchen.content, runner.unfinished("")) == ([], [])
    interrupted(runner, kind, kitchen, "pear")
    (operation,) = runner.unfinished("pie.")
    kitchen.at["pear"] = fails(OvenError("The oven is on fire."))
    with pytest.raises(OvenError):
        runner.recover(operation, kind, kitchen, Recipe())
    assert (kitchen.content, runner.unfinished("")) == ([], [])


def test_one_that_takes_the_place_of_others_closes_them(runner: OperationRunner) -> None:
    kitchen, kind = Kitchen(), bake("finish")
    interrupted(runner, kind, kitchen, "pear")
    runner.run(kind, kitchen, Recipe(), SUBJECT, supersedes=runner.unfinished("pie."))
    assert runner.unfinished("") == []


def test_places_are_recovered_one_by_one_and_a_failure_is_said_once(
    runner: OperationRunner,
) -> None:
    kitchen, kind = Kitchen(), bake("finish")
    interrupted(runner, kind, kitchen, "pear")

    def recover_all(*, retries: bool = False) -> list[str]:
        return runner.recover_all(
            *("pie.", {kind.kind: kind}.get, lambda one: one.subject),
            lambda one: [
                kind.describe_recovered("pie", runner.recover(one, kind, kitchen, Recipe()))
            ],
            retries=retries,
        )

    kitchen.at["pear"] = fails(GrampusError("There are no pears."))
    said = ["The baking of the pie pie was interrupted and could not be recovered: "]
    said[0] += "There are no pears."
    assert [recover_all(), recover_all(), recover_all(retries=True)] == [said, [], said]
    kitchen.at.clear()
    kitchen.content.clear()
