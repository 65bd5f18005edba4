"""The operations on a database as lists of steps, rebuilt from the journaled spec alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from grampus.core.clock import Clock
from grampus.core.errors import GrampusError
from grampus.core.units import format_bytes
from grampus.databases.accounts import decide_user_name
from grampus.databases.credentials import CredentialFiles, render_option_file
from grampus.databases.instance import (
    ensure_files,
    ensure_initialised,
    ensure_instance_absent,
    ensure_serving,
)
from grampus.databases.layout import (
    InstancePlan,
    database_directory,
    plan_instance,
    plan_scratch_instance,
    scratch_directory,
)
from grampus.databases.model import (
    DatabaseRecord,
    DatabaseSpec,
    DesiredState,
    ScratchSpec,
    WritePathChange,
)
from grampus.databases.ports import VolumePort
from grampus.databases.records import DatabaseRecords, describe_facts, parse_journaled
from grampus.databases.settings import decide_server_settings
from grampus.hosts.port import Fleet, Host
from grampus.state.operations import Step
from grampus.volumes.model import VolumeSpec
from grampus.volumes.write_paths import describe_write_path

OperationKind = Literal[
    "db.create",
    "db.delete",
    "db.start",
    "db.stop",
    "db.protect",
    "db.resize",
    "db.set",
    "db.scratch",
    "db.scratch-stop",
]
IMAGE_PREFIX = "db-"


@dataclass(frozen=True)
class StepPorts:
    """What steps act on."""

    records: DatabaseRecords
    credentials: CredentialFiles
    clock: Clock
    fleet: Fleet
    volumes: VolumePort


def build_steps(
    ports: StepPorts, kind: OperationKind, document: Mapping[str, object]
) -> list[Step]:
    """The steps of an operation of `kind` that was journaled with `document`.

    Building them changes nothing: all looking and acting is inside the steps.
    """
    spec = parse_journaled(document)
    if isinstance(spec, ScratchSpec):
        return _SCRATCH_BUILDERS[kind](ports, spec)
    if isinstance(spec, WritePathChange):
        return _set_steps(ports, spec)
    return _BUILDERS[kind](ports, spec)


def _create_steps(ports: StepPorts, spec: DatabaseSpec) -> list[Step]:
    name = spec.name
    work = _DatabaseWork(ports, spec)
    return [
        Step("record", f"Record {name}", work.record, lambda: ports.records.remove(name)),
        Step(
            "secrets",
            "Make passwords",
            lambda: _ignore(ports.credentials.ensure(name)),
            lambda: ports.credentials.ensure_absent(name),
        ),
        Step(
            "volume",
            f"Create a volume of {format_bytes(spec.size_bytes)} in pool {spec.pool}",
            work.create_volume,
            lambda: ports.volumes.ensure_absent(name),
        ),
        Step(
            "attach",
            f"Attach the volume to {spec.host}",
            lambda: _ignore(ports.volumes.ensure_attached(name, spec.host)),
            lambda: ports.volumes.ensure_detached(name),
        ),
        Step("files", "Write configuration and certificates", work.files, work.remove_files),
        Step("initialise", "Initialise the data directory", work.initialise, work.stop_initialise),
        Step("address", f"Give {spec.host} the address {spec.address}", *work.address_changes()),
        Step("serve", f"Start the {spec.flavour} server", work.serve, work.kill_server),
        Step("finish", "Note that it is ready", work.finish),
    ]


def _delete_steps(ports: StepPorts, spec: DatabaseSpec) -> list[Step]:
    name = spec.name
    work = _DatabaseWork(ports, spec)
    return [
        Step("mark", f"Mark {name} as deleting", work.mark_deleting),
        Step("server", "Stop the server", work.remove_daemons),
        Step("scratch", "Remove its scratch instance, if any", work.remove_scratch),
        Step("address", f"Take the address {spec.address} away", work.address_changes()[1]),
        Step("volume", "Remove the volume", lambda: ports.volumes.ensure_absent(name)),
        Step("files", f"Remove its files on {spec.host}", work.remove_files),
        Step("secrets", "Forget passwords", lambda: ports.credentials.ensure_absent(name)),
        Step("record", f"Forget {name}", lambda: ports.records.remove(name)),
    ]


def _start_steps(ports: StepPorts, spec: DatabaseSpec) -> list[Step]:
    work = _DatabaseWork(ports, spec)
    return [
        Step("want", f"Note that {spec.name} shall run", *work.desire_changes("running")),
        Step(
            "attach",
            f"Attach the volume to {spec.host}",
            work.attach_again,
            lambda: ports.volumes.ensure_detached(spec.name),
        ),
        Step("files", "Write configuration", work.files),
        Step("address", f"Give {spec.host} the address {spec.address}", *work.address_changes()),
        Step("serve", f"Start the {spec.flavour} server", work.serve, work.stop_server),
        Step("finish", "Note its version", work.finish),
    ]


def _stop_steps(ports: StepPorts, spec: DatabaseSpec) -> list[Step]:
    work = _DatabaseWork(ports, spec)
    return [
        Step("want", f"Note that {spec.name} shall not run", work.desire_changes("stopped")[0]),
        Step("server", "Stop the server", work.stop_server),
        Step("address", f"Take the address {spec.address} away", work.address_changes()[1]),
        Step("detach", "Detach the volume", lambda: ports.volumes.ensure_detached(spec.name)),
    ]


def _protect_steps(ports: StepPorts, spec: DatabaseSpec) -> list[Step]:
    word = "protected" if spec.protected else "not protected"
    return [
        Step(
            "record",
            f"Record that {spec.name} is {word}",
            lambda: ports.records.change(spec.name, spec=spec),
        ),
        Step("metadata", "Note it on the image", _DatabaseWork(ports, spec).write_facts),
    ]


def _resize_steps(ports: StepPorts, spec: DatabaseSpec) -> list[Step]:
    size = format_bytes(spec.size_bytes)
    return [
        Step(
            "volume",
            f"Grow the volume to {size}",
            lambda: ports.volumes.ensure_size(spec.name, spec.size_bytes),
        ),
        Step(
            "record",
            f"Record that {spec.name} has {size}",
            lambda: ports.records.change(spec.name, spec=spec),
        ),
        Step("metadata", "Note it on the image", _DatabaseWork(ports, spec).write_facts),
    ]


def _set_steps(ports: StepPorts, change: WritePathChange) -> list[Step]:
    """A change of the write path, which is settled while the volume is attached nowhere.

    It keeps what the user wants of the database: undone, it runs again as it did before.
    """
    spec = change.changed
    former = spec.model_copy(
        update={"write_path": change.former, "max_lag_ms": change.former_max_lag_ms}
    )
    name, work, former_work = spec.name, _DatabaseWork(ports, spec), _DatabaseWork(ports, former)

    def detach() -> None:
        ports.volumes.ensure_detached(name)

    def write_by(path_of: DatabaseSpec) -> None:
        lag_ms = path_of.max_lag_ms if path_of.write_path == "cache" else None
        ports.volumes.ensure_write_path(name, path_of.write_path, max_lag_ms=lag_ms)

    stop = Step("server", "Stop the server", work.stop_server, former_work.bring_up)
    change_steps = [
        Step("detach", "Detach the volume", detach),
        Step(
            "volume",
            f"Set the write path of the volume to "
            f"{describe_write_path(spec.write_path, spec.max_lag_ms)}",
            lambda: write_by(spec),
            lambda: write_by(former),
        ),
        Step(
            "record",
            f"Record it with {name}",
            lambda: ports.records.change(name, spec=spec),
            lambda: ports.records.change(name, spec=former),
        ),
        Step("metadata", "Note it on the image", work.write_facts, former_work.write_facts),
    ]
    if not change.restarts:
        return change_steps
    return [stop, *change_steps, *_start_steps(ports, spec)[1:]]


def _scratch_steps(ports: StepPorts, scratch: ScratchSpec) -> list[Step]:
    name = scratch.database.name
    work = _ScratchWork(ports, scratch)
    return [
        Step(
            "record",
            f"Record the scratch instance of {name}",
            lambda: ports.records.put_scratch(scratch),
            lambda: ports.records.remove_scratch(name),
        ),
        Step("files", "Write configuration and certificates", work.files, work.remove),
        Step("initialise", "Initialise its data on the host's own disk", work.initialise),
        Step("serve", f"Start it at {scratch.address}", work.serve),
    ]


def _scratch_stop_steps(ports: StepPorts, scratch: ScratchSpec) -> list[Step]:
    work = _ScratchWork(ports, scratch)
    return [Step("stop", f"Stop the scratch instance of {scratch.database.name}", work.stop)]


_BUILDERS: dict[OperationKind, Callable[[StepPorts, DatabaseSpec], list[Step]]] = {
    "db.create": _create_steps,
    "db.delete": _delete_steps,
    "db.start": _start_steps,
    "db.stop": _stop_steps,
    "db.protect": _protect_steps,
    "db.resize": _resize_steps,
}
_SCRATCH_BUILDERS: dict[OperationKind, Callable[[StepPorts, ScratchSpec], list[Step]]] = {
    "db.scratch": _scratch_steps,
    "db.scratch-stop": _scratch_stop_steps,
}


class _DatabaseWork:
    """What the steps of one database do; every method is idempotent."""

    def __init__(self, ports: StepPorts, spec: DatabaseSpec) -> None:
        self._ports = ports
        self._spec = spec

    def record(self) -> None:
        spec = self._spec
        if self._ports.records.find(spec.name) is not None:
            return
        settings = decide_server_settings(
            spec.flavour, spec.size_bytes, spec.memory_bytes, spec.cpus
        )
        self._ports.records.put(
            DatabaseRecord(
                spec=spec,
                user=decide_user_name(spec.name),
                server_version="",
                buffer_pool_bytes=settings.buffer_pool_bytes,
                created_at=self._ports.clock.now(),
                phase="creating",
            )
        )

    def create_volume(self) -> None:
        spec = self._spec
        self._ports.volumes.ensure_created(
            VolumeSpec(
                name=spec.name,
                pool=spec.pool,
                image=f"{IMAGE_PREFIX}{spec.name}",
                size_bytes=spec.size_bytes,
                write_path=spec.write_path,
                max_lag_ms=spec.max_lag_ms,
            )
        )
        self.write_facts()

    def write_facts(self) -> None:
        owner = decide_user_name(self._spec.name)
        self._ports.volumes.set_metadata(self._spec.name, describe_facts(self._spec, owner))

    def files(self) -> None:
        plan = self._plan()
        credentials = self._ports.credentials.ensure(self._spec.name)
        ensure_files(self._host(), plan, credentials)
        authority = self._host().read_file(plan.tls_dir / "ca.pem")
        if authority is None:
            raise GrampusError(
                f"The certificate {plan.tls_dir / 'ca.pem'} is gone from {self._spec.host}.",
                "Remove that directory and start the database again: new ones are made.",
            )
        self._ports.credentials.write_client_files(
            self._spec.name,
            render_option_file(
                credentials,
                address=plan.address,
                port=plan.port,
                ca_file=str(self._ports.credentials.ca_file(self._spec.name)),
            ),
            authority,
        )

    def remove_files(self) -> None:
        host = self._host()
        host.run(["rm", "-rf", str(database_directory(host.data_dir, self._spec.name))])

    def initialise(self) -> None:
        credentials = self._ports.credentials.load(self._spec.name)
        ensure_initialised(self._host(), self._plan(), credentials, self._ports.clock)

    def stop_initialise(self) -> None:
        self._host().ensure_daemon_absent(self._names().init_daemon, kill=True)

    def address_changes(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """How the address is given to the host, and how it is taken away."""
        address = self._spec.address
        return (
            lambda: self._host().ensure_address(address),
            lambda: self._host().ensure_address_absent(address),
        )

    def desire_changes(
        self, desired: DesiredState
    ) -> tuple[Callable[[], None], Callable[[], None]]:
        """How `desired` is noted, and its opposite."""
        opposite: DesiredState = "stopped" if desired == "running" else "running"
        return (
            lambda: self._ports.records.change(self._spec.name, desired=desired),
            lambda: self._ports.records.change(self._spec.name, desired=opposite),
        )

    def attach_again(self) -> None:
        if not self._ports.volumes.is_attached(self._spec.name):
            # What it has not written is lost to it already, and it keeps the dead mount busy.
            self.kill_server()
        self._ports.volumes.ensure_attached(self._spec.name, self._spec.host)

    def serve(self) -> None:
        version = ensure_serving(self._host(), self._plan(), self._ports.clock)
        self._ports.records.change(self._spec.name, server_version=version)

    def bring_up(self) -> None:
        """As a start, but for what the user wants of it."""
        for step in _start_steps(self._ports, self._spec)[1:]:
            step.apply()

    def stop_server(self) -> None:
        self._host().ensure_daemon_absent(self._names().daemon)

    def kill_server(self) -> None:
        self._host().ensure_daemon_absent(self._names().daemon, kill=True)

    def remove_daemons(self) -> None:
        self.kill_server()
        self.stop_initialise()

    def finish(self) -> None:
        self._ports.records.change(self._spec.name, phase="ready")

    def mark_deleting(self) -> None:
        self._ports.records.change(self._spec.name, phase="deleting", desired="stopped")

    def remove_scratch(self) -> None:
        scratch = self._ports.records.find_scratch(self._spec.name)
        if scratch is not None:
            _ScratchWork(self._ports, scratch).remove()
            self._ports.records.remove_scratch(self._spec.name)

    def _host(self) -> Host:
        return self._ports.fleet.host(self._spec.host)

    def _plan(self) -> InstancePlan:
        name = self._spec.name
        # The step before this one has attached it: to look again would cost several commands.
        attachment = self._ports.volumes.get(name).attachment
        if attachment is None:
            attachment = self._ports.volumes.ensure_attached(name, self._spec.host)
        return plan_instance(
            self._spec, self._host().data_dir, PurePosixPath(attachment.mount_path)
        )

    def _names(self) -> InstancePlan:
        """The plan for its names alone: good while the volume is away."""
        return plan_instance(self._spec, self._host().data_dir, PurePosixPath("/nonexistent"))


class _ScratchWork:
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
        self._host().ensure_address(self._scratch.address)
        ensure_serving(self._host(), self._plan(), self._ports.clock)

    def stop(self) -> None:
        self._host().ensure_daemon_absent(self._plan().daemon)
        self._host().ensure_address_absent(self._scratch.address)

    def remove(self) -> None:
        host, plan = self._host(), self._plan()
        ensure_instance_absent(
            host,
            daemons=(plan.daemon, plan.init_daemon),
            directory=scratch_directory(host.data_dir, self._scratch.database.name),
            address=self._scratch.address,
        )

    def _host(self) -> Host:
        return self._ports.fleet.host(self._scratch.database.host)

    def _plan(self) -> InstancePlan:
        return plan_scratch_instance(self._scratch, self._host().data_dir)


def _ignore(_value: object) -> None:
    """Let a function that answers stand where a step wants none."""
