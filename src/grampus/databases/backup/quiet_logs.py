"""Databases whose binary logs are as they were when all of them was archived.

A look at binary logs takes a session of the server, some reads of the target and a command on the
host. For a thousand databases that nobody writes to, one command for each host says the same: a log
is appended to before its transaction is acknowledged, and a new, removed or reset log changes the
directory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from grampus.core.errors import GrampusError
from grampus.databases.backup.binlog_source import binlog_directory
from grampus.databases.backup.binlogs import parse_piece
from grampus.databases.backup.decide_schedule import BackupSchedule
from grampus.databases.backup.states import BackupStates
from grampus.databases.operating import DatabaseOperations
from grampus.hosts.port import Host

# Each is looked at itself so often all the same: that also tells the archive, and with it `db show`
# and `db restore --time`, that nothing is missing. More databases are looked at more seldom, so
# that these looks take no more of a CPU.
LOOK_EVERY = timedelta(seconds=60)
LOOK_EVERY_OF_EACH = timedelta(seconds=1)
# A file system that hangs must not hold up the looks at the others of its host.
_STAT_TIMEOUT_S = 2.0
_RESTS_AFTER_FAILURE = timedelta(seconds=60)
_PATHS_AT_ONCE = 500
# Device, inode, size, and changes of content, down to nanoseconds.
_FORMAT = "%n\t%d:%i:%s:%.9Y"

# What the directory and the newest archived log were found to be, the log with its name.
Print = tuple[str, str]


@dataclass(frozen=True)
class _Place:
    """Where the binary logs of a database are, and the last one that the archive has."""

    host: str
    directory: PurePosixPath
    file: PurePosixPath


@dataclass(frozen=True)
class _Archived:
    """All that there was at that time is archived."""

    found: Print
    looked_at: datetime


class QuietLogs:
    """Remembers how binary logs were found before each look at them."""

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}
        self._begun: dict[str, Print | None] = {}  # looks that have not ended
        self._archived: dict[str, _Archived] = {}
        self._resting: dict[str, datetime] = {}  # hosts that did not answer, and until when

    def observe(
        self, operations: DatabaseOperations, schedules: Mapping[str, BackupSchedule]
    ) -> set[str]:
        """Those that need no look now; with each of the others, one begins."""
        now = operations.clock.now()
        hosts = operations.records.hosts()
        for memory in (self._places, self._begun, self._archived):
            for name in memory.keys() - schedules.keys():
                del memory[name]
        for name, schedule in schedules.items():
            if name not in self._places or self._places[name].host != hosts.get(name):
                self._locate(operations, name, schedule)
        found = self._observe_prints(operations, now)
        every = max(LOOK_EVERY, LOOK_EVERY_OF_EACH * len(schedules))
        quiet = {
            name
            for name, known in self._archived.items()
            if found.get(name) == known.found and timedelta(0) <= now - known.looked_at < every
        }
        for name in schedules.keys() - quiet:
            self._begun.setdefault(name, found.get(name))
        return quiet - self._begun.keys()

    def ended(self, name: str, *, is_archived: bool, at: datetime) -> None:
        """The look at that database is over; whether all is archived that there was before it."""
        found = self._begun.pop(name, None)
        self._archived.pop(name, None)
        # It is found again: a log that the look has archived may be a newer one. What was found of
        # an older one, whose name is a part of it, then counts for nothing.
        self._places.pop(name, None)
        if is_archived and found is not None:
            self._archived[name] = _Archived(found, at)

    def _locate(self, operations: DatabaseOperations, name: str, schedule: BackupSchedule) -> None:
        self._places.pop(name, None)
        state = BackupStates(operations).find(name, schedule.place)
        last = state.archive_end.last_piece if state is not None and state.archive_end else None
        piece = parse_piece(last) if last is not None else None
        if piece is None:
            return
        try:
            spec = operations.records.get(name).spec
            directory = binlog_directory(operations.ports, spec)
        except GrampusError:
            return  # the look says why
        self._places[name] = _Place(spec.host, directory, directory / piece.file)

    def _observe_prints(self, operations: DatabaseOperations, now: datetime) -> dict[str, Print]:
        found: dict[str, Print] = {}
        for name in {place.host for place in self._places.values()}:
            if self._resting.get(name, now) > now:
                continue
            places = {one: place for one, place in self._places.items() if place.host == name}
            paths = [str(path) for p in places.values() for path in (p.directory, p.file)]
            try:
                operations.require_reachable(name)
                lines = _stat(operations.fleet.host(name), paths)
            except GrampusError:
                # Each look says why, where it matters.
                self._resting[name] = now + _RESTS_AFTER_FAILURE
                continue
            for one, place in places.items():
                directory, file = lines.get(str(place.directory)), lines.get(str(place.file))
                if directory is not None and file is not None:
                    found[one] = directory, f"{place.file.name} {file}"
        return found


def _stat(host: Host, paths: Sequence[str]) -> dict[str, str]:
    """What the host's files are now, by path; one that is not there is left out."""
    found = {}
    for some in _in_parts(paths):
        argv = ["stat", "--format", _FORMAT, *some]
        for line in host.run(argv, check=False, timeout_s=_STAT_TIMEOUT_S).stdout.splitlines():
            path, _, said = line.rpartition("\t")
            found[path] = said
    return found


def _in_parts(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    for at in range(0, len(paths), _PATHS_AT_ONCE):
        yield paths[at : at + _PATHS_AT_ONCE]
