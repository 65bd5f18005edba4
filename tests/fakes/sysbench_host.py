"""Stand-ins at the ports: a host whose mysql and sysbench are played."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import PurePosixPath

from pydantic import SecretStr

from grampus.bench.measured_ports import IoDevice
from grampus.core.errors import NotFoundError
from grampus.databases.model import DatabaseRecord, Endpoint
from grampus.hosts.port import CommandResult, Usage
from grampus.state.runs import Setting
from tests.fakes.clock import FakeClock
from tests.fakes.hosts import FakeHost
from tests.fakes.interruption import Fuse
from tests.fakes.specs import database_spec

PASSWORD = "Secret0Word"
MIB = 1024 * 1024

RUN_HEAD = """sysbench 1.0.20 (using system LuaJIT 2.1.1761786044)

Running the test with following options:
Number of threads: 8
Report intermediate results every 1 second(s)
Initializing random number generator from current time

Initializing worker threads...

Threads started!
"""
TRANSACTIONS = 1638
RUN_TAIL = """Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       7.702 |                                         1
      19.645 |**************************************** 1636
      47.472 |                                         1

SQL statistics:
    queries performed:
        read:                            22932
        write:                           6552
        other:                           3276
        total:                           32760
    transactions:                        1638   ({tps} per sec.)
    queries:                             32760  (8160.41 per sec.)
    ignored errors:                      {errors}      (0.00 per sec.)
    reconnects:                          {reconnects}      (0.00 per sec.)

General statistics:
    total time:                          {elapsed_s:.4f}s
    total number of events:              1638

Latency (ms):
         min:                                    7.73
         avg:                                   19.57
         max:                                   47.82
         99th percentile:                       38.25
         sum:                                32050.38

Threads fairness:
    events (avg/stddev):           204.7500/3.38
    execution time (avg/stddev):   4.0063/0.00
"""


def interval_line(second: int, tps: float) -> str:
    return (
        f"[ {second}s ] thds: 8 tps: {tps:.2f} qps: {tps * 20:.2f} "
        f"(r/w/o: {tps * 14:.2f}/{tps * 4:.2f}/{tps * 2:.2f}) "
        "lat (ms,99%): 43.39 err/s: 0.00 reconn/s: 0.00"
    )


def run_tail(*, tps: float, errors: int, reconnects: int) -> str:
    """The final block of a run with 1638 transactions, whose time follows from their rate."""
    elapsed_s = TRANSACTIONS / tps
    return RUN_TAIL.format(tps=tps, elapsed_s=elapsed_s, errors=errors, reconnects=reconnects)


def run_output(
    seconds: int, *, tps: float = 408.02, errors: int = 0, reconnects: int = 0
) -> list[str]:
    middle = [interval_line(second, tps) for second in range(1, seconds + 1)]
    tail = run_tail(tps=tps, errors=errors, reconnects=reconnects)
    return [*RUN_HEAD.splitlines(), *middle, *tail.splitlines()]


@dataclass
class FakeServer:
    """What one instance knows, and how it answers the few statements that bench sends."""

    tables: dict[str, int] = field(default_factory=dict)  # rows by table
    marker: tuple[int, int, str] | None = None
    variables: dict[str, str] = field(default_factory=lambda: {"sync_binlog": "1"})
    require_tls: bool = True
    refusal: str = ""
    statements: list[str] = field(default_factory=list)

    def answer(self, statements: str) -> str:
        self.statements.append(statements)
        rows: list[list[str]] = []
        for statement in filter(None, (part.strip() for part in statements.split(";\n"))):
            rows += self._answer_one(statement)
        return "".join("\t".join(row) + "\n" for row in rows)

    def _answer_one(self, statement: str) -> list[list[str]]:
        if statement.startswith("select @@global.require_secure_transport"):
            return [["1" if self.require_tls else "0"]]
        if statement.startswith("show create user"):
            return [["CREATE USER `demo`@`%` IDENTIFIED WITH 'caching_sha2_password' REQUIRE NONE"]]
        if statement.startswith("select @@global.datadir"):
            return [["/var/lib/mysql/data/", "/srv/tls/ca.pem"]]
        if statement.startswith("show global variables"):
            return [[name, value] for name, value in self.variables.items()]
        if statement.startswith("select table_name"):
            return [[name] for name in self.tables]
        if statement.startswith("select `tables`"):
            return [[str(word) for word in self.marker]] if self.marker else []
        if statement.startswith("select 'sbtest"):
            names = re.findall(r"select '(sbtest\d+)'", statement)
            return [
                [name, str(min(1, self.tables[name])), *2 * [str(self.tables[name])]]
                for name in names
            ]
        if statement.startswith("drop table if exists"):
            name = statement.rpartition(".")[2]
            self.tables.pop(name, None)
            if name == "grampus_dataset":
                self.marker = None
        if statement.startswith("create table sbtest.grampus_dataset"):
            self.tables["grampus_dataset"] = 1
        if statement.startswith("insert into sbtest.grampus_dataset"):
            match = re.search(r"\((\d+), (\d+), '(.+)'\)", statement)
            assert match is not None
            self.marker = (int(match[1]), int(match[2]), match[3])
        if statement.startswith("select ifnull((select max(id)"):
            return [[str(sum(self.tables.values()))]]
        return []


class FakeCommand:
    """A sysbench that prints given lines; one of them may raise what reading would raise."""

    def __init__(
        self,
        argv: Sequence[str],
        lines: Sequence[str | BaseException],
        *,
        returncode: int = 0,
        stderr: str = "",
        clock: FakeClock | None = None,
    ) -> None:
        self.argv = tuple(argv)
        self.terminated = threading.Event()
        self._lines = lines
        self._returncode = returncode
        self._stderr = stderr
        self._clock = clock

    def lines(self) -> Iterator[str]:
        for line in self._lines:
            if isinstance(line, BaseException):
                raise line
            if self._clock is not None and line.startswith("[ "):
                self._clock.sleep(1.0)
            yield line

    def wait(self) -> CommandResult:
        return CommandResult(self.argv, self._returncode, "", self._stderr)

    def terminate(self) -> None:
        self.terminated.set()


class SysbenchHost(FakeHost):
    """A host with instances behind `mysql`, and sysbench."""

    def __init__(
        self, name: str = "h1", *, clock: FakeClock | None = None, fuse: Fuse | None = None
    ) -> None:
        super().__init__(name, fuse=fuse)
        self.clock = clock
        self.servers: dict[str, FakeServer] = {}  # by address
        self.flushing_until_s = 0.0  # on the clock: till then all daemons write
        self.usage_errors: list[Exception] = []
        self.spawned: list[FakeCommand] = []
        # What a spawned sysbench does instead of the ordinary; keyed by "SCRIPT COMMAND".
        self.scripts: dict[str, Callable[[Sequence[str]], FakeCommand]] = {}
        self.cats_fail = False

    def server_of(self, config_file: str) -> FakeServer:
        match = re.search(r"host=(\S+)", self.text(config_file))
        assert match is not None
        return self.servers[match[1]]

    def play(self, argv: list[str], stdin: str | None, daemon: str | None) -> tuple[int, str]:
        if argv[0] == "mysql":
            server = self.servers[PurePosixPath(argv[1].partition("=")[2]).parent.name]
            return (1, server.refusal) if server.refusal else (0, server.answer(stdin or ""))
        if argv[0] == "cat":
            missing = f"cat: {argv[1]}: No such file"
            return (1, missing) if self.cats_fail else (0, f"{argv[1]} of {daemon}")
        if argv[0] == "rm":
            for path in self.below(PurePosixPath(argv[-1])):
                del self.files[path]
            return 0, ""
        if argv == ["sysbench", "--version"]:
            return 0, "sysbench 1.0.20\n"
        return super().play(argv, stdin, daemon)

    def spawn(self, argv: Sequence[str], *, stdin: str | None = None) -> FakeCommand:
        script, command = PurePosixPath(argv[-2]).stem, argv[-1]
        play = self.scripts.get(f"{script} {command}")
        spawned = play(argv) if play else self._ordinary(argv, command)
        self.spawned.append(spawned)
        return spawned

    def _ordinary(self, argv: Sequence[str], command: str) -> FakeCommand:
        options = dict(word[2:].split("=", 1) for word in argv if word.startswith("--c"))
        values = {word.split("=")[0]: word.split("=")[-1] for word in argv}
        if command == "prepare":
            server = self.server_of(options["config-file"])
            for number in range(1, int(values["--tables"]) + 1):
                server.tables[f"sbtest{number}"] = int(values["--table-size"])
            return FakeCommand(argv, ["Creating table 'sbtest1'..."])
        return FakeCommand(argv, run_output(int(values["--time"])), clock=self.clock)

    def observe_usage(self) -> dict[str, Usage]:
        if self.usage_errors:
            raise self.usage_errors.pop(0)
        if self.clock is None:
            return dict(self.usage)
        written = int(1000 * min(self.clock.monotonic_s(), self.flushing_until_s))
        return {name: replace(usage, write_ops=written) for name, usage in self.usage.items()}


class FakeDatabases:
    """The database `demo` on h1, and its scratch instance."""

    def __init__(self, *, size_bytes: int = 2048 * MIB, buffer_pool_bytes: int = 48 * MIB) -> None:
        self.scratch_running = False
        self.record = DatabaseRecord(
            spec=database_spec(
                name="demo",
                size_bytes=size_bytes,
                memory_bytes=256 * MIB,
                pool="grampus",
                address="10.0.1.1",
                server_id=1,
            ),
            user="demo",
            server_version="9.7.4",
            buffer_pool_bytes=buffer_pool_bytes,
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
        )

    def get(self, name: str) -> DatabaseRecord:
        if name != "demo":
            raise NotFoundError(f"There is no database named '{name}'.")
        return self.record

    def endpoint(self, name: str) -> Endpoint:
        return make_endpoint("10.0.1.1", "mysqld-demo")

    def ensure_local_instance(self, name: str) -> Endpoint:
        self.scratch_running = True
        return make_endpoint("10.0.1.2", "mysqld-local-demo")

    def ensure_local_instance_absent(self, name: str) -> None:
        self.scratch_running = False


@dataclass
class FakeDevices:
    devices: list[IoDevice] = field(default_factory=list)

    def io_devices(self) -> list[IoDevice]:
        return self.devices


class FakeFacts:
    def facts(self) -> list[Setting]:
        return [Setting(group="versions", name="ceph", value="20.2.4")]


def make_endpoint(address: str, daemon: str, *, password: str = PASSWORD) -> Endpoint:
    return Endpoint(
        address=address,
        port=3306,
        user="demo",
        password=SecretStr(password),
        daemon=daemon,
        host="h1",
        option_file=f"/data/databases/{address}/client.cnf",
    )
