"""What the steps of operations on one scratch instance do; every method is idempotent."""

from __future__ import annotations

from grampus.databases.host_addresses import take_address
from grampus.databases.instance import (
    ensure_files,
    ensure_initialised,
    ensure_instance_absent,
)
from grampus.databases.layout import InstancePlan, plan_scratch_instance, scratch_directory
from grampus.databases.model import ScratchSpec
from grampus.databases.readiness import ensure_serving
from grampus.databases.step_ports import StepPorts
from grampus.hosts.port import Host


class ScratchWork:
    """What the steps of one scratch instance do; every method is idempotent."""

    def __init__(self, ports: StepPorts, scratch: ScratchSpec) -> None:
        self._ports = ports
        self._scratch = scratch

    def files(self) -> None:
        credentials = self._ports.credentials.load(self._scratch.database.name)
        ensure_files(self._host(), self._plan(), credentials)

    def initialise(self) -> None:
        credentials = self._ports.credentials.load(self._scratch.database.name)
        ensure_initialised(self._host(), self._plan(), credentials, self._ports.clock)

    def serve(self) -> None:
        if not self._scratch.shares_address:
            self._host().ensure_address(self._scratch.address)
        password = self._ports.credentials.load(self._scratch.database.name).admin_password
        ensure_serving(self._host(), self._plan(), password, self._ports.clock)

    def stop(self) -> None:
        self._host().ensure_daemon_absent(self._plan().daemon)
        take_address(self._host(), self._scratch)

    def remove(self) -> None:
        host, plan = self._host(), self._plan()
        ensure_instance_absent(
            host,
            daemons=(plan.daemon, plan.init_daemon),
            directory=scratch_directory(host.data_dir, self._scratch.database.name),
            address=None if self._scratch.shares_address else self._scratch.address,
        )

    def _host(self) -> Host:
        return self._ports.fleet.host(self._scratch.database.host)

    def _plan(self) -> InstancePlan:
        return plan_scratch_instance(self._scratch, self._host().data_dir)
