"""No kind of operation is left out of those that are killed at each step on a real lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.databases.catalogue import KINDS
from tests.system.declared_steps import database_step_names, step_names, volume_step_names
from tests.system.operations_to_stop import ELSEWHERE, OPERATIONS, Stopped, words

INTEGRATION = Path(__file__).parents[2] / "integration"


def test_every_kind_is_killed_on_a_lab_or_it_is_said_why_not() -> None:
    kinds = [operation.kind for operation in OPERATIONS]
    assert len(set(kinds)) == len(kinds)
    assert set(kinds) | set(ELSEWHERE) == set(KINDS) | set(volume_step_names())
    assert set(kinds).isdisjoint(ELSEWHERE)


@pytest.mark.parametrize("said", ELSEWHERE.values())
def test_where_another_test_kills_them_it_is_there(said: str) -> None:
    if said.startswith("test_"):
        assert "failpoints=" in (INTEGRATION / f"{said.partition(':')[0]}.py").read_text()


@pytest.mark.parametrize("operation", OPERATIONS, ids=[each.kind for each in OPERATIONS])
def test_what_a_command_leaves_out_are_steps_of_its_kind(operation: Stopped) -> None:
    assert operation.steps
    names = (
        volume_step_names()[operation.kind]
        if operation.kind.startswith("volume.")
        else database_step_names(operation.kind)
    )
    assert operation.absent <= set(names)


@pytest.mark.parametrize("operation", OPERATIONS, ids=[each.kind for each in OPERATIONS])
def test_its_commands_name_nothing_but_places(operation: Stopped) -> None:
    for command in (operation.command, *operation.prepare, *operation.back):
        assert words(command, lambda place: f"<{place}>")[0] in ("db", "volume")


def test_places_are_looked_for_when_they_are_named() -> None:
    asked: list[str] = []

    def find(place: str) -> str:
        asked.append(place)
        return "h2"

    assert words("db move steps --host {host}", find) == ["db", "move", "steps", "--host", "h2"]
    assert asked == ["host"]


def test_steps_are_found_where_they_are_written() -> None:
    """Those of a function, of the functions that it calls, and of another kind."""
    assert step_names("grampus.databases.lifecycle", "_stop_steps") == [
        *("want", "server", "address", "detach"),
    ]
    assert database_step_names("db.grow") == database_step_names("db.resize")
    assert set(database_step_names("db.delete")) < set(database_step_names("db.replica-remove"))
    assert {"grow", "replay", "check"} < set(database_step_names("db.restore"))
    assert volume_step_names()["volume.clone"] == ["clone"]


def test_a_step_whose_name_is_worked_out_cannot_be_looked_for() -> None:
    with pytest.raises(KeyError):
        step_names("grampus.databases.lifecycle", "levitate_steps")
