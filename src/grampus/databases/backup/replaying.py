"""Archived binary logs applied to a restored data directory, up to a moment.

What is applied is decided by commit times before anything is (`replay_plan`), and what the server
has executed is compared with that afterwards.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial

from grampus.core.units import MIB, format_bytes
from grampus.databases.administrator import administrator_of
from grampus.databases.backup.archive import BinlogArchive
from grampus.databases.backup.binlogs import Piece, require_contiguous
from grampus.databases.backup.catalogue import BackupCatalogue
from grampus.databases.backup.keys import backup_keys
from grampus.databases.backup.model import ReplayOrder, RestoreOrder
from grampus.databases.backup.opening import open_target
from grampus.databases.backup.replay_plan import (
    ReplayFile,
    ReplayPlan,
    decide_expected,
    decide_replay,
    decide_rounds,
    require_executed,
)
from grampus.databases.backup.replay_server import ReplayServer
from grampus.databases.backup.replay_sql import EXECUTED_SQL
from grampus.databases.backup.stretch_names import owner_of_stretch
from grampus.databases.database_work import DatabaseWork
from grampus.databases.replicas.gtid_sets import GtidSet, count_missing, parse_gtid_set, unite
from grampus.databases.step_ports import StepPorts

# Of logs on the host's disk at a time, twice: some are fetched while others are applied.
ROUND_BYTES = 256 * MIB


class ReplayWork:
    """What the steps of a replay do; every method may be repeated from its beginning."""

    def __init__(self, ports: StepPorts, order: RestoreOrder, replay: ReplayOrder) -> None:
        self._ports = ports
        self._order = order
        self._replay = replay
        self._work = DatabaseWork(ports, order.database)
        self._backup_id = order.chain[-1]
        self._source, _, _ = self._backup_id.partition("/")
        self._expected: GtidSet = {}

    def apply(self) -> None:
        """Every transaction that was committed before the moment, and no other.

        Raises GrampusError with code `archive-gap`, `backup-too-late`, `replay-failed` or
        `replay-incomplete`, RefusedError with code `host-full`.
        """
        archive = self._archive()
        logs = self._logs(archive)
        plan = self._decide(archive, logs)
        server = self._server()
        server.start()
        before = server.events()
        executed = server.executed()
        self._expected = decide_expected(plan, executed, self._backup_id, self._source)
        rounds = decide_rounds(plan.files, executed, most_bytes=ROUND_BYTES)
        self._apply_rounds(server, rounds, plan, lambda file: self._content(archive, logs[file]))
        require_executed(self._expected, server.executed(), self._order.database.name)
        for name in server.enable_events(before):
            self._ports.progress.note(
                f"The event {name} is disabled. To run it, enable it with ALTER EVENT."
            )
        server.stop()

    def check(self) -> None:
        """Raise GrampusError with code `replay-incomplete` unless the server that is to be handed
        over has all that was applied; its own events may have added to that."""
        rows = administrator_of(self._ports, self._order.database).query(EXECUTED_SQL)
        executed = parse_gtid_set("mysql", rows[0][0] if rows and rows[0] else "")
        require_executed(unite(self._expected, executed), executed, self._order.database.name)

    def _decide(self, archive: BinlogArchive, logs: dict[str, list[Piece]]) -> ReplayPlan:
        progress = self._ports.progress
        whole_bytes = sum(pieces[-1].end_bytes for pieces in logs.values())
        read_bytes = 0

        def read(pieces: list[Piece]) -> Iterator[bytes]:
            nonlocal read_bytes
            for chunk in self._content(archive, pieces):
                read_bytes += len(chunk)
                progress.detail(
                    f"{format_bytes(read_bytes)} of binary logs read",
                    fraction=read_bytes / whole_bytes,
                )
                yield chunk

        plan = decide_replay(
            ((name, pieces[-1].end_bytes, partial(read, pieces)) for name, pieces in logs.items()),
            self._replay.moment,
            self._source,
        )
        if plan.out_of_order:
            progress.note(
                f"The clock of the server of {self._source} was set back around this moment. "
                f"{plan.out_of_order} transactions with a later commit time are also "
                "restored, because transactions after them were committed before the moment."
            )
        return plan

    def _apply_rounds(
        self,
        server: ReplayServer,
        rounds: list[tuple[ReplayFile, ...]],
        plan: ReplayPlan,
        content: Callable[[str], Iterator[bytes]],
    ) -> None:
        def fetch(number: int) -> None:
            server.require_room(rounds[number])
            for at, file in enumerate(rounds[number], start=1):
                server.put(f"r{number + 1}", at, content(file.name), file.end_bytes)

        def told(executed: GtidSet) -> None:
            done = plan.count - count_missing(plan.transactions, executed)
            self._ports.progress.detail(
                f"{done} of {plan.count} transactions, {format_bytes(plan.size_bytes)} in all",
                fraction=done / max(1, plan.count),
            )

        if rounds:
            fetch(0)
        for number, files in enumerate(rounds):
            channel = f"r{number + 1}"
            server.apply(channel, len(files))
            if number + 1 < len(rounds):
                fetch(number + 1)
            for file in files:
                server.await_applied(channel, file.transactions, told)
            server.end(channel)

    def _logs(self, archive: BinlogArchive) -> dict[str, list[Piece]]:
        """The pieces of each log from the backup's on, in order."""
        stretch = next(s for s in archive.stretches() if s.id == self._replay.stretch)
        pieces = require_contiguous(stretch.pieces, self._replay.first_file)
        grouped = itertools.groupby(pieces, key=lambda piece: piece.file)
        return {file: list(of_file) for file, of_file in grouped}

    def _content(self, archive: BinlogArchive, pieces: list[Piece]) -> Iterator[bytes]:
        return archive.read_log(self._replay.stretch, pieces)

    def _server(self) -> ReplayServer:
        name = self._order.database.name
        return ReplayServer(
            self._work.host(),
            self._work.plan(),
            self._ports.credentials.load(name),
            self._ports.clock,
            is_encrypted=self._order.database.encryption is not None,
        )

    def _archive(self) -> BinlogArchive:
        target = open_target(self._order.target, self._ports.home)
        keys = backup_keys(self._ports.home)
        manifest = BackupCatalogue(target, keys).observe(self._source).backups[self._backup_id]
        return BinlogArchive(
            *(target, keys.get(manifest.key_id), self._source),
            others=keys.all(),
            database_id=owner_of_stretch(self._replay.stretch),
        )
