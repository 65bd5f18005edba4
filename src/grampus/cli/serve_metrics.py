"""`grampus serve --metrics`: metrics of the controller, the hosts, the databases and the volumes.

Without a password or TLS, as Prometheus expects of an exporter: so on this machine alone, unless
its user names another address. No metric holds a secret.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import version

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from grampus.cli.composition.names import warning_history
from grampus.cli.composition.session import Session
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError, UsageError
from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.databases.controller.loop import Tell
from grampus.databases.controller.metrics import ControllerMetrics
from grampus.databases.records import DatabaseRecords
from grampus.volumes.live import LiveVolume


def parse_metrics_place(text: str) -> tuple[str, int]:
    """Address and port of `ADDRESS:PORT`, or of `PORT` on this machine alone.

    Raises UsageError.
    """
    address, _, port = text.rpartition(":")
    try:
        place = str(ipaddress.ip_address(address.strip("[]"))) if address else "127.0.0.1"
    except ValueError:
        place = ""
    if not place or not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise UsageError(
            f"'{text}' is not an address for metrics.",
            "Write ADDRESS:PORT or PORT, such as --metrics 127.0.0.1:9470.",
        )
    return place, int(port)


class Exporter:
    """The metrics of one controller, over HTTP at /metrics."""

    def __init__(
        self, place: str, open_session: Callable[[], AbstractContextManager[Session]], clock: Clock
    ) -> None:
        """`place` is as `parse_metrics_place` reads it. Raises UsageError."""
        self._address, self._port = parse_metrics_place(place)
        self._registry = CollectorRegistry()
        self._registry.register(StateMetrics(open_session))
        self._metrics = ControllerMetrics(self._registry, clock)
        self.measure = self._metrics.measure

    def noting(self, tell: Tell) -> Tell:
        """`tell`, whose events are counted."""

        def note(job: str, event: ControllerEvent) -> None:
            self._metrics.note(job, event)
            tell(job, event)

        return note

    @contextmanager
    def serving(self) -> Iterator[None]:
        """To the end of the block. Raises GrampusError with code `address-in-use`."""
        try:
            server, thread = start_http_server(
                self._port, addr=self._address, registry=self._registry
            )
        except OSError as error:
            raise GrampusError(
                f"The metrics cannot be served at {self._address}:{self._port}: {error.strerror}.",
                "Choose another address with --metrics.",
                code="address-in-use",
            ) from error
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


class StateMetrics(Collector):
    """What is so when Prometheus asks: read from the state, and by one command for each host."""

    def __init__(self, open_session: Callable[[], AbstractContextManager[Session]]) -> None:
        self._open_session = open_session

    def describe(self) -> Iterable[Metric]:
        """Nothing is asked when the collector is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All metrics; while the lab is held by another command only that it is."""
        up = GaugeMetricFamily("grampus_state_up", "Whether the state could be read.")
        metrics: list[Metric] = []
        try:
            with self._open_session() as session:
                metrics = collect_state(session)
            up.add_metric([], 1)
        except GrampusError:
            up.add_metric([], 0)
        yield from [up, *metrics]


def collect_state(session: Session) -> list[Metric]:
    """The metrics of hosts, databases and volumes. Raises GrampusError."""
    records = DatabaseRecords(session.store, session.lab_name)
    return [
        _build_info(),
        *_hosts(session, records),
        *_databases(session, records),
        *_volumes(session),
    ]


def _build_info() -> Metric:
    build = GaugeMetricFamily("grampus_build_info", "The version of Grampus.", labels=["version"])
    build.add_metric([version("grampus")], 1)
    return build


def _hosts(session: Session, records: DatabaseRecords) -> list[Metric]:
    reachable = GaugeMetricFamily(
        "grampus_host_reachable", "Whether commands run on the host.", labels=["host"]
    )
    maintenance = GaugeMetricFamily(
        "grampus_host_maintenance", "Whether the host is in maintenance.", labels=["host"]
    )
    databases = GaugeMetricFamily(
        "grampus_host_databases", "Databases that are recorded on the host.", labels=["host"]
    )
    fleet, counts = session.fleet(), Counter(records.hosts().values())
    planned = records.all_maintenance()
    for host in fleet.hosts():
        reachable.add_metric([host.name], fleet.is_reachable(host.name))
        maintenance.add_metric([host.name], host.name in planned)
        databases.add_metric([host.name], counts[host.name])
    return [reachable, maintenance, databases]


def _databases(session: Session, records: DatabaseRecords) -> list[Metric]:
    info = GaugeMetricFamily(
        "grampus_database_info",
        "A database.",
        labels=["database", "host", "flavour", "version", "write_path", "replica_of"],
    )
    wanted = GaugeMetricFamily(
        "grampus_database_desired_running", "Whether it must run.", labels=["database"]
    )
    failed = GaugeMetricFamily(
        "grampus_database_failed",
        "Whether its server ended and is to be started again.",
        labels=["database"],
    )
    warnings = GaugeMetricFamily(
        "grampus_database_warnings",
        "Warnings that last, as `grampus db show` shows them.",
        labels=["database", "kind"],
    )
    for name, record in records.all().items():
        spec = record.spec
        info.add_metric(
            [
                *(name, spec.host, spec.flavour, record.server_version),
                *(spec.write_path, spec.replica_of or ""),
            ],
            1,
        )
        wanted.add_metric([name], record.desired == "running")
        failure = records.find_failure(name)
        failed.add_metric([name], failure is not None and failure.is_down)
    lasting = warning_history(session).lasting_of_kind("")
    for place, count in Counter((one.warned.subject, one.warned.kind) for one in lasting).items():
        warnings.add_metric(place, count)
    return [info, wanted, failed, warnings]


def _volumes(session: Session) -> list[Metric]:
    asked = GaugeMetricFamily(
        "grampus_volume_up", "Whether the volume's driver answers.", labels=["volume"]
    )
    silent = GaugeMetricFamily(
        "grampus_volume_stalled",
        "Whether its requests wait for a cluster that does not answer.",
        labels=["volume"],
    )
    fill = GaugeMetricFamily(
        "grampus_volume_journal_fill_ratio",
        "Journal in use, from 0 to 1: of memory or of its space in the cluster, whichever is more.",
        labels=["volume"],
    )
    lag_bytes = GaugeMetricFamily(
        "grampus_volume_journal_lag_bytes",
        "Acknowledged data that is not yet durable in the cluster (write path cache).",
        labels=["volume"],
    )
    lag_seconds = GaugeMetricFamily(
        "grampus_volume_journal_lag_seconds", "The age of the oldest of it.", labels=["volume"]
    )
    volumes, fleet = session.volumes(), session.fleet()
    # Of a host that cannot be asked nothing is known: its volumes may be well.
    known = [
        record
        for record in volumes.all()
        if record.attachment is None or fleet.is_reachable(record.attachment.host)
    ]
    for name, live in volumes.observe_states(known).items():
        if live is None:
            continue  # its driver cannot say
        answers = isinstance(live, LiveVolume) and live.state not in ("dead", "unknown")
        asked.add_metric([name], answers)
        if not isinstance(live, LiveVolume):
            continue
        silent.add_metric([name], live.is_silent)
        if live.journal is not None:
            fill.add_metric([name], live.journal.fill_ratio)
            lag_bytes.add_metric([name], live.journal.lag_bytes)
            lag_seconds.add_metric([name], live.journal.lag_ms / 1000)
    return [asked, silent, fill, lag_bytes, lag_seconds]
