"""What the steps of operations on one database do; every method is idempotent."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import PurePosixPath

from grampus.core.errors import GrampusError, NotFoundError
from grampus.core.meanwhile import meanwhile
from grampus.core.units import format_bytes
from grampus.databases.account_upgrade import ensure_accounts
from grampus.databases.accounts import decide_user_name
from grampus.databases.administrator import Administrator, administrator_of
from grampus.databases.application_support import support_applications
from grampus.databases.binlog_keeping.expiry import ensure_started_expiry
from grampus.databases.certificates import (
    AUTHORITIES,
    ensure_certificates,
    make_authority,
    name_authority,
)
from grampus.databases.clones.identity import begin_serving_as_new, finish_serving_as_new
from grampus.databases.copied_server import complete_copied_server
from grampus.databases.credentials import Authority, render_option_file
from grampus.databases.host_addresses import give_address, take_address
from grampus.databases.instance import (
    RECOVERY_STUCK,
    ensure_certificates_first,
    ensure_files,
    ensure_initialised,
)
from grampus.databases.kept_certificates import keep_certificates
from grampus.databases.layout import (
    MYSQL_GID,
    MYSQL_UID,
    PRIMARY_AUTHORITIES,
    InstancePlan,
    database_directory,
    plan_instance,
)
from grampus.databases.left_instances import note_left_volume, note_lost_host
from grampus.databases.model import DatabaseRecord, DatabaseSpec, DesiredState
from grampus.databases.readiness import ensure_pipe, ensure_serving, has_pipe
from grampus.databases.records import describe_facts, new_database_id
from grampus.databases.scratch_work import ScratchWork
from grampus.databases.settings import settings_of
from grampus.databases.step_ports import StepPorts
from grampus.databases.stopping import ensure_stopping, hold
from grampus.hosts.port import Host, HostUnreachableError, Limits
from grampus.volumes.decide_identity import is_same_volume
from grampus.volumes.model import VolumeSpec

IMAGE_PREFIX = "db-"

# What a server gets at least while it stops and starts: somebody waits for both, and with half a
# CPU a start takes three times as long (measured).
SWITCH_CPUS = 2.0


class DatabaseWork:
    """What the steps of one database do; every method is idempotent."""

    def __init__(self, ports: StepPorts, spec: DatabaseSpec, *, owner: str | None = None) -> None:
        """`owner` is the name of its own user while it is made, if not called after it."""
        self._ports = ports
        self._spec = spec
        self._owner = owner or decide_user_name(spec.name)

    def record(self) -> None:
        spec = self._spec
        if self._ports.records.find(spec.name) is not None:
            return
        settings = settings_of(spec)
        self._ports.records.put(
            DatabaseRecord(
                spec=spec,
                user=self._owner,
                server_version="",
                buffer_pool_bytes=settings.buffer_pool_bytes,
                created_at=self._ports.clock.now(),
                phase="creating",
                id=self._ports.identity or new_database_id(),
            )
        )

    def secrets(self) -> None:
        """Passwords, made if there are none yet."""
        self._ports.credentials.ensure(self._spec.name, user=self._owner)

    def make_certificates_during(self, work: Callable[[], None]) -> None:
        """Do `work` on the cluster; meanwhile the host makes the certificates of `files`.

        Not those of a replica: they are signed by an authority that may not be there yet.
        """
        host, plan = self.host(), self._names()

        def make() -> None:
            authority = self.authority() if plan.shares_address else None
            ensure_certificates_first(host, plan, authority, names=self.named_addresses())

        with meanwhile(make):
            work()

    def create_volume(self, sealed_key: str | None = None) -> None:
        """The volume; `sealed_key` as `VolumePort.ensure_created` says."""
        self._ports.volumes.ensure_created(self.volume_spec(), sealed_key)
        self.write_facts()

    def remove_volume(self) -> None:
        """The volume gone, if it is this database's: another one of that name stays.

        Whether or not all hosts that had it can be reached.
        """
        ports, meant = self._ports, self.volume_spec()
        if note_left_volume(ports, self._spec, meant):
            ports.volumes.takeovers.ensure_absent(self._spec.name, meant)
        else:
            ports.volumes.ensure_absent(self._spec.name, meant)

    def detach_own(self) -> None:
        """The volume detached, if it is this database's."""
        if self.has_own_volume():
            self._ports.volumes.ensure_detached(self._spec.name)

    def has_own_volume(self) -> bool:
        """Whether there is a volume of its name, and this database's."""
        try:
            found = self._ports.volumes.get(self._spec.name)
        except NotFoundError:
            return False
        return is_same_volume(found.spec, self.volume_spec())

    def volume_spec(self) -> VolumeSpec:
        """The database's volume as it is made."""
        spec = self._spec
        return VolumeSpec(
            name=spec.name,
            pool=spec.pool,
            image=f"{IMAGE_PREFIX}{spec.name}",
            size_bytes=spec.size_bytes,
            write_path=spec.write_path,
            max_lag_ms=spec.max_lag_ms,
            journal_memory_bytes=spec.journal_memory_bytes,
            journal_pool=spec.journal_pool,
            encryption=spec.encryption,
            external_log_bytes=spec.external_log_bytes,
            identity=self._identity(),
        )

    def _identity(self) -> str:
        """The id of the database: of the operation, or of its record outside of one."""
        if self._ports.identity:
            return self._ports.identity
        record = self._ports.records.find(self._spec.name)
        return "" if record is None else record.id

    def write_facts(self) -> None:
        record = self._ports.records.find(self._spec.name)
        owner = self._owner if record is None else record.user
        database_id = "" if record is None else record.id
        facts = describe_facts(self._spec, owner, database_id)
        self._ports.volumes.set_metadata(self._spec.name, facts)

    def files(self) -> None:
        plan = self.plan()
        credentials = self._ports.credentials.ensure(self._spec.name, user=self._owner)
        names = self.named_addresses()
        ensure_files(self.host(), plan, credentials, self.authority(), names=names)
        keep_certificates(self._ports, self.host(), plan)
        authority = self.host().read_file(plan.tls_dir / AUTHORITIES)
        if authority is None:
            raise GrampusError(
                f"The certificate {plan.tls_dir / AUTHORITIES} is missing on {self._spec.host}.",
                "Remove that directory and start the database again: the start creates new "
                "certificates.",
            )
        self._ports.credentials.write_client_files(
            self._spec.name,
            render_option_file(
                credentials,
                flavour=plan.flavour,
                address=plan.address,
                port=plan.port,
                ca_file=str(self._ports.credentials.ca_file(self._spec.name)),
            ),
            authority,
        )
        if self._spec.shares_address:  # its address is another one than before
            # Commands on floating addresses go without its module.
            users = import_module("grampus.databases.users.user_files")
            users.UserFiles(self._ports.credentials, self._spec.name).write_all(self._spec)
        if self._spec.replica_of is not None:
            with contextlib.suppress(HostUnreachableError):
                self.trust_primary()

    def authority(self) -> Authority | None:
        """What signs its certificates, if that is kept: of a replica behind an endpoint, and of a
        server whose address changes, which is made here if it was not before."""
        spec, credentials = self._spec, self._ports.credentials
        shared = None
        if spec.replica_of is not None and spec.held_endpoint is not None:
            shared = credentials.find_replica_authority(spec.replica_of)
        if not spec.shares_address:
            return shared
        own = credentials.find_authority(spec.name)
        if own is None:
            # A replica keeps that of all replicas as its own, for when it is promoted.
            own = shared or self._make_authority()
            credentials.put_authority(spec.name, own)
        return own

    def named_addresses(self) -> tuple[str, ...]:
        """What its certificate names beside its own address: where it, or the read-only endpoint
        that leads to it, may be later."""
        hosts = self._ports.fleet.hosts() if self._is_named_by_hosts() else []
        return tuple(sorted(host.address for host in hosts))

    def ensure_named(self) -> None:
        """Certificates that were copied to a host name its address as well, if it is the server's.

        The host may be newer than they are.
        """
        if self._is_named_by_hosts():
            names = self.named_addresses()
            ensure_certificates(self.host(), self._names(), self.authority(), names=names)

    def _is_named_by_hosts(self) -> bool:
        return self._spec.shares_address or self._spec.endpoint_port is not None

    def _make_authority(self) -> Authority:
        host, name = self.host(), self._spec.name
        making = database_directory(host.data_dir, name) / "authority"
        return make_authority(host, making, name_authority(name))

    def trust_primary(self) -> bool:
        """A replica's server trusts what its primary's clients trust now, from when it connects.

        False: its primary, or the certificates of that one, are gone.
        """
        primary = self._ports.records.find(self._spec.replica_of or "")
        if primary is None:
            return False
        host = self._ports.fleet.host(primary.spec.host)
        names = plan_instance(primary.spec, host.data_dir, PurePosixPath("/nonexistent"))
        authorities = host.read_file(names.tls_dir / AUTHORITIES)
        if authorities is None:
            return False
        self.host().write_file(
            self.plan().volume / PRIMARY_AUTHORITIES,
            authorities,
            mode=0o644,
            uid=MYSQL_UID,
            gid=MYSQL_GID,
        )
        return True

    def remove_files(self) -> None:
        host = self.host()
        host.run(["rm", "-rf", str(database_directory(host.data_dir, self._spec.name))])

    def initialise(self) -> None:
        credentials = self._ports.credentials.load(self._spec.name)
        ensure_initialised(self.host(), self.plan(), credentials, self._ports.clock)

    def stop_initialise(self) -> None:
        self.host().ensure_daemon_absent(self._names().init_daemon, kill=True)

    @property
    def giving(self) -> str:
        """What `give_address` does, for a step."""
        if self._spec.shares_address:
            return f"Check that the port {self._spec.port} is free on {self._spec.host}"
        return f"Give {self._spec.host} the address {self._spec.address}"

    def give_address(self) -> None:
        """Raises RefusedError with code `port-in-use`."""
        give_address(self.host(), self._spec, self._names().daemon)

    @property
    def taking(self) -> str:
        """What `take_address` does, for a step."""
        if self._spec.shares_address:
            return f"Leave the port {self._spec.port} of {self._spec.host}"
        return f"Take the address {self._spec.address} away"

    def take_address(self) -> None:
        """Its address taken from the host, whose own address stays."""
        take_address(self.host(), self._spec)

    def desire(self, desired: DesiredState) -> None:
        """Note what the user wants of the database."""
        self._ports.records.change(self._spec.name, desired=desired)

    def attach_again(self) -> None:
        if not self._ports.volumes.is_attached(self._spec.name):
            # What it has not written is lost to it already, and it keeps the dead mount busy.
            self.kill_server()
        self._ports.volumes.ensure_attached(self._spec.name, self._spec.host)

    def serve(self, told_serving: Callable[[], None] = lambda: None) -> None:
        """`told_serving` is called as soon as clients are let in."""
        plan = self.plan()
        waits = self._begin_unflushed(plan)
        password = self._ports.credentials.load(self._spec.name).admin_password

        def start() -> str:
            return ensure_serving(
                self.host(),
                _hurried(plan),
                password,
                self._ports.clock,
                before_clients=self._flush if waits else None,
            )

        version = self._or_with_more_memory(plan, start)
        told_serving()
        self._ensure_unhurried(plan)
        ensure_accounts(self._ports, self._spec)
        support_applications(self._ports, self._spec)
        self._note_served(plan, version)
        ensure_started_expiry(self._ports, self._spec)

    def begin_serving_as_new(self, *, makes_accounts: bool, is_new: bool = True) -> None:
        """Start the server of a copied data directory, which takes new passwords first.

        `is_new`: nobody needs yet what is on the volume. It is not flushed until
        `finish_serving_as_new` (ADR 53).
        """
        plan = self.plan()
        if self._note_start(plan) and is_new:
            self._ports.volumes.drop_flushes(self._spec.name)
        begin_serving_as_new(
            self.host(),
            _hurried(plan),
            self._ports.credentials.load(self._spec.name),
            self._ports.clock,
            makes_accounts=makes_accounts,
        )

    def finish_serving_as_new(self, *, is_new: bool = False) -> None:
        """`is_new`: this release has just made its data directory, or the golden one that it was
        cloned from, and all its accounts."""
        plan = self.plan()
        password = self._ports.credentials.load(self._spec.name).admin_password

        def finish() -> str:
            return finish_serving_as_new(self.host(), plan, password, self._ports.clock)

        def begin_again() -> None:
            self.begin_serving_as_new(makes_accounts=False, is_new=False)

        version = self._or_with_more_memory(plan, finish, begin_again)
        # Each look takes a client, which somebody who waits for a new database would wait for.
        if not is_new:
            complete_copied_server(self._ports, self._spec)
        self._ensure_unhurried(plan)
        self._note_served(plan, version)
        ensure_started_expiry(self._ports, self._spec)
        self._flush()

    def stop_server(self) -> None:
        self._ask_to_end(ensure_stopping)
        self.host().ensure_daemon_absent(self._names().daemon)

    def halt_server(self) -> None:
        """End the server in the shortest time, for clients who wait for its next start.

        A replica is stopped: what it applies may be in tables that no log protects.
        """
        if self._spec.replica_of is None and self._ask_to_end(hold):
            self.kill_server()
        else:
            self.stop_server()

    def _ask_to_end(self, ask: Callable[[Administrator], bool | None]) -> bool:
        try:
            return bool(ask(administrator_of(self._ports, self._spec)))
        except GrampusError as error:
            # It has ended, or can be stopped all the same, two seconds later.
            if error.code not in ("daemon-absent", "secrets-missing", "timeout"):
                raise
        return False

    def end_server(self) -> None:
        """As `stop_server`, also while it recovers or waits, when it does not heed a stop."""
        names = self._names()
        if has_pipe(self.host(), names):
            self.kill_server()  # it has let nobody in
            ensure_pipe(self.host(), names, wanted=False)
        else:
            self.stop_server()
        self.stop_initialise()

    def kill_server(self) -> None:
        self.host().ensure_daemon_absent(self._names().daemon, kill=True)

    def remove_daemons(self) -> None:
        self.kill_server()
        self.stop_initialise()

    def finish(self) -> None:
        self._ports.records.change(self._spec.name, phase="ready")

    def mark_deleting(self) -> None:
        """What the database leaves on a host that is away is noted before."""
        note_lost_host(self._ports, self._spec)
        self._ports.records.change(self._spec.name, phase="deleting", desired="stopped")

    def forget(self) -> None:
        """Remove its records, also that of a scratch instance on a host that is away."""
        self._ports.records.remove_scratch(self._spec.name)
        self._ports.records.remove(self._spec.name)

    def remove_scratch(self) -> None:
        scratch = self._ports.records.find_scratch(self._spec.name)
        if scratch is not None:
            ScratchWork(self._ports, scratch).remove()
            self._ports.records.remove_scratch(self._spec.name)

    def _or_with_more_memory(
        self,
        plan: InstancePlan,
        start: Callable[[], str],
        begin_again: Callable[[], None] = lambda: None,
    ) -> str:
        """What `start` answers; a server that cannot recover in its memory recovers first."""
        try:
            return start()
        except GrampusError as error:
            if error.code != RECOVERY_STUCK:
                raise
            self._ports.progress.note(f"{error.problem} It recovers with more memory first.")
        stuck = import_module("grampus.databases.stuck_recovery")  # few starts need it
        pool_bytes = stuck.recover_with_more_memory(self.host(), plan, self._ports.clock)
        size = format_bytes(pool_bytes)
        self._ports.progress.note(f"{plan.database} has recovered in a buffer pool of {size}.")
        begin_again()
        return start()

    def _begin_unflushed(self, plan: InstancePlan) -> bool:
        """Whether the server lets nobody in yet, because its volume is not flushed (ADR 58)."""
        if not self._note_start(plan):
            return has_pipe(self.host(), plan)
        # A replica follows its primary from the start, which may forget what it was given.
        waits = not plan.is_replica and self._ports.volumes.drop_flushes(self._spec.name)
        ensure_pipe(self.host(), plan, wanted=waits)
        return waits

    def _ensure_unhurried(self, plan: InstancePlan) -> None:
        """The limits that the server has once somebody uses it."""
        if _hurried(plan) != plan and not plan.is_bare:
            limits = Limits(cpus=plan.cpus, memory_bytes=plan.memory_bytes)
            self.host().set_limits(plan.daemon, limits)

    def _flush(self) -> None:
        self._ports.volumes.ensure_flushed(self._spec.name)

    def _note_start(self, plan: InstancePlan) -> bool:
        """Whether the server is to be started, which is noted before.

        If the start is cut off, the next one notes its own.
        """
        daemons = {one.name: one.state for one in self.host().observe_daemons()}
        if daemons.get(plan.daemon) == "running":
            return False
        if plan.init_daemon in daemons:  # of a recovery that was cut off: it has the files open
            self.stop_initialise()
        self._ports.records.change(self._spec.name, started_parameters=dict(self._spec.parameters))
        return True

    def _note_served(self, plan: InstancePlan, version: str) -> None:
        self._ports.records.change(
            self._spec.name,
            server_version=version,
            buffer_pool_bytes=plan.settings.buffer_pool_bytes,
        )

    def host(self) -> Host:
        """The host that the instance runs on."""
        return self._ports.fleet.host(self._spec.host)

    def plan(self) -> InstancePlan:
        """The instance on its volume, which is attached if it was not."""
        name = self._spec.name
        # The step before this one has attached it: to look again would cost several commands.
        attachment = self._ports.volumes.get(name).attachment
        if attachment is None:
            attachment = self._ports.volumes.ensure_attached(name, self._spec.host)
        return plan_instance(self._spec, self.host().data_dir, PurePosixPath(attachment.mount_path))

    def _names(self) -> InstancePlan:
        """The plan for its names alone: good while the volume is away."""
        return plan_instance(self._spec, self.host().data_dir, PurePosixPath("/nonexistent"))


def _hurried(plan: InstancePlan) -> InstancePlan:
    """The instance with what its server gets while it starts."""
    return replace(plan, cpus=max(plan.cpus, SWITCH_CPUS))


def discard(_value: object) -> None:
    """Let a function that answers stand where a step wants none."""
