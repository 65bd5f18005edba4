"""The composition root, of tuning profiles: a lab's OSDs and the kernels of its hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grampus.ceph.mgr_reports import prompt_reports
from grampus.ceph.osd_options import observe_osd_options, set_osd_options
from grampus.cli.composition.session import Session
from grampus.core.clock import wait_until
from grampus.hosts.lab_host import LabHost
from grampus.lab.making import in_parallel

RESTART_TIMEOUT_S = 120.0


class LabTuning:
    """Settings of the lab; a `TuningPort`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._cluster = session.cluster()

    def observe_options(self) -> Mapping[str, str]:
        return observe_osd_options(self._cluster)

    def set_options(self, options: Mapping[str, str | None]) -> None:
        set_osd_options(self._cluster, options)

    def restart_osds(self) -> None:
        osds = [
            (host, status.name)
            for host in self._hosts()
            for status in host.observe_daemons()
            if status.name.startswith("osd-")
        ]
        with prompt_reports(self._cluster):
            in_parallel(lambda osd: osd[0].restart_daemon(osd[1]), osds)
            wait_until(
                self._session.clock,
                self._is_serving,
                what="the OSDs to serve again after their restart",
                remedy="`grampus lab fault heal` starts the daemons that do not run.",
                timeout_s=RESTART_TIMEOUT_S,
                interval_s=0.3,
            )

    def observe_kernel(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        return {
            host.name: parse_sysctls(host.run(["sysctl", *names]).stdout) for host in self._hosts()
        }

    def set_kernel(self, host: str, values: Mapping[str, str]) -> None:
        settings = [f"{name}={value}" for name, value in values.items()]
        self._session.lab_fleet().host(host).run(["sysctl", "--quiet", "--write", *settings])

    def _hosts(self) -> list[LabHost]:
        fleet = self._session.lab_fleet()
        return [host for host in fleet.lab_hosts() if fleet.is_reachable(host.name)]

    def _is_serving(self) -> bool:
        status = self._cluster.observe_status()
        return (
            status.osds_up == status.osds
            and status.placement_groups_clean == status.placement_groups
        )


def parse_sysctls(text: str) -> dict[str, str]:
    """What `sysctl NAME...` prints, by name; several values of one are apart by one space."""
    pairs = (line.partition(" = ") for line in text.splitlines() if " = " in line)
    return {name: " ".join(value.split()) for name, _, value in pairs}
