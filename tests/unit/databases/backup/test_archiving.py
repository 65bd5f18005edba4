"""Binary logs copied from a running server, at the ports."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import pytest

from grampus.core.errors import GrampusError, RefusedError
from grampus.core.streams import ByteReader
from grampus.databases.backup.archive import BinlogArchive
from grampus.databases.backup.archiving import Archived, BinlogArchiver
from grampus.databases.backup.binlogs import BINLOGS_QUERY
from grampus.databases.backup.errors import BackupDamagedError
from grampus.databases.backup.kept import KeptBackups
from tests.unit.databases.world import World

from .existing import place, put_database

UUID = "4f958cc3-e615-11f1-956b-223fda4be3b2"


class Server:
    """A database whose server writes binary logs; `archive` is a new process each time."""

    def __init__(self, world: World, shelf: Path) -> None:
        self.world = world
        self.shelf = shelf
        self.uuid = UUID
        self.logs: dict[str, bytes] = {}
        self.short = 0  # bytes that the server tells of and the file lacks
        put_database(world)
        self.host = world.hosts["h1"]
        self.host.reading = self._reading  # type: ignore[attr-defined]  # the port's, as dd does it
        mount = world.volumes.get("demo").attachment
        assert mount is not None
        self._directory = PurePosixPath(mount.mount_path) / "binlog"

    def write(self, number: int, content: bytes) -> None:
        name = f"binlog.{number:06d}"
        self.logs[name] = self.logs.get(name, b"") + content

    def archive(self, **wishes: bool) -> Archived:
        listed = [f"{name}\t{len(log)}\tNo" for name, log in sorted(self.logs.items())]
        self.host.admin_answers[BINLOGS_QUERY] = "\n".join([self.uuid, *listed, ""])
        self.world.clock.sleep(60)
        archiver = BinlogArchiver(self.world.service().operations)
        return archiver.archive("demo", place(self.shelf), **wishes)

    def archived(self) -> dict[str, bytes]:
        """What the archive holds of each stretch and file."""
        archive = self.open()
        found: dict[str, bytes] = {}
        for stretch in archive.stretches():
            for piece in stretch.pieces:
                name = f"{stretch.id}/{piece.file}"
                found[name] = found.get(name, b"") + b"".join(archive.read(stretch.id, piece))
        return found

    def open(self) -> BinlogArchive:
        kept = KeptBackups(self.world.home, self.world.clock, place(self.shelf))
        return BinlogArchive(kept.target, kept.keys.ensure_current(), "demo")

    @contextmanager
    def _reading(self, argv: Sequence[str]) -> Iterator[ByteReader]:
        assert argv[0] == "dd"
        options = dict(word.split("=", 1) for word in argv[1:])
        path = PurePosixPath(options["if"])
        assert path.parent == self._directory
        start, count = int(options["skip"]), int(options["count"]) - self.short
        yield io.BytesIO(self.logs[path.name][start : start + count])


@pytest.fixture
def server(world: World, tmp_path: Path) -> Server:
    return Server(world, tmp_path / "shelf")


def test_each_call_copies_what_is_new(server: Server) -> None:
    server.write(1, b"one")
    first = server.archive()
    assert (first.copied_bytes, first.until) == (3, server.world.clock.now())
    server.write(1, b" two")
    server.write(2, b"three")
    assert server.archive().copied_bytes == 9
    assert server.archive().copied_bytes == 0
    assert server.archived() == {"0001/binlog.000001": b"one two", "0001/binlog.000002": b"three"}


def test_coverage_goes_on_while_nothing_is_written(server: Server) -> None:
    server.write(1, b"one")
    server.archive()
    until = server.archive().until
    assert [stretch.until for stretch in server.open().stretches()] == [until]


@pytest.mark.parametrize("loss", ["purged", "rolled back", "shorter"])
def test_gap_is_an_error_until_a_new_stretch_is_asked_for(server: Server, loss: str) -> None:
    server.write(1, b"one two")
    until = server.archive().until
    if loss == "purged":
        server.logs = {"binlog.000002": b"later"}
    else:
        server.logs = {"binlog.000001": b"one other" if loss == "rolled back" else b"one"}
    for _ in range(2):
        with pytest.raises(GrampusError) as caught:
            server.archive()
        assert caught.value.code == "archive-gap"
    assert [stretch.until for stretch in server.open().stretches()] == [until]
    assert server.archive(new_stretch=True).stretch == "0002"
    server.write(3 if loss == "purged" else 2, b"more")
    assert server.archive().stretch == "0002"
    assert server.archived()["0001/binlog.000001"] == b"one two"


def test_another_server_of_that_name_begins_anew(server: Server) -> None:
    server.write(1, b"one")
    server.archive()
    server.uuid, server.logs = "another", {"binlog.000001": b"new"}
    assert server.archive().stretch == "0002"


def test_file_that_is_shorter_than_the_server_says_covers_nothing(server: Server) -> None:
    server.write(1, b"one")
    server.short = 1
    with pytest.raises(GrampusError, match="2 bytes after byte 0"):
        server.archive()
    assert [stretch.until for stretch in server.open().stretches()] == [None]


def test_stopped_database_and_other_flavours_are_refused(server: Server) -> None:
    server.host.daemons.clear()
    with pytest.raises(RefusedError, match="db start"):
        server.archive()
    records = server.world.service().operations.records
    spec = records.get("demo").spec.model_copy(update={"flavour": "mariadb"})
    records.change("demo", spec=spec)
    with pytest.raises(RefusedError, match="not archived yet"):
        server.archive()


def test_changed_or_moved_pieces_are_found(server: Server) -> None:
    server.write(1, b"one")
    server.archive()
    server.write(1, b"two")
    server.archive()
    first, second = sorted((server.shelf / "demo/binlogs/0001/binlog.000001").iterdir())
    first.write_bytes(second.read_bytes())
    with pytest.raises(BackupDamagedError):
        server.archived()


def test_password_is_on_no_command_line(server: Server) -> None:
    server.write(1, b"one")
    server.archive()
    password = server.world.service().operations.credentials.load("demo").admin_password
    said = [word for command in server.host.commands for word in command]
    assert not any(password.get_secret_value() in word for word in said)
