"""How operations on databases are carried out: under the database's lock, journaled, settled.

Whoever takes the lock and finds an unfinished operation knows that its process is gone, and
first finishes or undoes it (INV-27).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module

from pydantic import BaseModel

from grampus.core.clock import Clock
from grampus.core.errors import GrampusError, RefusedError, UsageError
from grampus.core.names import require_name
from grampus.core.progress import Progress
from grampus.databases.catalogue import (
    KIND_PREFIX,
    READ_ENDPOINT,
    find_operation_type,
    operation_type,
)
from grampus.databases.credentials import CredentialFiles
from grampus.databases.failover.decide_rehoming import GIVEN_UP, rehome
from grampus.databases.kinds import (
    AnyDatabaseOperation,
    DatabaseOperation,
    Lane,
    is_still_about,
)
from grampus.databases.left_instances import clear_left
from grampus.databases.model import DatabaseRecord
from grampus.databases.ports import VolumePort
from grampus.databases.records import DatabaseRecords
from grampus.databases.replicas.replica_rules import require_allowed
from grampus.databases.step_ports import StepPorts
from grampus.hosts.port import Fleet, HostUnreachableError
from grampus.operations.operation_type import NOT_RECOVERED, DocumentT
from grampus.operations.runner import OperationRunner, Subject
from grampus.state.home import Home
from grampus.state.locks import hold_lock, recovery_patience_s
from grampus.state.operations import Operation
from grampus.state.store import Store


class DatabaseOperations:
    """What every service of databases stands on. The attributes are for these services."""

    def __init__(
        self,
        lab: str,
        home: Home,
        store: Store,
        runner: OperationRunner,
        clock: Clock,
        fleet: Fleet,
        volumes: VolumePort,
        progress: Progress,
    ) -> None:
        self.lab = lab
        self.home = home
        self.clock = clock
        self.fleet = fleet
        self.volumes = volumes
        self.progress = progress
        self.records = DatabaseRecords(store, lab)
        self.credentials = CredentialFiles(home.secrets_dir(lab), home.shared)
        self.ports = StepPorts(
            *(self.records, self.credentials, clock, fleet, volumes, home),
            progress=progress,
            writing_lock=self._writing_lock,
        )
        self.runner = runner

    @contextmanager
    def locked(self, name: str, *, lane: Lane = "main", timeout_s: float = 10.0) -> Iterator[None]:
        """The database held against every other command of the same lane.

        Who needs two lanes takes `main` last. Raises NotFoundError when it can be no database's
        name, RefusedError with code `busy`.
        """
        try:
            require_name("database", name)  # it becomes a part of a file's name
        except UsageError:
            self.records.get(name)  # raises: there can be no such database
            raise
        lock = f"db.{self.lab}.{name}" + ("" if lane == "main" else f".{lane}")
        with hold_lock(self.home, lock, self.clock, timeout_s=timeout_s):
            yield

    @contextmanager
    def _writing_lock(self, name: str, timeout_s: float) -> Iterator[None]:
        lock = f"db.{self.lab}.{name}.writing"
        with hold_lock(self.home, lock, self.clock, timeout_s=timeout_s):
            yield

    @contextmanager
    def addresses_locked(self) -> Iterator[None]:
        """Held from choosing an address until an operation is journaled that holds it."""
        with hold_lock(self.home, f"db-addresses.{self.lab}", self.clock):
            yield

    def used_addresses(self) -> set[str]:
        """What databases, scratch instances and unfinished operations hold: floating addresses,
        and ports (`DatabaseSpec.held_address`)."""
        journaled = set()
        for operation in self._all_unfinished():
            kind, document = operation_type(operation.kind), self._document(operation)
            journaled |= {kind.address(document), kind.endpoint_address(document)}
        return self.records.addresses() | {address for address in journaled if address}

    def run(self, kind: DatabaseOperation[DocumentT], document: DocumentT) -> None:
        """Journal an operation and apply its steps; the database's lock is held.

        On failure or Ctrl-C it is undone if its kind asks for that, else left to the next
        command; the error is raised again.
        """
        self.apply(self.begin(kind, document), kind, document)

    def begin(self, kind: DatabaseOperation[DocumentT], document: DocumentT) -> Operation:
        """Journal an operation before anything is changed.

        Raises RefusedError with code `name-held` when another operation is on the name that it
        takes, `secrets-exist` when passwords of an unknown database have that name,
        `backup-running` when it takes the volume away that a backup is read from, or
        `flatten-running` when it takes or closes one that is being flattened, and what
        `require_allowed` and, if it opens the volume, `require_openable` raise.
        """
        subject = kind.subject(document)
        require_allowed(kind.kind, subject, self.records.family(subject))
        if kind.takes_volume:
            self._require_idle(subject, "backup")
        if kind.takes_volume or kind.closes_image:
            self._require_idle(subject, "flatten")
        if kind.opens_volume:
            self.require_openable(subject)
        takes = kind.takes(document)
        if takes:
            self._require_no_secrets(takes)
        identity = self._identity(kind, document)
        ports = replace(self.ports, identity=identity)
        return self.runner.begin(kind, ports, document, Subject(subject, identity, takes))

    def apply(
        self,
        operation: Operation,
        kind: DatabaseOperation[DocumentT],
        document: DocumentT,
        *,
        after: Mapping[str, Callable[[], None]] | None = None,
    ) -> None:
        """Apply the steps of an operation that `begin` has journaled.

        `after` is called as soon as the steps that it names are applied.
        """
        self.runner.apply(operation, kind, self._ports_of(operation), document, after=after)

    def describe(self, kind: DatabaseOperation[DocumentT], document: DocumentT) -> list[str]:
        """What an operation would do, one line a step, for `--dry-run`."""
        return [step.title for step in kind.build(self.ports, document)]

    def unfinished(self, name: str, *, lane: Lane = "main") -> list[Operation]:
        """The database's operations that neither ended nor were undone, oldest first."""
        return [
            operation for operation in self._all_unfinished() if _place(operation) == (name, lane)
        ]

    def names_at_work(self) -> set[str]:
        """Databases that an operation is on which has not ended, whoever is at it."""
        return {name for name, lane in map(_place, self._all_unfinished()) if lane == "main"}

    def give_up(self, operation: Operation, why: str) -> None:
        """An operation that was cut off is left as it is: another one takes its place."""
        self.runner.close(operation, why)

    def settle(self, name: str, *, lane: Lane = "main", before_deletion: bool = False) -> list[str]:
        """Finish or undo what was cut off, and say so in sentences.

        The database's lock of that lane is held, so nobody is at it. With `before_deletion`, what
        goes with the database anyway is given up, but not in a dry run.
        """
        sentences: list[str] = []
        for operation in sorted(self.unfinished(name, lane=lane), key=_rank):
            kind = operation_type(operation.kind)
            if before_deletion and kind.goes_with_database:
                if self.runner.is_planning:
                    continue
                self.runner.close(operation, "the database was deleted")
                sentences.append(f"{kind.describe_interrupted(name)}. Grampus gives it up.")
            elif not self._is_still_about(operation, kind):
                self.runner.close(operation, "another database has its name")
                sentences.append(kind.describe_closed(name))
            else:
                ports, document = self._ports_of(operation), self._document(operation)
                recovery = self.runner.recover(operation, kind, ports, document)
                if kind.is_told_when_settled:
                    sentences.append(kind.describe_recovered(name, recovery))
        return sentences

    def settle_or_leave(self, name: str) -> list[str]:
        """As `settle`, for what a user does about a database whose work cannot be settled.

        What fails is left where it only needs a server that answers: accounts, rules, the guard.
        """
        try:
            return self.settle(name)
        except GrampusError:
            left = [operation_type(operation.kind) for operation in self.unfinished(name)]
            if not all(kind.goes_with_database and not kind.touches_volume for kind in left):
                raise
            return []

    def converge(self, *, retries: bool = False) -> list[str]:
        """Finish or undo operations whose process is gone; what was done, in sentences.

        Databases that another process works on are left to it. What cannot be settled now (a
        host is down) is said once, and stays for the commands on that database and for who
        `retries` (the controller), which says it each time.
        """

        def recover(operation: Operation) -> list[str]:
            name, lane = _place(operation)
            with self.locked(name, lane=lane, timeout_s=recovery_patience_s(self.home)):
                return self.settle(name, lane=lane)

        sentences = self.runner.recover_all(
            *(KIND_PREFIX, find_operation_type, lambda one: "db.{}.{}".format(*_place(one))),
            recover,
            retries=retries,
        )
        self._ensure_ids()
        sentences += self._close_opened_replicas()
        return sentences + self._end_endpoints() + self.clear_left_instances()

    def _close_opened_replicas(self) -> list[str]:
        """Those that a killed command could write to take writes from their primary alone."""
        every = self.records.all_opened()
        if not every:
            return []
        # Few commands are killed there: the others go without its module.
        writing = import_module("grampus.databases.replica_writing")
        return [said for opened in every for said in writing.close_opened(self.ports, opened)]

    def clear_left_instances(self) -> list[str]:
        """Clear what databases left on hosts that were lost, and are back; sentences as above."""
        sentences: list[str] = []
        for left in self.records.all_left():
            name = left.spec.name
            try:
                with self.locked(name, timeout_s=0.0):
                    # One that is unfinished may name the former host: it is settled before.
                    if not self.unfinished(name):
                        sentences += clear_left(self.ports, left)
            except GrampusError as error:
                if error.code != "busy":
                    sentences.append(f"The remains of {name} on {left.spec.host} are kept: {error}")
        return sentences

    def _ensure_ids(self) -> None:
        """Records of older releases get their ids, and note them on their images at the end."""
        for name in self.records.names_without_id():
            try:
                with self.locked(name, timeout_s=0.0):
                    self.records.ensure_id(name)
            except GrampusError as error:
                if error.code != "busy":  # the next command does it
                    raise

    def _end_endpoints(self) -> list[str]:
        """Endpoints that led to a replica which was the last one are served no longer.

        The command that took it away sees to that, unless it was cut off. Known here by its kind
        alone: every command settles first, and few need to load what endpoints are made of.
        """
        sentences: list[str] = []
        for name in self.records.idle_endpoints():
            record, endpoint = self.records.find(name), self.records.find_read_endpoint(name)
            if record is None or endpoint is None or self.records.followers(name):
                continue
            kind = operation_type(READ_ENDPOINT)
            ended = endpoint.model_copy(update={"host": None, "members": ()})
            order = kind.parse(
                {
                    "database": name,
                    "port": record.spec.port,
                    "endpoint": ended,
                    "members": (),
                }
            )
            try:
                with self.locked(name, lane="endpoint", timeout_s=0.0):
                    self.run(kind, order)
            except GrampusError as error:
                if error.code != "busy":
                    sentences.append(f"The read-only endpoint of {name} {NOT_RECOVERED}: {error}")
        return sentences

    def ready(self, name: str) -> DatabaseRecord:
        """The record of a database that is no longer being made, and not being removed.

        Raises NotFoundError, RefusedError with code `not-ready`.
        """
        record = self.records.get(name)
        if record.phase != "ready":
            raise RefusedError(
                f"The database {name} is not ready: it is {record.phase}.",
                "Wait until the running command of the database ends, then try again.",
                code="not-ready",
            )
        return record

    def require_reachable(self, host: str, database: str = "NAME") -> None:
        """Raise HostUnreachableError when `host` cannot be reached, where the database runs."""
        if not self.fleet.is_reachable(host):
            raise HostUnreachableError(
                f"The host {host} cannot be reached.",
                f"Start {host} again, then try again. If it is lost, run the database on "
                f"another host: `grampus db failover {database}`.",
            )

    def require_cleared(self, name: str, host: str) -> None:
        """Raise RefusedError with code `left-there` when `host` still has what a failover left.

        What can be cleared away now is. The database's lock is held.
        """
        key = f"{host}/{name}"
        for left in self.records.all_left():
            if left.key == key:
                said = " ".join(clear_left(self.ports, left))
                if any(each.key == key for each in self.records.all_left()):
                    raise RefusedError(
                        f"The host {host} still has remains of the database {name}. {said}",
                        "Choose another host, or restart that one.",
                        code="left-there",
                    )

    def require_openable(self, name: str) -> None:
        """Raise NotFoundError with code `no-volume-key` when its volume could not be opened anew.

        An encrypted database that runs goes on without its master key, but once it has let go of
        its volume it cannot come back. GrampusError with code `bad-volume-key`: the key is lost.
        RefusedError with code `pool-full`: Ceph lets whoever opens it wait.
        """
        self.volumes.require_writable(name)
        encryption = self.volumes.encryption
        sealed_key = encryption.find_sealed_key(self.volumes.get(name).spec)
        if sealed_key is not None:
            encryption.require_openable(sealed_key)

    def _require_idle(self, name: str, lane: Lane) -> None:
        """Nobody begins in that lane from here on: it takes the lock of `main`, which is held."""
        try:
            with self.locked(name, lane=lane, timeout_s=0.0):
                return
        except RefusedError as error:
            if error.code != "busy":
                raise
        if lane == "flatten":
            raise RefusedError(
                f"The volume of the database {name} is being flattened, and cannot change "
                "meanwhile.",
                "Wait until that ends, or end its command (Ctrl-C, also for `grampus "
                "serve`). Copied data stays copied. Then try again.",
                code="flatten-running",
            )
        raise RefusedError(
            f"A backup is reading the volume of the database {name}.",
            "Wait until the backup ends, or end its command with Ctrl-C. Then try again.",
            code="backup-running",
        )

    def _require_no_secrets(self, name: str) -> None:
        """An undo would remove them with its own; they may be all that lets somebody in."""
        if self.credentials.are_there(name):
            directory = self.home.secrets_dir(self.lab)
            raise RefusedError(
                f"{directory} has passwords of a database '{name}' without a record.",
                "If the record was lost, `grampus state rebuild` restores it. If nobody "
                f"needs the passwords, move the files {name}.* out of that directory. Then "
                "try again.",
                code="secrets-exist",
            )

    def _ports_of(self, operation: Operation) -> StepPorts:
        return replace(self.ports, identity=operation.identity)

    def _identity(self, kind: DatabaseOperation[DocumentT], document: DocumentT) -> str:
        if kind.identity is not None:
            return kind.identity(document)
        subject = kind.subject(document)
        if kind.lane == "main":
            self.records.ensure_id(subject)
        record = self.records.find(subject)
        return "" if record is None else record.id

    def _is_still_about(self, operation: Operation, kind: AnyDatabaseOperation) -> bool:
        record = self.records.find(operation.subject)
        if kind.subject_is_gone:
            return True
        is_undone = kind.when_cut_off == "undo" and kind.takes(self._document(operation)) != ""
        return is_still_about(operation.identity, record, is_undone=is_undone)

    def _all_unfinished(self) -> list[Operation]:
        return self.runner.unfinished(KIND_PREFIX)

    def _document(self, operation: Operation) -> BaseModel:
        """What it was journaled with; a database that failed over since is where it is now."""
        spec, name = operation.spec, operation.subject
        former = {left.spec.host for left in self.records.all_left() if left.spec.name == name}
        record = self.records.find(name) if former else None
        if record is not None and operation.kind not in GIVEN_UP:
            host = record.spec.host
            address = self.fleet.host(host).address
            spec = rehome(spec, name, former - {host}, host, address)
        document: BaseModel = operation_type(operation.kind).parse(spec)
        return document


def _place(operation: Operation) -> tuple[str, Lane]:
    """The database that an operation is on, and its lane; `main` for a kind of another release."""
    kind = find_operation_type(operation.kind)
    return operation.subject, "main" if kind is None else kind.lane


def _rank(operation: Operation) -> bool:
    """Those that are settled first have the lower rank."""
    kind = find_operation_type(operation.kind)
    return kind is None or not kind.is_first
