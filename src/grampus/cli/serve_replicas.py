"""What `grampus serve` does for replicas: renews those that are due or can never catch up."""

from __future__ import annotations

from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.databases.replicas.renewals import RenewalReason, ReplicaRenewals

REPLICAS_EVERY_S = 60.0
_WHY: dict[RenewalReason, str] = {
    "schedule": "by schedule",
    "too-far-behind": "because its primary no longer had the binary logs that it lacked",
}


def renew_replicas(renewals: ReplicaRenewals) -> list[ControllerEvent]:
    """Renew the replicas whose time has come, and those that can never catch up."""
    events = []
    for renewal in renewals.carry_out():
        name = renewal.replica
        if renewal.problem is not None:
            events.append(ControllerEvent(name, "failed", renewal.problem, "failed"))
            continue
        text = f"The replica {name} was renewed from {renewal.primary}, {_WHY[renewal.reason]}."
        events.append(ControllerEvent(name, "replica-renewed", text))
    return events
