"""The composition root, of the optional parts of a lab."""

from __future__ import annotations

from grampus.cli.composition.lab import LabSession
from grampus.lab.parts import PartKind, PartService, SpecT


def lab_part(session: LabSession, kind: PartKind[SpecT]) -> PartService[SpecT]:
    """The part of the session's lab. Raises NotFoundError without such a lab."""
    return PartService(
        kind,
        session.require_lab(),
        session.home,
        session.store,
        session.runner,
        session.images,
        session.lab_fleet(),
        session.clock,
        session.progress,
    )
