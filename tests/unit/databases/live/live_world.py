"""A lab of fakes whose servers have variables and limits that can be changed while they run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from grampus.core.errors import RefusedError
from grampus.core.units import GIB, MIB
from grampus.databases.creating import CREATE, CreateOrder
from grampus.databases.layout import CHECKED
from grampus.databases.live.live_settings import LiveSettings
from grampus.databases.live.moving import DatabaseMoves
from grampus.databases.live.parameters import DatabaseParameters
from grampus.databases.request import CreateRequest
from grampus.databases.view import CreatedDatabase
from grampus.hosts.port import DaemonSpec, Limits
from tests.fakes.hosts import FakeFleet
from tests.fakes.interruption import Fuse
from tests.fakes.mysql_host import MysqlDaemon, MysqlHost
from tests.fakes.volumes import FakeVolumes
from tests.unit.databases.world import ADDRESSES, World

CHUNK_BYTES = 16 * MIB
# name: (type in the catalogue, lowest, highest, value that a server has without an option file)
CATALOGUE = {
    "innodb_buffer_pool_size": ("Integer", "5242880", "9223372036854775807", "134217728"),
    "innodb_io_capacity": ("Integer", "100", "4294967295", "10000"),
    "innodb_io_capacity_max": ("Integer", "100", "4294967295", "20000"),
    "innodb_flush_log_at_trx_commit": ("Integer", "0", "2", "1"),
    "innodb_max_dirty_pages_pct": ("Numeric", "0", "0", "90"),
    "innodb_max_dirty_pages_pct_lwm": ("Numeric", "0", "0", "10"),
    "innodb_page_cleaners": ("Integer", "1", "64", "4"),
    "binlog_row_image": ("Enumeration", "0", "0", "FULL"),
    "slow_query_log": ("Boolean", "0", "0", "OFF"),
    "max_connections": ("Integer", "1", "100000", "151"),
    "max_allowed_packet": ("Integer", "1024", "1073741824", "67108864"),
    "max_prepared_stmt_count": ("Integer", "0", "4194304", "16382"),
    "table_open_cache": ("Integer", "1", "524288", "4000"),
    "table_definition_cache": ("Integer", "400", "524288", "2000"),
    "tmp_table_size": ("Integer", "1024", "0", "16777216"),
    "temptable_max_ram": ("Integer", "2097152", "0", "1073741824"),
    "innodb_log_buffer_size": ("Integer", "262144", "0", "67108864"),
    "innodb_redo_log_capacity": ("Integer", "8388608", "0", "104857600"),
    "binlog_transaction_dependency_history_size": ("Integer", "1", "1000000", "25000"),
    "performance_schema": ("Boolean", "0", "0", "OFF"),
    "time_zone": ("String", "0", "0", "SYSTEM"),
    "binlog_expire_logs_seconds": ("Integer", "0", "4294967295", "0"),
    "sql_select_limit": ("Integer", "0", "0", "18446744073709551615"),
}
READ_ONLY = {"innodb_page_cleaners", "performance_schema"}
WORDS = {"binlog_row_image": ("FULL", "MINIMAL", "NOBLOB")}


def render_pages(dirty: int, written: int) -> str:
    """What a server says of its changed pages, among others."""
    found = {"data": 9000, "dirty": dirty, "flushed": written, "total": 9500}
    rows = (f"Innodb_buffer_pool_pages_{name}\t{value}\n" for name, value in found.items())
    return "".join(rows)


class LiveServer:
    """The variables of one running server."""

    def __init__(self, config: str, fuse: Fuse) -> None:
        self._fuse = fuse
        given = dict(re.findall(r"^(\w+) = (.*)$", config, re.MULTILINE))
        self.from_file = set(given)
        self.default_zone = given.pop("default_time_zone", "SYSTEM")
        given["time_zone"] = self.default_zone
        self.values = {name: given.get(name, row[3]) for name, row in CATALOGUE.items()}
        self.dirty_pages = 500
        self.sizes: list[int] = []  # of the buffer pool, as it was changed
        self.new_binary_logs = 0

    def answer(self, statement: str) -> tuple[int, str]:
        if statement.startswith("SET "):
            return self._set(statement)
        if statement == "FLUSH BINARY LOGS":
            self.new_binary_logs += 1
            return 0, ""
        if statement.startswith("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_%'"):
            if float(self.values["innodb_max_dirty_pages_pct"]) == 0:
                self.dirty_pages = 0
            return 0, render_pages(self.dirty_pages, 0)
        if statement.startswith("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_resize_status_code'"):
            return 0, "Innodb_buffer_pool_resize_status_code\t0\n"
        if "performance_schema.variables_metadata" in statement:
            return 0, "".join(
                f"{name}\t{self.values[name]}\t{kind}\t{lowest}\t{highest}\t"
                f"{'EXPLICIT' if name in self.from_file else 'COMPILED'}\n"
                for name, (kind, lowest, highest, _) in CATALOGUE.items()
                if name in self.values
            )
        return 0, "\t".join(self._value(name) for name in re.findall(r"@@(\w+)", statement)) + "\n"

    def _value(self, name: str) -> str:
        if name == "innodb_buffer_pool_chunk_size":
            return str(CHUNK_BYTES)
        if name == "innodb_buffer_pool_instances":
            return "1"
        return {"ON": "1", "OFF": "0"}.get(self.values[name], self.values[name])

    def _set(self, statement: str) -> tuple[int, str]:
        for name, value in re.findall(r"GLOBAL (\w+) = ('[^']*'|[^,]+)", statement):
            if name in READ_ONLY:
                return 1, f"ERROR 1238 (HY000) at line 1: Variable '{name}' is a read only variable"
            if value.startswith("@@GLOBAL."):
                continue
            if value == "DEFAULT":
                value = self.default_zone if name == "time_zone" else CATALOGUE[name][3]
            value = value.strip("'")
            if name in WORDS and value not in WORDS[name]:
                return 1, f"ERROR 1231 (42000): Variable '{name}' can't be set to that"
            self._fuse.burn()
            self.values[name] = value
            self.from_file.discard(name)
            if name == "innodb_buffer_pool_size":
                self.sizes.append(int(value))
            self._fuse.burn()
        return 0, ""


class LiveHost(MysqlHost):
    """A host whose servers answer their administrator, and whose daemons' limits can change."""

    def __init__(self, name: str, fuse: Fuse) -> None:
        super().__init__(name, fuse)
        self.data_dir = PurePosixPath(f"/{name}")
        self.servers: dict[str, LiveServer] = {}
        self.limit_history: list[Limits] = []
        self.memory_in_use_bytes = 0
        self.passwords_seen: list[str | None] = []

    @property
    def limits(self) -> dict[str, Limits]:
        return {name: daemon.limits for name, daemon in self.daemons.items()}

    def start(self, spec: DaemonSpec) -> MysqlDaemon:
        self.servers.pop(spec.name, None)
        daemon = super().start(spec)
        if self.runs(spec.name) and spec.argv[0] != "/bin/sh" and daemon.proxy is None:
            self.server(spec.name)
        return daemon

    def server(self, daemon: str) -> LiveServer:
        """The server of a running daemon, as it was started."""
        if daemon not in self.servers:
            directory = PurePosixPath(self.daemons[daemon].spec.binds[0].source)
            config = self.files[directory / "my.cnf"].content
            self.servers[daemon] = LiveServer(config, self.fuse)
        return self.servers[daemon]

    def set_limits(self, name: str, limits: Limits) -> None:
        if (limits.memory_bytes or 0) < self.memory_in_use_bytes:
            raise RefusedError("It uses more.", code="memory-in-use")
        super().set_limits(name, limits)
        self.limit_history.append(limits)

    def _administrator(self, argv: Sequence[str], daemon: MysqlDaemon | None) -> tuple[int, str]:
        if daemon is None or daemon.state != "running":
            return 255, "no such container"
        return self.server(daemon.spec.name).answer(argv[-1])

    def _initialise(self, daemon: MysqlDaemon) -> None:
        if not daemon.spec.name.startswith("check-mysqld-"):
            super()._initialise(daemon)
            return
        daemon.state = "stopped"
        config = self.files[PurePosixPath(daemon.spec.binds[0].source) / "check.cnf"].content
        given = dict(re.findall(r"^(\w+) = (.*)$", config, re.MULTILINE))
        wrong = [name for name, words in WORDS.items() if given.get(name, words[0]) not in words]
        daemon.log = (
            "".join(
                f"[ERROR] [MY-000077] [Server] Error while setting '{name}'.\n" for name in wrong
            )
            or f"{CHECKED}\n"
        )


class LiveWorld(World):
    """A world of live hosts."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.live_hosts = {name: LiveHost(name, self.fuse) for name in ("h1", "h2")}
        self.hosts = dict(self.live_hosts)
        self.fleet = FakeFleet(list(self.hosts.values()), ADDRESSES)
        self.volumes = FakeVolumes(self.fleet, self.fuse, self.clock)

    def create(self, name: str = "demo", **wishes: object) -> CreatedDatabase:
        """A database with a data directory of its own: how it was made makes no difference here."""
        service = self.service()
        request = CreateRequest(name=name, size_bytes=10 * GIB, **wishes)  # type: ignore[arg-type]
        order = CreateOrder(spec=service.plan_create(request), golden=None)
        service.operations.run(CREATE, order)
        return service.made(name)

    def live(self) -> LiveSettings:
        return LiveSettings(self.service().operations)

    def parameters(self) -> DatabaseParameters:
        return DatabaseParameters(self.service().operations)

    def moves(self) -> DatabaseMoves:
        return DatabaseMoves(self.service().operations)

    def server(self, host: str = "h1", name: str = "demo") -> LiveServer:
        return self.live_hosts[host].server(f"mysqld-{name}")

    def inventory(self) -> dict[str, list[str]]:
        """As the world's, with what live changes change."""
        running = {
            (host.name, name): server
            for host in self.live_hosts.values()
            for name, server in sorted(host.servers.items())
            if name in host.daemons
        }
        return {
            **super().inventory(),
            "variables": [
                f"{host}:{name}:{key}={value}"
                for (host, name), server in running.items()
                for key, value in server.values.items()
            ],
            "limits": [
                f"{host}:{name}:{self.live_hosts[host].limits[name]}" for host, name in running
            ],
            "specs": [
                f"{record.spec}:{record.buffer_pool_bytes}:{record.started_parameters}"
                for record in self.service().operations.records.all().values()
            ],
            "configs": [
                f"{host.name}:{path}:{file.content}"
                for host in self.hosts.values()
                for path, file in sorted(host.files.items())
                if path.name == "my.cnf"
            ],
            "facts": [
                f"{n}:{image.lasting_facts}" for n, image in sorted(self.volumes.images.items())
            ],
        }
