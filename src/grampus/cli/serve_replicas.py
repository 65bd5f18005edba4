"""What `grampus serve` does for replicas: renews those that are due or can never catch up."""

from __future__ import annotations

from grampus.cli.composition import Session
from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.databases.replicas.renewals import RenewalReason

REPLICAS_EVERY_S = 60.0
_WHY: dict[RenewalReason, str] = {
    "schedule": "by schedule",
    "too-far-behind": "because its primary no longer had the binary logs that it lacked",
}


def renew_replicas(session: Session) -> list[ControllerEvent]:
    """Renew the replicas whose time has come, and those that can never catch up."""
    events = []
    for renewal in session.replica_renewals().carry_out():
        name = renewal.replica
        if renewal.problem is not None:
            events.append(ControllerEvent(name, "failed", renewal.problem, "failed"))
            continue
        text = f"The replica {name} was renewed from {renewal.primary}, {_WHY[renewal.reason]}."
        events.append(ControllerEvent(name, "replica-renewed", text))
    return events
