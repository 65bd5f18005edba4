"""Pools under `rados bench`: one for each environment, so that all in it goes with it."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import replace

from grampus.bench.drivers.outcome import DriverFailure, DriverOutput, DriverResult
from grampus.bench.drivers.rados_command import (
    RadosLoad,
    rados_bench_argv,
    rados_cleanup_argv,
    rados_forget_argv,
)
from grampus.bench.drivers.rados_result import parse_object_prefix, parse_rados_bench
from grampus.bench.environments.clients import ClientEnd, ClientLoad, run_together
from grampus.bench.environments.environment_ports import EnvironmentPorts
from grampus.bench.environments.environment_records import BenchEnvironment
from grampus.bench.environments.measuring import TrialLoad
from grampus.bench.matrix.cells import Cell
from grampus.core.errors import GrampusError
from grampus.core.units import MIB
from grampus.hosts.port import Host

# A cluster slower than this takes longer than a data set is worth.
SLOWEST_BYTES_PER_S = MIB
FILL_CONCURRENCY = 16
CLEANUP_TIMEOUT_S = 600.0
# Sequential ones end with the last object, which a fast cluster reaches within a second.
READ_NOTE = (
    "Whole objects were read in random order: rados bench ends a sequential read with the last "
    "object."
)
_ROW = re.compile(r"^ *(\d+) +\d+ +\d+ +\d+ +\S+ +\S+ +\S+ +\S+\s*$")


class PoolEnvironments:
    """Makes and fills them."""

    def __init__(self, ports: EnvironmentPorts) -> None:
        self._ports = ports

    def ensure(self, environment: BenchEnvironment) -> None:
        """The pool, with the objects that each client reads. Raises GrampusError."""
        plan = environment.plan
        self._ports.progress.phase(f"Make the pool {environment.pool}")
        self._ports.pools.ensure(
            environment.pool, plan.copies, osd_set=plan.osd_set, erasure_code=plan.erasure_code
        )
        self._ports.progress.phase(f"Write objects to {environment.pool}")
        objects = max(1, math.ceil(plan.dataset_bytes / plan.block_bytes))
        fills = [
            ClientLoad(
                name,
                host,
                rados_bench_argv(
                    replace(
                        self._rados(environment, name),
                        duration_s=max(10, math.ceil(plan.dataset_bytes / SLOWEST_BYTES_PER_S)),
                        concurrency=FILL_CONCURRENCY,
                        max_objects=objects,
                    )
                ),
                began_at,
            )
            for name, host in self._clients(environment, plan.count)
        ]
        for end in run_together(fills, self._ports.clock):
            outcome = parse_rados_bench(end.output)
            if isinstance(outcome, DriverFailure):
                raise GrampusError(
                    f"The objects for {end.name} could not be written: {outcome.reason}",
                    self._ports.look,
                    code="no-stand",
                )

    def ensure_absent(self, environment: BenchEnvironment) -> None:
        """The pool removed with all that is in it."""
        self._ports.pools.ensure_absent(environment.pool)

    def load(self, cell: Cell, environment: BenchEnvironment) -> TrialLoad:
        """The cell's load. A write has its objects removed as it is read."""
        point, plan = cell.point, environment.plan
        writes = point.workload == "rados-write"
        clients = self._clients(environment, point.clients)
        hosts = dict(clients)

        def rados(name: str, duration_s: int) -> RadosLoad:
            load = self._rados(environment, f"{name}-written" if writes else name)
            return replace(
                load,
                mode="write" if writes else "rand",
                duration_s=duration_s,
                concurrency=point.threads,
                op_bytes=plan.block_bytes,
            )

        def loads(duration_s: int) -> list[ClientLoad]:
            return [
                ClientLoad(name, host, rados_bench_argv(rados(name, duration_s)), began_at)
                for name, host in clients
            ]

        def read(end: ClientEnd) -> tuple[DriverResult | DriverFailure, float]:
            if writes:
                self._clean(hosts[end.name], rados(end.name, 1), end.output)
            return parse_rados_bench(end.output), end.began_at_s

        return TrialLoad(
            clients=loads,
            read=read,
            loop="closed",
            threads=point.threads,
            client_count=len(clients),
            note=None if writes else READ_NOTE,
            bytes_per_operation=plan.block_bytes,
        )

    def _clean(self, host: Host, load: RadosLoad, output: DriverOutput) -> None:
        """Remove what one write left. What stays, because it was killed, goes with the pool."""
        prefix = parse_object_prefix(output.stdout)
        if prefix is None:
            return
        with suppress(GrampusError):
            argv = rados_cleanup_argv(load, object_prefix=prefix)
            host.run(argv, timeout_s=CLEANUP_TIMEOUT_S, check=False)
            host.run(rados_forget_argv(load), timeout_s=CLEANUP_TIMEOUT_S, check=False)

    def _clients(self, environment: BenchEnvironment, count: int) -> list[tuple[str, Host]]:
        """The same client is always on the same host, whose name is a part of its objects'."""
        hosts = self._ports.hosts_for(environment.plan.layout)
        return [(f"client-{number + 1}", hosts[number % len(hosts)]) for number in range(count)]

    def _rados(self, environment: BenchEnvironment, run_name: str) -> RadosLoad:
        return RadosLoad(
            client=self._ports.client,
            pool=environment.pool,
            mode="write",
            run_name=run_name,
            duration_s=1,
            concurrency=1,
            op_bytes=environment.plan.block_bytes,
        )


def began_at(line: str, at_s: float) -> float | None:
    """When a run of rados bench began, from one of its rows: each says how old the run is."""
    row = _ROW.match(line)
    return None if row is None else at_s - int(row[1])
