"""Replicas: how they are asked for, where they go, how they are, who reads where. All pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from grampus.core.clock import format_duration
from grampus.core.errors import RefusedError
from grampus.core.intervals import require_interval
from grampus.core.names import MAX_NAME_LENGTH
from grampus.databases.model import DatabaseStatus, FlavourName
from grampus.databases.placement import (
    HostLoad,
    decide_placement,
    explain_unusable,
    order_usable,
)
from grampus.databases.replicas.gtid_sets import (
    GtidSet,
    count,
    count_missing,
    parse_gtid_set,
    parse_rendered,
    render_gtid_set,
    subtract,
    unite,
)
from grampus.databases.replicas.replication_sql import Position, Replication

# `replicating` alone is healthy. `ahead`: it holds transactions that its primary lacks, which exist
# nowhere else. `too-far-behind`: the primary no longer has the binary logs that it lacks, so it
# must be renewed. `broken`: its primary refuses to send more, or what it received cannot be
# applied. `not-replicating`: it was told of no primary, or to stop. `no-answer`: its server runs,
# and hangs.
ReplicaState = Literal[
    "replicating",
    "disconnected",
    "ahead",
    "broken",
    "too-far-behind",
    "not-replicating",
    "no-answer",
    "stopped",
    "starting",
    "failed",
    "creating",
    "deleting",
    "volume-lost",
    "host-down",
]
Copies = Literal[1, 2, 3]
MIN_RENEW_EVERY_S, MAX_RENEW_EVERY_S = 3600, 31 * 86400
_TAIL = "-r"
_SAID_AHEAD = "According to its primary, the replica has more transactions than the primary."


@dataclass(frozen=True)
class ReplicaRequest:
    """A replica as the user asks for it; what is None is as in the primary."""

    primary: str
    name: str | None = None
    host: str | None = None  # None: the least busy one, not the primary's
    memory_bytes: int | None = None
    cpus: float | None = None
    copies: Copies | None = None  # of the blocks that it does not share
    snapshot: str | None = None  # to begin from; None: as the primary is now
    external_log: bool = False  # as in `CloneRequest`


@dataclass(frozen=True)
class ReplicaStanding:
    """How a replica is, and how far behind its primary.

    `behind` and `lag_ms` are None where they cannot be known. The lag is how old what it shows is
    at most: 0 when it has all that its primary had. `ahead` are the transactions that it holds and
    its primary lacks, as `render_gtid_set` writes them; None: none is known.
    """

    state: ReplicaState
    behind: int | None = None  # transactions
    lag_ms: int | None = None
    problem: str | None = None
    ahead: str | None = None

    @property
    def ahead_count(self) -> int | None:
        """How many transactions it is ahead by; None: it is not, or they are not known."""
        return None if self.ahead is None else count(parse_rendered(self.ahead))


def decide_replica_name(primary: str, taken: Collection[str]) -> str:
    """`shop-r1`, `shop-r2`, ...: the first that nobody has."""
    for number in range(1, len(taken) + 2):
        tail = f"{_TAIL}{number}"
        name = primary[: MAX_NAME_LENGTH - len(tail)].rstrip("-") + tail
        if name not in taken:
            return name
    raise AssertionError("more names are tried than there are databases")


def decide_replica_host(loads: Sequence[HostLoad], primary_host: str, name: str) -> str:
    """The least busy host beside the primary's, so that losing one loses one of them.

    Raises RefusedError with code `no-other-host` when no other can be reached.
    """
    others = [load for load in loads if load.name != primary_host]
    if not order_usable(others):
        raise RefusedError(
            explain_unusable(others, f"{primary_host}, the host of {name} itself,"),
            f"Start another host, or add --host {primary_host}: a loss of that host then "
            "affects both.",
            code="no-other-host",
        )
    return decide_placement(others)


def decide_standing(
    status: DatabaseStatus,
    flavour: FlavourName,
    replication: Replication | None,
    own: Position | None,
    primary: Position | None,
    *,
    noted_ahead: str = "",
) -> ReplicaStanding:
    """How a replica is, from what its server (`own`) and its primary's said; None: nothing.

    Where the two differ, `primary` must be the later answer: what a replica has that its primary
    lacked before is no difference. `noted_ahead` are transactions that it was found to be ahead by
    at an earlier time: its primary may have reused their numbers since.
    """
    noted = parse_rendered(noted_ahead)
    if status != "running":
        return _with_ahead(ReplicaStanding(status), noted)
    if own is None:
        said = "Its server does not answer."
        return _with_ahead(ReplicaStanding("stopped", problem=said), noted)
    behind = missing_for_ever = None
    executed = parse_gtid_set(flavour, own.executed)
    ahead = noted
    if primary is not None:
        received = parse_gtid_set(flavour, replication.received if replication else "")
        has_or_gets = unite(executed, received)
        at_primary = parse_gtid_set(flavour, primary.executed)
        ahead = unite(noted, subtract(has_or_gets, at_primary))
        behind = count_missing(at_primary, executed)
        missing_for_ever = count_missing(parse_gtid_set(flavour, primary.purged), has_or_gets)
    lag_ms = _decide_lag_ms(behind, replication)
    refusal = replication.refusal if replication is not None else None
    if count(ahead) or refusal == "ahead":
        return _with_ahead(ReplicaStanding("ahead", behind, lag_ms, _SAID_AHEAD), ahead)
    if missing_for_ever or refusal == "purged":
        problem = "Its primary no longer has the missing binary logs: renew the replica."
        return ReplicaStanding("too-far-behind", behind, lag_ms, problem)
    if replication is None:
        problem = "It follows no primary: renew the replica."
        return ReplicaStanding("not-replicating", behind, lag_ms, problem)
    if replication.apply_error:
        return ReplicaStanding("broken", behind, lag_ms, replication.apply_error)
    if refusal == "refused":
        return ReplicaStanding("broken", behind, lag_ms, replication.receive_error)
    was_stopped = replication.receiving == "off" and not replication.receive_error
    if was_stopped or not replication.applying:
        problem = "Its replication was stopped: renew the replica."
        return ReplicaStanding("not-replicating", behind, lag_ms, problem)
    if replication.receiving != "on":
        said = replication.receive_error or "It is connecting to its primary."
        return ReplicaStanding("disconnected", behind, lag_ms, said)
    return ReplicaStanding("replicating", behind, lag_ms)


def _with_ahead(standing: ReplicaStanding, ahead: GtidSet) -> ReplicaStanding:
    """The same, with the transactions that exist on this replica alone."""
    if not count(ahead):
        return standing
    return replace(standing, ahead=render_gtid_set(ahead), problem=explain_ahead(ahead))


def explain_ahead(ahead: GtidSet) -> str:
    """What a replica holds alone, as a sentence that stays the same while nothing changes."""
    number = count(ahead)
    noun = "transaction" if number == 1 else "transactions"
    return f"It has {number} {noun} that its primary lacks: {render_gtid_set(ahead)}."


def find_reader(standings: Mapping[str, ReplicaStanding]) -> str | None:
    """The replica that a reader goes to: of the healthy ones the least far behind."""
    healthy = [
        (standing.lag_ms is None, standing.lag_ms or 0, name)
        for name, standing in standings.items()
        if standing.state == "replicating"
    ]
    return min(healthy)[2] if healthy else None


def decide_reader(standings: Mapping[str, ReplicaStanding], primary: str) -> str:
    """As `find_reader`. Raises RefusedError with code `no-replica` when none is healthy."""
    reader = find_reader(standings)
    if reader is not None:
        return reader
    states = ", ".join(f"{name} is {standing.state}" for name, standing in standings.items())
    raise RefusedError(
        f"{primary} has no readable replica: {states or 'it has no replicas'}.",
        f"Remove --read-only, or see `grampus db replica list {primary}`.",
        code="no-replica",
    )


def require_renewal_interval(every_s: int) -> None:
    """Raise UsageError unless a replica can be renewed so often."""
    require_interval("A renewal", every_s, least_s=MIN_RENEW_EVERY_S, most_s=MAX_RENEW_EVERY_S)


def is_renewal_due(every_s: int | None, renewed_at: datetime, now: datetime) -> bool:
    """Whether its schedule wants a replica renewed that was last filled at `renewed_at`."""
    return every_s is not None and now >= renewed_at + timedelta(seconds=every_s)


def explain_copies(copies: int, primary: str) -> str:
    """What a replica's own blocks are worth when a disk is lost, in plain words."""
    if copies == 1:
        return (
            "its own data has one copy. While an OSD is down, the data cannot be read, and "
            "clones or deletions of any image of the cluster may wait for it. When its disk "
            f"is lost, the replica is lost (renew it then). {primary} loses nothing"
        )
    return f"its own data has {copies} copies"


def format_lag(lag_ms: int | None) -> str:
    """`-` when it is not known."""
    return "-" if lag_ms is None else format_duration(lag_ms / 1000)


def _decide_lag_ms(behind: int | None, replication: Replication | None) -> int | None:
    """How old what the replica shows is at most; None: that cannot be known.

    While it applies a transaction, it shows what was before that was committed. Between two it
    shows what the last one left.
    """
    if behind == 0:
        return 0
    if behind is None or replication is None:
        return None
    if replication.applying_age_ms is not None:
        return replication.applying_age_ms
    return replication.applied_age_ms
