from __future__ import annotations

import pytest

from grampus.databases.endpoints.decide_endpoint import Candidate, decide_host, decide_members
from grampus.databases.endpoints.haproxy import SLOTS
from grampus.databases.model import ReadEndpoint
from grampus.databases.replicas.decide_replicas import ReplicaStanding, ReplicaState
from tests.fakes.specs import database_spec

ADDRESS = "10.9.0.50"


def candidate(
    name: str, state: ReplicaState = "replicating", lag_ms: int | None = 0, *, named: bool = True
) -> Candidate:
    spec = database_spec(name=name, replica_of="shop", endpoint_address=ADDRESS if named else None)
    return Candidate(spec, ReplicaStanding(state, lag_ms=lag_ms))


@pytest.mark.parametrize(
    ("before", "replicas", "members"),
    [
        ((), [candidate("b"), candidate("a")], ("a", "b")),
        ((), [candidate("a"), candidate("b", "broken")], ("a",)),
        ((), [candidate("a", "disconnected"), candidate("b")], ("b",)),
        # Its primary is away: what it had can be read all the same.
        (("a",), [candidate("a", "disconnected"), candidate("b", "stopped")], ("a",)),
        (("a",), [candidate("a", "no-answer"), candidate("b", "too-far-behind")], ()),
        (("a",), [candidate("a", lag_ms=60_000), candidate("b")], ("a", "b")),
        (("a",), [candidate("a", lag_ms=60_001), candidate("b")], ("b",)),
        ((), [candidate("a", lag_ms=10_001), candidate("b")], ("b",)),
        ((), [candidate("a", lag_ms=10_000), candidate("b")], ("a", "b")),
        ((), [candidate("a", lag_ms=None)], ("a",)),
        # All are too far behind: better old rows than none.
        (("a",), [candidate("a", lag_ms=90_000), candidate("b", lag_ms=99_000)], ("a", "b")),
        ((), [candidate("a", named=False), candidate("b")], ("b",)),
        ((), [], ()),
    ],
)
def test_who_can_be_read_is_led_to(
    before: tuple[str, ...], replicas: list[Candidate], members: tuple[str, ...]
) -> None:
    assert decide_members(ReadEndpoint(address=ADDRESS, members=before), replicas) == members


def test_there_is_room_for_so_many() -> None:
    replicas = [candidate(f"r{number:02}") for number in range(SLOTS + 3)]
    assert len(decide_members(ReadEndpoint(address=ADDRESS), replicas)) == SLOTS


@pytest.mark.parametrize(
    ("now", "replicas", "members", "reachable", "host"),
    [
        (None, {"a": "h2", "b": "h3"}, ("a", "b"), ("h1", "h2", "h3"), "h2"),
        (None, {"a": "h2", "b": "h3"}, ("b",), ("h1", "h2", "h3"), "h3"),
        (None, {"a": "h1", "b": "h3"}, ("a", "b"), ("h1", "h3"), "h3"),
        (None, {"a": "h1"}, ("a",), ("h1",), "h1"),
        # It stays: sessions go through it.
        ("h2", {"b": "h3"}, ("b",), ("h1", "h2", "h3"), "h2"),
        ("h2", {"a": "h2", "b": "h3"}, ("b",), ("h1", "h3"), "h3"),
        ("h2", {"a": "h2"}, (), ("h2",), "h2"),
        ("h2", {"a": "h2", "b": "h3"}, (), ("h1",), None),
        ("h2", {}, (), ("h1", "h2"), None),
    ],
)
def test_it_is_served_beside_who_is_read(
    now: str | None,
    replicas: dict[str, str],
    members: tuple[str, ...],
    reachable: tuple[str, ...],
    host: str | None,
) -> None:
    endpoint = ReadEndpoint(address=ADDRESS, host=now)
    assert decide_host(endpoint, "h1", replicas, members, reachable) == host
