"""Binary logs copied from a running server, at the ports."""

from __future__ import annotations

import contextlib
import io
import itertools
import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from grampus.core.errors import GrampusError, RefusedError
from grampus.core.streams import ByteReader
from grampus.databases.backup.archive import BinlogArchive
from grampus.databases.backup.archiving import Archived, BinlogArchiver
from grampus.databases.backup.backups import DatabaseBackups
from grampus.databases.backup.binlog_links import links_of
from grampus.databases.backup.binlogs import BINLOGS_QUERY, decide_point, require_contiguous
from grampus.databases.backup.decide_schedule import ArchiveEnd, BackupState
from grampus.databases.backup.errors import BackupDamagedError
from grampus.databases.backup.joining import BinlogJoiner, Joined
from grampus.databases.backup.kept import KeptBackups
from grampus.databases.backup.model import BackupKind
from grampus.databases.backup.places import TargetPlace
from grampus.databases.backup.states import BackupStates
from tests.fakes.s3 import FakeS3, serving
from tests.unit.databases.world import World

from .existing import place, put_database
from .made_binlogs import begin

HAPPENINGS = (
    *("write", "rotate", "archive", "archive", "backup", "full", "roll", "purge", "delete"),
    *("recall", "join", "reset"),
)
UUID = "4f958cc3-e615-11f1-956b-223fda4be3b2"
HEAD_BYTES = len(begin())


class Server:
    """A database whose server writes binary logs; `archive` is a new process each time."""

    def __init__(self, world: World, shelf: Path, bucket: TargetPlace | None = None) -> None:
        self.world = world
        self.shelf = shelf
        self.place = bucket or place(shelf)
        self.uuid = UUID
        self.logs: dict[str, bytes] = {}  # after what each begins with
        self._heads: dict[str, bytes] = {}
        self.step_s = 60.0  # that pass before each backup and each look
        self._servers = itertools.count()
        self._begun = itertools.count(1_795_000_000)  # when each log was made
        self.behind_s = 0.0  # of its clock
        self._told: dict[str, bytes] = {}
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

    def archive(self, **wishes: Any) -> Archived:
        self.tell()
        return self.look(**wishes)

    def look(self, **wishes: Any) -> Archived:
        """Archive at this very moment."""
        self._answer()
        archiver = BinlogArchiver(self.world.service().operations)
        return archiver.archive("demo", self.place, **wishes)

    def tell(self) -> None:
        """The server's binary logs are as they are now, a while later."""
        self._told = dict(self.logs)
        self.world.clock.sleep(self.step_s)
        self._answer()

    def _answer(self) -> None:
        logs = sorted(self._told.items(), key=lambda log: int(log[0].rpartition(".")[2]))
        listed = [f"{name}\t{HEAD_BYTES + len(log)}\tNo" for name, log in logs]
        time = self.world.clock.now() - timedelta(seconds=self.behind_s)
        first = f"{self.uuid}\t{time:%Y-%m-%d %H:%M:%S.%f}"
        self.host.admin_answers[BINLOGS_QUERY] = "\n".join([first, *listed, ""])

    def back_up(self, wanted: BackupKind | None = None) -> datetime:
        """A backup, as the server is now; when it was taken."""
        self.tell()
        service = DatabaseBackups(self.world.service().operations)
        return service.create("demo", self.place, wanted=wanted).manifest.taken_at

    def backups(self) -> list[str]:
        kept = KeptBackups(self.world.home, self.world.clock, self.place)
        return sorted(kept.observe("demo").backups)

    def roll_back(self) -> None:
        """As `db snapshot rollback`: older data, and a server with another UUID."""
        self.uuid = f"{UUID[:-4]}{next(self._servers):04}"
        self.logs = dict(sorted(self.logs.items())[:1])

    def reset(self) -> None:
        """As RESET BINARY LOGS AND GTIDS: numbers begin again, under the same UUID."""
        self.logs, self._heads = {"binlog.000001": b""}, {}

    def state(self) -> BackupState:
        state = BackupStates(self.world.service().operations).find("demo")
        assert state is not None
        return state

    def join(self) -> Joined:
        return BinlogJoiner(self.world.service().operations).join("demo", self.place)

    def recall(self, end: ArchiveEnd | None) -> None:
        """Remember the archive to end there."""
        records = self.world.service().operations.records
        records.put_backup_state("demo", self.state().model_copy(update={"archive_end": end}))

    def delete(self, number: int) -> None:
        """One of the backups, counted from the oldest, as `db backup delete` does."""
        kept = KeptBackups(self.world.home, self.world.clock, self.place)
        with contextlib.suppress(RefusedError):  # increments stand on it
            kept.delete(sorted(kept.observe("demo").backups)[number])
        BackupStates(self.world.service().operations).refresh("demo", self.place)

    def require_restorable(self) -> None:
        """What is shown can be restored, as `db restore --time` finds its way."""
        backups = KeptBackups(self.world.home, self.world.clock, self.place).observe("demo")
        until = self.state().archived_until
        if until is not None:
            archive = self.open()
            links = links_of(archive)
            decide_point(backups.backups, archive.stretches(), "demo", until, links)

    def require_contiguous(self) -> None:
        """No piece is missing, and none is there twice."""
        for stretch in self.open().stretches():
            if stretch.pieces:
                require_contiguous(stretch.pieces, stretch.pieces[0].file)

    def archived(self) -> dict[str, bytes]:
        """What the archive holds of each stretch and file, after what each log begins with."""
        archive = self.open()
        found: dict[str, bytes] = {}
        for stretch in archive.stretches():
            for piece in stretch.pieces:
                name = f"{stretch.id}/{piece.file}"
                found[name] = found.get(name, b"") + b"".join(archive.read(stretch.id, piece))
        return {name: content[HEAD_BYTES:] for name, content in found.items()}

    def open(self, database_id: str | None = None) -> BinlogArchive:
        """The archive as the database sees it, or as that one does; `""`: all that there is."""
        if database_id is None:
            database_id = self.world.service().operations.records.get("demo").id
        kept = KeptBackups(self.world.home, self.world.clock, self.place)
        key, others = kept.keys.ensure_current(), kept.keys.all()
        return BinlogArchive(kept.target, key, "demo", others=others, database_id=database_id)

    @contextmanager
    def _reading(self, argv: Sequence[str]) -> Iterator[ByteReader]:
        assert argv[0] == "dd"
        options = dict(word.split("=", 1) for word in argv[1:])
        path = PurePosixPath(options["if"])
        assert path.parent == self._directory
        start, count = int(options["skip"]), int(options["count"]) - self.short
        if path.name not in self._heads:
            self._heads[path.name] = begin(at_s=next(self._begun))
        log = self._heads[path.name] + self.logs[path.name]
        yield io.BytesIO(log[start : start + count])


@pytest.fixture
def server(world: World, tmp_path: Path) -> Server:
    return Server(world, tmp_path / "shelf")


def test_each_call_copies_what_is_new(server: Server) -> None:
    server.write(1, b"one")
    first = server.archive()
    assert (first.copied_bytes, first.until) == (HEAD_BYTES + 3, server.world.clock.now())
    server.write(1, b" two")
    server.write(2, b"three")
    assert server.archive().copied_bytes == HEAD_BYTES + 9
    assert server.archive().copied_bytes == 0
    assert server.archived() == {"0001/binlog.000001": b"one two", "0001/binlog.000002": b"three"}


def test_stretch_goes_on_under_a_new_key_and_is_read_whole(server: Server) -> None:
    server.write(1, b"one")
    server.archive()
    keys = KeptBackups(server.world.home, server.world.clock, server.place).keys
    former = keys.ensure_current()
    keys.settle_next(keys.ensure_next().id)
    server.write(1, b" two")
    server.archive()
    assert keys.ensure_current() != former
    assert server.archived() == {"0001/binlog.000001": b"one two"}
    (keys.directory / f"{former.id}.key").unlink()
    with pytest.raises(BackupDamagedError):
        server.archived()


def test_clock_that_is_behind_covers_no_more_than_it_says(server: Server) -> None:
    """INV-62: what is committed next has a time that ours has passed already."""
    server.write(1, b"one")
    server.behind_s = 30.0
    assert server.archive().until == server.world.clock.now() - timedelta(seconds=30)
    server.behind_s = -30.0
    assert server.archive().until == server.world.clock.now()


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
    archived = server.archive()
    assert (archived.stretch, archived.problem) == ("0002", None)  # there is no backup at all
    assert archived.restorable_until is None


def test_rollback_is_told_until_a_backup_leads_to_what_came_after_it(server: Server) -> None:
    """INV-37: the server goes on under another UUID, which no backup knows."""
    server.write(1, b"one")
    server.back_up()
    server.write(1, b" two")
    until = server.archive().until
    assert server.state().archived_until == until
    server.roll_back()
    for _ in range(2):
        archived = server.archive()
        assert archived.problem is not None
        assert (archived.problem.code, archived.stretch) == ("archive-unreachable", "0002")
        assert archived.restorable_until == until
        assert server.state().needs_backup
        assert "rolled back" in str(server.state().archive_problem)
    server.back_up()
    archived = server.archive()
    assert (archived.problem, archived.restorable_until) == (None, archived.until)
    assert (server.state().needs_backup, server.state().archive_problem) == (False, None)


def test_reset_is_met_and_told_until_a_backup_leads_to_what_came_after_it(server: Server) -> None:
    """INV-63: numbers of files and transactions begin again, and the UUID stays."""
    for number in (1, 2, 3):
        server.write(number, b"one")
    server.back_up()
    until = server.archive().until
    server.reset()
    server.write(1, b"other")
    for number in (2, 3, 4):  # beyond the numbers that were archived
        archived = server.archive()
        assert archived.problem is not None
        assert (archived.problem.code, archived.stretch) == ("archive-unreachable", "0002")
        assert "were reset" in archived.problem.problem
        assert archived.restorable_until == until
        server.write(number, b"other")
    server.back_up()
    archived = server.archive()
    assert (archived.problem, archived.restorable_until) == (None, archived.until)
    assert server.archived()["0001/binlog.000003"] == b"one"


def test_reset_before_anything_was_archived_is_met_too(server: Server) -> None:
    """File and UUID are as the backup noted them; the file is another one."""
    server.write(1, b"one")
    server.back_up()
    server.reset()
    server.write(1, b"other")
    archived = server.archive()
    assert archived.problem is not None
    assert "were reset" in archived.problem.problem
    assert archived.restorable_until is None
    server.back_up()
    assert server.archive().problem is None


def test_log_that_only_its_server_can_read_is_not_archived(server: Server) -> None:
    server._heads["binlog.000001"] = b"\xfd" + begin()[1:]
    server.write(1, b"one")
    with pytest.raises(GrampusError) as caught:
        server.archive()
    assert caught.value.code == "binlog-encrypted"
    assert [stretch.until for stretch in server.open().stretches()] == [None]


def test_logs_that_were_gone_before_they_were_archived_are_told(server: Server) -> None:
    server.write(1, b"one")
    server.back_up()
    server.logs = {"binlog.000002": b"later"}
    archived = server.archive()
    assert archived.problem is not None
    assert "binlog.000001, which was never archived" in archived.problem.problem
    assert archived.restorable_until is None


def test_new_stretch_after_a_gap_needs_a_backup(server: Server) -> None:
    server.write(1, b"one")
    server.back_up()
    until = server.archive().until
    server.logs = {"binlog.000003": b"later"}
    assert server.archive(new_stretch=True).restorable_until == until
    server.back_up()
    assert server.archive().problem is None


def test_backup_alone_is_no_moment(server: Server) -> None:
    """It is restored as it is: no binary log leads to it, or on from it."""
    server.write(1, b"one")
    server.back_up()
    assert server.state().archived_until is None
    until = server.archive().until
    server.back_up()
    assert server.state().archived_until == until


@pytest.mark.parametrize(
    ("after_s", "is_reached"), [(0.0, False), (0.5, False), (1.0, False), (1.5, True)]
)
def test_look_within_the_second_of_a_backup_leads_nowhere_yet(
    server: Server, after_s: float, *, is_reached: bool
) -> None:
    """The backup may be from the end of that second; nothing is wrong, and none is due."""
    server.write(1, b"one")
    taken_at = server.back_up()
    server.world.clock.sleep(after_s - (server.world.clock.now() - taken_at).total_seconds())
    archived = server.look()
    assert archived.until == taken_at + timedelta(seconds=after_s)
    assert archived.restorable_until == (archived.until if is_reached else None)
    assert (archived.problem, server.state().needs_backup) == (None, False)
    server.require_restorable()


def test_backup_that_was_deleted_leads_nowhere(server: Server) -> None:
    server.write(1, b"one")
    server.back_up()
    server.archive()
    server.delete(0)
    assert server.state().archived_until is None
    assert server.archive().restorable_until is None


def test_deleted_behind_our_back_it_is_met_by_the_next_look(server: Server) -> None:
    server.write(1, b"one")
    server.back_up()
    server.archive()
    kept = KeptBackups(server.world.home, server.world.clock, server.place)
    kept.delete(*kept.observe("demo").backups)
    assert server.archive().restorable_until is None


def test_older_one_deleted_behind_our_back_is_met_too(server: Server) -> None:
    """The newest backup is there, and leads to nothing: what was shown was the older one's."""
    server.write(1, b"one")
    server.back_up()
    before = server.archive().until
    server.back_up(wanted="full")
    server.roll_back()
    assert server.archive().restorable_until == before
    kept = KeptBackups(server.world.home, server.world.clock, server.place)
    kept.delete(server.backups()[0])
    assert server.archive().restorable_until is None


def test_deleted_the_one_after_a_rollback_what_came_before_it_stays(server: Server) -> None:
    server.write(1, b"one")
    server.back_up()
    before = server.archive().until
    server.roll_back()
    server.back_up(wanted="full")
    assert server.archive().problem is None
    server.delete(1)
    assert server.state().archived_until == before
    archived = server.archive()
    assert (archived.restorable_until, archived.problem is not None) == (before, True)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_shown_as_restorable_can_be_restored(server: Server, seed: int) -> None:
    """Whatever happened, after each of it: INV-37. Nothing archived is missing, or there twice."""
    choose = random.Random(seed)  # noqa: S311 - a test's choice
    server.write(1, b"one")
    server.back_up()
    ends = [server.state().archive_end]
    for _ in range(16):
        server.step_s = choose.choice([0.3, 0.7, 1.0, 2.0, 60.0])
        happens = choose.choice(HAPPENINGS)
        newest = int(max(server.logs).rpartition(".")[2])
        match happens:
            case "write":
                server.write(newest, b" more")
            case "rotate":
                server.write(newest + 1, b"next")
            case "archive":
                with contextlib.suppress(GrampusError):  # a gap
                    server.archive()
                server.archive(new_stretch=server.state().archive_problem is not None)
            case "backup" | "full":
                server.back_up(wanted="full" if happens == "full" else None)
            case "roll":
                server.roll_back()
            case "reset":
                server.reset()
            case "join":
                server.join()
            case "recall":  # where it ended some time ago, as another process may have it
                server.recall(choose.choice(ends))
            case "delete":
                if kept := server.backups():
                    server.delete(choose.randrange(len(kept)))
            case _:
                server.write(newest + 1, b"next")
                server.logs = {f"binlog.{newest + 1:06d}": b"next"}
        ends.append(server.state().archive_end)
        server.require_restorable()
        server.require_contiguous()


def test_look_asks_as_much_of_a_bucket_however_many_pieces_it_holds(
    world: World, tmp_path: Path
) -> None:
    """A page of this service's listings has three names: all of them would take more and more."""
    with serving(FakeS3()) as service:
        server = Server(world, tmp_path, service.place(tmp_path))
        server.write(1, b"one")
        server.back_up()
        asked: list[list[str]] = []
        for number in range(12):
            server.write(1 + number // 4, f" {number}".encode())
            service.seen.clear()
            server.archive()
            asked.append(list(service.seen))
        assert all(verbs == asked[1] for verbs in asked[1:])
        assert asked[1].count("list") == 1
        server.roll_back()
        server.archive()
        quiet: list[list[str]] = []
        for _ in range(3):  # nothing leads there yet
            service.seen.clear()
            assert server.archive().problem is not None
            quiet.append(list(service.seen))
        assert all(verbs.count("list") == 1 for verbs in quiet)
        wanted = sorted(server.archived())
    assert wanted == [*(f"0001/binlog.{number:06d}" for number in (1, 2, 3)), "0002/binlog.000001"]


@pytest.mark.parametrize("happens", ["others", "stretch", "lost", "older", "gone", "overflow"])
def test_memory_of_the_end_that_is_wrong_is_noticed(server: Server, happens: str) -> None:
    """Whatever became of the archive since the last look, nothing is skipped or doubled."""
    number = 999_999 if happens == "overflow" else 1
    for content in (b"one", b" two"):
        server.write(number, content)
        server.archive()
    before = server.state()
    stretch = "0001"
    last = sorted((server.shelf / f"demo/binlogs/0001/binlog.{number:06d}").iterdir())[-1]
    match happens:
        case "others":  # as another process that has not noted it yet
            server.write(number, b" theirs")
            server.archive()
        case "overflow":  # so that the next log's name sorts before the one that is known
            number += 1
            server.write(number, b"theirs")
            server.archive()
        case "stretch":
            server.archive(new_stretch=True)
            stretch = "0002"
        case "lost":
            last.unlink()
        case "older":  # an older copy of the place
            last.unlink()
            server.write(number, b" more")
            server.archive()
        case _:
            shutil.rmtree(server.shelf / "demo")
    server.recall(before.archive_end)
    server.write(number, b" late")
    server.archive()
    found = {name: log for name, log in server.archived().items() if name.startswith(stretch)}
    assert found == {f"{stretch}/{name}": log for name, log in server.logs.items()}
    server.require_contiguous()


def test_file_that_is_shorter_than_the_server_says_covers_nothing(server: Server) -> None:
    server.write(1, b"one")
    server.short = 1
    with pytest.raises(GrampusError, match=f"{HEAD_BYTES + 2} bytes after byte 0"):
        server.archive()
    assert [stretch.until for stretch in server.open().stretches()] == [None]


def test_stopped_database_and_other_flavours_are_refused(server: Server) -> None:
    server.host.daemons.clear()
    with pytest.raises(RefusedError, match="db start"):
        server.archive()
    records = server.world.service().operations.records
    spec = records.get("demo").spec.model_copy(update={"flavour": "mariadb"})
    records.change("demo", spec=spec)
    with pytest.raises(RefusedError, match="archives binary logs of mysql only"):
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


def test_an_idle_archive_is_covered_once_a_minute_and_nothing_later_is_promised(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    server = Server(world, tmp_path / "shelf")
    server.step_s = 10.0
    server.write(1, b"first")
    server.back_up()
    covers: list[datetime] = []
    for number in range(30):
        if number == 20:
            server.write(1, b"more")
        archived = server.archive(covers_every=timedelta(seconds=60))
        kept = KeptBackups(world.home, world.clock, server.place)
        archive = BinlogArchive(kept.target, kept.keys.ensure_current(), "demo")
        (stretch,) = archive.stretches()
        assert stretch.until is not None
        # What was committed at any time is in it, and what is shown is what the archive says.
        assert archived.until >= stretch.until == archived.restorable_until
        if stretch.until not in covers:
            covers.append(stretch.until)
        if number == 20:
            assert stretch.until == archived.until, "what was written can be restored at once"
    gaps = [(b - a).total_seconds() for a, b in itertools.pairwise(covers)]
    assert len(covers) < 10
    assert max(gaps) <= 60
    world.close()
