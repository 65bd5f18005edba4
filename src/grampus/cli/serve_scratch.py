"""What `grampus serve` does for databases that were made for a while and left by their makers."""

from __future__ import annotations

from grampus.databases.controller.due_jobs import ControllerEvent, failure_of
from grampus.databases.verify.leftovers import ScratchLeftovers

SCRATCH_EVERY_S = 60.0


def clear_scratch(leftovers: ScratchLeftovers) -> list[ControllerEvent]:
    """Delete them; the next look of the same kind at the same database does it too."""
    events = []
    for one in leftovers.clear():
        if one.problem is not None:
            events.append(failure_of(one.name, one.problem))
            continue
        text = f"{one.name} is a temporary database of an interrupted {one.maker.what}; "
        text += "Grampus deletes it."
        events.append(ControllerEvent(one.maker.database, "scratch-cleared", text))
    return events
