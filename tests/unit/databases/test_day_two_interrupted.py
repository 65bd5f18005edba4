"""Users, rotation, labels, names and the trash, killed at every change: finished or undone.

As `test_interrupted`: the process dies before and after every single change that a port makes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grampus.databases.names.database_trash import DatabaseTrash
from grampus.databases.names.naming import DatabaseNames
from grampus.databases.users.decide_users import UserRole
from grampus.databases.users.rotation import DatabaseRotation
from grampus.databases.users.secret_statements import secret_statements
from grampus.databases.users.users import DatabaseUsers
from tests.fakes.interruption import Killed, stopped_runs
from tests.fakes.mysql_accounts import accounts_of

from .world import LAB, World, prepared

Act = Callable[[World], object]


def users(world: World) -> DatabaseUsers:
    return DatabaseUsers(world.service().operations)


def trash(world: World) -> DatabaseTrash:
    return DatabaseTrash(world.service().operations)


def names(world: World) -> DatabaseNames:
    return DatabaseNames(world.service().operations)


def rotation(world: World) -> DatabaseRotation:
    return DatabaseRotation(world.service().operations)


def _created(world: World) -> None:
    world.create()


def _with_user(world: World, role: UserRole = "read") -> None:
    world.create()
    users(world).add("demo", "reports", role)


def _stopped(world: World) -> None:
    world.create()
    world.service().stop("demo")


def _trashed(world: World) -> None:
    _with_user(world)
    trash(world).trash("demo")


def _purge(world: World) -> None:
    orders = trash(world).plan_purge("demo")
    assert trash(world).purge_all(orders) == []


# name, the state before, the operation, and whether a cut-off one is finished (else undone).
CASES: list[tuple[str, Act, Act, bool]] = [
    ("user-add", _created, lambda w: users(w).add("demo", "reports", "write"), False),
    ("user-remove", _with_user, lambda w: users(w).remove("demo", "reports"), True),
    (
        "user-passwd",
        _with_user,
        lambda w: users(w).change_password("demo", "reports", keeps_former=False),
        True,
    ),
    ("rotate", _created, lambda w: rotation(w).rotate("demo", keeps_former=False), True),
    ("label", _created, lambda w: names(w).label("demo", ["team=web"]), True),
    ("rename", _with_user, lambda w: names(w).rename("demo", "store"), True),
    ("rename-stopped", _stopped, lambda w: names(w).rename("demo", "store"), True),
    ("trash", _with_user, lambda w: trash(w).trash("demo"), True),
    ("purge", _trashed, _purge, True),
]


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


def passwords_on_file_work(world: World) -> bool:
    """Whether the owner, the administrator and every user get in with what is on file."""
    operations = world.service().operations
    for name, record in operations.records.all().items():
        if record.desired != "running":
            continue
        secret_statements(operations.ports, record.spec).run("DO 0;")
        file = world.hosts["h1"].files
        accounts = accounts_of(
            next(f.content for p, f in file.items() if p.name == "accounts" and name in str(p))
        )
        credentials = operations.credentials.load(name)
        if not accounts[credentials.user].takes(credentials.password.get_secret_value()):
            return False
        for option_file in operations.credentials.users_directory(name).glob("*.cnf"):
            user = option_file.stem
            login = users(world).login(name, user).endpoint
            if not accounts[user].takes(login.password.get_secret_value()):
                return False
    return True


@pytest.mark.parametrize(
    ("prepare", "act", "finished"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_killed_at_any_point_it_is_finished_or_undone(
    tmp_path: Path, prepare: Act, act: Act, finished: bool
) -> None:
    world = World(tmp_path / "whole")
    prepare(world)
    before = inventory(world)
    act(world)
    after = inventory(world)
    assert passwords_on_file_work(world)
    world.close()
    for point, world in stopped_runs(prepared(tmp_path, prepare), act, more_than=1):
        sentences = world.service().converge()
        assert inventory(world) == (after if finished else before), f"killed at {point}"
        assert passwords_on_file_work(world)
        assert len(sentences) == 1
        assert world.service().converge() == []


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
