"""The composition root, of databases that leave their hosts: lost hosts, and hosts worked on."""

from __future__ import annotations

from grampus.cli.composition.live import database_moves
from grampus.cli.composition.session import Session
from grampus.databases.failover.failovers import DatabaseFailovers
from grampus.databases.failover.host_maintenance import HostMaintenances


def database_failovers(session: Session) -> DatabaseFailovers:
    return DatabaseFailovers(session.databases().operations)


def host_maintenances(session: Session) -> HostMaintenances:
    return HostMaintenances(session.databases().operations, database_moves(session))
