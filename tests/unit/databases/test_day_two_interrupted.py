"""Users, passwords and the trash, cut off: what `test_every_step` does not look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.interruption import Killed, stopped_runs
from tests.fakes.mysql_accounts import accounts_of

from .stopped_case import passwords_on_file_work, rotation, trash, users
from .world import LAB, World, prepared


def _created(world: World) -> None:
    world.create()


def _with_user(world: World) -> None:
    world.create()
    users(world).add("demo", "reports", "read")


def _trashed(world: World) -> None:
    _with_user(world)
    trash(world).trash("demo")


def inventory(world: World) -> dict[str, Any]:
    """What is there, with who can log in; passwords and moments differ from run to run."""
    found: dict[str, Any] = world.inventory()
    host = world.hosts["h1"]
    found["accounts"] = {
        str(path): sorted(
            (user, account.role, account.former is not None)
            for user, account in accounts_of(file.content).items()
        )
        for path, file in host.files.items()
        if path.name == "accounts"
    }
    found["trash"] = [
        (entry.record.spec.name, entry.record.desired) for entry in trash(world).all()
    ]
    found["trashed images"] = len(world.volumes.trash.images)
    found["facts"] = {name: image.lasting_facts for name, image in world.volumes.images.items()}
    secrets = world.home.secrets_dir(LAB)
    found["secrets"] = sorted(str(p.relative_to(secrets)) for p in secrets.rglob("*"))
    return found


def test_an_undelete_cut_off_is_there_or_in_the_trash_and_never_lost(tmp_path: Path) -> None:

    def restore(world: World) -> None:
        trash(world).restore("demo")

    for point, world in stopped_runs(prepared(tmp_path, _trashed), restore, more_than=10):
        world.service().converge()
        there = [view.record.spec.name for view in world.service().list()]
        kept = [entry.record.spec.name for entry in trash(world).all()]
        assert there + kept == ["demo"], f"killed at {point}"
        if kept:
            restore(world)
        world.service().start("demo")
        assert passwords_on_file_work(world)


def test_a_user_cut_off_while_its_host_goes_down_is_undone_when_it_is_back(world: World) -> None:
    _created(world)
    before = inventory(world)
    world.fuse.left = 4  # its account is made
    with pytest.raises(Killed):
        users(world).add("demo", "reports", "read")
    world.hosts["h1"].crash()
    world.service().converge()
    assert inventory(world) == before


def test_a_rotation_that_can_never_be_finished_is_in_no_deletions_way(tmp_path: Path) -> None:
    nothing = World(tmp_path / "nothing")
    empty = nothing.inventory()
    nothing.close()
    given_up = 0

    def rotate(world: World) -> None:
        rotation(world).rotate("demo", keeps_former=False)

    for point, world in stopped_runs(prepared(tmp_path, _created), rotate, more_than=1):
        del world.hosts["h1"].daemons["mysqld-demo"]
        world.hosts["h1"].serve_failure = "[ERROR] InnoDB: corrupted"
        given_up += bool(world.service().operations.unfinished("demo"))
        world.service().delete("demo")
        assert world.inventory() == empty, f"killed at {point}"
    assert given_up > 1
