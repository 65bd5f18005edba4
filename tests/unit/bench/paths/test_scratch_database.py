"""The scratch instance on one file system after the other: what is started, run and counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from pydantic import SecretStr

from grampus.bench.drivers.outcome import DriverError
from grampus.bench.paths.database import (
    DATABASE_DAEMON,
    DatabasePlace,
    Ground,
    ScratchDatabase,
)
from grampus.bench.paths.load import Figure
from grampus.bench.paths.suite import PathsSuite
from grampus.bench.quick_suite import load_suite
from grampus.databases.credentials import Credentials
from grampus.databases.readiness import READY_SQL
from grampus.hosts.port import CommandResult
from grampus.volumes.model import WritePath
from tests.fakes.client_words import with_statement
from tests.fakes.clock import FakeClock
from tests.fakes.sysbench_host import PASSWORD, FakeCommand, FakeServer
from tests.unit.bench.paths.fakes import PathsHost

MOUNTED = PurePosixPath("/data/volumes/bench-paths")
# Transactions of each run that is played.
TRANSACTIONS = 1638


class DatabaseHost(PathsHost):
    """A played server; its pages stay dirty for as many answers as `dirty_answers`."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.server = FakeServer(require_tls=False)
        self.dirty_answers = 0

    def run(
        self, argv: Sequence[str], *, stdin: str | None = None, **options: Any
    ) -> CommandResult:
        argv, stdin = with_statement(argv, stdin)
        return super().run(argv, stdin=stdin, **options)

    def play(self, argv: list[str], stdin: str | None, daemon: str | None) -> tuple[int, str]:
        if argv[0] != "mysql":
            return super().play(argv, stdin, daemon)
        assert stdin is not None
        assert daemon in self.daemons
        if argv[-1] in READY_SQL.values():
            return 0, "9.7.4\t0\n"
        if stdin.startswith("show global status like 'Innodb_buffer_pool_pages_dirty'"):
            self.dirty_answers -= 1
            dirty = 900 if self.dirty_answers >= 0 else 0
            return 0, f"Innodb_buffer_pool_pages_dirty\t{dirty}\n"
        return 0, self.server.answer(stdin)

    def scripts_run(self) -> list[tuple[str, str]]:
        """Script and time of each sysbench, in order."""
        found = []
        for command in self.spawned:
            (time,) = (word for word in command.argv if word.startswith("--time="))
            found.append((PurePosixPath(command.argv[-2]).stem, time))
        return found


def suite() -> PathsSuite:
    loaded = load_suite(Path(__file__).parents[4] / "suites", "paths")
    assert isinstance(loaded, PathsSuite)
    return loaded


class Bench:
    """One instance, and the figures that it gave."""

    def __init__(self, root: Path) -> None:
        self.clock = FakeClock()
        self.host = DatabaseHost(self.clock)
        self.figures: list[Figure] = []
        self.writes = iter([{0: 1000, 1: 50}, {0: 1000 + 3 * TRANSACTIONS, 1: 50}])
        self.drained: Callable[[], bool] = lambda: True
        words = {name: SecretStr(PASSWORD) for name in ("password", "admin_password")}
        self.database = ScratchDatabase(
            DatabasePlace(self.host, PurePosixPath("/data/bench/paths/database"), None),
            suite().database,
            suite().scales["tiny"],
            Credentials(user="bench", root_password=SecretStr(PASSWORD), **words),
            clock=self.clock,
            raw_dir=root / "raw",
        )

    def measure(self, *names: str, write_path: WritePath = "direct", counted: str = "") -> None:
        self.database.measure(
            Ground(
                mount_path=MOUNTED,
                write_path=write_path,
                driver_daemon="volumed-bench-paths",
                osd_hosts=[self.host],
                is_drained=lambda: self.drained(),
                observe_writes=lambda: next(self.writes),
            ),
            [one for one in suite().database.measures if one.name in names],
            name="round-01.journal",
            counting_writes=[counted],
            keep=self.figures.append,
        )


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_one_instance_serves_all_loads_and_is_stopped(bench: Bench, tmp_path: Path) -> None:
    bench.measure("update-index", "read-write", "point-select")
    assert [one.name for one in bench.host.started] == [DATABASE_DAEMON]
    assert bench.host.daemons == {}
    assert bench.host.scripts_run() == [
        (script, time)
        for script in ("oltp_update_index", "oltp_read_write", "oltp_point_select")
        for time in ("--time=1", "--time=3")
    ]
    assert [one.measure for one in bench.figures] == ["update-index", "read-write", "point-select"]
    assert bench.figures[0].throughput == pytest.approx(408.02, abs=0.01)
    assert bench.figures[0].rados_writes_per_operation is None
    raw = sorted(file.name for file in (tmp_path / "raw").iterdir())
    assert raw[0] == "round-01.journal.point-select.measuring.txt"
    (volume,) = (bind for bind in bench.host.started[0].binds if bind.source.startswith("/data/v"))
    assert volume.source == str(MOUNTED / "mysql")


def test_point_selects_are_measured_after_one_pass_over_all_rows(bench: Bench) -> None:
    bench.measure("update-index", "point-select")
    passes = [text for text in bench.host.server.statements if "max(length(pad))" in text]
    assert len(passes) == 1
    assert passes[0].count("sbtest.sbtest") == 4


@pytest.mark.parametrize(
    ("write_path", "method"), [("direct", "O_DIRECT"), ("journal", "O_DIRECT_NO_FSYNC")]
)
def test_the_settings_are_those_of_the_write_path(
    bench: Bench, write_path: WritePath, method: str
) -> None:
    bench.measure("update-index", write_path=write_path)
    config = bench.host.text("/data/bench/paths/database/instance/my.cnf")
    assert f"innodb_flush_method = {method}\n" in config


def test_writes_are_counted_until_all_of_them_are_in_the_image(bench: Bench) -> None:
    answers = iter([True, False, False, True])
    bench.drained = lambda: next(answers)
    bench.measure("update-index", "read-write", counted="update-index")
    update, mixed = bench.figures
    # Of the warm-up too: what it left to write is counted as well.
    assert update.rados_writes_per_operation == pytest.approx(1.5)
    assert mixed.rados_writes_per_operation is None
    assert next(answers, "none left") == "none left"


def test_dirty_pages_are_waited_for(bench: Bench) -> None:
    bench.host.dirty_answers = 3
    bench.measure("update-index", counted="update-index")
    assert bench.host.dirty_answers == -2
    assert bench.figures[0].rados_writes_per_operation == pytest.approx(1.5)


def test_what_never_comes_to_rest_costs_nobody_knows_what(bench: Bench) -> None:
    answers = iter([True])
    bench.drained = lambda: next(answers, False)
    bench.measure("update-index", counted="update-index")
    assert bench.figures[0].throughput == pytest.approx(408.02, abs=0.01)
    assert bench.figures[0].rados_writes_per_operation is None


def test_a_load_that_fails_keeps_what_came_before_and_stops_the_server(bench: Bench) -> None:
    bench.host.scripts["oltp_read_write run"] = lambda argv: FakeCommand(
        argv, ["FATAL: mysql_stmt_execute() returned error 1114"], returncode=1
    )
    with pytest.raises(DriverError):
        bench.measure("update-index", "read-write")
    assert [one.measure for one in bench.figures] == ["update-index"]
    assert bench.host.daemons == {}
