"""The composition root, of suites of cells: a lab as the place on which they are measured."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any

from grampus.bench.counters import parse_memory
from grampus.bench.environments.environment_ports import EnvironmentPorts
from grampus.bench.environments.environment_records import BenchEnvironment
from grampus.bench.environments.layouts import describe_layout
from grampus.bench.environments.manifest import (
    decide_media,
    describe_components,
    describe_conf,
    describe_configuration,
    describe_copies,
    describe_medium,
    describe_osds,
    describe_program,
    without_defaults,
)
from grampus.bench.environments.monitors import HostMonitors
from grampus.bench.environments.offers import LabFeatures, decide_capabilities
from grampus.bench.environments.place import EnvironmentsPlace
from grampus.bench.environments.settings import POOL
from grampus.bench.guests.guest_plan import why_no_guest
from grampus.bench.guests.machines import observe_guest_machine
from grampus.bench.machine_facts import decide_facts, observe_machine
from grampus.bench.matrix.capabilities import Capabilities
from grampus.bench.matrix.cells import Cell
from grampus.cli.composition.bench import LabDevices, describe_lab
from grampus.cli.composition.bench_controller import controller_serving
from grampus.cli.composition.checkout import observe_commit
from grampus.cli.composition.environment_osds import LabEnvironmentOsdSets
from grampus.cli.composition.guests import guest_versions, lab_guests
from grampus.cli.composition.live import live_settings
from grampus.cli.composition.matrix_layout import LabLayout
from grampus.cli.composition.matrix_pools import LabEnvironmentPools
from grampus.cli.composition.matrix_tuning import LabTuning
from grampus.cli.composition.session import Session
from grampus.cli.options import in_lab
from grampus.core.errors import NotFoundError
from grampus.core.installation import INSTALLATION, find_volumed
from grampus.databases.administrator import Administrator, administrator_of
from grampus.databases.growth.decide_growth import FileSystem
from grampus.databases.growth.file_systems import observe_mounts
from grampus.databases.growth.growth import find_mount
from grampus.databases.live.live_changes import SET_PARAMETER, ParameterChange
from grampus.databases.live.live_server import ensure_options, ensure_pool_size
from grampus.databases.model import DatabaseRecord, Endpoint
from grampus.databases.request import CreateRequest
from grampus.hosts.cgroups import is_cgroup_v2
from grampus.lab.model import DATABASE_POOL
from grampus.state.runs import Setting
from grampus.volumes.decide_driver import decide_drivers
from grampus.volumes.decide_external_log import MIN_FILESYSTEM_BYTES
from grampus.volumes.drivers.volumed import VolumedProgram
from grampus.volumes.model import Attachment, DriverName, VolumeRecord, WritePath
from grampus.volumes.places import observe_capabilities

_MEMORY_FILE = "/proc/meminfo"


class LabPlace(EnvironmentsPlace):
    """A lab; a `CellPlace` of suites of cells."""

    def __init__(self, session: Session) -> None:
        facts = LabMatrixFacts(session)
        super().__init__(
            EnvironmentPorts(
                lab=session.lab_name,
                place=f"lab {session.lab_name}",
                store=session.store,
                fleet=session.fleet(),
                databases=LabEnvironmentDatabases(session),
                guests=lab_guests(session),
                volumes=LabEnvironmentVolumes(session),
                pools=LabEnvironmentPools(session),
                osd_sets=LabEnvironmentOsdSets(session),
                cluster=LabEnvironmentCluster(session),
                devices=LabDevices(session),
                monitors=HostMonitors(session.fleet(), session.clock),
                capabilities=facts.capabilities,
                facts=facts.facts,
                disk_room=facts.disk_room,
                clock=session.clock,
                progress=session.progress,
                raw_dir=session.home.lab_dir(session.lab_name) / "bench",
                tuning=LabTuning(session),
                layout=LabLayout(session),
                options=in_lab("", session.lab_name),
                controller=lambda: controller_serving(session.lab_name),
            ),
            # One machine's cores and one disk stand for all hosts and all devices.
            shape_only=True,
        )


class LabMatrixFacts:
    """What a lab can do, and what a run records of it."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def capabilities(self) -> Capabilities:
        session, spec = self._session, self._session.require_lab()
        host = session.fleet().hosts()[0]
        memory = parse_memory(host.read_file(PurePosixPath(_MEMORY_FILE)) or "")
        used = session.databases().operations.used_addresses()
        program = VolumedProgram(find_volumed())
        is_built = program.is_built()
        attaches = decide_drivers(observe_capabilities(host, program, changes_nothing=True))
        write_paths: tuple[WritePath, ...] = (
            ("direct", "journal", "cache") if is_built else ("direct",)
        )
        return decide_capabilities(
            LabFeatures(
                name=session.lab_name,
                copies=spec.copies,
                write_paths=write_paths,
                free_addresses=len(set(spec.database_addresses()) - used),
                available_memory_bytes=memory.available_bytes if memory else 0,
                versions=self._versions(),
                hosts=len(spec.osd_hosts),
                cores=os.cpu_count() or 1,
                other_hosts=len(spec.other_hosts),
                drivers=tuple(choice.driver for choice in attaches),
                guest_absence=why_no_guest(observe_guest_machine(host)),
            )
        )

    def facts(self, cells: Sequence[Cell]) -> list[Setting]:
        session, spec = self._session, self._session.require_lab()
        host = session.fleet().hosts()[0]
        points = [cell.point for cell in cells]
        found = decide_facts(
            without_defaults(describe_lab(session, DATABASE_POOL, {}), points),
            observe_machine(host),
            describe_components(self._versions()),
            describe_program(observe_commit(INSTALLATION.data), is_cgroup_v2=is_cgroup_v2()),
            [describe_osds(points), describe_copies(points), describe_layout(spec.other_hosts)],
            [describe_medium(media) for media in decide_media(points)],
            describe_conf(host.read_file(host.data_dir / "etc-ceph" / "ceph.conf") or ""),
            describe_configuration(session.cluster().query("config", "dump")),
        )
        return list(found)

    def disk_room(self) -> tuple[int, int]:
        usage = shutil.disk_usage(self._session.home.root)
        return usage.total, usage.free

    def _versions(self) -> dict[str, tuple[str, ...]]:
        session = self._session
        host = session.fleet().hosts()[0]
        sysbench = host.run(["sysbench", "--version"]).stdout.split()
        fio = host.run(["fio", "--version"]).stdout.strip().removeprefix("fio-")
        return {
            "ceph": (session.cluster().observe_versions().split()[0],),
            "mysql": tuple(session.server_images().versions("mysql")),
            "mariadb": (),
            "percona": (),
            **guest_versions(session),
            "sysbench": (sysbench[-1],) if sysbench else (),
            "fio": (fio,),
        }


def _journal_pool(environment: BenchEnvironment) -> str | None:
    """The pool of the journals of an environment; None: that of its images."""
    is_elsewhere = environment.plan.has_own_journal_pool and environment.pool != DATABASE_POOL
    return DATABASE_POOL if is_elsewhere else None


class LabEnvironmentDatabases:
    """Databases of the lab; an `EnvironmentDatabases`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._databases = session.databases()
        self._volumes = session.volumes()
        self._operations = self._databases.operations

    def settle(self, name: str) -> None:
        with self._operations.locked(name):
            self._operations.settle(name)

    def find(self, name: str) -> DatabaseRecord | None:
        record = self._operations.records.find(name)
        return record if record is not None and record.phase == "ready" else None

    def create(
        self,
        name: str,
        environment: BenchEnvironment,
        parameters: Mapping[str, str],
        *,
        host: str | None,
    ) -> None:
        plan = environment.plan
        spec = self._databases.plan_create(
            CreateRequest(
                name=name,
                size_bytes=plan.size_bytes,
                memory_bytes=plan.memory_bytes,
                cpus=float(os.cpu_count() or 1),
                write_path=plan.write_path,
                host=host,
            )
        )
        update = {
            "pool": environment.pool,
            "journal_pool": _journal_pool(environment),
            "parameters": dict(parameters),
            "runtime": "bare" if plan.runtime == "bare" else "container",
        }
        self._databases.create(spec.model_copy(update=update))

    def ensure_running(self, name: str) -> None:
        self._databases.start(name)

    def ensure_driver(self, name: str, driver: DriverName) -> None:
        attachment = self._volumes.get(name).attachment
        if attachment is not None and attachment.driver == driver:
            return
        host = self._databases.get(name).spec.host
        self._databases.stop(name)
        self._volumes.ensure_attached(name, host, driver=driver)
        # It takes the attachment that is there.
        self._databases.start(name)

    def ensure_stopped(self, name: str) -> None:
        if self._databases.get(name).desired == "running":
            self._databases.stop(name)

    def endpoint(self, name: str) -> Endpoint:
        return self._databases.endpoint(name)

    def observe_variables(self, name: str, names: tuple[str, ...]) -> dict[str, str]:
        expressions = ", ".join(f"@@global.{variable}" for variable in names)
        (row,) = self._administrator(name).query(f"SELECT {expressions}")
        return dict(zip(names, row, strict=True))

    def record_parameters(self, name: str, parameters: Mapping[str, str]) -> None:
        operations = self._operations
        with operations.locked(name):
            operations.settle(name)
            spec = operations.ready(name).spec
            # The one that its steps name; that of the buffer pool where nothing differs.
            changed = {*parameters.items()} ^ {*spec.parameters.items()}
            names = sorted(key for key, _ in changed if key in parameters)
            change = ParameterChange(
                changed=spec.model_copy(update={"parameters": dict(parameters)}),
                former_parameters=spec.parameters,
                parameter=names[0] if names else POOL,
                statement_value=None,
                former_statement_value=None,
                checked=False,
                running=True,
            )
            operations.run(SET_PARAMETER, change)

    def set_live(self, name: str, values: Mapping[str, str]) -> None:
        administrator = self._administrator(name)
        ensure_options(administrator, {key: v for key, v in values.items() if key != POOL})
        if POOL in values:
            ensure_pool_size(administrator, self._session.clock, int(values[POOL]))

    def restart(self, name: str) -> None:
        live_settings(self._session).restart(name)

    def observe_rooms(self, names: Sequence[str]) -> Mapping[str, FileSystem]:
        records = [record for name in names if (record := self.find(name)) is not None]
        hosts = sorted({record.spec.host for record in records})
        mounts = {host: observe_mounts(self._operations.fleet.host(host)) for host in hosts}
        found = {
            record.spec.name: find_mount(self._operations, record, mounts[record.spec.host])
            for record in records
        }
        return {name: mount.file_system for name, mount in found.items() if mount is not None}

    def ensure_absent(self, name: str) -> None:
        with suppress(NotFoundError):
            record = self._operations.records.find(name)
            if record is not None and record.phase == "ready" and record.spec.protected:
                self._databases.protect(name, False)
            self._databases.delete(name)

    def _administrator(self, name: str) -> Administrator:
        return administrator_of(self._operations.ports, self._databases.get(name).spec)


class LabEnvironmentVolumes:
    """Volumes of the lab; an `EnvironmentVolumes`."""

    def __init__(self, session: Session) -> None:
        self._volumes = session.volumes()

    def find(self, name: str) -> VolumeRecord | None:
        self._volumes.converge()
        return self._volumes.find(name)

    def create(self, name: str, environment: BenchEnvironment) -> None:
        plan = environment.plan
        # An image that nobody attaches has no file system to hold.
        least_bytes = max(plan.size_bytes, MIN_FILESYSTEM_BYTES)
        spec = self._volumes.plan_create(
            *(name, environment.pool, least_bytes),
            write_path=plan.write_path,
            journal_pool=_journal_pool(environment),
        )
        wanted = {
            "size_bytes": plan.size_bytes,
            "namespace": "default" if plan.in_default_namespace else spec.namespace,
        }
        self._volumes.create(spec.model_copy(update=wanted))

    def ensure_attached(self, name: str, host: str, driver: DriverName | None) -> Attachment:
        return self._volumes.ensure_attached(name, host, driver=driver)

    def ensure_absent(self, name: str) -> None:
        self._volumes.converge()
        if self._volumes.find(name) is not None:
            self._volumes.delete(name)


class LabEnvironmentCluster:
    """The lab's cluster; an `EnvironmentCluster`."""

    def __init__(self, session: Session) -> None:
        self._cluster = session.cluster()

    def ceph(self, *arguments: str) -> object:
        return self._cluster.ceph(*arguments)

    def query(self, *arguments: str) -> Any:
        return self._cluster.query(*arguments)

    def observe_osd_map(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._cluster.ask("osd dump")
        return found

    def observe_status(self) -> Mapping[str, Any]:
        status: Mapping[str, Any] = self._cluster.ask("status")
        return status
