"""Attached volumes under fio: each has a file of the data set's size, written once."""

from __future__ import annotations

from pathlib import PurePosixPath

from grampus.bench.drivers.fio_command import Device
from grampus.bench.environments.environment_plan import member_names
from grampus.bench.environments.environment_ports import EnvironmentPorts
from grampus.bench.environments.environment_records import BenchEnvironment
from grampus.bench.environments.fio_loads import FioMember, make_fio_load
from grampus.bench.environments.measuring import TrialLoad
from grampus.bench.matrix.cells import Cell
from grampus.core.errors import NotFoundError
from grampus.core.units import MIB
from grampus.hosts.port import Host

FILE = "bench.data"
# A cluster slower than this takes longer than a data set is worth.
SLOWEST_BYTES_PER_S = MIB


class VolumeEnvironments:
    """Makes, attaches and fills them."""

    def __init__(self, ports: EnvironmentPorts) -> None:
        self._ports = ports

    def ensure(self, environment: BenchEnvironment) -> None:
        """All volumes of the environment, attached and filled. Raises GrampusError."""
        volumes, plan = self._ports.volumes, environment.plan
        for name, host in self._members(environment, plan.count):
            if volumes.find(name) is None:
                self._ports.progress.phase(f"Make the volume {name}")
                volumes.create(name, environment)
            file = self._attached(environment, name, host)
            if _is_whole(host, file, plan.dataset_bytes):
                continue
            self._ports.progress.phase(f"Fill the volume {name}")
            # Whole under its name only when it is filled.
            part = file.with_suffix(".part")
            blocks = -(-plan.dataset_bytes // MIB)
            host.run(
                [
                    *("dd", "if=/dev/urandom", f"of={part}", "bs=1M", f"count={blocks}"),
                    *("conv=fsync", "oflag=direct", "iflag=fullblock", "status=none"),
                ],
                timeout_s=120 + plan.dataset_bytes / SLOWEST_BYTES_PER_S,
            )
            host.run(["mv", "-f", "--", str(part), str(file)])

    def ensure_absent(self, environment: BenchEnvironment) -> None:
        """All of them removed, with what fio had on hosts."""
        for name, host in self._members(environment, environment.plan.count):
            self._ports.volumes.ensure_absent(name)
            if self._ports.fleet.is_reachable(host.name):
                host.run(["rm", "-rf", "--", str(self._directory(host, name))])

    def load(self, cell: Cell, environment: BenchEnvironment, *, warmup_s: int) -> TrialLoad:
        """The cell's load: fio's own ramp warms up. Raises GrampusError."""
        point = cell.point
        members = {}
        for name, host in self._members(environment, point.volumes):
            if self._ports.volumes.find(name) is None:
                raise NotFoundError(
                    f"The cell needs the volume {name}, which does not exist.",
                    "Prepare the cells again.",
                )
            device = Device(self._attached(environment, name, host))
            for number in range(1, point.clients + 1):
                label = f"{name}.{number}"
                members[label] = FioMember(host, device, self._directory(host, label))
        volumes = member_names(environment.plan.name, point.volumes)
        return make_fio_load(cell, members, warmup_s=warmup_s, volumes=volumes)

    def _members(self, environment: BenchEnvironment, count: int) -> list[tuple[str, Host]]:
        """Each volume is always attached to the same host."""
        hosts = self._ports.hosts_for(environment.plan.layout)
        names = member_names(environment.plan.name, count)
        return [(name, hosts[at % len(hosts)]) for at, name in enumerate(names)]

    def _attached(self, environment: BenchEnvironment, name: str, host: Host) -> PurePosixPath:
        attachment = self._ports.volumes.ensure_attached(name, host.name, environment.plan.driver)
        return PurePosixPath(attachment.mount_path) / FILE

    def _directory(self, host: Host, label: str) -> PurePosixPath:
        """What is of a volume, and in it what is of one of its clients (`VOLUME.NUMBER`)."""
        return self._ports.directory_on(host.name).joinpath(*label.split("."))


def _is_whole(host: Host, file: PurePosixPath, size_bytes: int) -> bool:
    found = host.run(["stat", "--format=%s", str(file)], check=False)
    return found.returncode == 0 and int(found.stdout) >= size_bytes
