"""What `grampus serve` does for replicas: renews those that are due or can never catch up."""

from __future__ import annotations

from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.databases.replicas.renewals import Renewal, RenewalReason, ReplicaRenewals

REPLICAS_EVERY_S = 60.0
_WHY: dict[RenewalReason, str] = {
    "schedule": "by schedule",
    "too-far-behind": "because its primary no longer had the missing binary logs",
}


def renew_replicas(renewals: ReplicaRenewals) -> list[ControllerEvent]:
    """Renew the replicas whose time has come, and those that can never catch up."""
    events = []
    for renewal in renewals.carry_out():
        name = renewal.replica
        if renewal.reason == "ahead":
            events.append(_warn_of(renewal))
            continue
        if renewal.problem is not None:
            events.append(ControllerEvent(name, "failed", renewal.problem, "failed"))
            continue
        text = f"The replica {name} was renewed from {renewal.primary}, {_WHY[renewal.reason]}."
        events.append(ControllerEvent(name, "replica-renewed", text))
    return events


def _warn_of(renewal: Renewal) -> ControllerEvent:
    name = renewal.replica
    return ControllerEvent(
        name,
        "replica-ahead",
        renewal.problem or f"The replica {name} is ahead of its primary.",
        "warning",
        remedy=f"Save the transactions with `grampus db replica errant {name} --output FILE`, "
        f"keep them with `grampus db replica promote {name}`, or discard them with "
        f"`grampus db replica renew {name} --discard-errant`.",
    )
