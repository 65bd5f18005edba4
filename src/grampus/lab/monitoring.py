"""The monitoring of a lab: Prometheus and Alertmanager, from Debian, on one of its hosts.

Prometheus reads the metrics of `grampus serve --metrics` on this machine and those of Ceph's MGRs,
with our alert rules (`monitoring/grampus-alerts.yaml`). Alertmanager groups the alerts.
"""

from __future__ import annotations

from collections.abc import Callable

import yaml

from grampus.ceph.cluster import CephCluster
from grampus.core.clock import Clock, wait_until
from grampus.core.errors import GrampusError
from grampus.core.installation import INSTALLATION
from grampus.core.units import GIB
from grampus.hosts.any_host import AnyReachableHost
from grampus.hosts.lab_host import LabFleet, LabHost
from grampus.hosts.port import Bind, DaemonSpec, Limits
from grampus.lab.model import LabSpec
from grampus.lab.parts import PartKind, PartSpec
from grampus.state.home import Home
from grampus.state.operations import Step

MONITORING_RECORD = "lab-monitoring"
RULES_FILE = INSTALLATION.data / "monitoring" / "grampus-alerts.yaml"
PROMETHEUS_PORT, ALERTMANAGER_PORT = 9090, 9093
CONTROLLER_PORT = 9470  # where `grampus serve --metrics` is looked for, on this machine
_MGR_PORT = 9283  # of Ceph's own module
SCRAPE_EVERY_S = 5
_KEPT_DAYS, _KEPT_BYTES = 7, GIB
_CONFIG, _DATA = "/etc/monitoring", "/var/lib/monitoring"
_DIRECTORY = "monitoring"  # on the host
_RULES = "grampus-alerts.yaml"
_MGR_ADDRESS = "mgr/prometheus/server_addr"


class MonitoringSpec(PartSpec):
    """A lab's monitoring, with all that starting it needs."""

    def prometheus(self, lab: LabSpec) -> str:
        """Where browsers on this machine reach Prometheus."""
        return f"http://{lab.host_address(self.host)}:{PROMETHEUS_PORT}"

    def alertmanager(self, lab: LabSpec) -> str:
        """Where browsers on this machine reach Alertmanager."""
        return f"http://{lab.host_address(self.host)}:{ALERTMANAGER_PORT}"


def controller_place(lab: LabSpec) -> str:
    """ADDRESS:PORT for `grampus serve --metrics`: this machine, as hosts of the lab see it."""
    return f"{lab.gateway}:{CONTROLLER_PORT}"


def render_prometheus(lab: LabSpec, host: str) -> str:
    """prometheus.yml."""
    mgrs = [f"{lab.host_address(name)}:{_MGR_PORT}" for name in lab.mgr_hosts]
    alertmanager = f"{lab.host_address(host)}:{ALERTMANAGER_PORT}"
    document = {
        "global": {
            "scrape_interval": f"{SCRAPE_EVERY_S}s",
            "evaluation_interval": f"{SCRAPE_EVERY_S}s",
            "external_labels": {"lab": lab.name},
        },
        "rule_files": [f"{_CONFIG}/{_RULES}"],
        "alerting": {
            "alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}],
        },
        "scrape_configs": [
            {
                "job_name": "grampus",
                "static_configs": [{"targets": [controller_place(lab)]}],
            },
            # The standby MGR answers with nothing. Labels of hosts and pools are Ceph's own.
            {
                "job_name": "ceph",
                "honor_labels": True,
                "static_configs": [{"targets": mgrs}],
            },
        ],
    }
    return yaml.safe_dump(document, sort_keys=False)


def render_alertmanager() -> str:
    """alertmanager.yml: alerts are shown, and sent to nobody."""
    document = {
        "route": {
            "receiver": "nobody",
            "group_by": ["alertname", "layer"],
            "group_wait": "5s",
            "group_interval": "10s",
        },
        "receivers": [{"name": "nobody"}],
    }
    return yaml.safe_dump(document, sort_keys=False)


class LabMonitoring:
    """The steps that start a lab's monitoring and remove it; each may be repeated."""

    def __init__(
        self, lab: LabSpec, spec: MonitoringSpec, home: Home, fleet: LabFleet, clock: Clock
    ) -> None:
        del home  # it has no secrets
        self._lab = lab
        self._spec = spec
        self._fleet = fleet
        self._clock = clock
        self._cluster = CephCluster(AnyReachableHost(fleet))

    def up_steps(self, keep_record: Callable[[], None]) -> list[Step]:
        """The monitoring, from whatever state it is in."""
        host = self._spec.host
        return [
            Step("record", "Record the monitoring", keep_record),
            Step("mgr", "Enable the metrics of the MGRs", self.ensure_mgr_module),
            Step("configuration", f"Write the configuration on {host}", self.ensure_configuration),
            Step("daemons", f"Start Prometheus and Alertmanager on {host}", self.ensure_daemons),
        ]

    def down_steps(self, forget: Callable[[], None]) -> list[Step]:
        """The monitoring removed, with the metrics that it kept."""
        return [
            Step("daemons", "Stop Prometheus and Alertmanager", self.ensure_daemons_absent),
            Step("mgr", "Disable the metrics of the MGRs", self.ensure_mgr_module_absent),
            Step("record", "Delete the record of the monitoring", forget),
        ]

    def ensure_mgr_module(self) -> None:
        # By default it listens on `::`, which a host without IPv6 does not have.
        self._cluster.ceph("config", "set", "mgr", _MGR_ADDRESS, "0.0.0.0")  # noqa: S104 - the lab's network
        self._cluster.ceph("mgr", "module", "enable", "prometheus")

    def ensure_mgr_module_absent(self) -> None:
        self._cluster.ceph("mgr", "module", "disable", "prometheus")
        self._cluster.ceph("config", "rm", "mgr", _MGR_ADDRESS)

    def ensure_configuration(self) -> None:
        host = self._host()
        etc = host.data_dir / _DIRECTORY / "etc"
        host.write_file(etc / "prometheus.yml", render_prometheus(self._lab, host.name))
        host.write_file(etc / "alertmanager.yml", render_alertmanager())
        host.ensure_copy(RULES_FILE, etc / _RULES)
        data = host.data_dir / _DIRECTORY / "data"
        host.run(["mkdir", "-p", *(str(data / daemon) for daemon in self._daemons())])

    def ensure_daemons(self) -> None:
        host = self._host()
        for name, spec in self._daemons().items():
            host.ensure_daemon(spec)
            self._wait_for(host, name)

    def ensure_daemons_absent(self) -> None:
        host = self._host()
        for name in self._daemons():
            host.ensure_daemon_absent(name)
        host.run(["rm", "-rf", str(host.data_dir / _DIRECTORY)])

    # -- inside -------------------------------------------------------------------------------

    def _host(self) -> LabHost:
        return self._fleet.lab_host(self._spec.host)

    def _daemons(self) -> dict[str, DaemonSpec]:
        """By name; Alertmanager first, so that Prometheus finds it."""
        address = self._lab.host_address(self._spec.host)
        alertmanager, prometheus = (
            f"{program}-{self._spec.host}" for program in ("alertmanager", "prometheus")
        )
        return {
            alertmanager: self._daemon(
                alertmanager,
                "prometheus-alertmanager",
                f"--config.file={_CONFIG}/alertmanager.yml",
                f"--storage.path={_DATA}",
                f"--web.listen-address={address}:{ALERTMANAGER_PORT}",
                "--cluster.listen-address=",  # there is one
            ),
            prometheus: self._daemon(
                prometheus,
                "prometheus",
                f"--config.file={_CONFIG}/prometheus.yml",
                f"--storage.tsdb.path={_DATA}",
                f"--storage.tsdb.retention.time={_KEPT_DAYS}d",
                f"--storage.tsdb.retention.size={_KEPT_BYTES}B",
                f"--web.listen-address={address}:{PROMETHEUS_PORT}",
            ),
        }

    def _daemon(self, name: str, *argv: str) -> DaemonSpec:
        where = self._host().data_dir / _DIRECTORY
        return DaemonSpec(
            name=name,
            argv=argv,
            binds=(
                Bind(str(where / "etc"), _CONFIG, read_only=True),
                Bind(str(where / "data" / name), _DATA),
            ),
            image=self._spec.image_id,
            limits=Limits(cpus=0.5, memory_bytes=GIB // 2),
        )

    def _wait_for(self, host: LabHost, name: str) -> None:
        port = PROMETHEUS_PORT if name.startswith("prometheus") else ALERTMANAGER_PORT
        probe = f"exec 3<>/dev/tcp/{self._lab.host_address(host.name)}/{port}"

        def answers() -> bool:
            states = {status.name: status.state for status in host.observe_daemons()}
            if states.get(name) != "running":
                raise GrampusError(
                    f"{name} ended: {host.daemon_log(name, last_lines=3)}",
                    "Fix the error above, then run `grampus lab monitoring up`.",
                    code="monitoring-ended",
                )
            return host.run(["bash", "-c", probe], check=False).returncode == 0

        wait_until(
            self._clock,
            answers,
            what=f"{name} to answer",
            remedy=f"The log of the daemon {name} shows the cause.",
            timeout_s=60.0,
            interval_s=0.5,
        )


MONITORING = PartKind(
    "monitoring",
    MONITORING_RECORD,
    MonitoringSpec,
    image_of=lambda _lab: "sid-monitoring",
    make_steps=LabMonitoring,
)
