"""What happened to a database, and events of the controller, as the command line shows them."""

from __future__ import annotations

import json
from datetime import datetime
from textwrap import shorten
from typing import Any

from grampus.core.clock import format_moment
from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.databases.names.events import DatabaseEvent

_REASON_WIDTH = 100  # the phases of a failover


def event_document(event: DatabaseEvent) -> dict[str, Any]:
    """The stable JSON form of an event."""
    return {
        "at": event.at.isoformat(),
        "database": event.database,
        "kind": event.kind,
        "what": event.what,
        "by": event.actor,
        "outcome": event.outcome,
        "reason": event.reason,
        "duration_s": round(event.duration_s, 3),
        "phases_ms": dict(event.phases_ms),
    }


def render_controller_event(job: str, event: ControllerEvent, at: datetime) -> str:
    """The stable JSON form of an event of the controller, in one line."""
    return json.dumps(
        {
            "at": at.isoformat(),
            "job": job,
            "database": event.database or None,
            "kind": event.kind,
            "level": event.level,
            "text": event.text,
            "remedy": event.remedy or None,
            "details": dict(event.details),
        },
        default=str,
    )


def describe_outcome(event: DatabaseEvent) -> str:
    """What came of it, and why; cut, since a column as wide as the longest could not be read."""
    reason = f": {shorten(event.reason, _REASON_WIDTH, placeholder=' ...')}" if event.reason else ""
    return f"{event.outcome}{reason}"


def describe_event(event: DatabaseEvent) -> str:
    """In a line."""
    by = f" by {event.actor}" if event.actor else ""
    return f"{format_moment(event.at)}, {event.what}{by}, {describe_outcome(event)}"
