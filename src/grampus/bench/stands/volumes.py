"""Attached volumes under fio: each has a file of the data set's size, written once."""

from __future__ import annotations

import json
from pathlib import PurePosixPath

from grampus.bench.drivers.fio_command import (
    Device,
    FioJob,
    FioLoad,
    FioPattern,
    fio_argv,
    iops_logs,
    render_fio_jobs,
)
from grampus.bench.drivers.fio_result import parse_fio_jobs
from grampus.bench.drivers.outcome import DriverFailure, DriverOutput, DriverResult
from grampus.bench.matrix.cells import Cell
from grampus.bench.matrix.workloads import WorkloadName
from grampus.bench.stands.clients import ClientEnd, ClientLoad
from grampus.bench.stands.measuring import VisitLoad
from grampus.bench.stands.plan import member_names
from grampus.bench.stands.ports import StandPorts
from grampus.bench.stands.records import BenchStand
from grampus.core.errors import NotFoundError
from grampus.core.units import MIB
from grampus.hosts.port import Host

JOB = "load"
FILE = "bench.data"
SEED = 1
DEFAULT_BLOCK_BYTES = 4096
# A cluster slower than this takes longer than a data set is worth.
SLOWEST_BYTES_PER_S = MIB
PATTERNS: dict[WorkloadName, FioPattern] = {
    "fio-write": "write",
    "fio-read": "read",
    "fio-randwrite": "randwrite",
    "fio-randread": "randread",
}


class VolumeStands:
    """Makes, attaches and fills them."""

    def __init__(self, ports: StandPorts) -> None:
        self._ports = ports

    def ensure(self, stand: BenchStand) -> None:
        """All volumes of the stand, attached and filled. Raises GrampusError."""
        volumes, plan = self._ports.volumes, stand.plan
        for name, host in self._members(stand, plan.count):
            if volumes.find(name) is None:
                self._ports.progress.phase(f"Make the volume {name}")
                volumes.create(name, stand)
            file = self._attached(stand, name, host)
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

    def ensure_absent(self, stand: BenchStand) -> None:
        """All of them removed, with what fio had on hosts."""
        for name, host in self._members(stand, stand.plan.count):
            self._ports.volumes.ensure_absent(name)
            if self._ports.fleet.is_reachable(host.name):
                host.run(["rm", "-rf", "--", str(self._directory(host, name))])

    def load(self, cell: Cell, stand: BenchStand, *, warmup_s: int) -> VisitLoad:
        """The cell's load: fio's own ramp warms up. Raises GrampusError."""
        point = cell.point
        members = {}
        for name, host in self._members(stand, point.volumes):
            if self._ports.volumes.find(name) is None:
                raise NotFoundError(
                    f"The volume {name}, which the cell stands on, is not there.",
                    "Prepare the cells anew.",
                )
            for number in range(1, point.clients + 1):
                members[f"{name}.{number}"] = (host, self._attached(stand, name, host))

        block_bytes = cell.block_bytes or DEFAULT_BLOCK_BYTES
        job = FioJob(JOB, PATTERNS[point.workload], block_bytes, depth=point.threads)

        def fio(label: str, runtime_s: int) -> FioLoad:
            host, file = members[label]
            return FioLoad(
                target=Device(file),
                offset_bytes=0,
                size_bytes=cell.dataset_bytes,
                jobs=(job,),
                runtime_s=runtime_s,
                ramp_s=warmup_s,
                at_once=True,
                seed=SEED,
                log_prefix=self._directory(host, label) / "log",
            )

        def loads(duration_s: int) -> list[ClientLoad]:
            made = []
            for label, (host, _) in members.items():
                load = fio(label, duration_s)
                directory = self._directory(host, label)
                # The logs of the visit before would be taken for this one's.
                host.run(["rm", "-rf", "--", str(directory)])
                job_file = directory / "load.fio"
                host.write_file(job_file, render_fio_jobs(load))
                made.append(ClientLoad(label, host, fio_argv(load, job_file), _unknown))
            return made

        def read(end: ClientEnd) -> tuple[DriverResult | DriverFailure, float]:
            host, _ = members[end.name]
            files = iops_logs(fio(end.name, 1))
            logs = {
                job: [text for path in paths if (text := host.read_file(path)) is not None]
                for job, paths in files.items()
            }
            return read_fio(end.output, logs, end.began_at_s)

        return VisitLoad(
            clients=loads,
            read=read,
            loop="closed",
            threads=point.threads,
            client_count=len(members),
            warms_up=False,
            volumes=member_names(stand.plan.name, point.volumes),
            bytes_per_operation=block_bytes,
        )

    def _members(self, stand: BenchStand, count: int) -> list[tuple[str, Host]]:
        """Each volume is always attached to the same host."""
        hosts = self._ports.hosts_for(stand.plan.layout)
        names = member_names(stand.plan.name, count)
        return [(name, hosts[at % len(hosts)]) for at, name in enumerate(names)]

    def _attached(self, stand: BenchStand, name: str, host: Host) -> PurePosixPath:
        attachment = self._ports.volumes.ensure_attached(name, host.name, stand.plan.driver)
        return PurePosixPath(attachment.mount_path) / FILE

    def _directory(self, host: Host, label: str) -> PurePosixPath:
        """What is of a volume, and in it what is of one of its clients (`VOLUME.NUMBER`)."""
        return self._ports.directory_on(host.name).joinpath(*label.split("."))


def read_fio(
    output: DriverOutput, logs: dict[str, list[str]], began_at_s: float
) -> tuple[DriverResult | DriverFailure, float]:
    """The result of the one job, and when it began to count: after its ramp."""
    found = parse_fio_jobs(output, logs)
    if isinstance(found, DriverFailure):
        return found, began_at_s
    document, _ = json.JSONDecoder().raw_decode(output.stdout[output.stdout.find("{") :])
    return found[JOB], int(document["jobs"][0]["job_start"]) / 1000


def _is_whole(host: Host, file: PurePosixPath, size_bytes: int) -> bool:
    found = host.run(["stat", "--format=%s", str(file)], check=False)
    return found.returncode == 0 and int(found.stdout) >= size_bytes


def _unknown(_line: str, _at_s: float) -> float | None:
    """fio's document says when it began."""
    return None
