"""Images under `rbd bench` or fio, through librbd: never attached, written once as a whole.

Each client has an image of its own: two that write to one would take its lock from each other all
the time. rbd bench ends after so many bytes and knows no time, so each run is as long as the rate
of the one before it says.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from grampus.bench.drivers.fio_command import RbdEngine
from grampus.bench.drivers.outcome import DriverFailure, DriverResult
from grampus.bench.drivers.rbd_bench import (
    RbdDirection,
    RbdLoad,
    RbdPattern,
    parse_rbd_bench,
    rbd_bench_argv,
)
from grampus.bench.environments.clients import ClientEnd, ClientLoad, run_together
from grampus.bench.environments.environment_plan import OBJECT_BYTES, member_names
from grampus.bench.environments.environment_ports import EnvironmentPorts
from grampus.bench.environments.environment_records import BenchEnvironment
from grampus.bench.environments.fio_loads import ACCESSES as FIO_ACCESSES
from grampus.bench.environments.fio_loads import (
    DEFAULT_BLOCK_BYTES,
    JOB_FILE,
    FioMember,
    make_fio_load,
)
from grampus.bench.environments.measuring import TrialLoad
from grampus.bench.environments.pools import SLOWEST_BYTES_PER_S
from grampus.bench.matrix.cells import Cell
from grampus.bench.matrix.workloads import WorkloadName
from grampus.core.errors import GrampusError, NotFoundError
from grampus.hosts.port import Host

# Several threads would each begin elsewhere, and none need reach where the next one began.
FILL_CONCURRENCY = 1
# Before anything is known of an image: what hard disks do too.
FIRST_RATE_PER_S = 200.0
# Of the time asked for, a warm-up takes so much at least, or is repeated.
LEAST_SHARE = 0.5
# A run may take so much longer than the rate before it says, and so many seconds more.
SLOWER = 10
TIMEOUT_EXTRA_S = 60
_ROW = re.compile(r"^ *(\d+) +-?\d+ +\S+ +\S+(?: \w+/s)?\s*$")


@dataclass(frozen=True)
class Access:
    """What rbd bench does for a workload."""

    direction: RbdDirection
    pattern: RbdPattern


ACCESSES: dict[WorkloadName, Access] = {
    "rbd-write": Access("write", "seq"),
    "rbd-read": Access("read", "seq"),
    "rbd-randwrite": Access("write", "rand"),
    "rbd-randread": Access("read", "rand"),
}


class ImageEnvironments:
    """Makes and fills them."""

    def __init__(self, ports: EnvironmentPorts) -> None:
        self._ports = ports
        # Of the last run that ended, by image and workload.
        self._rates_per_s: dict[tuple[str, WorkloadName], float] = {}

    def ensure(self, environment: BenchEnvironment) -> None:
        """All images of the environment, each written from its beginning to its end.

        Raises GrampusError.
        """
        volumes, plan = self._ports.volumes, environment.plan
        fills = []
        for name, host in self._members(environment, plan.count):
            if volumes.find(name) is None:
                self._ports.progress.phase(f"Make the image {name}")
                volumes.create(name, environment)
            load = RbdLoad(
                client=self._ports.client,
                image_spec=self._image(name),
                direction="write",
                pattern="seq",
                io_bytes=OBJECT_BYTES,
                concurrency=FILL_CONCURRENCY,
                total_bytes=plan.size_bytes,
                timeout_s=TIMEOUT_EXTRA_S + math.ceil(plan.size_bytes / SLOWEST_BYTES_PER_S),
            )
            fills.append(ClientLoad(name, host, rbd_bench_argv(load), began_at))
        self._ports.progress.phase(f"Write {len(fills)} image{'' if len(fills) == 1 else 's'}")
        for end in run_together(fills, self._ports.clock):
            outcome = parse_rbd_bench(end.output)
            if isinstance(outcome, DriverFailure):
                raise GrampusError(
                    f"The image {end.name} could not be written: {outcome.reason}",
                    self._ports.look,
                    code="no-stand",
                )

    def ensure_absent(self, environment: BenchEnvironment) -> None:
        """All of them removed, with what fio had on hosts."""
        for name, host in self._members(environment, environment.plan.count):
            self._ports.volumes.ensure_absent(name)
            if self._ports.fleet.is_reachable(host.name):
                self._ensure_files_absent(host, name)

    def load(self, cell: Cell, environment: BenchEnvironment, *, warmup_s: int) -> TrialLoad:
        """The cell's load. Raises NotFoundError."""
        if cell.point.workload in FIO_ACCESSES:
            return self._load_by_fio(cell, environment, warmup_s=warmup_s)
        return self._load_by_rbd_bench(cell, environment)

    def _load_by_fio(
        self, cell: Cell, environment: BenchEnvironment, *, warmup_s: int
    ) -> TrialLoad:
        client, members = self._ports.client, {}
        for name, host in self._members(environment, cell.point.volumes * cell.point.clients):
            pool, _, image = self._image(name).partition("/")
            engine = RbdEngine(client.conf, client.user, pool, image)
            members[name] = FioMember(host, engine, self._directory(host, name))
        return make_fio_load(cell, members, warmup_s=warmup_s)

    def _load_by_rbd_bench(self, cell: Cell, environment: BenchEnvironment) -> TrialLoad:
        point = cell.point
        io_bytes = cell.block_bytes or DEFAULT_BLOCK_BYTES
        access = ACCESSES[point.workload]
        members = self._members(environment, point.volumes * point.clients)
        images = {name: self._image(name) for name, _ in members}
        asked_s: list[int] = []
        took_s: dict[str, float] = {}

        def rbd(name: str, duration_s: int) -> RbdLoad:
            rate_per_s = self._rates_per_s.get((name, point.workload))
            return RbdLoad(
                client=self._ports.client,
                image_spec=images[name],
                direction=access.direction,
                pattern=access.pattern,
                io_bytes=io_bytes,
                concurrency=point.threads,
                total_bytes=decide_total_bytes(
                    rate_per_s, duration_s, io_bytes=io_bytes, concurrency=point.threads
                ),
                timeout_s=SLOWER * duration_s + TIMEOUT_EXTRA_S,
            )

        def loads(duration_s: int) -> list[ClientLoad]:
            asked_s.append(duration_s)
            return [
                ClientLoad(name, host, rbd_bench_argv(rbd(name, duration_s)), began_at)
                for name, host in members
            ]

        def read(end: ClientEnd) -> tuple[DriverResult | DriverFailure, float]:
            outcome = parse_rbd_bench(end.output)
            if isinstance(outcome, DriverResult):
                self._rates_per_s[end.name, point.workload] = outcome.operations_per_s
                took_s[end.name] = outcome.elapsed_s
            return outcome, end.began_at_s

        def is_warm() -> bool:
            """A run that was far too short tells a rate that is far too low."""
            least_s = LEAST_SHARE * asked_s[-1]
            return all(took_s.get(name, 0.0) >= least_s for name in images)

        return TrialLoad(
            clients=loads,
            read=read,
            loop="closed",
            threads=point.threads,
            client_count=len(members),
            bytes_per_operation=io_bytes,
            is_warm=is_warm,
        )

    def _members(self, environment: BenchEnvironment, count: int) -> list[tuple[str, Host]]:
        """Each image always has its client on the same host."""
        hosts = self._ports.hosts_for(environment.plan.layout)
        names = member_names(environment.plan.name, count)
        return [(name, hosts[at % len(hosts)]) for at, name in enumerate(names)]

    def _ensure_files_absent(self, host: Host, name: str) -> None:
        """What fio had. On an external cluster nothing runs but Ceph's programs."""
        directory = self._directory(host, name)
        if host.read_file(directory / JOB_FILE) is not None:
            host.run(["rm", "-rf", "--", str(directory)])

    def _directory(self, host: Host, name: str) -> PurePosixPath:
        return self._ports.directory_on(host.name) / name

    def _image(self, name: str) -> str:
        record = self._ports.volumes.find(name)
        if record is None:
            raise NotFoundError(
                f"The cell needs the image {name}, which does not exist.",
                "Prepare the cells again.",
            )
        return f"{record.spec.pool}/{record.spec.image}"


def decide_total_bytes(
    rate_per_s: float | None, duration_s: int, *, io_bytes: int, concurrency: int
) -> int:
    """How much takes so long at that rate; None: at one that every cluster has.

    Each thread has something to do at least.
    """
    rate = FIRST_RATE_PER_S if rate_per_s is None else rate_per_s
    return max(math.ceil(rate * duration_s), concurrency) * io_bytes


def began_at(line: str, at_s: float) -> float | None:
    """When a run of rbd bench began, from one of its rows: each says how old the run is."""
    row = _ROW.match(line)
    return None if row is None else at_s - int(row[1])
