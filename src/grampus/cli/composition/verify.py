"""The composition root, of what looks for damaged data."""

from __future__ import annotations

from grampus.cli.composition.clones import database_clones
from grampus.cli.composition.session import Session
from grampus.databases.verify.leftovers import ScratchLeftovers
from grampus.databases.verify.table_checks import TableChecks
from grampus.databases.verify.verification import DatabaseVerification
from grampus.volumes.scrubbing import VolumeScrubs


def volume_scrubs(session: Session) -> VolumeScrubs:
    return VolumeScrubs(session.cluster(), session.runner, session.clock, session.progress)


def scratch_leftovers(session: Session) -> ScratchLeftovers:
    return ScratchLeftovers(session.databases())


def database_verification(session: Session) -> DatabaseVerification:
    databases = session.databases()
    checks = TableChecks(databases, database_clones(session))
    return DatabaseVerification(databases.operations, volume_scrubs(session), checks)
