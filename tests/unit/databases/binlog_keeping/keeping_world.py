"""A lab of fakes whose servers have binary logs that can be deleted."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path, PurePosixPath

from grampus.databases.backup.binlogs import tail_of
from grampus.databases.backup.decide_schedule import ArchiveEnd, BackupSchedule, BackupState
from grampus.databases.backup.places import TargetPlace
from grampus.databases.binlog_keeping.keeper import BinlogKeeper
from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.databases.layout import server_daemon_name
from grampus.databases.replicas.replication_sql import render_position_sql
from tests.fakes.hosts import FakeFleet
from tests.fakes.interruption import Fuse
from tests.fakes.mysql_host import MysqlDaemon
from tests.unit.databases.backup.existing import put_database
from tests.unit.databases.growth.growth_world import FillingHost, FillingVolumes, GrowthWorld
from tests.unit.databases.world import ADDRESSES

PLACE = TargetPlace(url="/srv/backups")
NEW_LOG_EVERY = 10  # transactions


class KeepingHost(FillingHost):
    """A host whose servers have binary logs, of which each holds ten transactions."""

    def __init__(self, name: str, fuse: Fuse) -> None:
        super().__init__(name, fuse)
        self.logs: dict[str, list[tuple[str, int, float]]] = {}  # by mount: name, size, moment
        self.mount_of: dict[str, str] = {}  # by daemon
        self.executed: dict[str, str] = {}  # by daemon; none: it refuses to say
        self.purged: list[str] = []
        self.expiries: list[int] = []
        self.refuses_purges = False

    def play(self, argv: list[str], stdin: str | None, daemon: str | None) -> tuple[int, str]:
        if argv[0] == "find":
            lines = [
                f"{directory}\t{name}\t{size}\t{moment:.4f}"
                for directory in argv[1 : argv.index("-maxdepth")]
                for name, size, moment in self.logs.get(str(PurePosixPath(directory).parent), ())
            ]
            # As the servers leave them beside the logs.
            lines += [f"{argv[1]}\tbinlog.index\t80\t1.0", f"{argv[1]}\tbinlog.000001.idx\t8\t1.0"]
            return 0, "\n".join(lines)
        return super().play(argv, stdin, daemon)

    @contextmanager
    def reading(self, argv: Sequence[str]) -> Iterator[io.BytesIO]:
        """Every log holds its own name, again and again."""
        options = dict(word.split("=", 1) for word in argv[1:])
        name = PurePosixPath(options["if"]).name
        start, count = int(options["skip"]), int(options["count"])
        yield io.BytesIO((name.encode() * 10_000)[start : start + count])

    def _administrator(self, argv: Sequence[str], daemon: MysqlDaemon | None) -> tuple[int, str]:
        assert daemon is not None
        statement, name = argv[-1], daemon.spec.name
        logs = self.logs.get(self.mount_of.get(name, ""), [])
        if match := re.fullmatch(r"PURGE BINARY LOGS TO '(.*)'", statement):
            if self.refuses_purges:
                return 1, "ERROR 1205 (HY000) at line 1: Lock wait timeout exceeded"
            self.purged.append(match[1])
            logs[:] = logs[[log[0] for log in logs].index(match[1]) :]
            return 0, ""
        if match := re.fullmatch(r"SET GLOBAL binlog_expire_logs_seconds = (\d+)", statement):
            self.expiries.append(int(match[1]))
            return 0, ""
        if match := re.fullmatch(r"SHOW BINLOG EVENTS IN 'binlog\.(\d+)' LIMIT 4", statement):
            before = (int(match[1]) - 1) * NEW_LOG_EVERY
            previous = f"a:1-{before}" if before else ""
            return 0, f"x\t4\tFormat_desc\t1\t126\tv4\nx\t126\tPrevious_gtids\t1\t197\t{previous}\n"
        if statement == render_position_sql("mysql") and name in self.executed:
            return 0, f"{self.executed[name]}\t\n"
        return super()._administrator(argv, daemon)


class KeepingWorld(GrowthWorld):
    """`demo` runs, and has as many binary logs as are asked for."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.keeping = {name: KeepingHost(name, self.fuse) for name in ("h1", "h2")}
        self.filling = dict(self.keeping)
        self.hosts = dict(self.keeping)
        self.fleet = FakeFleet(list(self.hosts.values()), ADDRESSES)
        self.volumes: FillingVolumes = FillingVolumes(self.fleet, self.fuse, self.clock)
        self.keeper = BinlogKeeper()
        self.records = self.service().operations.records
        put_database(self)
        self.use(2 * 2**30)

    @property
    def server(self) -> KeepingHost:
        return self.keeping["h1"]

    def write_logs(self, count: int, *, size: int, apart_s: float = 600.0) -> None:
        """Logs 1 to `count`, each ended so long after the one before; the last is in use."""
        attachment = self.volumes.get("demo").attachment
        assert attachment is not None
        now = self.clock.now()
        self.server.mount_of[server_daemon_name("demo")] = attachment.mount_path
        self.server.logs[attachment.mount_path] = [
            (
                f"binlog.{n:06d}",
                size,
                (now - timedelta(seconds=apart_s * (count - n))).timestamp(),
            )
            for n in range(1, count + 1)
        ]

    def add_replica(self, name: str, executed: int | None) -> None:
        """A replica that has applied so many transactions; None: it does not answer."""
        record = put_database(self, name)
        spec = record.spec.model_copy(
            update={"replica_of": "demo", "address": f"10.9.0.{len(name)}"}
        )
        self.records.put(record.model_copy(update={"spec": spec}))
        if executed is not None:
            self.server.executed[server_daemon_name(name)] = f"a:1-{executed}" if executed else ""

    def archive_to(self, log: int | None, *, by_schedule: bool = True, end: int = 200) -> None:
        """The archive's last piece is of that log; None: it has none yet."""
        record = self.records.get("demo")
        schedule = BackupSchedule(place=PLACE, every_s=3600, archives=True) if by_schedule else None
        self.records.put(record.model_copy(update={"backup_schedule": schedule}))
        piece = None
        if log is not None:
            name = f"binlog.{log:06d}"
            tail = tail_of((name.encode() * 10_000)[:end])
            piece = f"{name}/{0:015d}-{end:015d}-{tail}"
        self.records.put_backup_state(
            "demo",
            BackupState(
                created_at=record.created_at,
                place=PLACE.url,
                copied_until=self.clock.now(),
                archive_end=ArchiveEnd(stretch="s", last_piece=piece),
            ),
        )

    def keep(self) -> list[ControllerEvent]:
        """The keeper's next look."""
        return self.keeper.run(self.service().operations)
