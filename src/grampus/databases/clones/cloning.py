"""Clones of databases: own name, address and passwords, and the source's data, shared."""

from __future__ import annotations

from grampus.core.errors import RefusedError, not_found
from grampus.databases.clones.clone_steps import CLONE, FLATTEN, CloneOrder, FlattenOrder
from grampus.databases.clones.decide_clone import (
    CloneRequest,
    decide_clone_request,
    decide_new_layout,
    decide_snapshot_name,
    require_depth,
)
from grampus.databases.operating import DatabaseOperations
from grampus.databases.planning import CreatePlanner
from grampus.databases.replicas.replica_rules import require_no_replica
from grampus.volumes.model import CloneSource, Lineage, SnapshotInfo


class DatabaseClones:
    """Clones among the databases of one lab or cluster."""

    def __init__(self, operations: DatabaseOperations, planner: CreatePlanner) -> None:
        self._operations = operations
        self._planner = planner

    def plan(self, request: CloneRequest) -> CloneOrder:
        """Everything about the clone, chosen and checked; nothing is changed.

        Raises what `DatabaseService.plan_create` raises, NotFoundError when there is no such
        database or snapshot, or not the master key of its volume (`no-volume-key`), RefusedError
        with code `not-ready`, `shrink`, `too-deep`, `is-replica`, `external-log` or `pool-full`.
        """
        return self._plan(request)[0]

    def _plan(self, request: CloneRequest) -> tuple[CloneOrder, int]:
        """The clone, and how many images its source's volume stands on."""
        volumes = self._operations.volumes
        record = self._operations.ready(request.source)
        require_no_replica(record, "a clone")
        with self._planner.waking(request.host):
            self._planner.require_sharing_room(record.spec)
            volume = volumes.get(request.source).spec
            snapshots = volumes.snapshots(request.source)
            named = _named_snapshot(request, snapshots)
            self._operations.require_openable(request.source)
            depth = volumes.lineage(request.source, with_children=False).depth
        if not request.external_log:  # a copy of its files shares nothing
            require_depth(request.source, depth)
        wanted = decide_clone_request(
            request, record.spec, snapshot_bytes=None if named is None else named.size_bytes
        )
        spec = self._planner.plan(wanted, self._operations.used_addresses(), like=record.spec)
        spec = spec.model_copy(update={"labels": dict(request.labels)})
        if request.external_log:
            spec = decide_new_layout(spec, record.spec)
            self._planner.require_room(spec)
        taken = {snapshot.name for snapshot in snapshots}
        snapshot = named.name if named else decide_snapshot_name(request.name, taken)
        order = CloneOrder(
            spec=spec,
            database=request.source,
            owner=record.user,
            source=CloneSource(pool=volume.pool, image=volume.image, snapshot=snapshot),
            takes_snapshot=named is None,
            copies_files=request.external_log,
        )
        return order, depth

    def clone(self, request: CloneRequest) -> Lineage:
        """Make the clone and wait until its user can log in; what its volume stands on.

        The source goes on meanwhile; it cannot be changed or deleted. On failure or Ctrl-C
        everything is undone and the error raised again. Raises what `plan` raises.
        """
        operations = self._operations
        operations.records.get(request.source)
        if request.name == request.source:
            self._planner.require_name_free(request.name)  # and not: another command has it
        with operations.locked(request.name), operations.locked(request.source):
            operations.settle(request.name)
            operations.settle(request.source)
            with operations.addresses_locked():
                order, depth = self._plan(request)
                operation = operations.begin(CLONE, order)
            operations.apply(operation, CLONE, order)
        if order.copies_files:
            return Lineage(parent=None, depth=0)
        return Lineage(parent=order.source, depth=depth + 1)

    def lineage(self, name: str) -> Lineage:
        """What the database's volume stands on. Raises NotFoundError."""
        self._operations.records.get(name)
        return self._operations.volumes.lineage(name)

    def flatten(self, name: str, *, patience_s: float = 10.0) -> bool:
        """Let the volume share nothing any more, while the database runs; False: it did not.

        Other commands may work on the database meanwhile, and the volume grow; what closes its
        image is refused. Cut off, what was copied stays copied. Another command is waited for,
        `patience_s` seconds. Raises NotFoundError, RefusedError with code `not-ready` or `busy`,
        GrampusError with code `flatten-failed`.
        """
        operations, order = self._operations, FlattenOrder(name=name)
        with operations.locked(name, lane="flatten", timeout_s=patience_s):
            operations.settle(name, lane="flatten")
            with operations.locked(name, timeout_s=patience_s):
                operations.settle(name)
                operations.ready(name)
                if not operations.volumes.needs_flattening(name):
                    operations.runner.propose(list)  # what is only noted is no step
                    operations.records.change(name, flatten_due=False)
                    return False
                operation = operations.begin(FLATTEN, order)
            operations.apply(operation, FLATTEN, order)
            self._note_alone(name)
        return True

    def _note_alone(self, name: str) -> None:
        """Under the lock of `main`: who changes a record has read it before.

        What is left undone here is done by the next look at what is due.
        """
        try:
            with self._operations.locked(name):
                self._operations.records.change(name, flatten_due=False)
        except RefusedError as error:
            if error.code != "busy":
                raise


def _named_snapshot(request: CloneRequest, snapshots: list[SnapshotInfo]) -> SnapshotInfo | None:
    if request.source == request.name:
        raise RefusedError(
            f"The clone of {request.source} needs another name than {request.source}.",
            "Choose another name.",
            code="name-taken",
        )
    if request.snapshot is None:
        return None
    for snapshot in snapshots:
        if snapshot.name == request.snapshot:
            return snapshot
    raise not_found(
        f"snapshot of {request.source}",
        request.snapshot,
        [snapshot.name for snapshot in snapshots],
        list_command=f"grampus db snapshot list {request.source}",
    )
