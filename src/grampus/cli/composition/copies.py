"""The composition root, of copies of databases: replicas and snapshots."""

from __future__ import annotations

from collections.abc import MutableMapping

from grampus.cli.composition.session import Session
from grampus.databases.replicas.extracting import ErrantTransactions
from grampus.databases.replicas.renewals import ReplicaRenewals
from grampus.databases.replicas.replicas import DatabaseReplicas
from grampus.databases.snapshots.snapshot_schedules import Rest, SnapshotSchedules
from grampus.databases.snapshots.snapshots import DatabaseSnapshots
from grampus.lab.copies_pools import CopiesPools
from grampus.sites.model import SiteSpec
from grampus.sites.site_pools import SitePools


def database_replicas(session: Session) -> DatabaseReplicas:
    place, cluster = session.require_place(), session.cluster()
    pools = (
        SitePools(place, cluster)
        if isinstance(place, SiteSpec)
        else CopiesPools(place, cluster, session.clock)
    )
    return DatabaseReplicas(session.databases(), pools)


def errant_transactions(session: Session) -> ErrantTransactions:
    return ErrantTransactions(session.databases().operations.ports, database_replicas(session))


def replica_renewals(session: Session) -> ReplicaRenewals:
    return ReplicaRenewals(session.databases().operations, database_replicas(session))


def database_snapshots(session: Session) -> DatabaseSnapshots:
    return DatabaseSnapshots(session.databases().operations)


def snapshot_schedules(
    session: Session, rests: MutableMapping[str, Rest] | None = None
) -> SnapshotSchedules:
    return SnapshotSchedules(session.databases().operations, rests)
