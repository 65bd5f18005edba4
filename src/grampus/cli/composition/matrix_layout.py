"""The composition root, of layouts: which hosts of a lab have OSDs, and their cores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grampus.cli.composition.session import Session


class LabLayout:
    """Hosts of the lab; a `LayoutPort`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def osd_hosts(self) -> Sequence[str]:
        return self._session.require_lab().osd_hosts

    @property
    def other_hosts(self) -> Sequence[str]:
        return self._session.require_lab().other_hosts

    def observe_quotas(self) -> Mapping[str, Mapping[str, float]]:
        fleet = self._session.lab_fleet()
        return {
            host.name: host.observe_cpu_quotas()
            for host in fleet.lab_hosts()
            if fleet.is_reachable(host.name)
        }

    def set_quota(self, host: str, group: str, cores: float | None) -> None:
        self._session.lab_fleet().lab_host(host).set_cpu_quota(group, cores)
