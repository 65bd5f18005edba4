"""Databases that cells stand on, each on a volume of its own, under one or more sysbench each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import PurePosixPath

from grampus.bench.calm import wait_until_calm
from grampus.bench.client import ArmClient, ensure_client_files, ensure_client_files_absent
from grampus.bench.dataset import ensure_datasets
from grampus.bench.drivers.outcome import DriverFailure, DriverResult
from grampus.bench.drivers.sysbench_command import SysbenchLoad, sysbench_argv
from grampus.bench.drivers.sysbench_result import STARTED_LINE, parse_sysbench
from grampus.bench.environments.clients import ClientEnd, ClientLoad
from grampus.bench.environments.environment_plan import EnvironmentPlan, member_names
from grampus.bench.environments.environment_ports import EnvironmentPorts
from grampus.bench.environments.environment_records import BenchEnvironment
from grampus.bench.environments.fitness import why_volumes_full
from grampus.bench.environments.measuring import Server, TrialLoad
from grampus.bench.environments.settings import (
    LIVE,
    base_parameters,
    decide_change,
    decide_parameters,
)
from grampus.bench.guests.guest_plan import IDLE_CORES, guest_daemon_name
from grampus.bench.matrix.cells import Cell
from grampus.bench.matrix.workloads import WorkloadName
from grampus.bench.quick_plan import SysbenchTables
from grampus.core.errors import GrampusError, NotFoundError
from grampus.databases.instance import observe_daemon_state
from grampus.databases.model import DatabaseRecord, Endpoint

# Before each trial, until all environments have written out what they still hold.
SETTLE_S = 4.0
LOAD_THREADS = 4
# A load keeps a core busy; a change of settings mostly waits.
LOADED_AT_ONCE = 2
SET_AT_ONCE = 4


@dataclass(frozen=True)
class Script:
    """A script of sysbench's own, and its options."""

    name: str
    options: tuple[str, ...] = ()


# A transaction of oltp_read_write has four range selects, and a delete goes with its insert.
SCRIPTS: Mapping[WorkloadName, Script] = {
    "point-select": Script("oltp_point_select"),
    "update-index": Script("oltp_update_index"),
    # 14 reads and 6 writes.
    "mix-70-30": Script(
        "oltp_read_write", ("--point_selects=10", "--index_updates=2", "--non_index_updates=2")
    ),
    # 12 reads and 4 writes.
    "mix-75-25": Script("oltp_read_write", ("--point_selects=8",)),
}


class DatabaseEnvironments:
    """Makes, loads and changes them."""

    def __init__(self, ports: EnvironmentPorts) -> None:
        self._ports = ports
        self._clients: dict[str, ArmClient] = {}
        self._in_guests: set[str] = set()  # databases whose server this process found in one

    def ensure(self, environment: BenchEnvironment) -> None:
        """All databases of the environment, running, with their data. Raises GrampusError."""
        databases, plan = self._ports.databases, environment.plan
        names = member_names(plan.name, plan.count)
        hosts = self._ports.hosts_for(plan.layout)
        # Without hosts of both kinds the product knows best.
        is_free = not self._ports.layout.other_hosts
        if plan.runtime == "vm":
            self._ports.guests.ensure_image()
        for at, name in enumerate(names):
            if plan.runtime == "vm":
                self._remove_guest(name)
            databases.settle(name)
            if databases.find(name) is None:
                self._ports.progress.phase(f"Make the database {name}")
                host = None if is_free else hosts[at % len(hosts)].name
                databases.create(name, environment, base_parameters(plan), host=host)
            databases.ensure_running(name)
            self._ensure_driver(plan, name)
        clients = {name: self._client(name) for name in names}

        def fill(name: str) -> None:
            ensure_datasets(
                {"ceph": clients[name]},
                decide_tables(plan),
                raw_dir=self._ports.raw_dir / name,
                clock=self._ports.clock,
                progress=self._ports.progress,
            )

        _for_each(fill, names, at_once=LOADED_AT_ONCE)
        if plan.runtime == "vm":
            # Filled in a container, which is faster. The machine is started by the first load.
            for name in names:
                databases.ensure_stopped(name)

    def ensure_absent(self, environment: BenchEnvironment) -> None:
        """All of them removed, with what their clients had on hosts."""
        for name in member_names(environment.plan.name, environment.plan.count):
            self._clients.pop(name, None)
            if environment.plan.runtime == "vm":
                self._remove_guest(name)
            self._ports.databases.ensure_absent(name)
            for host in self._ports.fleet.hosts():
                if self._ports.fleet.is_reachable(host.name):
                    ensure_client_files_absent(host, self._directory(host.name, name))

    def load(self, cell: Cell, environment: BenchEnvironment) -> TrialLoad:
        """The databases' servers set as the cell asks, and its load. Raises GrampusError."""
        point = cell.point
        names = member_names(environment.plan.name, point.databases)
        parameters = decide_parameters(cell, environment.plan)
        servers = []
        in_guests = environment.plan.runtime == "vm"
        set_server = self._set_in_guest if in_guests else self._set
        _for_each(lambda name: set_server(name, parameters), names, at_once=SET_AT_ONCE)
        for name in names:
            # A server that had to be started was attached as the product would.
            self._ensure_driver(environment.plan, name)
        for name in names:
            endpoint = self._endpoint(name)
            cpus = self._record(name).spec.cpus
            servers.append(Server(endpoint.host, endpoint.daemon, cpus))
        clients = [
            (f"{name}.{number}", self._client(name))
            for name in names
            for number in range(1, point.clients + 1)
        ]
        rate = None if point.rate == "none" else float(point.rate)
        each_rate = None if rate is None else max(1, round(rate / len(clients)))
        script = SCRIPTS[point.workload]

        def loads(duration_s: int) -> list[ClientLoad]:
            return [
                ClientLoad(
                    label,
                    client.host,
                    sysbench_argv(
                        SysbenchLoad(
                            directory=client.directory,
                            config_file=client.sysbench_config,
                            script=script.name,
                            tables=environment.plan.tables,
                            rows_per_table=environment.plan.rows_per_table,
                            threads=point.threads,
                            duration_s=duration_s,
                            distribution=cell.distribution or "uniform",
                            rate_per_s=each_rate,
                            options=script.options,
                        )
                    ),
                    began_at,
                )
                for label, client in clients
            ]

        note = self._ports.guests.note(servers[0].host) if in_guests else None
        return TrialLoad(
            clients=loads,
            read=read_sysbench,
            loop="closed" if rate is None else "open",
            threads=point.threads,
            client_count=len(clients),
            full_threads=point.threads,
            asked_rate_per_s=None if each_rate is None else float(each_rate * len(clients)),
            servers=tuple(servers),
            databases={name: self._client(name) for name in names},
            volumes=names,
            note=note,
            # What there is to say of a guest is that it was emulated.
            undeciding=() if note is None else (note,),
        )

    def why_full(self, cell: Cell, environment: BenchEnvironment) -> str | None:
        """That volumes of databases under load are full, as a sentence. Raises GrampusError."""
        names = member_names(environment.plan.name, cell.point.databases)
        return why_volumes_full(self._ports.databases.observe_rooms(names))

    def observe_settings(self, cell: Cell, environment: BenchEnvironment) -> dict[str, str]:
        """All variables of each server under load, its exact version among them, by file name.

        Raises GrampusError.
        """
        found = {}
        for name in member_names(environment.plan.name, cell.point.databases):
            rows = self._client(name).query("show global variables;\n")
            lines = ["\t".join(row) for row in rows]
            found[f"variables.{name}.txt"] = "".join(f"{line}\n" for line in lines)
        return found

    def drop_caches(self, cell: Cell, environment: BenchEnvironment) -> None:
        """Empty the buffer pools of the databases under load. Raises GrampusError."""
        names = member_names(environment.plan.name, cell.point.databases)
        if environment.plan.runtime == "vm":
            parameters = decide_parameters(cell, environment.plan)
            for name in names:
                self._remove_guest(name)
                self._set_in_guest(name, parameters)
            return
        _for_each(self._ports.databases.restart, names, at_once=SET_AT_ONCE)

    def settle(self, environments: list[BenchEnvironment]) -> None:
        """Wait, not for long, until no database of any environment writes out what it holds."""
        daemons, guests = [], {}
        for environment in environments:
            for name in member_names(environment.plan.name, environment.plan.count):
                if self._ports.databases.find(name) is None:
                    continue
                endpoint = self._ports.databases.endpoint(name)
                key = (endpoint.host, endpoint.daemon)
                if environment.plan.runtime == "vm":
                    key = (endpoint.host, guest_daemon_name(name))
                    if not self._runs(*key):
                        continue  # it has not been measured yet
                    guests[key] = IDLE_CORES
                daemons.append(key)
        wait_until_calm(
            self._ports.fleet,
            daemons,
            clock=self._ports.clock,
            max_s=SETTLE_S,
            idle_cores=guests,
        )

    def _ensure_driver(self, plan: EnvironmentPlan, name: str) -> None:
        if plan.driver is not None:
            self._ports.databases.ensure_driver(name, plan.driver)

    def _set(self, name: str, parameters: Mapping[str, str]) -> None:
        databases, record = self._ports.databases, self._record(name)
        try:
            running = databases.observe_variables(name, LIVE)
        except GrampusError:
            # It says more of why, if it cannot be started either.
            databases.ensure_running(name)
            running = databases.observe_variables(name, LIVE)
        change = decide_change(
            parameters, record.spec.parameters, record.started_parameters, running
        )
        if change.recorded:
            databases.record_parameters(name, change.parameters)
        if change.restarts:
            databases.restart(name)
        elif change.live:
            databases.set_live(name, change.live)

    def _set_in_guest(self, name: str, parameters: Mapping[str, str]) -> None:
        """What differs takes a start of the server: its administrator is known in it alone."""
        spec = self._record(name).spec
        changed = spec.model_copy(update={"parameters": dict(parameters)})
        self._ports.guests.ensure_serving(changed)
        if name not in self._in_guests:
            self._clients.pop(name, None)
            self._in_guests.add(name)

    def _remove_guest(self, name: str) -> None:
        self._ports.guests.ensure_absent(name)
        self._clients.pop(name, None)
        self._in_guests.discard(name)

    def _record(self, name: str) -> DatabaseRecord:
        record = self._ports.databases.find(name)
        if record is None:
            raise _not_there(name)
        return record

    def _endpoint(self, name: str) -> Endpoint:
        endpoint = self._ports.databases.endpoint(name)
        if name not in self._in_guests:
            return endpoint
        return endpoint.model_copy(update={"daemon": guest_daemon_name(name)})

    def _runs(self, host: str, daemon: str) -> bool:
        return observe_daemon_state(self._ports.fleet.host(host), daemon) == "running"

    def _client(self, name: str) -> ArmClient:
        client = self._clients.get(name)
        if client is None:
            endpoint = self._endpoint(name)
            host = self._ports.fleet.host(endpoint.host)
            directory = self._directory(host.name, name)
            client = ensure_client_files(host, endpoint, "mysql", directory)
            self._clients[name] = client
        return client

    def _directory(self, host: str, name: str) -> PurePosixPath:
        return self._ports.directory_on(host) / name


def _for_each(act: Callable[[str], None], names: Sequence[str], *, at_once: int) -> None:
    """All are done, or have failed, when it returns; the first failure is raised then."""
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        done = [pool.submit(act, name) for name in names]
    for one in done:
        one.result()


def _not_there(name: str) -> NotFoundError:
    return NotFoundError(
        f"The cell needs the database {name}, which does not exist.", "Prepare the cells again."
    )


def decide_tables(plan: EnvironmentPlan) -> SysbenchTables:
    """What loading a database's data asks for."""
    return SysbenchTables(
        tables=plan.tables,
        rows_per_table=plan.rows_per_table,
        threads=LOAD_THREADS,
        distribution="uniform",
        fresh_data=False,
    )


def began_at(line: str, at_s: float) -> float | None:
    """When sysbench's threads began, from the line that says so."""
    return at_s if line.strip() == STARTED_LINE else None


def read_sysbench(end: ClientEnd) -> tuple[DriverResult | DriverFailure, float]:
    """Its result, and when its load began."""
    return parse_sysbench(end.output), end.began_at_s
