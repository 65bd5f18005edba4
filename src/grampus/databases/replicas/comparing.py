"""Whether a replica holds what its primary lacks: asked of both servers, and noted.

Whoever destroys a replica asks here first. What cannot be told is said, and is no answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from grampus.core.errors import GrampusError, RefusedError
from grampus.databases.administrator import Administrator, administrator_of, observer_of
from grampus.databases.model import DatabaseRecord, DatabaseSpec, PrimaryStart, ReplicaHistory
from grampus.databases.replicas.binlog_reading import (
    HEAD_COMMITS,
    LogFile,
    observe_log,
    observe_logs,
)
from grampus.databases.replicas.decide_replicas import explain_ahead
from grampus.databases.replicas.events import observe_notes
from grampus.databases.replicas.gtid_sets import (
    GtidSet,
    count,
    has,
    parse_gtid_set,
    parse_rendered,
    render_gtid_set,
    subtract,
    unite,
)
from grampus.databases.replicas.histories import (
    Commit,
    LogHead,
    decide_lost,
    decide_verdict,
    first_of_each_source,
    parse_begun,
)
from grampus.databases.replicas.replica_work import observe_position, observe_replication
from grampus.databases.step_ports import StepPorts

# How a server is asked: `observer_of`, or `administrator_of` with more patience.
Asks = Callable[[StepPorts, DatabaseSpec], Administrator]

# A primary sends a transaction a moment before it counts it as its own.
_CONFIRM_TIMES, _CONFIRM_EVERY_S = 5, 0.2
# How many transactions of a replica are told of at once.
_LISTED_COMMITS = 50_000
# Clocks of hosts differ, by much less than this.
_CLOCKS_DIFFER = timedelta(seconds=60)


@dataclass(frozen=True)
class Comparison:
    """What a replica holds that its primary lacks, as `render_gtid_set` writes it.

    `unknown` says why there may be more; None: there is not.
    """

    ahead: str = ""
    unknown: str | None = None


class ReplicaComparing:
    """Compares replicas with their primaries."""

    def __init__(self, ports: StepPorts, *, is_patient: bool = False) -> None:
        """Whoever is about to change a replica `is_patient` with servers that are busy."""
        self._ports = ports
        self._asks = administrator_of if is_patient else observer_of

    def compare(self, name: str) -> Comparison:
        """Ask both servers, and note what is found. Raises NotFoundError."""
        record = self._ports.records.get(name)
        before = self._ports.records.replica_history(record)
        look = _Look(self._ports, record, before, self._asks)
        reasons = []
        with contextlib.suppress(GrampusError):  # no part of the answer
            look.note_events()
        for part in (look.note_starts, look.compare_with_replica):
            try:
                part()
            except GrampusError as error:
                reasons.append(error.problem)
        if look.history != before:
            self._ports.records.put_replica_history(name, look.history)
        ahead = unite(parse_rendered(look.history.ahead), look.ahead)
        return Comparison(render_gtid_set(ahead), reasons[0] if reasons else look.why_unknown())


class _Look:
    """One comparison; `history` is what is known after it."""

    def __init__(
        self, ports: StepPorts, record: DatabaseRecord, history: ReplicaHistory, asks: Asks
    ) -> None:
        self._ports = ports
        self._asks = asks
        self._record = record
        self._flavour = record.spec.flavour
        self.history = history
        self.ahead: GtidSet = {}

    def compare_with_replica(self) -> None:
        """What the replica executed or received and its primary did not execute, then what the two
        have under the same names with another content."""
        replica = self._asks(self._ports, self._record.spec)
        holds, executed = self._compare_positions(replica)
        left = []
        for start in self.history.starts:
            if not self._is_settled(replica, holds, executed, start):
                left.append(start)
        self._change(starts=tuple(left))

    def _compare_positions(self, replica: Administrator) -> tuple[GtidSet, GtidSet]:
        primary = self._asks(self._ports, self._primary_spec())
        replication = observe_replication(replica)
        executed = parse_gtid_set(self._flavour, observe_position(replica).executed)
        received = parse_gtid_set(self._flavour, replication.received if replication else "")
        holds = unite(executed, received)
        self.ahead = observe_ahead(self._ports, primary, holds)
        # One that is connected was let in with all that it has. What it got a moment before its
        # primary counts it is not worth a note, and what it wrote itself is seen at each look.
        if replication is None or replication.receiving != "on":
            self._note(self.ahead)
        return holds, executed

    def note_starts(self) -> None:
        """What its primary committed first after each start, while its binary logs tell."""
        primary = self._asks(self._ports, self._primary_spec())
        logs = observe_logs(primary)
        for log in self._unseen_logs(primary, logs):
            head = observe_log(primary, log, most=1)
            if head.is_start and not self._is_older_than_replica(head):
                if log is logs[-1] and not head.commits:
                    return  # nothing was committed since that could be compared
                head = observe_log(primary, log, most=HEAD_COMMITS)
                firsts = first_of_each_source(head.commits)
                start = PrimaryStart(
                    begun=head.begun,
                    firsts=tuple((one.source, one.number, one.stamp) for one in firsts),
                )
                self._change(starts=(*self.history.starts, start))
            self._change(seen_to=head.key)

    def note_events(self) -> None:
        """Which events its primary has enabled: a replica that is promoted is to run those."""
        self._change(events=observe_notes(self._ports, self._primary_spec().name))

    def why_unknown(self) -> str | None:
        """Why not every start of its primary was compared; None: every one was."""
        name, primary = self._record.spec.name, self._record.spec.replica_of
        if self.history.unseen_since:
            return (
                f"{primary} was started at {self.history.unseen_since} UTC or later, and the "
                f"binary logs with the transactions of {name} at that time are deleted."
            )
        if self.history.starts:
            return (
                f"{name} has not applied yet the first transaction of {primary} after its "
                "last start."
            )
        return None

    def _unseen_logs(self, primary: Administrator, logs: list[LogFile]) -> list[LogFile]:
        """From the newest one on that was seen; all of them when that one is not there any more."""
        seen_to = self.history.seen_to
        for at, log in enumerate(logs):
            is_named_so = log.name == seen_to.partition(" ")[0]
            if is_named_so and observe_log(primary, log, most=1).key == seen_to:
                return logs[at + 1 :]
        if logs and logs[0].name.rpartition(".")[2].strip("0") == "1":
            return logs  # it has all that it ever wrote, or all since it began anew
        since = parse_begun(seen_to.partition(" ")[2]) or self._filled() - _CLOCKS_DIFFER
        begun = parse_begun(observe_log(primary, logs[0], most=1).begun) if logs else None
        if (begun is None or begun > since) and observe_started(primary) > since:
            self._change(unseen_since=f"{since:%Y-%m-%d %H:%M:%S}")
        return logs

    def _is_settled(
        self, replica: Administrator, holds: GtidSet, executed: GtidSet, start: PrimaryStart
    ) -> bool:
        """Whether it is known what its primary lost before that start; that is noted."""
        firsts = [Commit(*first) for first in start.firsts]
        if decide_verdict(firsts, holds, {}) == "same":
            return True  # the replica has none of them, so it has none that was lost
        if any(
            has(holds, one.source, one.number) and not has(executed, one.source, one.number)
            for one in firsts
        ):
            return False  # in no binary log of the replica yet
        logs = observe_logs(replica)
        places = {first: self._find(replica, logs, first) for first in firsts}
        found = {
            (first.source, first.number): commit.stamp
            for first, (commit, _) in places.items()
            if commit is not None
        }
        verdict = decide_verdict(firsts, holds, found)
        if verdict == "unknown":
            begun = parse_begun(start.begun)
            if not self.history.unseen_since and begun is not None:
                self._change(unseen_since=f"{begun:%Y-%m-%d %H:%M:%S}")
            return True  # deleted logs will never tell: that is kept, and nothing searched again
        for first, (commit, at) in places.items():
            if commit is not None and commit.stamp != first.stamp:
                self._note(self._lost_from(replica, logs[at:], first))
        return True

    def _find(
        self, replica: Administrator, logs: list[LogFile], wanted: Commit
    ) -> tuple[Commit | None, int]:
        """The replica's transaction of the same GTID, and the log it is in, from the newest on."""
        for at in range(len(logs) - 1, -1, -1):
            head = observe_log(
                replica, logs[at], most=1, source=wanted.source, from_number=wanted.number
            )
            if head.commits and head.commits[0].number == wanted.number:
                return head.commits[0], at
        return None, 0

    def _lost_from(self, replica: Administrator, logs: list[LogFile], first: Commit) -> GtidSet:
        lost: GtidSet = {first.source: ((first.number, first.number),)}
        for log in logs:
            number, is_over = first.number, False
            while not is_over:
                head = observe_log(
                    replica,
                    log,
                    most=_LISTED_COMMITS,
                    source=first.source,
                    from_number=number,
                )
                lost = unite(lost, decide_lost([first], head.commits))
                is_over = len(head.commits) < _LISTED_COMMITS
                if head.commits:
                    number = head.commits[-1].number + 1
                    if head.commits[-1].stamp >= first.stamp:
                        return lost
        return lost

    def _is_older_than_replica(self, head: LogHead) -> bool:
        """Whether the replica was filled from its primary after that start: it has what that had.

        By the clocks of two machines: about the same time is no answer.
        """
        begun = parse_begun(head.begun)
        return begun is not None and begun + _CLOCKS_DIFFER < self._filled()

    def _filled(self) -> datetime:
        return self._record.renewed_at or self._record.created_at

    def _note(self, ahead: GtidSet) -> None:
        known = parse_rendered(self.history.ahead)
        self._change(ahead=render_gtid_set(unite(known, ahead)))

    def _change(self, **changes: object) -> None:
        self.history = self.history.model_copy(update=changes)

    def _primary_spec(self) -> DatabaseSpec:
        return self._ports.records.get(self._record.spec.replica_of or "").spec


def observe_started(administrator: Administrator) -> datetime:
    """When the server was started, by its own clock. Raises as `query`."""
    rows = administrator.query("SELECT UNIX_TIMESTAMP(); SHOW GLOBAL STATUS LIKE 'Uptime'")
    return datetime.fromtimestamp(int(rows[0][0]) - int(rows[1][1]), UTC)


def observe_ahead(ports: StepPorts, primary: Administrator, holds: GtidSet) -> GtidSet:
    """What of `holds` its primary does not have, also not a moment later. Raises as `query`."""
    for again in range(_CONFIRM_TIMES):
        if again:
            ports.clock.sleep(_CONFIRM_EVERY_S)
        at_primary = parse_gtid_set(primary.flavour, observe_position(primary).executed)
        ahead = subtract(holds, at_primary)
        if not count(ahead):
            break
    return ahead


def describe_loss(name: str, comparison: Comparison) -> str:
    """What would be lost with a replica, as sentences for whoever is asked whether to go on."""
    said = []
    if comparison.ahead:
        said.append(explain_ahead(parse_rendered(comparison.ahead)).replace("It", name, 1))
    if comparison.unknown is not None:
        said.append(
            f"Grampus cannot tell which other transactions {name} has: {comparison.unknown}"
        )
    return " ".join(said) or f"{name} has no transaction that its primary lacks."


def require_nothing_lost(
    name: str,
    primary: str,
    comparison: Comparison,
    *,
    would: Literal["renew", "remove"] = "renew",
) -> None:
    """Raise RefusedError unless all that the replica holds is in its primary.

    Its code is `ahead`, or `ahead-unknown` where that cannot be told. `would` is the command that
    would destroy it.
    """
    if comparison.ahead:
        said = explain_ahead(parse_rendered(comparison.ahead)).removeprefix("It ").rstrip(".")
        raise RefusedError(
            f"The replica {name} {said}. They would be lost.",
            f"Save them with `grampus db replica errant {name} --output FILE`, keep them with "
            f"`grampus db replica promote {name}`, or discard them with `grampus db replica "
            f"{would} {name} --discard-errant`.",
            code="ahead",
        )
    if comparison.unknown is not None:
        raise RefusedError(
            f"Grampus cannot tell whether the replica {name} has transactions that {primary} "
            f"lacks: {comparison.unknown}",
            f"Check both servers (`grampus db replica list {primary}`), then try again. "
            f"`grampus db replica {would} {name} --discard-errant` does not check the "
            "transactions.",
            code="ahead-unknown",
        )
