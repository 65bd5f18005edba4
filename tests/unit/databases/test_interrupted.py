"""Invariant: stopped at any point by anything, the next command finishes it or undoes it.

`test_every_step` kills each kind of operation before and after every single change that a port
makes. Here operations fail, are interrupted by Ctrl-C, and are killed while they are undone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from grampus.core.errors import NotFoundError
from grampus.core.failpoints import VARIABLE, FailpointError
from grampus.state.locks import hold_lock
from tests.fakes.interruption import Killed, stopped_runs

from .world import LAB, World, prepared

Act = Callable[[World], object]


def _nothing(world: World) -> None:
    del world


def _created(world: World) -> None:
    world.create()


def _ends(tmp_path: Path, prepare: Act, act: Act) -> tuple[object, object]:
    """What is in the world before the operation, and after it."""
    world = World(tmp_path / "whole")
    prepare(world)
    before = world.inventory()
    act(world)
    after = world.inventory()
    world.close()
    assert before["unfinished"] == after["unfinished"] == []
    return before, after


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("disk gone")])
def test_create_undoes_itself_on_ctrl_c_and_on_any_error(
    tmp_path: Path, error: BaseException
) -> None:
    before, _ = _ends(tmp_path, _nothing, _created)
    for point, world in stopped_runs(prepared(tmp_path, _nothing), _created, error, more_than=10):
        assert world.inventory() == before, f"stopped at {point}"


SET_STEPS = [
    *("server", "detach", "volume", "record", "metadata"),
    *("attach", "files", "address", "serve", "finish"),
]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("disk gone")])
def test_set_that_fails_anywhere_leaves_it_running_as_it_was(
    tmp_path: Path, error: BaseException
) -> None:
    before, _ = _ends(tmp_path, _created, lambda w: w.service().protect("demo", False))
    for point, world in stopped_runs(
        prepared(tmp_path, _created),
        lambda w: w.service().set_write_path("demo", "journal"),
        error,
        more_than=10,
    ):
        assert world.inventory() == before, f"stopped at {point}"


@pytest.mark.parametrize("step", SET_STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_set_undone_at_each_step_and_its_undo_killed_is_undone_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, when: str
) -> None:
    before, after = _ends(
        tmp_path, _created, lambda w: w.service().set_write_path("demo", "journal")
    )
    world = World(tmp_path / "home")
    world.create()
    point = f"db.set/{step}/{when}"
    monkeypatch.setenv(VARIABLE, f"{point}=error, db.set/server/undo=error")
    with pytest.raises(FailpointError):
        world.service().set_write_path("demo", "journal")
    monkeypatch.delenv(VARIABLE)
    sentences = world.service().converge()
    assert sentences == [
        "The change of the write path of the database demo was interrupted. It is now undone."
    ]
    assert world.inventory() == before
    world.service().set_write_path("demo", "journal")
    assert world.inventory() == after
    world.close()


@pytest.mark.parametrize(
    "step",
    [
        *("record", "secrets", "volume", "attach", "files", "address"),
        *("start", "metadata", "serve", "finish"),
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_create_undoes_itself_at_each_failpoint(
    world: World, monkeypatch: pytest.MonkeyPatch, step: str, when: str
) -> None:
    before = world.inventory()
    monkeypatch.setenv(VARIABLE, f"db.create/{step}/{when}=error")
    with pytest.raises(FailpointError):
        world.create()
    assert world.inventory() == before
    monkeypatch.delenv(VARIABLE)
    world.create()


def test_an_undo_that_is_killed_as_well_is_undone_in_the_end(tmp_path: Path) -> None:
    before, _ = _ends(tmp_path, _nothing, _created)

    def fail_to_serve(world: World) -> None:
        world.hosts["h1"].serve_failure = world.hosts["h2"].serve_failure = "[ERROR] no"

    def create_in_vain(world: World) -> None:
        with pytest.raises(Exception, match="no"):
            world.create()

    start = prepared(tmp_path, fail_to_serve)
    for point, world in stopped_runs(start, create_in_vain, more_than=10):
        world.service().converge()
        assert world.inventory() == before, f"killed at {point}"


def test_a_delete_that_failed_is_finished_by_deleting_again(world: World) -> None:
    before = world.inventory()
    world.create()
    world.fuse.left, world.fuse.error = 4, OSError("network gone")
    with pytest.raises(OSError, match="network gone"):
        world.service().delete("demo")
    assert world.service().show("demo").status == "deleting"
    world.service().delete("demo")
    assert world.inventory() == before
    with pytest.raises(NotFoundError):
        world.service().delete("demo")


def test_what_cannot_be_settled_now_is_said_and_kept(world: World) -> None:
    world.create("first", host="h2")
    before = world.inventory()
    world.fuse.left = 30
    with pytest.raises(Killed):
        world.create(host="h1")
    world.hosts["h1"].up = False
    sentences = world.service().converge()
    assert len(sentences) == 1
    assert "h1 is down" in sentences[0]
    world.hosts["h1"].up = True
    assert "undone" in world.service().converge()[0]
    assert world.inventory() == before


def test_what_another_process_works_on_is_left_to_it(world: World) -> None:
    world.create("first")  # it makes the golden volume
    world.fuse.left = 10
    with pytest.raises(Killed):
        world.create()
    with hold_lock(world.home, f"db.{LAB}.demo", world.clock):
        assert world.service().converge() == []
    assert world.journal.unfinished(LAB) != []


def test_the_address_of_a_cut_off_create_is_not_given_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "db.create/begun=error")  # journaled, and not yet recorded
    with pytest.raises(FailpointError):
        world.create("first")
    monkeypatch.delenv(VARIABLE)
    assert world.create("second").record.spec.address == "10.9.0.11"
    world.service().converge()
    assert world.create("third").record.spec.address == "10.9.0.10"


def test_a_cut_off_set_that_cannot_be_finished_runs_again_as_before(world: World) -> None:
    world.create()
    before = world.inventory()
    change = world.service().plan_write_path("demo", "journal")
    assert change is not None
    world.journal.begin("db.set", LAB, "demo", change.model_dump(mode="json"))
    world.volumes.failing_paths = {"journal"}
    (said,) = world.service().converge()
    assert "could not be recovered: The driver ended." in said
    assert world.inventory() == before
    assert world.service().converge() == []
