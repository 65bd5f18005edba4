"""Databases: created, shown, started, stopped, protected and deleted.

Every change is an operation in the journal, made while the database's lock is held. Whoever
takes the lock and finds an unfinished operation first finishes or undoes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, cast

from grampus.core.clock import Clock
from grampus.core.errors import GrampusError, NotFoundError, RefusedError, UsageError
from grampus.core.names import require_name
from grampus.core.progress import Progress
from grampus.databases.credentials import CredentialFiles
from grampus.databases.instance import observe_daemon_state
from grampus.databases.layout import (
    client_option_file,
    database_directory,
    scratch_daemon_name,
    scratch_directory,
    server_daemon_name,
)
from grampus.databases.model import (
    DatabaseRecord,
    DatabaseSpec,
    Endpoint,
    Journaled,
    ScratchSpec,
    WritePathChange,
)
from grampus.databases.placement import decide_address, decide_server_id
from grampus.databases.planning import CreatePlanner
from grampus.databases.ports import ClusterPort, ImagePort, VolumePort
from grampus.databases.records import DatabaseRecords, parse_journaled
from grampus.databases.request import CreateRequest
from grampus.databases.steps import OperationKind, StepPorts, build_steps
from grampus.databases.view import (
    ClientCommand,
    CreatedDatabase,
    DatabaseView,
    classify_status,
    client_argv,
    render_client_command,
    render_connection_string,
)
from grampus.hosts.port import DaemonState, Fleet, HostUnreachableError
from grampus.state.home import Home
from grampus.state.locks import hold_lock
from grampus.state.operations import Operation, OperationJournal
from grampus.state.store import Store
from grampus.volumes.model import VolumeRecord, WritePath
from grampus.volumes.write_paths import decide_max_lag_ms

# `list` is a method of the service: inside it, the type goes by these names.
Sentences = list[str]
Views = list[DatabaseView]

KIND_PREFIX = "db."
# Finished when found cut off; the others are undone.
_FINISHED_KINDS: frozenset[OperationKind] = frozenset(
    {"db.delete", "db.start", "db.stop", "db.protect", "db.resize", "db.set", "db.scratch-stop"}
)
# Of those, undone when finishing them fails.
_UNDONE_ON_FAILURE: frozenset[OperationKind] = frozenset({"db.start", "db.set"})
_WHAT: dict[OperationKind, str] = {
    "db.create": "creation of the database",
    "db.delete": "deletion of the database",
    "db.start": "start of the database",
    "db.stop": "stop of the database",
    "db.protect": "change of protection of the database",
    "db.resize": "resize of the database",
    "db.set": "change of the write path of the database",
    "db.scratch": "start of the scratch instance of",
    "db.scratch-stop": "stop of the scratch instance of",
}


class DatabaseService:
    """The databases of one lab or cluster."""

    def __init__(
        self,
        lab: str,
        home: Home,
        store: Store,
        journal: OperationJournal,
        clock: Clock,
        fleet: Fleet,
        volumes: VolumePort,
        images: ImagePort,
        cluster: ClusterPort,
        progress: Progress,
    ) -> None:
        self._lab = lab
        self._home = home
        self._journal = journal
        self._clock = clock
        self._fleet = fleet
        self._volumes = volumes
        self._progress = progress
        self._records = DatabaseRecords(store, lab)
        self._credentials = CredentialFiles(home.secrets_dir(lab))
        self._planner = CreatePlanner(self._records, fleet, volumes, images, cluster)
        self._ports = StepPorts(self._records, self._credentials, clock, fleet, volumes)

    # -- create -------------------------------------------------------------------------------

    def plan_create(self, request: CreateRequest) -> DatabaseSpec:
        """Everything about the new database, chosen and checked; nothing is changed.

        Raises UsageError for what can never be, NotFoundError for a host that is not there,
        RefusedError with code `name-taken`, `too-big`, `no-host`, `no-address` or what the pool
        says, HostUnreachableError, and what building the host image raises.
        """
        return self._planner.plan(request, self._used_addresses())

    def create(self, spec: DatabaseSpec) -> CreatedDatabase:
        """Make the database and wait until its user can log in.

        On failure or Ctrl-C everything is undone and the error raised again.
        """
        with self._locked(spec.name):
            self._settle(spec.name)
            with self._addresses_locked():
                self._planner.require_name_free(spec.name)
                spec = self._planner.settle_address(spec, self._used_addresses())
                operation = self._begin("db.create", spec)
            self._apply(operation, spec, undo_on_failure=True)
        endpoint = self.endpoint(spec.name)
        return CreatedDatabase(
            record=self._records.get(spec.name),
            endpoint=endpoint,
            connection_string=render_connection_string(endpoint),
            client_command=render_client_command(spec.flavour, str(self.option_file(spec.name))),
        )

    def describe(self, kind: OperationKind, spec: Journaled) -> Sentences:
        """What an operation would do, one line a step, for `--dry-run`."""
        return [step.title for step in build_steps(self._ports, kind, _journaled(spec))]

    # -- look ---------------------------------------------------------------------------------

    def get(self, name: str) -> DatabaseRecord:
        """The record. Raises NotFoundError."""
        return self._records.get(name)

    def list(self) -> Views:
        """All databases, by name."""
        return self._views(list(self._records.all().values()))

    def show(self, name: str) -> DatabaseView:
        """One database. Raises NotFoundError."""
        return self._views([self._records.get(name)])[0]

    def endpoint(self, name: str) -> Endpoint:
        """How to reach the instance. Raises NotFoundError, RefusedError with code `not-ready`."""
        spec = self._ready(name).spec
        directory = database_directory(self._fleet.host(spec.host).data_dir, name)
        return self._endpoint(spec, spec.address, server_daemon_name(name), directory)

    def option_file(self, name: str) -> Path:
        """Client options on this machine, mode 0600. Raises NotFoundError."""
        self._records.get(name)
        return self._credentials.option_file(name)

    def client_argv(self, name: str, sql: str | None = None) -> ClientCommand:
        """The client to run in the instance's daemon, logged in as the database's user.

        Raises NotFoundError, RefusedError with code `not-running`.
        """
        endpoint = self.endpoint(name)
        view = self.show(name)
        if view.status != "running":
            raise RefusedError(
                f"The database {name} is not running ({view.status}).",
                f"`grampus db start {name}` starts it."
                if view.status in ("stopped", "volume-lost")
                else "Bring its host back, then try again.",
                code="not-running",
            )
        argv = client_argv(view.record.spec.flavour, endpoint.option_file, sql)
        return ClientCommand(endpoint.host, endpoint.daemon, argv)

    # -- change -------------------------------------------------------------------------------

    def delete(self, name: str) -> None:
        """Remove the database and all that was made for it. Never undone: finished later.

        Raises NotFoundError, RefusedError with code `protected`, HostUnreachableError.
        """
        with self._locked(name):
            deleting = any(op.kind == "db.delete" for op in self._unfinished(name))
            self._settle(name)
            record = self._records.find(name)
            if record is None and deleting:
                return
            record = self._records.get(name)
            if record.spec.protected:
                raise RefusedError(
                    f"The database {name} is protected.",
                    f"`grampus db unprotect {name}` allows it to be deleted.",
                    code="protected",
                )
            self._require_reachable(record.spec.host)
            operation = self._begin("db.delete", record.spec)
            self._apply(operation, record.spec, undo_on_failure=False)

    def protect(self, name: str, protected: bool) -> None:
        """Forbid the database to be deleted, or allow it again. Raises NotFoundError."""
        with self._locked(name):
            self._settle(name)
            spec = self._ready(name).spec.model_copy(update={"protected": protected})
            self._apply(self._begin("db.protect", spec), spec, undo_on_failure=False)

    def plan_resize(self, name: str, size_bytes: int) -> DatabaseSpec:
        """The database as it shall be, on a bigger volume.

        Raises NotFoundError, RefusedError with code `not-ready` or what the volume says (`shrink`,
        `cannot-grow`, `pool-full`), HostUnreachableError.
        """
        record = self._ready(name)
        size_bytes = self._volumes.plan_resize(name, size_bytes).size_bytes
        return record.spec.model_copy(update={"size_bytes": size_bytes})

    def resize(self, name: str, size_bytes: int) -> None:
        """Grow the database's volume, also while it runs; never undone, but finished later.

        The server's own settings that follow from the size are taken at its next start. Raises
        what `plan_resize` raises.
        """
        with self._locked(name):
            self._settle(name)
            spec = self.plan_resize(name, size_bytes)
            self._apply(self._begin("db.resize", spec), spec, undo_on_failure=False)

    def plan_write_path(
        self, name: str, write_path: WritePath | None, *, max_lag_ms: int | None = None
    ) -> WritePathChange | None:
        """What it takes to write by that path from now on; None when it does so already.

        What is None stays, or is the default of a new path. Raises NotFoundError, UsageError for
        a `max_lag_ms` without `cache`, RefusedError with code `not-ready`, HostUnreachableError,
        and GrampusError with code `no-volumed` or `no-driver` when its host cannot serve that path.
        """
        record = self._ready(name)
        path = write_path or record.spec.write_path
        lag_ms = decide_max_lag_ms(path, max_lag_ms, former_ms=record.spec.max_lag_ms)
        changed = record.spec.model_copy(update={"write_path": path, "max_lag_ms": lag_ms})
        if changed == record.spec:
            return None
        self._require_reachable(record.spec.host)
        self._volumes.require_served(record.spec.host, path)
        return WritePathChange(
            changed=changed,
            former=record.spec.write_path,
            former_max_lag_ms=record.spec.max_lag_ms,
            restarts=record.desired == "running",
        )

    def set_write_path(
        self, name: str, write_path: WritePath | None, *, max_lag_ms: int | None = None
    ) -> None:
        """Write by that path from now on; a database that shall run is stopped and started.

        On failure it runs again as it did before. Raises what `plan_write_path` raises.
        """
        with self._locked(name):
            self._settle(name)
            change = self.plan_write_path(name, write_path, max_lag_ms=max_lag_ms)
            if change is not None:
                self._apply(self._begin("db.set", change), change, undo_on_failure=True)

    def start(self, name: str) -> None:
        """Run the database, now and after every restart; nothing happens when it runs.

        A server whose volume was lost (its driver was killed) is ended and started anew.

        On failure it is left stopped. Raises NotFoundError, HostUnreachableError.
        """
        with self._locked(name):
            self._settle(name)
            record = self._ready(name)
            self._require_reachable(record.spec.host)
            if (
                record.desired == "running"
                and self._state(record.spec) == "running"
                and self._volumes.is_attached(name)
            ):
                return
            operation = self._begin("db.start", record.spec)
            self._apply(operation, record.spec, undo_on_failure=True)

    def stop(self, name: str) -> None:
        """Stop the database until it is started again, and detach its volume.

        Raises NotFoundError, HostUnreachableError.
        """
        with self._locked(name):
            self._settle(name)
            record = self._ready(name)
            self._require_reachable(record.spec.host)
            operation = self._begin("db.stop", record.spec)
            self._apply(operation, record.spec, undo_on_failure=False)

    # -- converge -----------------------------------------------------------------------------

    def converge(self) -> Sentences:
        """Finish or undo operations whose process is gone; what was done, in sentences.

        Databases that another process works on are left to it. What cannot be settled now (a
        host is down) is said and stays for the next time.
        """
        sentences: Sentences = []
        subjects = {
            operation.subject: None
            for operation in self._journal.unfinished(self._lab, kind_prefix=KIND_PREFIX)
        }
        for name in subjects:
            try:
                with self._locked(name, timeout_s=0.0):
                    sentences += self._settle(name)
            except GrampusError as error:
                if error.code != "busy":
                    sentences.append(
                        f"Work on the database {name} that had been cut off could not be settled: "
                        f"{error}"
                    )
        return sentences

    def ensure_running(self) -> Sentences:
        """Bring every database that shall run up again, as after a restart of its host.

        Answers with one sentence for each that could not be brought up.
        """
        problems: Sentences = []
        for name, record in self._records.all().items():
            if record.phase != "ready" or record.desired != "running":
                continue
            self._progress.phase(f"Start {name}")
            try:
                with self._locked(name):
                    self._settle(name)
                    self._bring_up(name)
            except GrampusError as error:
                problems.append(f"The database {name} could not be started: {error}")
        return problems

    def suspend(self) -> Sentences:
        """Stop every instance and detach every volume; `ensure_running` brings them back.

        Hosts that cannot be reached are passed over. Answers with one sentence for each database
        that could not be stopped cleanly.
        """
        problems: Sentences = []
        for name, record in self._records.all().items():
            if not self._fleet.is_reachable(record.spec.host):
                continue
            self._progress.phase(f"Stop {name}")
            try:
                with self._locked(name):
                    self._settle(name)
                    self._take_down(name)
            except GrampusError as error:
                problems.append(f"The database {name} could not be stopped: {error}")
        return problems

    # -- the scratch instance of a benchmark --------------------------------------------------

    def ensure_local_instance(self, name: str) -> Endpoint:
        """The scratch instance of `name`, running: the same server, data on the host's own disk.

        Raises NotFoundError, HostUnreachableError, RefusedError with code `no-address`.
        """
        with self._locked(name):
            self._settle(name)
            spec = self._ready(name).spec
            self._require_reachable(spec.host)
            with self._addresses_locked():
                scratch = self._records.find_scratch(name) or self._new_scratch(spec)
                operation = self._begin("db.scratch", scratch)
            self._apply(operation, scratch, undo_on_failure=True)
        directory = scratch_directory(self._fleet.host(spec.host).data_dir, name)
        return self._endpoint(spec, scratch.address, scratch_daemon_name(name), directory)

    def ensure_local_instance_absent(self, name: str) -> None:
        """Stop the scratch instance. Its data stays until the database is deleted."""
        with self._locked(name):
            self._settle(name)
            scratch = self._records.find_scratch(name)
            if scratch is None:
                return
            operation = self._begin("db.scratch-stop", scratch)
            self._apply(operation, scratch, undo_on_failure=False)

    # -- inside -------------------------------------------------------------------------------

    @contextmanager
    def _locked(self, name: str, *, timeout_s: float = 10.0) -> Iterator[None]:
        try:
            require_name("database", name)  # it becomes a part of a file's name
        except UsageError:
            self._records.get(name)  # raises: there can be no such database
            raise
        lock = f"db.{self._lab}.{name}"
        with hold_lock(self._home, lock, self._clock, timeout_s=timeout_s):
            yield

    @contextmanager
    def _addresses_locked(self) -> Iterator[None]:
        """Held from choosing an address until an operation is journaled that holds it."""
        with hold_lock(self._home, f"db-addresses.{self._lab}", self._clock):
            yield

    def _used_addresses(self) -> set[str]:
        journaled = {
            parse_journaled(operation.spec).address
            for operation in self._journal.unfinished(self._lab, kind_prefix=KIND_PREFIX)
        }
        return self._records.addresses() | journaled

    def _new_scratch(self, spec: DatabaseSpec) -> ScratchSpec:
        address = decide_address(self._fleet.database_addresses(), self._used_addresses())
        return ScratchSpec(database=spec, address=address, server_id=decide_server_id(address))

    def _begin(self, kind: OperationKind, spec: Journaled) -> Operation:
        return self._journal.begin(kind, self._lab, _subject(spec), _journaled(spec))

    def _apply(self, operation: Operation, spec: Journaled, *, undo_on_failure: bool) -> None:
        steps = build_steps(self._ports, _kind(operation), _journaled(spec))
        self._journal.apply(operation, steps, self._progress, undo_on_failure=undo_on_failure)

    def _unfinished(self, name: str) -> Sequence[Operation]:
        operations = self._journal.unfinished(self._lab, kind_prefix=KIND_PREFIX)
        return [operation for operation in operations if operation.subject == name]

    def _settle(self, name: str) -> Sentences:
        """Finish or undo what was cut off; the lock of `name` is held, so nobody is at it."""
        sentences: Sentences = []
        for operation in self._unfinished(name):
            kind = _kind(operation)
            steps = build_steps(self._ports, kind, operation.spec)
            if kind in _FINISHED_KINDS and operation.status == "running":
                self._journal.apply(
                    operation, steps, self._progress, undo_on_failure=kind in _UNDONE_ON_FAILURE
                )
                done = "finished"
            else:
                why = operation.error or "its process was cut off"
                self._journal.undo(operation, steps, self._progress, error=why)
                done = "undone"
            sentences.append(f"The {_WHAT[kind]} {name} had been cut off; it is now {done}.")
        return sentences

    def _bring_up(self, name: str) -> None:
        record = self._records.find(name)
        if record is None or record.phase != "ready" or record.desired != "running":
            return
        self._require_reachable(record.spec.host)
        for step in build_steps(self._ports, "db.start", _journaled(record.spec)):
            step.apply()

    def _take_down(self, name: str) -> None:
        record = self._records.find(name)
        if record is None:
            return
        scratch = self._records.find_scratch(name)
        if scratch is not None:
            for step in build_steps(self._ports, "db.scratch-stop", _journaled(scratch)):
                step.apply()
        for step in build_steps(self._ports, "db.stop", _journaled(record.spec)):
            if step.name != "want":  # what the user wants of it stays as it is
                step.apply()

    def _ready(self, name: str) -> DatabaseRecord:
        record = self._records.get(name)
        if record.phase != "ready":
            raise RefusedError(
                f"The database {name} is not ready: it is {record.phase}.",
                "Wait until the command that works on it ends, then try again.",
                code="not-ready",
            )
        return record

    def _require_reachable(self, host: str) -> None:
        if not self._fleet.is_reachable(host):
            raise HostUnreachableError(
                f"The host {host} cannot be reached.", "Bring it back, then try again."
            )

    def _state(self, spec: DatabaseSpec) -> DaemonState:
        return observe_daemon_state(self._fleet.host(spec.host), server_daemon_name(spec.name))

    def _views(self, records: Sequence[DatabaseRecord]) -> Views:
        states: dict[str, dict[str, DaemonState]] = {}
        for host in {record.spec.host for record in records}:
            if self._fleet.is_reachable(host):
                daemons = self._fleet.host(host).observe_daemons()
                states[host] = {daemon.name: daemon.state for daemon in daemons}
        return [self._view(record, states.get(record.spec.host)) for record in records]

    def _view(
        self, record: DatabaseRecord, daemons: Mapping[str, DaemonState] | None
    ) -> DatabaseView:
        name = record.spec.name
        daemon = (daemons or {}).get(server_daemon_name(name), "absent")
        # One that is being made may have none yet.
        shall_run = record.phase == "ready" and record.desired == "running"
        status = classify_status(
            record.phase,
            host_reachable=daemons is not None,
            daemon=daemon,
            volume_alive=not shall_run or daemons is None or self._volumes.is_attached(name),
        )
        return DatabaseView(record=record, status=status, volume=self._find_volume(name))

    def _find_volume(self, name: str) -> VolumeRecord | None:
        try:
            return self._volumes.get(name)
        except NotFoundError:
            return None

    def _endpoint(
        self, spec: DatabaseSpec, address: str, daemon: str, directory: PurePosixPath
    ) -> Endpoint:
        credentials = self._credentials.load(spec.name)
        return Endpoint(
            address=address,
            port=spec.port,
            user=credentials.user,
            password=credentials.password,
            daemon=daemon,
            host=spec.host,
            option_file=str(client_option_file(directory)),
        )


def _kind(operation: Operation) -> OperationKind:
    return cast(OperationKind, operation.kind)


def _subject(spec: Journaled) -> str:
    match spec:
        case ScratchSpec():
            return spec.database.name
        case WritePathChange():
            return spec.changed.name
    return spec.name


def _journaled(spec: Journaled) -> dict[str, Any]:
    return spec.model_dump(mode="json")
