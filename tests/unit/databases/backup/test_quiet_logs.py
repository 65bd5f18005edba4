"""Which binary logs need no look: with files that are written as a server writes them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from grampus.core.errors import GrampusError
from grampus.databases.backup.decide_schedule import ArchiveEnd
from grampus.databases.backup.quiet_logs import LOOK_EVERY, QuietLogs
from grampus.hosts.port import CommandResult, HostUnreachableError
from tests.fakes.clock import FakeClock

PIECE = "binlog.000001/0-4-0123456789abcdef"


@dataclass
class Host:
    """Runs `stat` for real, and counts."""

    asked: int = 0
    is_up: bool = True

    def run(self, argv: Sequence[str], *, check: bool, timeout_s: float) -> CommandResult:
        self.asked += 1
        done = subprocess.run([*argv], capture_output=True, text=True, check=check)
        return CommandResult(tuple(argv), done.returncode, done.stdout, done.stderr)


@dataclass
class Lab:
    """Databases, each with a directory of binary logs, and what was archived of them."""

    root: Path
    count: int = 1
    clock: FakeClock = field(default_factory=FakeClock)
    host: Host = field(default_factory=Host)
    last_pieces: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.names():
            self.directory(name).mkdir(parents=True)
            (self.directory(name) / "binlog.000001").write_bytes(b"head")

    def names(self) -> list[str]:
        return [f"db{number}" for number in range(self.count)]

    def directory(self, name: str = "db0") -> Path:
        return self.root / name / "binlog"

    def log(self, number: int = 1) -> Path:
        return self.directory() / f"binlog.{number:06d}"

    def operations(self) -> SimpleNamespace:
        def require_reachable(name: str) -> None:
            if not self.host.is_up:
                raise HostUnreachableError(f"The host {name} is down.", "Start it.")

        def get(name: str) -> SimpleNamespace:
            mount = SimpleNamespace(mount_path=str(self.root / name))
            return SimpleNamespace(attachment=mount)

        def spec_of(name: str) -> SimpleNamespace:
            return SimpleNamespace(spec=SimpleNamespace(name=name, host="h1"))

        def state_of(record: SimpleNamespace) -> SimpleNamespace:
            piece = self.last_pieces.get(record.spec.name)
            end = None if piece is None else ArchiveEnd(stretch="s", last_piece=piece)
            return SimpleNamespace(archive_end=end, place="here")

        records = SimpleNamespace(
            hosts=lambda: dict.fromkeys(self.names(), "h1"),
            get=spec_of,
            find=spec_of,
            backup_state=state_of,
        )
        return SimpleNamespace(
            clock=self.clock,
            records=records,
            require_reachable=require_reachable,
            fleet=SimpleNamespace(host=lambda _: self.host),
            ports=SimpleNamespace(volumes=SimpleNamespace(get=get)),
        )

    def observe(self, quiet: QuietLogs) -> set[str]:
        place = SimpleNamespace(place=SimpleNamespace(url="here"))
        self.clock.sleep(2)
        return quiet.observe(self.operations(), dict.fromkeys(self.names(), place))  # type: ignore[arg-type]

    def archive(self, quiet: QuietLogs, last_piece: str = PIECE, *, works: bool = True) -> None:
        """The looks that `observe` asked for."""
        for name in self.names():
            if works:
                self.last_pieces[name] = last_piece
            quiet.ended(name, is_archived=works, at=self.clock.now())


def settled(lab: Lab) -> QuietLogs:
    """All was archived, and a look before the last one has told where it ends."""
    quiet = QuietLogs()
    for _ in range(2):
        assert lab.observe(quiet) == set()
        lab.archive(quiet)
    assert lab.observe(quiet) == set(lab.names())
    return quiet


def test_nothing_is_looked_at_that_is_as_it_was(tmp_path: Path) -> None:
    lab = Lab(tmp_path, count=300)
    quiet = settled(lab)
    before = lab.host.asked
    assert lab.observe(quiet) == set(lab.names())
    assert lab.host.asked - before == 2, "by five hundred paths, not by the database"


def _append(lab: Lab) -> None:
    with lab.log().open("ab") as file:
        file.write(b"!")


def _rotate(lab: Lab) -> None:
    lab.log(2).write_bytes(b"head")


def _reset(lab: Lab) -> None:
    lab.log().unlink()
    lab.log().write_bytes(b"head")


def _unmount(lab: Lab) -> None:
    lab.log().unlink()
    lab.directory().rmdir()


def _lose_host(lab: Lab) -> None:
    lab.host.is_up = False


@pytest.mark.parametrize("happens", [_append, _rotate, _reset, _unmount, _lose_host])
def test_whatever_happens_is_looked_at(tmp_path: Path, happens: object) -> None:
    lab = Lab(tmp_path)
    quiet = settled(lab)
    happens(lab)  # type: ignore[operator]
    assert lab.observe(quiet) == set()


def test_what_happens_during_a_look_is_looked_at_after_it(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    quiet = QuietLogs()
    for _ in range(2):
        lab.observe(quiet)
        lab.archive(quiet)
    lab.clock.sleep(60)
    assert lab.observe(quiet) == set()
    _append(lab)  # after the look has listed the logs
    lab.archive(quiet)
    assert lab.observe(quiet) == set()


def test_a_log_that_is_newer_than_the_one_known_is_not_overlooked(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    quiet = settled(lab)
    _rotate(lab)
    assert lab.observe(quiet) == set()
    # The look archives the new log. What was found before it was of the former one.
    lab.archive(quiet, "binlog.000002/0-4-0123456789abcdef")
    with lab.log(2).open("ab") as file:
        file.write(b"!")
    assert lab.observe(quiet) == set()


def test_a_look_that_failed_is_done_again(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    quiet = settled(lab)
    _append(lab)
    lab.observe(quiet)
    lab.archive(quiet, works=False)
    assert lab.observe(quiet) == set()


def test_one_that_is_being_looked_at_is_not_quiet(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    quiet = settled(lab)
    _append(lab)
    assert [lab.observe(quiet) for _ in range(3)] == [set()] * 3


@pytest.mark.parametrize(("count", "every_s"), [(1, 60), (30, 60), (100, 100)])
def test_each_is_looked_at_from_time_to_time(tmp_path: Path, count: int, every_s: int) -> None:
    lab = Lab(tmp_path, count=count)
    quiet = settled(lab)
    assert timedelta(seconds=60) == LOOK_EVERY
    lab.clock.sleep(every_s - 6)
    assert lab.observe(quiet) == set(lab.names())
    lab.clock.sleep(6)
    assert lab.observe(quiet) == set()


def test_a_host_that_hangs_is_left_alone_for_a_minute(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    quiet = settled(lab)

    def hang(*_: object, **__: object) -> CommandResult:
        lab.host.asked += 1
        raise GrampusError("stat did not end.")

    asked, lab.host.run = lab.host.asked, hang  # type: ignore[method-assign]
    for _ in range(5):
        assert lab.observe(quiet) == set()
    assert lab.host.asked - asked == 1
