"""Renewals of replicas: by schedule, kept with each, and of those that can never catch up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from grampus.core.errors import GrampusError
from grampus.databases.model import DatabaseRecord
from grampus.databases.operating import DatabaseOperations
from grampus.databases.replicas.comparing import ReplicaComparing
from grampus.databases.replicas.decide_replicas import (
    explain_ahead,
    is_renewal_due,
    require_renewal_interval,
)
from grampus.databases.replicas.gtid_sets import parse_rendered
from grampus.databases.replicas.replica_steps import SCHEDULE_RENEWAL
from grampus.databases.replicas.replicas import DatabaseReplicas

# `ahead`: it is not renewed, and its `problem` says what it holds.
RenewalReason = Literal["schedule", "too-far-behind", "ahead"]


@dataclass(frozen=True)
class Renewal:
    """A replica that was to be renewed, and why; `problem` when that failed."""

    replica: str
    primary: str
    reason: RenewalReason
    problem: str | None = None


class ReplicaRenewals:
    """The renewal schedules of the replicas of one lab or cluster."""

    def __init__(self, operations: DatabaseOperations, replicas: DatabaseReplicas) -> None:
        self._operations = operations
        self._replicas = replicas
        self._comparing = ReplicaComparing(operations.ports)

    def get(self, name: str) -> int | None:
        """Seconds between renewals; None: by hand alone. Raises as `require_replica`."""
        return self._replicas.require_replica(name).spec.renew_every_s

    def put(self, name: str, every_s: int | None) -> None:
        """Keep the schedule with the replica; None: by hand alone.

        Raises NotFoundError, UsageError, RefusedError with code `no-replica` or `not-ready`.
        """
        with self._operations.locked(name):
            self._operations.settle(name)
            if every_s is not None:
                require_renewal_interval(every_s)
            spec = self._replicas.require_replica(name).spec
            self._operations.ready(name)
            changed = spec.model_copy(update={"renew_every_s": every_s})
            self._operations.run(SCHEDULE_RENEWAL, changed)

    def carry_out(self, *, changes_nothing: bool = False) -> list[Renewal]:
        """Renew what is due now; one answer for each that was to be renewed.

        What fails with one keeps none of the others from its own. One that holds what its primary
        lacks, or of which that cannot be told, is never renewed: its problem says so. With
        `changes_nothing`, says what would be done.
        """
        done = []
        for name, record in self._operations.records.all().items():
            primary = record.spec.replica_of
            if primary is None or record.phase != "ready":
                continue
            # Of one that is stopped too: its primary's logs tell of a start for some time only.
            compared = self._comparing.compare(name)
            if compared.ahead:
                # It holds the only copy of what it is ahead by: that is its user's to decide on.
                said = explain_ahead(parse_rendered(compared.ahead))
                done.append(
                    Renewal(
                        name,
                        primary,
                        "ahead",
                        f"The replica {name} is ahead of its primary. {said}",
                    )
                )
                continue
            reason = self._reason(name, record) if record.desired == "running" else None
            if reason is None:
                continue
            problem = None if changes_nothing else self._renew(name)
            done.append(Renewal(name, primary, reason, problem))
        return done

    def _reason(self, name: str, record: DatabaseRecord) -> RenewalReason | None:
        now, filled_at = self._operations.clock.now(), record.renewed_at or record.created_at
        if is_renewal_due(record.spec.renew_every_s, filled_at, now):
            return "schedule"
        is_lost = self._replicas.show(name).standing.state == "too-far-behind"
        return "too-far-behind" if is_lost else None

    def _renew(self, name: str) -> str | None:
        try:
            self._replicas.renew(name)
        except GrampusError as error:
            return str(error)
        return None
