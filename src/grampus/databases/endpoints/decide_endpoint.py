"""Which replicas a read-only endpoint leads to, and where it is served. All pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from grampus.databases.endpoints.haproxy import SLOTS
from grampus.databases.model import DatabaseSpec, ReadEndpoint
from grampus.databases.replicas.decide_replicas import ReplicaStanding

# A replica that shows what is older than this leaves the endpoint, if another one can be read, and
# comes back once it shows what is nearly new: sessions are not cut again and again.
LEAVES_AT_LAG_MS, JOINS_AT_LAG_MS = 60_000, 10_000


@dataclass(frozen=True)
class Candidate:
    """A replica as an endpoint sees it."""

    spec: DatabaseSpec
    standing: ReplicaStanding


def decide_members(endpoint: ReadEndpoint, replicas: Sequence[Candidate]) -> tuple[str, ...]:
    """The replicas to lead to, sorted.

    The healthy ones that are not too far behind; without any, the healthy ones; without any, those
    whose primary is away, and that show what it had. One whose certificate does not name the
    endpoint (of an earlier release) is none: clients would refuse it.
    """
    known = [one for one in replicas if one.spec.held_endpoint == endpoint.held_address]
    healthy = [one for one in known if one.standing.state == "replicating"]
    fresh = [one for one in healthy if _is_fresh(one, endpoint.members)]
    waiting = [one for one in known if one.standing.state == "disconnected"]
    chosen = sorted(one.spec.name for one in fresh or healthy or waiting)
    return tuple(chosen[:SLOTS])


def decide_host(
    endpoint: ReadEndpoint,
    primary_host: str,
    replicas: Mapping[str, str],
    members: Collection[str],
    reachable: Collection[str],
) -> str | None:
    """Where the endpoint is served: where it is, as long as that host can be reached.

    `replicas` are hosts by name. Else with a replica that it leads to, so that most of what is read
    stays on one host, and rather not with the primary, so that losing one host does not lose both
    endpoints. None: no replica is there, or none of their hosts can be reached.
    """
    if not replicas:
        return None
    if endpoint.host in reachable:
        return endpoint.host
    hosts = {
        (replicas[name] == primary_host, name not in members, replicas[name])
        for name in replicas
        if replicas[name] in reachable
    }
    return min(hosts)[2] if hosts else None


def _is_fresh(one: Candidate, members: Collection[str]) -> bool:
    limit_ms = LEAVES_AT_LAG_MS if one.spec.name in members else JOINS_AT_LAG_MS
    return one.standing.lag_ms is None or one.standing.lag_ms <= limit_ms
