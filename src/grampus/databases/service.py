"""Databases: created, shown, started, stopped, protected and deleted.

Every change is an operation in the journal, made while the database's lock is held. Whoever
takes the lock and finds an unfinished operation first finishes or undoes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Unpack

from grampus.core.clock import Clock
from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.core.progress import Progress
from grampus.core.weekly_window import WeeklyWindow
from grampus.databases.administrator import REFUSALS
from grampus.databases.changes import (
    PROTECT,
    RESIZE,
    SET_FAILOVER,
    SET_RETENTION,
    SET_WINDOW,
    SET_WRITE_PATH,
    write_path_change,
)
from grampus.databases.clones.decide_golden import GoldenSpec
from grampus.databases.clones.golden import GoldenVolumes
from grampus.databases.creating import CREATE, CreateOrder
from grampus.databases.database_work import DatabaseWork
from grampus.databases.host_addresses import assign_address
from grampus.databases.instance import observe_daemon_state
from grampus.databases.kinds import DatabaseOperation
from grampus.databases.layout import (
    client_option_file,
    database_directory,
    scratch_daemon_name,
    scratch_directory,
    server_daemon_name,
)
from grampus.databases.lifecycle import (
    DELETE,
    START,
    STOP,
    bring_up,
    make_start_order,
    take_down,
)
from grampus.databases.model import (
    DatabaseRecord,
    DatabaseSpec,
    Endpoint,
    FailoverMode,
    ScratchOrder,
    ScratchSpec,
    WritePathChange,
)
from grampus.databases.operating import DatabaseOperations
from grampus.databases.planning import CreatePlanner
from grampus.databases.ports import ClusterPort, ImagePort, VolumePort
from grampus.databases.request import CreateRequest
from grampus.databases.scratch import SCRATCH, SCRATCH_STOP
from grampus.databases.scratch_work import ScratchWork
from grampus.databases.server_end import ServerEnd, explain_end, observe_end
from grampus.databases.view import (
    ClientCommand,
    CreatedDatabase,
    DatabaseView,
    classify_status,
    client_argv,
    render_client_command,
)
from grampus.hosts.port import DaemonState, DaemonStatus, Fleet
from grampus.operations.runner import OperationRunner
from grampus.state.home import Home
from grampus.state.store import Store
from grampus.volumes.model import VolumeRecord, WritePath
from grampus.volumes.write_paths import WriteBounds, decide_written

# Databases that are looked at side by side: a volume's client that hangs is waited for once, not
# once for each.
_LOOKS_AT_ONCE = 8
# `list` is a method of the service: inside it, the type goes by these names.
Sentences = list[str]
Views = list[DatabaseView]


class DatabaseService:
    """The databases of one lab or cluster."""

    def __init__(
        self,
        lab: str,
        home: Home,
        store: Store,
        runner: OperationRunner,
        clock: Clock,
        fleet: Fleet,
        volumes: VolumePort,
        images: ImagePort,
        cluster: ClusterPort,
        progress: Progress,
    ) -> None:
        self._operations = DatabaseOperations(
            lab, home, store, runner, clock, fleet, volumes, progress
        )
        self._fleet = fleet
        self._volumes = volumes
        self._progress = progress
        self._records = self._operations.records
        self._credentials = self._operations.credentials
        self._planner = CreatePlanner(self._records, fleet, volumes, images, cluster)
        self._golden = GoldenVolumes(self._operations, images)

    @property
    def operations(self) -> DatabaseOperations:
        """What the services of single features stand on."""
        return self._operations

    @property
    def planner(self) -> CreatePlanner:
        """What chooses host and address of whatever becomes a database."""
        return self._planner

    # -- create -------------------------------------------------------------------------------

    def plan_create(self, request: CreateRequest) -> DatabaseSpec:
        """Everything about the new database, chosen and checked; nothing is changed.

        Raises UsageError for what can never be, NotFoundError for a host that is not there,
        RefusedError with code `name-taken`, `too-big`, `no-host`, `no-address` or what the pool
        says, HostUnreachableError, and what building the host image raises.
        """
        return self._planner.plan(request, self._operations.used_addresses())

    def plan_golden(self, spec: DatabaseSpec) -> GoldenSpec | None:
        """The golden volume that `create` would clone, there or not; None: an encrypted database
        shares no image, so its data directory is initialised (ADR 18).
        """
        return None if spec.encryption is not None else self._golden.plan(spec)

    def create(self, spec: DatabaseSpec, *, flatten: bool = False) -> CreatedDatabase:
        """Make the database and wait until its user can log in.

        Its volume is a clone of a golden one, which is made if it is the first of its kind, unless
        it is encrypted; with `flatten` it is recorded that it is to stand alone (`DueFlattening`).
        On failure or Ctrl-C everything is undone and the error raised again.
        """
        planned = self.plan_golden(spec)
        golden = None if planned is None else self._golden.ensure(planned)
        with self._operations.locked(spec.name):
            self._operations.settle(spec.name)
            with self._operations.addresses_locked():
                self._planner.require_name_free(spec.name)
                spec = self._planner.settle_address(spec, self._operations.used_addresses())
                order = CreateOrder(spec=spec, golden=golden, flatten=flatten)
                operation = self._operations.begin(CREATE, order)
            self._operations.apply(operation, CREATE, order)
        return self.made(spec.name)

    def made(self, name: str) -> CreatedDatabase:
        """What whoever asked for a new database is told. Raises NotFoundError."""
        endpoint, record = self.endpoint(name), self._records.get(name)
        return CreatedDatabase(
            record=record,
            endpoint=endpoint,
            client_command=render_client_command(record.spec.flavour, str(self.option_file(name))),
        )

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

    def require_serving(self, name: str, *, patience_s: float = 0.0) -> None:
        """Raise GrampusError with code `server-stopped`, and why, when its server has ended.

        One that is about to end is waited for, `patience_s` seconds: all else that runs beside it
        is killed before it is gone itself. Raises NotFoundError.
        """
        spec, clock = self._records.get(name).spec, self._operations.clock
        host, daemon = self._fleet.host(spec.host), server_daemon_name(name)
        deadline_s = clock.monotonic_s() + patience_s
        while observe_daemon_state(host, daemon) == "running":
            if clock.monotonic_s() >= deadline_s:
                return
            clock.sleep(0.2)
        end = observe_end(host, name, host.observe_daemon(daemon))
        raise GrampusError(
            f"The server of {name} ended: {explain_end(end)}.",
            f"`grampus db start {name}` starts it. `grampus db verify {name}` checks its tables.",
            code="server-stopped",
        )

    def endpoint(self, name: str) -> Endpoint:
        """How to reach the instance. Raises NotFoundError, RefusedError with code `not-ready`."""
        spec = self._operations.ready(name).spec
        directory = database_directory(self._fleet.host(spec.host).data_dir, name)
        return self._endpoint(spec, spec, server_daemon_name(name), directory)

    def option_file(self, name: str) -> Path:
        """Client options on this machine, mode 0600. Raises NotFoundError."""
        self._records.get(name)
        return self._credentials.option_file(name)

    def client_argv(
        self, name: str, sql: str | None = None, *, draws_tables: bool = False
    ) -> ClientCommand:
        """The client to run in the instance's daemon, logged in as the database's user.

        `sql` is what it runs instead of what the user types; `draws_tables` as `view.client_argv`.
        Raises NotFoundError, RefusedError with code `not-running`.
        """
        endpoint = self.endpoint(name)
        view = self.show(name)
        if view.status != "running":
            raise RefusedError(
                f"The database {name} is not running ({view.status}).",
                f"`grampus db start {name}` starts it."
                if view.status in ("stopped", "failed", "volume-lost")
                else "Start its host again, then try again.",
                code="not-running",
            )
        flavour = view.record.spec.flavour
        argv = client_argv(flavour, endpoint.option_file, draws_tables=draws_tables)
        stdin = None if sql is None else f"{sql}\n"
        return ClientCommand(endpoint.host, endpoint.daemon, argv, stdin)

    # -- change -------------------------------------------------------------------------------

    def delete(self, name: str) -> None:
        """Remove the database and all that was made for it. Never undone: finished later.

        A host that cannot be reached is cut off from its volume first; what the database left
        there is removed once the host is back. Raises NotFoundError, RefusedError with code
        `protected`, `has-clones` or `pool-full`.
        """
        with self._operations.locked(name):
            unfinished = self._operations.unfinished(name)
            deleting = any(operation.kind == DELETE.kind for operation in unfinished)
            self._operations.settle(name, before_deletion=True)
            record = self._records.find(name)
            if record is None and deleting:
                return
            record = self._records.get(name)
            if record.spec.protected:
                raise RefusedError(
                    f"The database {name} is protected.",
                    f"`grampus db unprotect {name}` allows the deletion.",
                    code="protected",
                )
            # Never undone, it would stay half done: the volume goes last.
            self._volumes.require_writable(name)
            self._volumes.require_removable(name)
            self._operations.run(DELETE, record.spec)

    def protect(self, name: str, protected: bool) -> None:
        """Forbid the database to be deleted, or allow it again. Raises NotFoundError."""
        self._change(PROTECT, name, protected=protected)

    def set_retention(self, name: str, retention_s: int) -> None:
        """Keep binary logs for so long.

        Raises NotFoundError, RefusedError with code `not-ready`.
        """
        self._change(SET_RETENTION, name, binlog_retention_s=retention_s)

    def set_failover(self, name: str, mode: FailoverMode) -> None:
        """Say who decides that the database leaves a lost host. Raises as `set_retention`."""
        self._change(SET_FAILOVER, name, failover=mode)

    def set_maintenance_window(self, name: str, window: WeeklyWindow | None) -> None:
        """Say when its server may be restarted unasked; None: never. Raises as `set_retention`."""
        self._change(SET_WINDOW, name, maintenance_window=None if window is None else str(window))

    def _change(
        self, kind: DatabaseOperation[DatabaseSpec], name: str, **changes: bool | int | str | None
    ) -> None:
        """Change the spec by an operation, unless it says so already."""
        with self._operations.locked(name):
            self._operations.settle(name)
            spec = self._operations.ready(name).spec
            changed = spec.model_copy(update=changes)
            if changed != spec:
                self._operations.run(kind, changed)

    def resize(self, name: str, size_bytes: int) -> None:
        """Grow the database's volume, also while it runs; never undone, but finished later.

        The server's own settings that follow from the size are taken at its next start. Raises
        NotFoundError, RefusedError with code `not-ready` or what the volume says (`shrink`,
        `cannot-grow`, `pool-full`), HostUnreachableError.
        """
        with self._operations.locked(name):
            self._operations.settle(name)
            spec = self._operations.ready(name).spec
            self._volumes.require_writable(name)  # before the image is asked, which would wait
            size_bytes = self._volumes.plan_resize(name, size_bytes).size_bytes
            self._operations.run(RESIZE, spec.model_copy(update={"size_bytes": size_bytes}))

    def plan_write_path(
        self, name: str, write_path: WritePath | None, **bounds: Unpack[WriteBounds]
    ) -> WritePathChange | None:
        """What it takes to write by that path from now on; None when it does so already.

        What is None stays, or is the default of a new path. Raises NotFoundError, UsageError for
        a bound that the path has not, RefusedError with code `not-ready`, HostUnreachableError,
        GrampusError with code `no-volumed` or `no-driver` when its host cannot serve that path, and
        what `VolumePort.check_journal_pool` raises.
        """
        record = self._operations.ready(name)
        changed = decide_written(record.spec, write_path, **bounds)
        if changed == record.spec:
            return None
        self._operations.require_reachable(record.spec.host, record.spec.name)
        self._volumes.require_served(record.spec.host, changed.write_path)
        if changed.journal_pool != record.spec.journal_pool:
            self._volumes.check_journal_pool(changed.journal_pool, changed.pool, changed.size_bytes)
        return write_path_change(record, changed)

    def set_write_path(
        self, name: str, write_path: WritePath | None, **bounds: Unpack[WriteBounds]
    ) -> None:
        """Write by that path from now on; a database that shall run is stopped and started.

        On failure it runs again as it did before. Raises what `plan_write_path` raises.
        """
        with self._operations.locked(name):
            self._operations.settle(name)
            change = self.plan_write_path(name, write_path, **bounds)
            if change is not None:
                self._operations.run(SET_WRITE_PATH, change)

    def start(self, name: str) -> None:
        """Run the database, now and after every restart; nothing happens when it runs.

        A server whose volume was lost (its driver was killed) is ended and started anew.

        On failure its server is ended, and what is wanted of it is as it was. Raises
        NotFoundError, HostUnreachableError, and RefusedError with code `pool-full`.
        """
        with self._operations.locked(name):
            self._operations.settle_or_leave(name)
            record = self._operations.ready(name)
            self._operations.require_reachable(record.spec.host, name)
            if (
                record.desired == "running"
                and self._state(record.spec) == "running"
                and self._volumes.is_attached(name)
            ):
                return
            self._operations.run(START, make_start_order(record))

    def stop(self, name: str) -> None:
        """Stop the database until it is started again, and detach its volume.

        Of one whose host cannot be reached it is only noted that it shall not run: it is stopped
        when the host is back, and not started by a failover. Raises NotFoundError.
        """
        with self._operations.locked(name):
            self._settle_before_stop(name)
            record = self._operations.ready(name)
            if not self._fleet.is_reachable(record.spec.host):
                self._operations.runner.propose(lambda: [f"Record that {name} must not run"])
                self._records.change(name, desired="stopped")
                return
            self._operations.run(STOP, record.spec)

    def _settle_before_stop(self, name: str) -> None:
        """Settle what was cut off; where a server keeps that from success, without the server."""
        try:
            self._operations.settle_or_leave(name)
        except GrampusError as error:
            record = self._records.find(name)
            if record is None or error.code not in REFUSALS:
                raise
            spec = record.spec
            self._operations.runner.propose(lambda: self._operations.describe(STOP, spec))
            DatabaseWork(self._operations.ports, spec).stop_server()
            self._operations.settle_or_leave(name)

    # -- converge -----------------------------------------------------------------------------

    def converge(self, *, retries: bool = False) -> Sentences:
        """Finish or undo operations whose process is gone; what was done, in sentences.

        `retries`: also what failed before, when its time has come.
        """
        return self._operations.converge(retries=retries)

    def ensure_running(self) -> Sentences:
        """Bring every database that shall run up again, as after a restart of its host.

        Answers with one sentence for each that could not be brought up.
        """
        problems: Sentences = []
        for name, record in self._records.all().items():
            if record.phase != "ready":
                continue
            if record.desired != "running":
                problems += self._stop_left_running(name)
                continue
            self._progress.phase(f"Start {name}")
            try:
                with self._operations.locked(name):
                    self._operations.settle(name)
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
                with self._operations.locked(name):
                    self._operations.settle(name)
                    self._take_down(name)
            except GrampusError as error:
                problems.append(f"The database {name} could not be stopped: {error}")
        return problems

    # -- the scratch instance of a benchmark --------------------------------------------------

    def ensure_local_instance(self, name: str) -> Endpoint:
        """The scratch instance of `name`, running: the same server, data on the host's own disk.

        Raises NotFoundError, HostUnreachableError, RefusedError with code `no-address`.
        """
        with self._operations.locked(name):
            self._operations.settle(name)
            spec = self._operations.ready(name).spec
            self._operations.require_reachable(spec.host, spec.name)
            with self._operations.addresses_locked():
                former = self._records.find_scratch(name)
                scratch = former or self._new_scratch(spec)
                order = ScratchOrder(**dict(scratch), existed=former is not None)
                operation = self._operations.begin(SCRATCH, order)
            self._operations.apply(operation, SCRATCH, order)
        directory = scratch_directory(self._fleet.host(spec.host).data_dir, name)
        return self._endpoint(spec, scratch, scratch_daemon_name(name), directory)

    def ensure_local_instance_absent(self, name: str) -> None:
        """Stop the scratch instance. Its data stays until the database is deleted."""
        with self._operations.locked(name):
            self._operations.settle(name)
            scratch = self._records.find_scratch(name)
            if scratch is None:
                return
            self._operations.run(SCRATCH_STOP, scratch)

    # -- inside -------------------------------------------------------------------------------

    def _new_scratch(self, spec: DatabaseSpec) -> ScratchSpec:
        used, host = self._operations.used_addresses(), self._fleet.host(spec.host)
        made = assign_address(self._fleet, used, host)
        return ScratchSpec(
            database=spec, address=made.address, server_id=made.server_id, port=made.own_port
        )

    def _bring_up(self, name: str) -> None:
        record = self._records.find(name)
        if record is None or record.phase != "ready" or record.desired != "running":
            return
        self._operations.require_reachable(record.spec.host, record.spec.name)
        bring_up(self._operations.ports, record.spec)

    def _stop_left_running(self, name: str) -> Sentences:
        """One that was to be stopped while its host was away, and runs there still."""
        spec = self._records.get(name).spec
        if not self._fleet.is_reachable(spec.host) or self._state(spec) != "running":
            return []
        self._progress.phase(f"Stop {name}")
        try:
            with self._operations.locked(name):
                self._operations.settle(name)
                take_down(self._operations.ports, self._records.get(name).spec)
        except GrampusError as error:
            return [f"The database {name} could not be stopped: {error}"]
        return []

    def _take_down(self, name: str) -> None:
        record = self._records.find(name)
        if record is None:
            return
        scratch = self._records.find_scratch(name)
        if scratch is not None:
            ScratchWork(self._operations.ports, scratch).stop()
        take_down(self._operations.ports, record.spec)

    def _state(self, spec: DatabaseSpec) -> DaemonState:
        return observe_daemon_state(self._fleet.host(spec.host), server_daemon_name(spec.name))

    def _views(self, records: Sequence[DatabaseRecord]) -> Views:
        at_work = self._operations.names_at_work()
        hosts = sorted({record.spec.host for record in records})
        states: dict[str, dict[str, DaemonStatus] | None] = {}

        def observe(host: str) -> dict[str, DaemonStatus] | None:
            if not self._fleet.is_reachable(host):
                return None
            return {daemon.name: daemon for daemon in self._daemons(host, records)}

        def view(record: DatabaseRecord) -> DatabaseView:
            daemons = states[record.spec.host]
            return self._view(record, daemons, at_work=record.spec.name in at_work)

        if len(records) < 2:
            states = {host: observe(host) for host in hosts}
            return [view(record) for record in records]
        with ThreadPoolExecutor(max_workers=min(len(records), _LOOKS_AT_ONCE)) as pool:
            states = dict(zip(hosts, pool.map(observe, hosts), strict=True))
            return list(pool.map(view, records))

    def _daemons(self, host: str, records: Sequence[DatabaseRecord]) -> Sequence[DaemonStatus]:
        """The host's daemons, as far as they are of interest."""
        if len(records) > 1:
            return self._fleet.host(host).observe_daemons()
        found = self._fleet.host(host).observe_daemon(server_daemon_name(records[0].spec.name))
        return [] if found is None else [found]

    def _view(
        self,
        record: DatabaseRecord,
        daemons: Mapping[str, DaemonStatus] | None,
        *,
        at_work: bool,
    ) -> DatabaseView:
        name = record.spec.name
        daemon = (daemons or {}).get(server_daemon_name(name))
        # One that is being made may have none yet.
        shall_run = record.phase == "ready" and record.desired == "running"
        is_running = daemon is not None and daemon.state == "running"
        volume = self._find_volume(name)
        # After a start that failed the volume is detached: it is not lost.
        is_detached = not is_running and volume is not None and volume.attachment is None
        status = classify_status(
            record.phase,
            host_reachable=daemons is not None,
            daemon="absent" if daemon is None else daemon.state,
            volume_alive=not shall_run
            or daemons is None
            or is_detached
            or self._volumes.is_attached(name),
            desired=record.desired,
            at_work=at_work,
        )
        has_ended = status in ("failed", "volume-lost") and not is_running
        end = self._find_end(record, daemon) if has_ended else None
        uid = daemon.uid if daemon is not None and is_running else None
        return DatabaseView(record, status, volume, end, uid)

    def _find_end(self, record: DatabaseRecord, daemon: DaemonStatus | None) -> ServerEnd:
        """How its server ended; of one whose start failed since, as the controller saw it."""
        name = record.spec.name
        end = observe_end(self._fleet.host(record.spec.host), name, daemon)
        known = self._records.find_failure(name)
        return known.end if known is not None and end.kind == "absent" else end

    def _find_volume(self, name: str) -> VolumeRecord | None:
        try:
            return self._volumes.get(name)
        except NotFoundError:
            return None

    def _endpoint(
        self, spec: DatabaseSpec, at: DatabaseSpec | ScratchSpec, daemon: str, place: PurePosixPath
    ) -> Endpoint:
        credentials = self._credentials.load(spec.name)
        return Endpoint(
            address=at.address,
            port=at.port or spec.port,
            address_kind="host" if at.shares_address else "floating",
            user=credentials.user,
            password=credentials.password,
            daemon=daemon,
            host=spec.host,
            option_file=str(client_option_file(place)),
        )
