"""A scratch MySQL instance whose data lie on the suite's volume.

The data set is loaded once, on the host's own disk, where that takes seconds; then its files are
copied to the volume. In each round the instance is started on the volume, measured, and stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from grampus.bench.client import ArmClient, ensure_client_files, ensure_client_files_absent
from grampus.bench.paths.cpu import CpuWatch, cpu_used_us
from grampus.bench.paths.histogram import LatencyHistogram
from grampus.bench.paths.load import Figure
from grampus.bench.paths.suite import DATABASE_MEASURE, Database, Scale
from grampus.bench.paths.sysbench_histogram import parse_histogram
from grampus.bench.plan import DATA_BYTES_PER_ROW, QuickPlan
from grampus.bench.sysbench import (
    LOAD_TIMEOUT_S,
    TimedRun,
    prepare_argv,
    run_argv,
    run_timed,
)
from grampus.bench.sysbench_output import Interval, describe_failure
from grampus.core.clock import Clock
from grampus.databases.credentials import Credentials
from grampus.databases.instance import ensure_files, ensure_initialised, ensure_serving
from grampus.databases.layout import InstancePlan, client_option_file, server_daemon
from grampus.databases.model import MYSQL_PORT, Endpoint, FlavourName
from grampus.databases.settings import decide_server_settings
from grampus.hosts.port import Host

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
_SCRIPT = "oltp_update_index"


@dataclass(frozen=True)
class DatabasePlace:
    """Where the instance runs and keeps what is not on the volume."""

    host: Host
    directory: PurePosixPath
    image_id: str | None  # the host image with the server; None: the host's own


class ScratchDatabase:
    """The instance of one run; `ensure_database_absent` takes away what it leaves."""

    def __init__(
        self,
        place: DatabasePlace,
        database: Database,
        scale: Scale,
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
        self._local = decide_instance(place, scale)
        self._load = decide_load(database, scale)
        self._version = ""

    @property
    def server_version(self) -> str:
        """The server's version, once it has been loaded."""
        return self._version

    def load(self) -> None:
        """Make the data set on the host's own disk, and stop the instance cleanly.

        Raises GrampusError when the server does not start, SysbenchError when loading fails.
        """
        ensure_files(self._host, self._local, self._credentials)
        ensure_initialised(self._host, self._local, self._credentials, self._clock)
        daemon = server_daemon(self._local)
        self._host.ensure_daemon(replace(daemon, argv=(*daemon.argv, *_LOAD_OPTIONS)))
        self._version = ensure_serving(self._host, self._local, self._clock)
        client = self._client()
        client.query("create database if not exists sbtest;\n")
        argv = prepare_argv(client, self._load)
        result = self._host.run(argv, timeout_s=LOAD_TIMEOUT_S, check=False)
        self._write_raw("database.prepare.txt", f"{result.stdout}{result.stderr}")
        failure = describe_failure(
            "loading the data set", result.returncode, (result.stdout, result.stderr)
        )
        if failure is not None:
            raise failure
        tables = ", ".join(f"sbtest.sbtest{table + 1}" for table in range(self._load.tables))
        client.query(f"analyze table {tables};\n", timeout_s=600)
        self._stop()

    def install(self, mount_path: PurePosixPath) -> None:
        """Put the loaded data on the volume mounted at `mount_path`; those on the disk go."""
        target = _data_on(mount_path)
        self._host.run(
            ["cp", "-a", "--", str(self._local.volume), str(target)], timeout_s=COPY_TIMEOUT_S
        )
        self._host.run(["sync", "-f", str(target)], timeout_s=COPY_TIMEOUT_S)
        self._host.run(["rm", "-rf", "--", str(self._local.volume)])

    def measure(self, mount_path: PurePosixPath, *, name: str, driver_daemon: str | None) -> Figure:
        """Start on the volume, warm up, measure, and stop.

        `name` is that of the raw files. Raises GrampusError and SysbenchError; the instance is
        stopped all the same.
        """
        plan = replace(self._local, volume=_data_on(mount_path))
        try:
            ensure_serving(self._host, plan, self._clock)
            client = self._client()
            if self._scale.warmup_s:
                self._run(client, f"{name}.warm-up", self._scale.warmup_s)
            with CpuWatch(self._host, self._clock) as watch:
                timed = self._run(client, f"{name}.measuring", self._scale.measure_s)
        finally:
            self._stop()
        daemons = [name for name in (DATABASE_DAEMON, driver_daemon) if name is not None]
        cpu_us = cpu_used_us(watch.readings, daemons, timed.started_at_s, timed.ended_at_s)
        text = (self._raw_dir / f"{name}.measuring.txt").read_text(encoding="utf-8")
        return decide_database_figure(timed, parse_histogram(text), cpu_us)

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

    def _run(self, client: ArmClient, name: str, duration_s: int) -> TimedRun:
        def ignore(at_s: float, interval: Interval) -> None:
            del at_s, interval

        return run_timed(
            client,
            run_argv(client, self._load, script=_SCRIPT, duration_s=duration_s, histogram=True),
            what=name,
            raw_file=self._raw_dir / f"{name}.txt",
            clock=self._clock,
            on_interval=ignore,
        )

    def _stop(self) -> None:
        self._host.ensure_daemon_absent(DATABASE_DAEMON)

    def _write_raw(self, name: str, text: str) -> None:
        self._raw_dir.mkdir(parents=True, exist_ok=True)
        (self._raw_dir / name).write_text(text, encoding="utf-8")


def ensure_database_absent(host: Host, directory: PurePosixPath) -> None:
    """Server, files and password gone from the host. The volume is not touched."""
    for daemon in (INIT_DAEMON, DATABASE_DAEMON):
        host.ensure_daemon_absent(daemon, kill=True)
    ensure_client_files_absent(host, directory)


def decide_instance(place: DatabasePlace, scale: Scale) -> InstancePlan:
    """The instance as it is loaded: its data in `place`, everything else the same later on."""
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
        settings=decide_server_settings(FLAVOUR, scale.filesystem_bytes, scale.memory_bytes, CPUS),
    )


def decide_load(database: Database, scale: Scale) -> QuickPlan:
    """sysbench's side of it: tables, rows and threads."""
    return QuickPlan(
        tables=database.tables,
        rows_per_table=scale.rows_per_table,
        dataset_bytes=database.tables * scale.rows_per_table * DATA_BYTES_PER_ROW,
        volume_bytes=scale.filesystem_bytes,
        threads=database.threads,
        warmup_s=scale.warmup_s,
        measure_s=scale.measure_s,
        settle_max_s=0.0,
        distribution=database.distribution,
        fresh_data=True,
        cells=(),
        estimated_s=0.0,
    )


def decide_database_figure(
    timed: TimedRun, counts: Mapping[int, int], cpu_us: float | None
) -> Figure:
    """The figure of one sysbench run; `counts` is its latency histogram, by nanoseconds."""
    summary = timed.summary
    average_us = summary.latency_avg_ms * 1000
    return Figure(
        measure=DATABASE_MEASURE.name,
        started_at_s=timed.started_at_s,
        measured_s=summary.total_time_s,
        operations=summary.transactions,
        throughput=summary.tps,
        latency_avg_us=average_us,
        cpu_us_per_operation=(
            None if cpu_us is None or not summary.transactions else cpu_us / summary.transactions
        ),
        latency=LatencyHistogram(counts, average_us * 1000 * sum(counts.values())),
        flush=LatencyHistogram(),
    )


def _data_on(mount_path: PurePosixPath) -> PurePosixPath:
    return mount_path / "mysql"
