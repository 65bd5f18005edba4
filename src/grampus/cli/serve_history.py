"""What `grampus serve` does for the history: removes operations that ended long ago."""

from __future__ import annotations

import os

from grampus.cli.composition.names import histories, operation_retention
from grampus.cli.composition.session import Session
from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.state.retention import parse_kept_days

HISTORY_EVERY_S = 3600.0


def forget_all_operations(session: Session) -> list[ControllerEvent]:
    """All that are old, once a day."""
    days = parse_kept_days(os.environ)
    if operation_retention(session).is_due():
        histories(session).forget_all(days)
    return []
