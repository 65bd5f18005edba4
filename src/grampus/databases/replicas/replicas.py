"""Read replicas of databases: made, shown, read from, renewed, promoted and removed."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from grampus.core.errors import GrampusError, RefusedError, not_found
from grampus.databases.administrator import administrator_of
from grampus.databases.clones.cloning import DatabaseClones
from grampus.databases.clones.decide_clone import CloneRequest
from grampus.databases.endpoints.decide_endpoint import Candidate
from grampus.databases.endpoints.read_endpoints import EndpointChange, ReadEndpoints
from grampus.databases.failover.decide_rehoming import GIVEN_UP
from grampus.databases.host_addresses import assign_address
from grampus.databases.instance import observe_listening_from
from grampus.databases.kinds import DatabaseOperation
from grampus.databases.model import DatabaseRecord, DatabaseSpec, ReadEndpoint
from grampus.databases.planning import observe_loads
from grampus.databases.ports import CopiesPort
from grampus.databases.replicas.comparing import (
    ReplicaComparing,
    describe_loss,
    require_nothing_lost,
)
from grampus.databases.replicas.decide_replicas import (
    ReplicaRequest,
    decide_reader,
    decide_replica_host,
    decide_replica_name,
)
from grampus.databases.replicas.replica_looks import ReplicaLooks, ReplicaView
from grampus.databases.replicas.replica_rules import require_allowed
from grampus.databases.replicas.replica_steps import (
    ADD_REPLICA,
    PROMOTE_REPLICA,
    REMOVE_REPLICA,
    RENEW_REPLICA,
    AddOrder,
    PromoteOrder,
    RemoveOrder,
    RenewOrder,
)
from grampus.databases.replicas.repointing import repoint_replicas
from grampus.databases.service import DatabaseService
from grampus.databases.snapshots.decide_retention import name_at
from grampus.operations.operation_type import DocumentT
from grampus.volumes.model import CloneSource

# As snapshots that are taken for one clone alone begin: no lineage shows them.
_RENEWAL_PREFIX = "for-"


class DatabaseReplicas:
    """The replicas of the databases of one lab or cluster."""

    def __init__(self, databases: DatabaseService, copies: CopiesPort) -> None:
        self._databases = databases
        self._operations = databases.operations
        self._clones = DatabaseClones(databases.operations, databases.planner)
        self._copies = copies
        self._endpoints = ReadEndpoints(databases.operations)
        self._looks = ReplicaLooks(databases)
        self._comparing = ReplicaComparing(databases.operations.ports)

    # -- add ----------------------------------------------------------------------------------

    def _plan_add(self, request: ReplicaRequest) -> AddOrder:
        primary = self._running_primary(request.primary)
        spec, records = primary.spec, self._operations.records
        loads = observe_loads(records, self._operations.fleet)
        order = self._clones.plan(
            CloneRequest(
                source=spec.name,
                name=request.name or decide_replica_name(spec.name, records.names()),
                snapshot=request.snapshot,
                external_log=request.external_log,
                size_bytes=spec.size_bytes,
                memory_bytes=request.memory_bytes,
                cpus=request.cpus,
                host=request.host or decide_replica_host(loads, spec.host, spec.name),
            )
        )
        pool = spec.pool if request.copies is None else self._copies.pool_of(request.copies)
        changes = {
            "replica_of": spec.name,
            "pool": pool,
            **self._endpoint_changes(spec.name, order.spec),
        }
        replica = order.spec.model_copy(update=changes)
        return AddOrder(
            clone=order.model_copy(update={"spec": replica}),
            makes_endpoint=records.find_read_endpoint(spec.name) is None,
        )

    def add(self, request: ReplicaRequest) -> ReplicaView:
        """Make the replica and wait until it follows; the primary goes on meanwhile.

        On failure or Ctrl-C all is undone and the error raised again. Raises what
        `DatabaseClones.plan` raises, RefusedError with code `is-replica` (of a replica there is
        none), `not-running`, `no-other-host` or `too-many-copies`, and GrampusError with code
        `too-far-behind` for a snapshot that is too old.
        """
        operations = self._operations
        name = self._plan_add(request).clone.spec.name
        named = ReplicaRequest(**{**vars(request), "name": name})
        with operations.locked(name), operations.locked(request.primary):
            operations.settle(name)
            operations.settle(request.primary)
            if request.copies is not None and not operations.runner.is_planning:
                operations.progress.phase(
                    f"Create the pool for {request.copies} copies, if necessary"
                )
                self._copies.ensure(request.copies)
            with operations.addresses_locked():
                order = self._plan_add(named)
                operation = operations.begin(ADD_REPLICA, order)
            operations.apply(operation, ADD_REPLICA, order)
        return self.show(name)

    # -- look ---------------------------------------------------------------------------------

    def names(self, primary: str) -> list[str]:
        """The replicas of a database, by name."""
        return sorted(self._operations.records.followers(primary))

    def of(self, primary: str, *, asks_primary: bool = True) -> list[ReplicaView]:
        """The replicas of a database and how far each is behind or ahead. Raises NotFoundError.

        How far they are behind or ahead of a primary that is not asked is not known.
        """
        self._operations.records.get(primary)
        names = self.names(primary)
        if not names:
            return []
        position = self._looks.position_of(primary) if asks_primary else None
        return self._looks.views(names, position)

    def show(self, name: str) -> ReplicaView:
        """One replica. Raises NotFoundError, RefusedError with code `no-replica`."""
        primary = self.require_replica(name).spec.replica_of
        return self._looks.view(name, self._looks.position_of(primary))

    def require_replica(self, name: str) -> DatabaseRecord:
        """The record of a replica. Raises NotFoundError, RefusedError with code `no-replica`."""
        records = self._operations.records
        record = records.find(name)
        if record is None:
            command = "grampus db list"
            known = records.replica_names() or records.names()
            raise not_found("replica", name, known, list_command=command)
        if record.spec.replica_of is None:
            raise RefusedError(
                f"The database {name} is not a replica.",
                f"`grampus db replica list {name}` shows its replicas.",
                code="no-replica",
            )
        return record

    def choose_reader(self, primary: str) -> str:
        """The healthy replica that is the least far behind.

        Raises NotFoundError, RefusedError with code `no-replica`.
        """
        standings = {view.record.spec.name: view.standing for view in self.of(primary)}
        return decide_reader(standings, primary)

    # -- remove -------------------------------------------------------------------------------

    def plan_remove(self, name: str, *, discards_errant: bool = False) -> RemoveOrder:
        """The end of a replica; with `discards_errant` also of one that is ahead.

        Raises NotFoundError, RefusedError with code `no-replica`, `protected` or `ahead`.
        """
        spec = self.require_replica(name).spec
        if spec.protected:
            raise RefusedError(
                f"The replica {name} is protected.",
                f"`grampus db unprotect {name}` allows the removal.",
                code="protected",
            )
        if not discards_errant:
            # What cannot be told is no reason here: a replica or its primary may be gone for good.
            compared = replace(self._comparing.compare(name), unknown=None)
            require_nothing_lost(name, spec.replica_of or "", compared, would="remove")
        return RemoveOrder(
            spec=spec, primary=spec.replica_of or "", leftover_snapshot=self._leftover(name)
        )

    def explain_loss(self, name: str) -> str:
        """What would be lost with a replica, as a sentence. Raises NotFoundError."""
        return describe_loss(name, self._comparing.compare(name))

    def remove(self, name: str, *, discards_errant: bool = False) -> None:
        """Remove a replica for good; cut off, the next command finishes it.

        Raises what `plan_remove` raises.
        """
        operations = self._operations
        with operations.locked(name):
            is_removing = any(
                operation.kind == REMOVE_REPLICA.kind for operation in operations.unfinished(name)
            )
            # A renewal that cannot come to its end is given up: what it left goes too.
            leftover = self._leftover(name)
            operations.settle(name, before_deletion=True)
            if is_removing and operations.records.find(name) is None:
                return
            planned = self.plan_remove(name, discards_errant=discards_errant)
            order = planned.model_copy(update={"leftover_snapshot": leftover})
            operations.run(REMOVE_REPLICA, order)
        self._copies.tidy(order.spec.pool)
        self.follow_endpoint(order.primary)

    def remove_all(self, primary: str) -> None:
        """Remove every replica of a database, or none if one is refused. Raises as `remove`."""
        for name in self.names(primary):
            self.plan_remove(name)
        for name in self.names(primary):
            self.remove(name)

    def require_none(self, kind: DatabaseOperation[DocumentT], name: str) -> None:
        """Raise RefusedError when replicas forbid an operation: before anybody is asked."""
        require_allowed(kind.kind, name, self._operations.records.family(name))

    def describe_remove_all(
        self, primary: str, kind: DatabaseOperation[DocumentT], document: DocumentT
    ) -> list[str]:
        """What the removal of all replicas and then the operation on their primary would do."""
        removals = [
            f"{name}: {title}"
            for name in self.names(primary)
            for title in self._operations.describe(REMOVE_REPLICA, self.plan_remove(name))
        ]
        return [*removals, *self._operations.describe(kind, document)]

    # -- promote ------------------------------------------------------------------------------

    def _plan_promote(self, name: str, *, wait: bool) -> PromoteOrder:
        spec = self.require_replica(name).spec
        primary = spec.replica_of or ""
        self._operations.ready(name)
        self._require_running(name)
        self._require_silent(primary, spec)
        wait_for = None
        if wait:
            position = self._looks.position_of(primary, administrator_of)
            standing = self._looks.view(name, position, administrator_of).standing
            if position is None or standing.state != "replicating":
                why = f"{primary} does not answer" if position is None else standing.state
                raise RefusedError(
                    f"The replica {name} cannot get the missing transactions of {primary}: {why}.",
                    "Remove --wait to promote the replica with its current transactions.",
                    code="not-replicating",
                )
            wait_for = position.executed
        endpoint = self._operations.records.find_read_endpoint(primary)
        led_to = None
        if endpoint is not None and (endpoint.host is not None or endpoint.left_hosts):
            records = self._operations.records
            followers = {known: records.get(known).spec for known in self.names(primary)}
            led_to = tuple(followers[one] for one in endpoint.members if one in followers)
        lost = self._lost_primary(primary)
        return PromoteOrder(
            replica=spec,
            primary=primary,
            wait_for=wait_for,
            fenced=lost.spec if lost else None,
            fenced_was=lost.desired if lost else "running",
            endpoint_members=led_to,
        )

    def _lost_primary(self, primary: str) -> DatabaseRecord | None:
        """The primary, if it may still be written to on a host that cannot be reached."""
        record = self._operations.records.find(primary)
        if record is None or record.phase != "ready":
            return None
        return None if self._operations.fleet.is_reachable(record.spec.host) else record

    def _require_silent(self, primary: str, replica: DatabaseSpec) -> None:
        """Raise RefusedError with code `still-serving` when a primary that cannot be told answers
        its clients."""
        lost = self._lost_primary(primary)
        here = self._operations.fleet.host(replica.host)
        if lost is None or not observe_listening_from(here, lost.spec):
            return
        raise RefusedError(
            f"The host {lost.spec.host} cannot be reached, but the database {primary} still "
            f"answers clients at {lost.spec.address}:{lost.spec.port}.",
            f"Check the network between this machine and {lost.spec.host}. To promote "
            f"{replica.name} anyway, cut {primary} off first: `grampus volume fence "
            f"{primary}`.",
            code="still-serving",
        )

    def promote(self, name: str, *, wait: bool = False) -> DatabaseRecord:
        """Make a replica a database of its own, which clients may write to.

        What it received is applied first; with `wait` it first catches up. When that fails it goes
        on as a replica. Raises NotFoundError, HostUnreachableError, RefusedError with code
        `no-replica`, `not-ready`, `not-running`, `still-serving`, or `not-replicating` (with
        `wait`), and GrampusError with code `cannot-apply` or `timeout`.
        """
        operations = self._operations
        primary = self.require_replica(name).spec.replica_of or ""
        with ExitStack() as held:
            # Nobody lets the endpoint lead to it again meanwhile.
            held.enter_context(operations.locked(primary, lane="endpoint"))
            held.enter_context(operations.locked(name))
            if self._lost_primary(primary) is not None:
                held.enter_context(operations.locked(primary))
            operations.settle(name)
            order = self._plan_promote(name, wait=wait)
            operations.run(PROMOTE_REPLICA, order)
            for operation in operations.unfinished(primary) if order.fenced else ():
                if operation.kind in GIVEN_UP:  # it would bring up a second primary
                    operations.give_up(operation, f"{name} was promoted in its place")
        return self._operations.records.get(name)

    # -- the read-only endpoint ---------------------------------------------------------------

    def settle_endpoint(self, primary: str) -> EndpointChange | None:
        """Serve the read-only endpoint where, and by whom, it can be served now.

        None: it has none. Raises NotFoundError, RefusedError with code `busy`.
        """
        operations = self._operations
        if operations.records.find_read_endpoint(primary) is None:
            return None
        with operations.locked(primary, lane="endpoint"):
            # Of one that is still being made nothing is served: it may be undone.
            misled = tuple(repoint_replicas(operations, primary))
            ready = [one for one in self.of(primary) if one.record.phase == "ready"]
            seen = [Candidate(one.record.spec, one.standing) for one in ready]
            change = self._endpoints.settle(primary, seen)
            return change and replace(change, misled=misled)

    def follow_endpoint(self, primary: str) -> EndpointChange | None:
        """As `settle_endpoint`, after replicas were changed; None also while another command is at
        it, which is about to see the same."""
        try:
            return self.settle_endpoint(primary)
        except RefusedError as error:
            if error.code != "busy":
                raise
            return None

    def settle_endpoints(self) -> dict[str, EndpointChange]:
        """All of them, by their databases; one that another command is at is left to it."""
        changes = {}
        for primary in self._operations.records.all_read_endpoints():
            try:
                change = self.settle_endpoint(primary)
            except GrampusError as error:
                if error.code not in ("busy", "not-found"):
                    raise
                continue
            if change is not None:
                changes[primary] = change
        return changes

    # -- renew --------------------------------------------------------------------------------

    def plan_renew(self, name: str, *, discards_errant: bool = False) -> RenewOrder:
        """A replica filled anew; with `discards_errant` whatever it holds.

        Raises NotFoundError, HostUnreachableError, RefusedError with code `no-replica`,
        `not-ready`, or `not-running` for it or its primary, or `pool-full`, and what
        `require_nothing_lost` raises.
        """
        record = self.require_replica(name)
        self._operations.ready(name)
        if record.desired != "running":
            raise RefusedError(
                f"The replica {name} is stopped.",
                f"Start the replica with `grampus db start {name}`, then renew it.",
                code="not-running",
            )
        self._operations.require_reachable(record.spec.host, record.spec.name)
        primary = self._running_primary(record.spec.replica_of or "")
        self._operations.volumes.require_writable(primary.spec.name)  # a snapshot of it is taken
        if not discards_errant:
            comparing = ReplicaComparing(self._operations.ports, is_patient=True)
            require_nothing_lost(name, primary.spec.name, comparing.compare(name))
        volume = self._operations.volumes.get(primary.spec.name).spec
        size_bytes = max(record.spec.size_bytes, primary.spec.size_bytes)
        now = self._operations.clock.now()
        return RenewOrder(
            changed=record.spec.model_copy(
                update={
                    "size_bytes": size_bytes,
                    "external_log_bytes": primary.spec.external_log_bytes,  # a clone has the same
                }
            ),
            primary=primary.spec.name,
            owner=record.user,
            source=CloneSource(
                pool=volume.pool, image=volume.image, snapshot=name_at(_RENEWAL_PREFIX, now)
            ),
            discards_errant=discards_errant,
        )

    def renew(self, name: str, *, discards_errant: bool = False) -> ReplicaView:
        """Fill a replica anew from a clone of its primary; nobody can read from it meanwhile.

        Name, address and passwords stay. Cut off, the next command finishes it, or undoes it while
        the replica is whole. Raises what `plan_renew` raises.
        """
        operations = self._operations
        primary = self.require_replica(name).spec.replica_of or ""
        with operations.locked(name), operations.locked(primary):
            operations.settle(name)
            operations.settle(primary)
            operations.run(RENEW_REPLICA, self.plan_renew(name, discards_errant=discards_errant))
        return self.show(name)

    # -- inside -------------------------------------------------------------------------------

    def _endpoint_changes(self, primary: str, replica: DatabaseSpec) -> dict[str, str | int]:
        """Address or port of the read-only endpoint: as it is, or one that nobody has."""
        endpoint = self._operations.records.find_read_endpoint(primary)
        if endpoint is None:
            used = self._operations.used_addresses() | {replica.held_address}
            fleet = self._operations.fleet
            assigned = assign_address(fleet, used, fleet.host(replica.host))
            endpoint = ReadEndpoint(address=assigned.address, port=assigned.own_port)
        if endpoint.port is not None:
            return {"endpoint_port": endpoint.port}
        return {"endpoint_address": endpoint.address}

    def _running_primary(self, name: str) -> DatabaseRecord:
        record = self._operations.ready(name)
        if record.spec.replica_of is not None:
            raise RefusedError(
                f"The database {name} is itself a replica of {record.spec.replica_of}.",
                f"Add another replica of {record.spec.replica_of}.",
                code="is-replica",
            )
        self._require_running(name)
        return record

    def _require_running(self, name: str) -> None:
        self._operations.require_reachable(self._operations.records.get(name).spec.host, name)
        status = self._databases.show(name).status
        if status != "running":
            raise RefusedError(
                f"The database {name} is not running ({status}).",
                f"`grampus db start {name}` starts it.",
                code="not-running",
            )

    def _leftover(self, name: str) -> str | None:
        """The snapshot of a renewal that was cut off."""
        for operation in self._operations.unfinished(name):
            if operation.kind == RENEW_REPLICA.kind:
                return RENEW_REPLICA.parse(operation.spec).source.snapshot
        return None
