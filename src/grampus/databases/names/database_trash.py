"""Deleted databases: kept in the trash for a while, had back from it, removed for good."""

from __future__ import annotations

from dataclasses import dataclass

from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.core.names import require_name
from grampus.databases.host_addresses import assign_address, on_host, require_port_free
from grampus.databases.lifecycle import START, make_start_order
from grampus.databases.model import (
    DatabaseRecord,
    DatabaseSpec,
    StartOrder,
    TrashedDatabase,
)
from grampus.databases.names.decide_trash import (
    DEFAULT_KEEP_DAYS,
    decide_expired,
    decide_expiry,
    decide_key,
    decide_meant,
)
from grampus.databases.names.trash_steps import (
    PURGE,
    RESTORE,
    TRASH,
    PurgeOrder,
    RestoreOrder,
    TrashOrder,
)
from grampus.databases.operating import DatabaseOperations
from grampus.hosts.port import Host, HostUnreachableError

Sentences = list[str]


@dataclass(frozen=True)
class Purged:
    """What became of a database in the trash whose time has come; no problem: it is gone."""

    key: str
    database: str  # the name that it had
    problem: GrampusError | None = None


class DatabaseTrash:
    """The deleted databases of one lab or cluster."""

    def __init__(self, operations: DatabaseOperations) -> None:
        self._operations = operations

    def all(self) -> list[TrashedDatabase]:
        """What is in the trash, by name, the oldest first."""
        return list(self._operations.records.all_trashed().values())

    # -- in -----------------------------------------------------------------------------------

    def plan_trash(self, name: str, *, keep_days: int = DEFAULT_KEEP_DAYS) -> TrashOrder:
        """The deletion of a database that is kept for `keep_days` days.

        Raises NotFoundError, UsageError for `keep_days`, RefusedError with code `protected`,
        `pool-full`, or `no-volume` when there is nothing to keep.
        """
        record = self._operations.records.get(name)
        now = self._operations.clock.now()
        expires_at = decide_expiry(now, keep_days)
        if record.spec.protected:
            raise RefusedError(
                f"The database {name} is protected.",
                f"`grampus db unprotect {name}` allows the deletion.",
                code="protected",
            )
        try:
            self._operations.volumes.get(name)
        except NotFoundError:
            raise RefusedError(
                f"The database {name} has no volume to keep.",
                f"`grampus db delete {name} --now` removes the rest of the database.",
                code="no-volume",
            ) from None
        self._operations.volumes.require_writable(name)
        return TrashOrder(
            spec=record.spec,
            desired=record.desired,
            key=decide_key(name, now),
            deleted_at=now,
            expires_at=expires_at,
        )

    def trash(self, name: str, *, keep_days: int = DEFAULT_KEEP_DAYS) -> TrashedDatabase | None:
        """Move a database into the trash; cut off, the next command finishes it.

        None when a deletion that had been cut off was the one asked for. Raises what `plan_trash`
        raises.
        """
        with self._operations.locked(name):
            unfinished = self._operations.unfinished(name)
            is_deleting = any(op.kind in (TRASH.kind, "db.delete") for op in unfinished)
            self._operations.settle(name)
            if is_deleting and self._operations.records.find(name) is None:
                return None
            order = self.plan_trash(name, keep_days=keep_days)
            self._operations.run(TRASH, order)
        return self._operations.records.find_trashed(order.key)

    # -- out ----------------------------------------------------------------------------------

    def _plan_restore(self, wanted: str, *, name: str | None, host: str | None) -> RestoreOrder:
        trashed = decide_meant(wanted, self.all())
        former = trashed.record.spec
        name = former.name if name is None else require_name("database", name)
        self._require_name_free(name, wanted)
        host = self._operations.fleet.host(host or former.host).name
        if not self._operations.fleet.is_reachable(host):
            raise HostUnreachableError(
                f"The host {host} cannot be reached.",
                f"Start {host} again, or choose another host: `grampus db undelete {wanted} "
                "--host HOST`.",
            )
        if name != former.name:
            # Clones know what they stand on by the image's name.
            self._operations.volumes.trash.require_purgeable(trashed.volume)
        used, there = self._operations.used_addresses(), self._operations.fleet.host(host)
        spec = on_host(former, there).model_copy(update={"name": name})
        if spec.held_address in used or not self._can_listen(spec, there):
            assigned = assign_address(self._operations.fleet, used, there)
            spec = spec.model_copy(update=assigned.changes())
        endpoint = trashed.read_endpoint
        if endpoint is not None and endpoint.held_address in used | {spec.held_address}:
            endpoint = None  # its next replica gets it another one
        return RestoreOrder(trashed=trashed, spec=spec, read_endpoint=endpoint)

    @staticmethod
    def _can_listen(spec: DatabaseSpec, host: Host) -> bool:
        """Whether no other program of the host has its port."""
        try:
            require_port_free(host, spec)
        except RefusedError:
            return False
        return True

    def _describe_restore(self, order: RestoreOrder) -> Sentences:
        """The start, too, for which nothing is there yet."""
        steps = self._operations.describe(RESTORE, order)
        if order.trashed.record.desired == "running":
            steps += self._operations.describe(START, StartOrder(**dict(order.spec)))
        return steps

    def restore(
        self, wanted: str, *, name: str | None = None, host: str | None = None
    ) -> DatabaseRecord:
        """Have a database back, under its own name and on its own host if left out.

        It keeps its address unless another database has it by now, and is started if it ran when it
        was deleted. When it cannot be started, it is there and is to run all the same. Raises
        NotFoundError, UsageError, HostUnreachableError, RefusedError with code `name-taken`,
        `has-clones` (for another name) or `no-address`.
        """
        planned = self._plan_restore(wanted, name=name, host=host)
        name = planned.spec.name
        with self._operations.locked(name):
            self._operations.settle(name)
            with self._operations.addresses_locked():
                order = self._plan_restore(planned.trashed.key, name=name, host=host)
                self._operations.runner.propose(lambda: self._describe_restore(order))
                operation = self._operations.begin(RESTORE, order)
            self._operations.apply(operation, RESTORE, order)
            if order.trashed.record.desired == "running":
                record = self._operations.records.get(name)
                self._operations.run(START, make_start_order(record))
        return self._operations.records.get(name)

    # -- away ---------------------------------------------------------------------------------

    def plan_purge(self, wanted: str | None, *, everything: bool = False) -> list[PurgeOrder]:
        """What would be removed for good: the one that is meant, everything, or what has expired.

        Raises NotFoundError.
        """
        trashed = self.all()
        if wanted is not None:
            trashed = [decide_meant(wanted, trashed)]
        elif not everything:
            trashed = decide_expired(trashed, self._operations.clock.now())
        return [PurgeOrder(trashed=entry) for entry in trashed]

    def purge(self, order: PurgeOrder, *, patience_s: float = 10.0) -> None:
        """Remove a database in the trash for good; cut off, the next command finishes it.

        Another command is waited for, `patience_s` seconds. Raises RefusedError with code
        `has-clones` or `busy`.
        """
        key, name = order.trashed.key, order.trashed.record.spec.name
        with self._operations.locked(name, timeout_s=patience_s):
            self._operations.settle(name)
            if self._operations.records.find_trashed(key) is None:
                return  # another command was faster
            self._operations.volumes.trash.require_purgeable(order.trashed.volume)
            self._operations.run(PURGE, order)

    def purge_all(self, orders: list[PurgeOrder]) -> Sentences:
        """Remove them for good; one sentence for each that could not be removed now."""
        self._operations.runner.propose(
            lambda: [step for one in orders for step in self._operations.describe(PURGE, one)]
        )
        problems: Sentences = []
        for order in orders:
            try:
                self.purge(order)
            except GrampusError as error:
                problems.append(f"{order.trashed.key} stays in the trash: {error}")
        return problems

    def purge_expired(self) -> list[Purged]:
        """Remove for good what has had its time; one answer for each.

        What fails with one keeps none of the others from its own.
        """
        purged = []
        for order in self.plan_purge(None):
            key, name = order.trashed.key, order.trashed.record.spec.name
            try:
                self.purge(order, patience_s=0.0)
            except GrampusError as error:
                purged.append(Purged(key, name, error))
            else:
                purged.append(Purged(key, name))
        return purged

    def _require_name_free(self, name: str, wanted: str) -> None:
        if self._operations.records.find(name) is not None:
            raise RefusedError(
                f"A database named '{name}' exists meanwhile.",
                f"Choose a new name: `grampus db undelete {wanted} --as NEW`.",
                code="name-taken",
            )
        try:
            self._operations.volumes.get(name)
        except NotFoundError:
            return
        raise RefusedError(
            f"A volume named '{name}' exists meanwhile.",
            f"Choose a new name: `grampus db undelete {wanted} --as NEW`.",
            code="name-taken",
        )
