"""A scratch MySQL instance whose data lie on the suite's volume.

The data set is loaded once, on the host's own disk, where that takes seconds; then its files are
copied to each file system. In each block the instance is started there, measured, and stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from grampus.bench.calm import is_calm_in_time
from grampus.bench.client import ArmClient, ensure_client_files, ensure_client_files_absent
from grampus.bench.drivers.sysbench_command import sysbench_prepare_argv
from grampus.bench.latency.histogram import LatencyHistogram
from grampus.bench.paths.costs import OsdWrites, count_writes
from grampus.bench.paths.cpu import CpuWatch, cpu_used_us, osd_cpu_used_us
from grampus.bench.paths.load import Figure
from grampus.bench.paths.suite import Database, DatabaseMeasure, PathsScale
from grampus.bench.quick_plan import SysbenchTables
from grampus.bench.sysbench import TimedRun, make_load, read_prepare, run_timed, started
from grampus.core.clock import Clock
from grampus.databases.credentials import Credentials
from grampus.databases.instance import ensure_files, ensure_initialised
from grampus.databases.layout import (
    InstancePlan,
    client_option_file,
    render_config,
    server_daemon,
)
from grampus.databases.model import MYSQL_PORT, Endpoint, FlavourName
from grampus.databases.readiness import ensure_serving
from grampus.databases.settings import decide_server_settings
from grampus.hosts.port import Host
from grampus.volumes.model import WritePath

DATABASE_DAEMON = "bench-mysqld"
INIT_DAEMON = "bench-mysqld-init"
FLAVOUR: FlavourName = "mysql"
# On the host's own address, beside databases that have addresses of their own.
PORT = MYSQL_PORT + 30000
CPUS = 2.0
COPY_TIMEOUT_S = 1800.0
# While the data set is loaded nothing of it need survive a crash.
_LOAD_OPTIONS = (
    "--skip-log-bin",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=OFF",
)
# A server at rest still writes a page of its own now and then.
REST_PAGES = 8
PASS_TIMEOUT_S = 1800.0


@dataclass(frozen=True)
class DatabasePlace:
    """Where the instance runs and keeps what is not on the volume."""

    host: Host
    directory: PurePosixPath
    image_id: str | None  # the host image with the server; None: the host's own


@dataclass(frozen=True)
class Ground:
    """What the instance stands on in one block.

    `driver_daemon` serves the device, if one does. `is_drained` says whether all that was written
    is in the image, and `observe_writes` reads the OSDs' counters.
    """

    mount_path: PurePosixPath
    write_path: WritePath
    driver_daemon: str | None
    osd_hosts: Sequence[Host]
    is_drained: Callable[[], bool]
    observe_writes: Callable[[], OsdWrites]


class ScratchDatabase:
    """The instance of one run; `ensure_database_absent` takes away what it leaves."""

    def __init__(
        self,
        place: DatabasePlace,
        database: Database,
        scale: PathsScale,
        credentials: Credentials,
        *,
        clock: Clock,
        raw_dir: Path,
    ) -> None:
        self._host = place.host
        self._directory = place.directory
        self._scale = scale
        self._credentials = credentials
        self._clock = clock
        self._raw_dir = raw_dir
        self._local = decide_instance(place, scale, "direct")
        self._place = place
        self._load = decide_load(database, scale)
        self._version = ""

    @property
    def server_version(self) -> str:
        """The server's version, once it has been loaded."""
        return self._version

    def load(self) -> None:
        """Make the data set on the host's own disk, and stop the instance cleanly.

        Raises GrampusError when the server does not start, DriverError when loading fails.
        """
        ensure_files(self._host, self._local, self._credentials)
        ensure_initialised(self._host, self._local, self._credentials, self._clock)
        daemon = server_daemon(self._local)
        self._host.ensure_daemon(replace(daemon, argv=(*daemon.argv, *_LOAD_OPTIONS)))
        self._version = self._ensure_serving(self._local)
        client = self._client()
        client.query("create database if not exists sbtest;\n")
        with started(client, sysbench_prepare_argv(make_load(client, self._load))) as running:
            read_prepare(
                running,
                what="the loading of the data set",
                raw_file=self._raw_dir / "database.prepare.txt",
            )
        tables = ", ".join(f"sbtest.sbtest{table + 1}" for table in range(self._load.tables))
        client.query(f"analyze table {tables};\n", timeout_s=600)
        self._stop()

    def install(self, mount_path: PurePosixPath) -> None:
        """Put the loaded data on the file system mounted at `mount_path`."""
        target = _data_on(mount_path)
        self._host.run(
            ["cp", "-a", "--", str(self._local.volume), str(target)], timeout_s=COPY_TIMEOUT_S
        )
        self._host.run(["sync", "-f", str(target)], timeout_s=COPY_TIMEOUT_S)

    def forget_loaded(self) -> None:
        """The data as they were loaded go; each file system has its own."""
        self._host.run(["rm", "-rf", "--", str(self._local.volume)])

    def measure(
        self,
        ground: Ground,
        measures: Sequence[DatabaseMeasure],
        *,
        name: str,
        counting_writes: Sequence[str],
        keep: Callable[[Figure], None],
    ) -> None:
        """Start on `ground`, measure one after the other, and stop.

        `name` begins those of the raw files. RADOS writes are counted for the measures named in
        `counting_writes`. Each figure is kept as it comes. Raises GrampusError and DriverError;
        the instance is stopped all the same.
        """
        plan = replace(
            decide_instance(self._place, self._scale, ground.write_path),
            volume=_data_on(ground.mount_path),
        )
        try:
            self._host.write_file(plan.config_file, render_config(plan))
            self._ensure_serving(plan)
            client = self._client()
            for measure in measures:
                keep(
                    self._measure_one(
                        client,
                        ground,
                        measure,
                        name=f"{name}.{measure.name}",
                        counts_writes=measure.name in counting_writes,
                    )
                )
        finally:
            self._stop()

    def _measure_one(
        self,
        client: ArmClient,
        ground: Ground,
        measure: DatabaseMeasure,
        *,
        name: str,
        counts_writes: bool,
    ) -> Figure:
        if measure.reads_all_first:
            client.query(render_pass(self._load.tables), timeout_s=PASS_TIMEOUT_S)
        writes_before = self._observe_writes_at_rest(client, ground) if counts_writes else None
        transactions = 0
        if self._scale.warmup_s:
            warm_up = self._run(client, measure, f"{name}.warm-up", self._scale.warmup_s)
            transactions += warm_up.result.operations
        with CpuWatch(self._host, self._clock, osd_hosts=ground.osd_hosts) as watch:
            timed = self._run(client, measure, f"{name}.measuring", self._scale.measure_s)
        transactions += timed.result.operations
        writes = None
        if writes_before is not None:
            writes_after = self._observe_writes_at_rest(client, ground)
            writes = None if writes_after is None else count_writes(writes_before, writes_after)
        daemons = [name for name in (DATABASE_DAEMON, ground.driver_daemon) if name is not None]
        span_s = (timed.started_at_s, timed.ended_at_s)
        figure = decide_database_figure(
            measure,
            timed,
            cpu_us=cpu_used_us(watch.readings, daemons, *span_s),
            osd_cpu_us=osd_cpu_used_us(watch.readings, *span_s),
        )
        if writes is None or not transactions:
            return figure
        return replace(figure, rados_writes_per_operation=writes / transactions)

    def _observe_writes_at_rest(self, client: ArmClient, ground: Ground) -> OsdWrites | None:
        """The OSDs' counters once all that was written before is in the image; else None.

        What a transaction makes the server write, and the journal apply, is done seconds after
        it: counted at once, a short run would look cheap.
        """

        def is_calm() -> bool:
            rows = client.query("show global status like 'Innodb_buffer_pool_pages_dirty';\n")
            return int(rows[0][1]) <= REST_PAGES and ground.is_drained()

        if is_calm_in_time(self._clock, is_calm, what="the server"):
            return ground.observe_writes()
        return None

    def _ensure_serving(self, plan: InstancePlan) -> str:
        password = self._credentials.admin_password
        return ensure_serving(self._host, plan, password, self._clock)

    def _client(self) -> ArmClient:
        endpoint = Endpoint(
            address=self._local.address,
            port=self._local.port,
            user=self._credentials.user,
            password=self._credentials.password,
            daemon=self._local.daemon,
            host=self._host.name,
            option_file=str(client_option_file(self._local.directory)),
        )
        return ensure_client_files(self._host, endpoint, FLAVOUR, self._directory / "sysbench")

    def _run(
        self, client: ArmClient, measure: DatabaseMeasure, name: str, duration_s: int
    ) -> TimedRun:
        tables = self._load
        if measure.threads is not None:
            tables = replace(tables, threads=measure.threads)
        return run_timed(
            client,
            make_load(client, tables, script=measure.script, duration_s=duration_s),
            what=name,
            raw_file=self._raw_dir / f"{name}.txt",
            clock=self._clock,
        )

    def _stop(self) -> None:
        self._host.ensure_daemon_absent(DATABASE_DAEMON)


def ensure_database_absent(host: Host, directory: PurePosixPath) -> None:
    """Server, files and password gone from the host. The volume is not touched."""
    for daemon in (INIT_DAEMON, DATABASE_DAEMON):
        host.ensure_daemon_absent(daemon, kill=True)
    ensure_client_files_absent(host, directory)


def decide_instance(place: DatabasePlace, scale: PathsScale, write_path: WritePath) -> InstancePlan:
    """The instance as it is loaded: its data in `place`.

    Later on it has its data elsewhere, and the settings that suit the write path there.
    """
    settings = decide_server_settings(
        FLAVOUR, scale.filesystem_bytes, scale.memory_bytes, CPUS, write_path=write_path
    )
    return InstancePlan(
        database="bench",
        daemon=DATABASE_DAEMON,
        init_daemon=INIT_DAEMON,
        directory=place.directory / "instance",
        volume=place.directory / "volume",
        flavour=FLAVOUR,
        image_id=place.image_id,
        address=place.host.address,
        port=PORT,
        server_id=1,
        memory_bytes=scale.memory_bytes,
        cpus=CPUS,
        settings=settings,
        # Nobody tells this server later when to delete binary logs.
        parameters={"binlog_expire_logs_seconds": str(settings.binlog_expire_s)},
    )


def decide_load(database: Database, scale: PathsScale) -> SysbenchTables:
    """sysbench's side of it: tables, rows and threads."""
    return SysbenchTables(
        tables=database.tables,
        rows_per_table=scale.rows_per_table,
        threads=database.threads,
        distribution=database.distribution,
        fresh_data=True,
    )


def render_pass(tables: int) -> str:
    """SQL that reads every page of the tables' data once."""
    tables_read = [f"sbtest.sbtest{table + 1}" for table in range(tables)]
    # No index holds `pad`, so the rows themselves are read.
    return "".join(f"select max(length(pad)) from {name};\n" for name in tables_read)  # noqa: S608


def decide_database_figure(
    measure: DatabaseMeasure,
    timed: TimedRun,
    *,
    cpu_us: float | None,
    osd_cpu_us: float | None,
) -> Figure:
    """The figure of one sysbench run."""
    result = timed.result

    def per_transaction(used_us: float | None) -> float | None:
        return None if used_us is None else used_us / result.operations

    return Figure(
        measure=measure.name,
        started_at_s=timed.started_at_s,
        measured_s=result.elapsed_s,
        operations=result.operations,
        throughput=result.operations_per_s,
        latency_avg_us=result.latency.average_us,
        cpu_us_per_operation=per_transaction(cpu_us),
        latency=result.latency,
        flush=LatencyHistogram(),
        osd_cpu_us_per_operation=per_transaction(osd_cpu_us),
    )


def _data_on(mount_path: PurePosixPath) -> PurePosixPath:
    return mount_path / "mysql"
