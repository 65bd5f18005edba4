"""One operation that tests stop, and the services that carry such operations out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from grampus.databases.clones.cloning import DatabaseClones
from grampus.databases.names.database_trash import DatabaseTrash
from grampus.databases.names.naming import DatabaseNames
from grampus.databases.snapshots.snapshots import DatabaseSnapshots
from grampus.databases.tls.certificate_rotation import CertificateRotation
from grampus.databases.users.roles import DatabaseRoles
from grampus.databases.users.rotation import DatabaseRotation
from grampus.databases.users.secret_statements import secret_statements
from grampus.databases.users.users import DatabaseUsers
from grampus.databases.verify.table_checks import TableChecks
from grampus.databases.verify.verification import DatabaseVerification
from grampus.volumes.decide_scrub import ScrubReport
from grampus.volumes.model import VolumeRecord
from tests.fakes.hosts import FakeFile
from tests.fakes.mysql_accounts import accounts_of

from .world import World

ROWS = PurePosixPath("data/rows")
Act = Callable[[Any], object]
# `gone`: the cut-off operation is undone. `done`: finished. `either`: one of both as a whole,
# depending on where it was cut off, and nothing of it is begun again.
End = Literal["gone", "done", "either"]


def nothing(world: World) -> None:
    """Leave it."""


@dataclass(frozen=True)
class Case:
    """An operation in a world that is prepared for it."""

    name: str
    kind: str
    prepare: Act
    act: Act
    end: End  # of one that was cut off, with the next command
    make: Callable[[Path], World] = World
    settle: Act = nothing  # what the command would have done after the operation
    keeps: str = ""  # snapshots that an undo leaves there, because somebody may want them: begin so
    no_way_back: str = ""  # from the end of this step on what fails is no longer taken back
    is_silent: bool = False  # the next command says nothing about it


def make_case(name: str, prepare: Act, act: Act, end: End, *, kind: str = "", **more: Any) -> Case:
    """A case of the kind `db.NAME`, unless another one is named."""
    return Case(name, f"db.{kind or name}", prepare, act, end, **more)


def operations(world: World) -> Any:
    return world.service().operations


def snapshots(world: World) -> DatabaseSnapshots:
    return DatabaseSnapshots(operations(world))


def trash(world: World) -> DatabaseTrash:
    return DatabaseTrash(operations(world))


def users(world: World) -> DatabaseUsers:
    return DatabaseUsers(operations(world))


def roles(world: World) -> DatabaseRoles:
    return DatabaseRoles(operations(world))


def rotation(world: World) -> DatabaseRotation:
    return DatabaseRotation(operations(world))


def certificates(world: World) -> CertificateRotation:
    return CertificateRotation(operations(world))


def names(world: World) -> DatabaseNames:
    return DatabaseNames(operations(world))


def clones(world: World) -> DatabaseClones:
    service = world.service()
    return DatabaseClones(service.operations, service.planner)


class SoundScrubs:
    """A cluster on which nothing is damaged."""

    def scrub(self, volume: VolumeRecord, *, repair: bool) -> ScrubReport:
        return ScrubReport(groups=4, objects=9, damaged=())


def verification(world: World) -> DatabaseVerification:
    checks = TableChecks(world.service(), clones(world))
    return DatabaseVerification(operations(world), SoundScrubs(), checks)


def write_rows(world: World, rows: str, name: str = "demo") -> None:
    """As a client's commit would."""
    attachment = world.volumes.get(name).attachment
    assert attachment is not None
    files = world.hosts[attachment.host].files
    files[PurePosixPath(attachment.mount_path) / ROWS] = FakeFile(rows)


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
