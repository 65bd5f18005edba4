"""The composition root, of clones of databases, which are made without what replicas need."""

from __future__ import annotations

from grampus.cli.composition.session import Session
from grampus.databases.clones.cloning import DatabaseClones
from grampus.databases.clones.due_flattening import DueFlattening


def database_clones(session: Session) -> DatabaseClones:
    databases = session.databases()
    return DatabaseClones(databases.operations, databases.planner)


def due_flattening(session: Session) -> DueFlattening:
    return DueFlattening(session.databases().operations, database_clones(session))
