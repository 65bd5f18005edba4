"""What `grampus serve` does for the trash: removes for good what has had its time there."""

from __future__ import annotations

from grampus.databases.controller.due_jobs import ControllerEvent, failure_of
from grampus.databases.names.database_trash import DatabaseTrash

TRASH_EVERY_S = 300.0


def empty_trash(trash: DatabaseTrash) -> list[ControllerEvent]:
    """As `grampus db trash empty --yes`; what cannot be removed yet is warned of until it can."""
    events = []
    for purged in trash.purge_expired():
        name, error = purged.database, purged.problem
        if error is None:
            text = f"{purged.key} has expired, and was removed from the trash for good."
            events.append(ControllerEvent(name, "trash-emptied", text))
        elif error.code == "has-clones":
            text = f"{purged.key} has expired but stays in the trash: {error.problem}"
            events.append(ControllerEvent(name, "trash-kept", text, "warning", {}, error.remedy))
        elif error.code != "busy":
            events.append(failure_of(name, error))
    return events
