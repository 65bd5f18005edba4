"""A lab of fakes whose servers write binary logs, and whose clients can replay them.

A binary log is lines here, `MOMENT ROW`; a row is in the data directory once, as a GTID is.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath

from grampus.core.streams import ByteReader, ByteWriter
from grampus.databases.backup.archiving import BinlogArchiver
from grampus.databases.backup.binlogs import BINLOGS_QUERY
from grampus.databases.backup.restores import DatabaseRestores, RestoreRequest
from grampus.databases.backup.service import DatabaseBackups
from grampus.hosts.port import CommandResult
from tests.unit.databases.fake_volumes import FakeVolumes
from tests.unit.databases.fakes import FakeFile, FakeFleet, FakeHost, Fuse
from tests.unit.databases.world import ADDRESSES, World

from .existing import ROWS, place, put_database, write, write_rows

UUID = "4f958cc3-e615-11f1-956b-223fda4be3b2"
LOGS = PurePosixPath("binlog")


class LoggingHost(FakeHost):
    """A host that streams files, and in whose daemons `mysqlbinlog` reads the lines above."""

    def __init__(self, name: str, fuse: Fuse) -> None:
        super().__init__(name, fuse)
        self._replay_fuse = fuse

    @contextmanager
    def reading(self, argv: Sequence[str]) -> Iterator[ByteReader]:
        options = _options(argv)
        content = self.files[PurePosixPath(options["if"])].content.encode()
        start, count = int(options["skip"]), int(options["count"])
        yield io.BytesIO(content[start : start + count])

    @contextmanager
    def writing(self, argv: Sequence[str]) -> Iterator[ByteWriter]:
        self._replay_fuse.burn()
        path, sink = PurePosixPath(_options(argv)["of"]), io.BytesIO()
        self.files[path] = FakeFile("")
        self._replay_fuse.burn()
        yield sink
        self.files[path] = FakeFile(sink.getvalue().decode())
        self._replay_fuse.burn()

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout_s: float = 60.0,
        check: bool = True,
        daemon: str | None = None,
    ) -> CommandResult:
        if argv[0] == "ls":
            below = self.below(PurePosixPath(argv[-1]))
            return CommandResult(tuple(argv), 0, "".join(f"{path.name}\n" for path in below), "")
        if argv[0] == "bash" and daemon is not None:
            moment, *files = argv[argv.index("bash", 1) + 1 :]
            code, said = self._replay(stdin or "", daemon, moment, files)
            return self._answer(argv, code, said, check=check)
        return super().run(argv, stdin=stdin, timeout_s=timeout_s, check=check, daemon=daemon)

    def _replay(
        self, options: str, daemon: str, moment: str, files: Sequence[str]
    ) -> tuple[int, str]:
        running = self.daemons.get(daemon)
        code, said = self._login(options, running)
        if code or running is None:
            return code, said
        self._replay_fuse.burn()
        running.is_offline = True
        data = next(b.source for b in running.spec.binds if "/volumes/" in b.source)
        rows = self.files[PurePosixPath(data) / ROWS]
        for file in files:
            for line in self.files[PurePosixPath(file)].content.splitlines():
                at, _, row = line.rpartition(" ")
                if at < moment and row not in rows.content.split():
                    self._replay_fuse.burn()
                    rows.content = f"{rows.content} {row}"
        self._replay_fuse.burn()
        return 0, ""


class ReplayWorld(World):
    """A world of such hosts, with a database `demo` once it is filled."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.shelf = root / "shelf"
        hosts = [LoggingHost(name, self.fuse) for name in ("h1", "h2")]
        self.hosts = {host.name: host for host in hosts}
        self.fleet = FakeFleet(hosts, ADDRESSES)
        self.volumes = FakeVolumes(self.fleet, self.fuse, self.clock)
        self.moment = self.clock.now()

    def fill(self) -> None:
        """Backed up with the row `one`; `two` and `three` came later, and `moment` is between."""
        put_database(self)
        self._log("")
        self.clock.sleep(3600)
        write_rows(self, "one")
        self.back_up()
        for row in ("two", "three"):
            self.clock.sleep(3600)
            self._commit(row)
            self.moment = self.clock.now() if row == "three" else self.moment
        self.clock.sleep(60)
        BinlogArchiver(self.service().operations).archive("demo", place(self.shelf))

    def back_up(self) -> None:
        DatabaseBackups(self.service().operations).create("demo", place(self.shelf))

    def restore(self, moment: datetime | None = None) -> None:
        request = RestoreRequest("again", place(self.shelf), moment=moment)
        DatabaseRestores(self.service()).restore(request)

    def _commit(self, row: str) -> None:
        at = self.clock.now()
        self._log(f"{at:%Y-%m-%d %H:%M:%S} {row}\n")

    def _log(self, line: str) -> None:
        mount = PurePosixPath("/data/volumes/demo")
        file = self.hosts["h1"].files.get(mount / LOGS / "binlog.000001", FakeFile(""))
        write(self, LOGS / "binlog.000001", file.content + line, "demo")
        size = len(file.content + line)
        answer = f"{UUID}\nbinlog.000001\t{size}\tNo\n"
        self.hosts["h1"].admin_answers[BINLOGS_QUERY] = answer


def _options(argv: Sequence[str]) -> dict[str, str]:
    assert argv[0] == "dd"
    return dict(word.split("=", 1) for word in argv[1:])
