"""A lab of fakes whose servers write binary logs, and apply such logs as relay logs.

A row is a word in the data directory, and so is each GTID that its server has executed.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath

from grampus.core.streams import ByteReader, ByteWriter
from grampus.core.units import GIB
from grampus.databases.backup.archiving import BinlogArchiver
from grampus.databases.backup.backups import DatabaseBackups
from grampus.databases.backup.binlogs import BINLOGS_QUERY
from grampus.databases.backup.replay_sql import DURABLE, EVENTS_SQL, EXECUTED_SQL
from grampus.databases.backup.restores import DatabaseRestores, RestoreRequest
from grampus.databases.layout import RUN_IN_DAEMON
from grampus.databases.stopping import DISMISS
from tests.fakes.hosts import FakeFile, FakeFleet
from tests.fakes.interruption import Fuse
from tests.fakes.mysql_host import MysqlDaemon, MysqlHost
from tests.fakes.volumes import FakeVolumes
from tests.unit.databases.world import ADDRESSES, World

from .existing import ROWS, place, put_database, write, write_rows
from .made_binlogs import SERVER, begin, rows_of, transaction

LOGS = PurePosixPath("binlog")
GTIDS = PurePosixPath("data/gtids")
_START = re.compile(r"RELAY_LOG_FILE = '(?P<file>[^']+)'.*FOR CHANNEL '(?P<channel>\w+)'; START")
_CHANNEL = re.compile(r"CHANNEL(?:_NAME =)? '(?P<channel>\w+)'")


class LoggingHost(MysqlHost):
    """A host that streams files, and whose servers apply relay logs."""

    def __init__(self, name: str, fuse: Fuse) -> None:
        super().__init__(name, fuse)
        self.free_bytes = 10**12
        self.apply_error = ""  # what stops an applier
        self.lost_at_stop = ""  # a row that the server which applied did not keep
        self.skipped = ""  # a row that an applier passes over, and says nothing
        self.events: list[str] = []  # as the server lists them before anything is applied
        self.events_after: list[str] | None = None
        self.statements: list[str] = []  # that the server which applies was given
        self.most_relay_bytes = 0  # that lay on the host at a time

    @contextmanager
    def reading(self, argv: Sequence[str]) -> Iterator[ByteReader]:
        options = _options(argv)
        content = self.files[PurePosixPath(options["if"])].content.encode("latin-1")
        start, count = int(options.get("skip", "0")), int(options["count"])
        yield io.BytesIO(content[start : start + count])

    @contextmanager
    def writing(self, argv: Sequence[str]) -> Iterator[ByteWriter]:
        self.fuse.burn()
        path, sink = PurePosixPath(_options(argv)["of"]), io.BytesIO()
        self.files[path] = FakeFile("")
        self.fuse.burn()
        yield sink
        self.files[path] = FakeFile(sink.getvalue().decode("latin-1"))
        relays = [len(f.content) for p, f in self.files.items() if p.name.startswith("relay-r")]
        self.most_relay_bytes = max(self.most_relay_bytes, sum(relays))
        self.fuse.burn()

    def play(self, argv: list[str], stdin: str | None, daemon: str | None) -> tuple[int, str]:
        if argv[0] == "df":
            return 0, f"Avail\n{self.free_bytes}\n"
        if self.runs(daemon):
            running = self.daemons[daemon or ""]
            said = self._ask(argv[-1], running, daemon or "")
            if said is not None:
                code, text = self._login(stdin or "", running)
                return code, text or said
        return super().play(argv, stdin, daemon)

    def _ask(self, statement: str, daemon: MysqlDaemon, name: str) -> str | None:
        """What a server on a restored volume answers; None: it is for somebody else."""
        data = next((b.source for b in daemon.spec.binds if "/volumes/" in b.source), None)
        if data is None:
            return None
        volume = PurePosixPath(data)
        if statement == EXECUTED_SQL:
            return ",".join(self.files[volume / GTIDS].content.split()) + "\n"
        if not name.startswith("mysqld-init-"):
            return None
        self.statements.append(statement)
        if statement == EVENTS_SQL:
            listed, self.events = self.events, self.events_after or self.events
            return "".join(f"{row}\n" for row in listed)
        if statement == DISMISS:
            if self.lost_at_stop:
                gtids = self.files[volume / GTIDS]
                gtids.content = " ".join(gtids.content.split()[:-1])
            return None
        if statement == DURABLE or "RESET REPLICA ALL" in statement or "ENABLE" in statement:
            self.fuse.burn()
            return ""
        if started := _START.search(statement):
            self._apply(PurePosixPath(started["file"]), started["channel"], daemon, volume)
            return ""
        if "replication_applier_status" in statement:
            state = "OFF" if self.apply_error else "ON"
            gtids = ",".join(self.files[volume / GTIDS].content.split())
            return f"{state}\t{self.apply_error}\t{gtids}\t0\n"
        return None

    def _apply(
        self, first: PurePosixPath, channel: str, daemon: MysqlDaemon, volume: PurePosixPath
    ) -> None:
        """Each transaction once, and the files are gone once they are applied."""
        run = next(b.source for b in daemon.spec.binds if b.target == str(RUN_IN_DAEMON))
        here = PurePosixPath(run) / first.parent.relative_to(RUN_IN_DAEMON)
        index = self.files[here / f"relay-{channel}.index"].content.split()
        assert index[0] == str(first)
        rows, gtids = self.files[volume / ROWS], self.files[volume / GTIDS]
        for name in index:
            path = here / PurePosixPath(name).name
            for gtid, row in rows_of(self.files[path].content.encode("latin-1")):
                if self.apply_error:
                    return
                if gtid in gtids.content.split():
                    continue
                self.fuse.burn()
                if row != self.skipped:
                    rows.content = f"{rows.content} {row}"
                    gtids.content = f"{gtids.content} {gtid}"
            del self.files[path]


class ReplayWorld(World):
    """A world of such hosts, with a database `demo` once it is filled."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.shelf = root / "shelf"
        hosts = [LoggingHost(name, self.fuse) for name in ("h1", "h2")]
        self.logging_hosts = {host.name: host for host in hosts}
        self.hosts = {host.name: host for host in hosts}
        self.fleet = FakeFleet(hosts, ADDRESSES)
        self.volumes = FakeVolumes(self.fleet, self.fuse, self.clock)
        self.moment = self.clock.now()
        self._logs: dict[str, bytes] = {}
        self._written: list[int] = []

    def fill(self) -> None:
        """Backed up with the row `one`; `two` and `three` came later, and `moment` is between."""
        self.begin()
        for row in ("two", "three"):
            self.clock.sleep(3600)
            self.commit(row)
            self.moment = self.clock.now() if row == "three" else self.moment
        self.clock.sleep(60)
        self.archive()
        self.service().resize("demo", 20 * GIB)

    def begin(self) -> None:
        """Backed up with the row `one`."""
        put_database(self)
        self.rotate()
        self.clock.sleep(3600)
        write_rows(self, "one")
        self.commit("one")
        self.clock.sleep(1)
        self.back_up()

    def back_up(self) -> None:
        DatabaseBackups(self.service().operations).create("demo", place(self.shelf))

    def archive(self, **wishes: bool) -> None:
        self._tell()
        BinlogArchiver(self.service().operations).archive("demo", place(self.shelf), **wishes)

    def restore(self, moment: datetime | None = None) -> None:
        request = RestoreRequest("again", place(self.shelf), moment=moment)
        DatabaseRestores(self.service()).restore(request)

    def rows(self, name: str = "again") -> list[str]:
        attachment = self.volumes.get(name).attachment
        assert attachment is not None
        files = self.hosts[attachment.host].files
        return files[PurePosixPath(attachment.mount_path) / ROWS].content.split()

    # -- what the server of demo does ---------------------------------------------------------

    def commit(self, row: str, *, committed: datetime | None = None, at_s: int = 1) -> None:
        """A transaction that is in the newest log; `at_s` is the time that its session set."""
        number = max(self._written, default=0) + 1
        made = transaction(number, committed or self.clock.now(), row, at_s=at_s)
        self._written.append(number)
        newest = max(self._logs)
        self._logs[newest] += made
        self._tell()

    def rotate(self) -> None:
        """A new log."""
        previous = {SERVER: (1, max(self._written))} if self._written else {}
        self._logs[f"binlog.{len(self._logs) + 1:06d}"] = begin(previous, at_s=self._now_s())
        self._tell()

    def reset(self) -> None:
        """RESET BINARY LOGS AND GTIDS: numbers begin again, of logs and of transactions."""
        self._logs, self._written = {"binlog.000001": begin(at_s=self._now_s())}, []
        self._tell()

    def _now_s(self) -> int:
        return int(self.clock.now().timestamp())

    def _tell(self) -> None:
        mount = PurePosixPath("/data/volumes/demo")
        for path in [p for p in self.hosts["h1"].files if p.parent == mount / LOGS]:
            del self.hosts["h1"].files[path]
        for name, content in self._logs.items():
            write(self, LOGS / name, content.decode("latin-1"), "demo")
        executed = [f"{SERVER}:{number}" for number in self._written]
        write(self, GTIDS, " ".join(executed), "demo")
        listed = [f"{name}\t{len(log)}\tNo\n" for name, log in self._logs.items()]
        answers = self.hosts["h1"].admin_answers
        time = f"{self.clock.now():%Y-%m-%d %H:%M:%S.%f}"
        answers[BINLOGS_QUERY] = f"{SERVER}\t{time}\n" + "".join(listed)
        answers["SELECT @@GLOBAL.gtid_executed"] = ",".join(executed) + "\n"


def _options(argv: Sequence[str]) -> dict[str, str]:
    assert argv[0] == "dd"
    return dict(word.split("=", 1) for word in argv[1:])
