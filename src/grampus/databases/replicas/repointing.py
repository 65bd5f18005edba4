"""Replicas of a database that has the address of its host: they follow it to the next one.

A replica tries for as long as it takes to connect where its primary was. So what is interrupted or
fails here is repeated later: by whoever looks after read-only endpoints next.
"""

from __future__ import annotations

from grampus.core.errors import GrampusError
from grampus.databases.administrator import observer_of
from grampus.databases.model import DatabaseRecord, DatabaseSpec
from grampus.databases.operating import DatabaseOperations
from grampus.databases.replicas.replica_work import ReplicaWork
from grampus.databases.replicas.replication_sql import parse_source, render_source_sql

Sentences = list[str]
# Another command is at the replica, or the primary is not there yet, as during a failover.
_LATER = frozenset({"busy", "not-found", "primary-not-running"})


def is_misled(source: tuple[str, int] | None, primary: DatabaseSpec) -> bool:
    """Whether a replica with this source looks for its primary where that is not; pure."""
    return source is not None and source != (primary.address, primary.port)


def repoint_replicas(operations: DatabaseOperations, primary: str) -> Sentences:
    """Let the replicas of `primary` follow it to where it is; one sentence for each that cannot.

    Nothing is asked of replicas of a floating address. A replica that another command is at, or
    that does not run, or whose primary does not, is left to a later call.
    """
    record = operations.records.find(primary)
    if record is None or not record.spec.shares_address or record.desired != "running":
        return []
    problems: Sentences = []
    for name in operations.records.followers(primary):
        try:
            with operations.locked(name, timeout_s=0.0):
                follower = operations.records.get(name)
                if _can_follow(operations, follower, primary):
                    _repoint(operations, follower.spec, operations.records.get(primary).spec)
        except GrampusError as error:
            if error.code not in _LATER:
                problems.append(f"The replica {name} does not follow {primary} yet: {error}")
    return problems


def repoint_after_change(operations: DatabaseOperations, primary: str) -> None:
    """As `repoint_replicas`, after `primary` came to another host: what fails is only noted."""
    for problem in repoint_replicas(operations, primary):
        operations.progress.note(f"{problem} `grampus serve` and `grampus db replica due` retry.")


def _can_follow(operations: DatabaseOperations, follower: DatabaseRecord, primary: str) -> bool:
    return (
        follower.spec.replica_of == primary
        and follower.phase == "ready"
        and follower.desired == "running"
        and not operations.unfinished(follower.spec.name)
        and operations.fleet.is_reachable(follower.spec.host)
    )


def _repoint(operations: DatabaseOperations, replica: DatabaseSpec, primary: DatabaseSpec) -> None:
    """Raises GrampusError, as when either server gives no answer."""
    rows = observer_of(operations.ports, replica).query(render_source_sql(replica.flavour))
    if is_misled(parse_source(rows), primary):
        # The server tries to connect by itself; whoever waited here may have to look at hosts.
        ReplicaWork(operations.ports, replica, primary.name).follow(waits=False)
