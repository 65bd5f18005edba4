"""What `grampus serve` does for read-only endpoints: keeps them leading to who can be read."""

from __future__ import annotations

from grampus.databases.controller.due_jobs import ControllerEvent, failure_of
from grampus.databases.replicas.replicas import DatabaseReplicas

# What HAProxy sees itself, a server that is gone or hangs, takes it seconds; this is for what only
# the servers can tell (how far they are behind), and for a host that is gone.
ENDPOINTS_EVERY_S = 15.0


def keep_endpoints(replicas: DatabaseReplicas) -> list[ControllerEvent]:
    """Serve each endpoint where, and by whom, it can be served now."""
    events = []
    for primary, change in replicas.settle_endpoints().items():
        endpoint = change.endpoint
        if change.problem is not None:
            events.append(failure_of(primary, change.problem))
        elif change.is_other and endpoint.host is not None:
            led_to = ", ".join(endpoint.members) or "no replica"
            text = f"The read-only endpoint of {primary} is on {endpoint.host}, with "
            events.append(ControllerEvent(primary, "endpoint-changed", f"{text}{led_to}."))
        for text in change.misled:
            events.append(ControllerEvent(primary, "replica-misled", text, "failed"))
        if endpoint.host is not None and not endpoint.members:
            text = f"The read-only endpoint of {primary} has no readable replica."
            remedy = f"`grampus db replica list {primary}` shows the reasons."
            events.append(
                ControllerEvent(primary, "endpoint-empty", text, "warning", remedy=remedy)
            )
    return events
