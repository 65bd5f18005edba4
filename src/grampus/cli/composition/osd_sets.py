"""The composition root, of a lab's OSD sets."""

from __future__ import annotations

from grampus.cli.composition.lab import LabSession
from grampus.lab.osd_set_service import OsdSetService


def lab_osd_sets(session: LabSession) -> OsdSetService:
    """The further OSDs of the session's lab. Raises NotFoundError when there is no such lab."""
    return session.lab().osd_sets(session.require_lab(), session.lab_fleet())
