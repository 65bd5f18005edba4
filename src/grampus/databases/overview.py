"""What a DBA wants to see of a database at a glance, beside what is remembered of it.

Quick, whatever the database has: one query of its server, two commands of the cluster for all of
its snapshots, and two queries a replica, all replicas side by side. What cannot be looked up is
told, and keeps nothing else from being shown: a database is looked at when something is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from grampus.core.errors import GrampusError
from grampus.databases.administrator import observer_of
from grampus.databases.live.parameters import DatabaseParameters
from grampus.databases.live.server_now import ServerNow, observe_server_now
from grampus.databases.model import DatabaseRecord, ReadEndpoint
from grampus.databases.names.events import DatabaseEvent, DatabaseEvents
from grampus.databases.operating import DatabaseOperations
from grampus.databases.replicas.decide_replicas import ReplicaStanding, find_reader
from grampus.databases.replicas.replica_looks import ReplicaView
from grampus.databases.replicas.replicas import DatabaseReplicas
from grampus.databases.snapshots.decide_retention import decide_next
from grampus.databases.view import DatabaseView
from grampus.volumes.model import Lineage, MeasuredSnapshots

# Operations that one begins and ends on its volume, with some room.
_LAST_EVENTS = 10


@dataclass(frozen=True)
class Overview:
    """A database at a glance. What is None is not there, or its problem says why nobody knows."""

    server: ServerNow | None  # None: it does not run
    server_problem: str | None
    waiting: Sequence[str]  # parameters that take effect at its next start
    lineage: Lineage | None  # None: it has no volume
    snapshots: MeasuredSnapshots | None  # the same
    next_snapshot_at: datetime | None  # the past: it is due; None: none is taken by schedule
    cluster_problem: str | None
    replicas: Sequence[ReplicaView]
    reader: ReplicaView | None  # the replica that `db connect --read-only` would choose now
    read_endpoint: ReadEndpoint | None  # None: it never had a replica
    primary: DatabaseRecord | None  # what it follows
    standing: ReplicaStanding | None  # of a replica
    warnings: Sequence[DatabaseEvent]  # of the controller, that last as far as it knows
    last_event: DatabaseEvent | None  # the last that is over, or was cut off


@dataclass(frozen=True)
class _OfCluster:
    lineage: Lineage | None = None
    snapshots: MeasuredSnapshots | None = None
    next_snapshot_at: datetime | None = None
    problem: str | None = None


class DatabaseOverviews:
    """Databases of one lab or cluster at a glance."""

    def __init__(
        self,
        operations: DatabaseOperations,
        replicas: DatabaseReplicas,
        events: DatabaseEvents,
    ) -> None:
        self._operations = operations
        self._parameters = DatabaseParameters(operations)
        self._replicas = replicas
        self._events = events

    def observe(self, view: DatabaseView) -> Overview:
        """Everything; nothing is changed."""
        record, name = view.record, view.record.spec.name
        server, waiting, server_problem = self._observe_server(view)
        cluster = self._observe_cluster(view)
        # One that has just said nothing is not waited for again.
        replicas = self._replicas.of(name, asks_primary=server is not None)
        standings = {replica.record.spec.name: replica.standing for replica in replicas}
        reader = find_reader(standings)
        follows = record.spec.replica_of
        return Overview(
            server=server,
            server_problem=server_problem,
            waiting=waiting,
            lineage=cluster.lineage,
            snapshots=cluster.snapshots,
            next_snapshot_at=cluster.next_snapshot_at,
            cluster_problem=cluster.problem,
            replicas=replicas,
            reader=next((one for one in replicas if one.record.spec.name == reader), None),
            read_endpoint=self._operations.records.find_read_endpoint(name),
            primary=self._operations.records.find(follows) if follows else None,
            standing=self._replicas.show(name).standing if follows else None,
            warnings=self._events.lasting(name),
            last_event=self._last_event(name),
        )

    def _last_event(self, name: str) -> DatabaseEvent | None:
        """The one that ended last: an operation on the volume is a part of one on the database."""
        newest_first = reversed(self._events.of(name, last=_LAST_EVENTS))
        return max(
            (event for event in newest_first if event.outcome != "lasts"),
            key=lambda event: event.at + timedelta(seconds=event.duration_s),
            default=None,
        )

    def _observe_server(
        self, view: DatabaseView
    ) -> tuple[ServerNow | None, Sequence[str], str | None]:
        if view.status != "running":
            return None, [], None
        try:
            now = observe_server_now(observer_of(self._operations.ports, view.record.spec))
            return now, self._parameters.waiting(view.record), None
        except GrampusError as error:
            return None, [], error.problem

    def _observe_cluster(self, view: DatabaseView) -> _OfCluster:
        """Lineage and snapshots; a cluster that did not answer once is not asked again."""
        name, volumes = view.record.spec.name, self._operations.volumes
        if view.volume is None:
            return _OfCluster()
        try:
            lineage = volumes.lineage(name)
            measured = volumes.measure_snapshots(name)
        except GrampusError as error:
            return _OfCluster(problem=error.problem)
        schedule, now = view.record.snapshot_schedule, self._operations.clock.now()
        next_at = decide_next(schedule, measured.snapshots, now) if schedule else None
        return _OfCluster(lineage, measured, next_at)
