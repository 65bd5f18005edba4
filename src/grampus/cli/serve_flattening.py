"""What `grampus serve` does for databases that were made to be flattened later."""

from __future__ import annotations

from grampus.databases.clones.due_flattening import DueFlattening
from grampus.databases.controller.due_jobs import ControllerEvent, failure_of

FLATTEN_EVERY_S = 60.0


def flatten_due(flattening: DueFlattening) -> list[ControllerEvent]:
    """Flatten the volumes of databases that run; one that waits is not reported."""
    events = []
    for one in flattening.carry_out():
        if one.problem is not None:
            events.append(failure_of(one.database, one.problem))
        elif one.is_flat:
            text = f"The volume of {one.database} was flattened. It is independent now."
            events.append(ControllerEvent(one.database, "flattened", text))
    return events
