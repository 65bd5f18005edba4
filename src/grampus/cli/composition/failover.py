"""The composition root, of databases whose host is lost."""

from __future__ import annotations

from grampus.cli.composition.session import Session
from grampus.databases.failover.failovers import DatabaseFailovers


def database_failovers(session: Session) -> DatabaseFailovers:
    return DatabaseFailovers(session.databases().operations)
