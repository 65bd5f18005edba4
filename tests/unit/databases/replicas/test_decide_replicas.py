"""Replicas: names, hosts, states, readers and schedules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from grampus.core.errors import GrampusError, RefusedError
from grampus.databases.model import DatabaseStatus
from grampus.databases.placement import HostLoad
from grampus.databases.replicas.decide_replicas import (
    ReplicaStanding,
    ReplicaState,
    decide_reader,
    decide_replica_host,
    decide_replica_name,
    decide_standing,
    explain_copies,
    format_lag,
    is_renewal_due,
    require_renewal_interval,
)
from grampus.databases.replicas.replication_sql import Position, Replication

A = "bef9abca-e62e-11f1-b1cd-02fc00000001"
NOW = datetime(2026, 11, 22, 5, tzinfo=UTC)
FINE = Replication("on", True, 0, "", "", f"{A}:1-5", None, 1500)
BUSY = Replication("on", True, 0, "", "", f"{A}:1-5", 300, 1500)


@pytest.mark.parametrize(
    ("primary", "taken", "expected"),
    [
        ("shop", {"shop"}, "shop-r1"),
        ("shop", {"shop", "shop-r1", "shop-r2"}, "shop-r3"),
        ("a" * 32, {"a" * 32}, "a" * 29 + "-r1"),
        ("a" * 28 + "-bcd", {"x"}, "a" * 28 + "-r1"),
    ],
)
def test_a_name_that_nobody_has(primary: str, taken: set[str], expected: str) -> None:
    assert decide_replica_name(primary, taken) == expected


def loads(*entries: tuple[str, bool, int]) -> list[HostLoad]:
    return [HostLoad(*entry) for entry in entries]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (loads(("h1", True, 0), ("h2", True, 5), ("h3", True, 4)), "h3"),
        (loads(("h1", True, 0), ("h2", True, 5), ("h3", False, 0)), "h2"),
    ],
)
def test_it_goes_to_another_host(found: list[HostLoad], expected: str) -> None:
    assert decide_replica_host(found, "h1", "shop") == expected


@pytest.mark.parametrize(
    "found", [loads(("h1", True, 0), ("h2", False, 0)), loads(("h1", True, 0)), []]
)
def test_without_another_host_it_says_how(found: list[HostLoad]) -> None:
    with pytest.raises(RefusedError) as caught:
        decide_replica_host(found, "h1", "shop")
    assert caught.value.code == "no-other-host"
    assert "--host h1" in caught.value.remedy


@pytest.mark.parametrize(
    ("status", "replication", "own", "primary", "state", "behind", "lag_ms"),
    [
        ("stopped", None, None, None, "stopped", None, None),
        ("host-down", None, None, None, "host-down", None, None),
        ("creating", None, None, None, "creating", None, None),
        ("running", FINE, ("1-5", ""), ("1-5", ""), "replicating", 0, 0),
        ("running", FINE, ("1-5", ""), ("1-7", ""), "replicating", 2, 1500),
        ("running", BUSY, ("1-5", ""), ("1-7", ""), "replicating", 2, 300),
        ("running", BUSY, ("1-5", ""), None, "replicating", None, None),
        ("running", FINE, ("1-5", ""), ("1-9", "1-5"), "replicating", 4, 1500),
        ("running", FINE, ("1-5", ""), ("1-9", "1-6"), "too-far-behind", 4, 1500),
        ("running", None, ("1-5", ""), ("1-6", ""), "not-replicating", 1, None),
        (
            "running",
            Replication("off", True, 13114, "the source purged required binary logs", "", ""),
            ("1-5", ""),
            None,
            "too-far-behind",
            None,
            None,
        ),
        (
            "running",
            Replication("connecting", True, 2003, "no route", "", ""),
            ("1-5", ""),
            None,
            "disconnected",
            None,
            None,
        ),
        (
            "running",
            Replication("connecting", True, 0, "", "", ""),
            ("1-5", ""),
            ("1-5", ""),
            "disconnected",
            0,
            0,
        ),
        (
            "running",
            Replication("on", False, 0, "", "Duplicate entry", ""),
            ("1-5", ""),
            ("1-6", ""),
            "broken",
            1,
            None,
        ),
        (
            "running",
            Replication("off", True, 0, "", "", ""),
            ("1-5", ""),
            ("1-6", ""),
            "not-replicating",
            1,
            None,
        ),
        (
            "running",
            Replication("on", False, 0, "", "", ""),
            ("1-5", ""),
            ("1-6", ""),
            "not-replicating",
            1,
            None,
        ),
    ],
)
def test_how_a_replica_is(
    status: DatabaseStatus,
    replication: Replication | None,
    own: tuple[str, str] | None,
    primary: tuple[str, str] | None,
    state: ReplicaState,
    behind: int | None,
    lag_ms: int | None,
) -> None:
    standing = decide_standing(status, "mysql", replication, _position(own), _position(primary))
    assert (standing.state, standing.behind, standing.lag_ms) == (state, behind, lag_ms)
    is_at_rest = state in ("replicating", "stopped", "host-down", "creating")
    assert (standing.problem is None) is is_at_rest


MORE = Replication("off", True, 13114, "Replica has more GTIDs than the source has", "", "")
TORN = Replication("off", True, 13114, "log event entry exceeded max_allowed_packet", "", "")


@pytest.mark.parametrize(
    ("replication", "own", "primary", "noted", "state", "ahead", "number"),
    [
        (MORE, ("1-8", ""), ("1-5", ""), "", "ahead", f"{A}:6-8", 3),
        (MORE, ("1-8", ""), ("1-5", "1-5"), "", "ahead", f"{A}:6-8", 3),
        # Ahead and behind: purged logs are no reason to give up what only the replica has.
        (MORE, ("1-3:9", ""), ("1-8", "1-5"), "", "ahead", f"{A}:9", 1),
        # Its primary passed what it had lost: no set shows it, the refusal does.
        (MORE, ("1-8", ""), ("1-20", ""), "", "ahead", None, None),
        (MORE, ("1-8", ""), None, "", "ahead", None, None),
        (FINE, ("1-8", ""), ("1-20", ""), f"{A}:6-8", "ahead", f"{A}:6-8", 3),
        (FINE, ("1-8", ""), None, f"{A}:6-8", "ahead", f"{A}:6-8", 3),
        (FINE, ("1-5:backup:1-2", ""), ("1-5", ""), "", "ahead", f"{A}:backup:1-2", 2),
        (FINE, ("1-5", ""), ("1-5:backup:1-2", ""), "", "replicating", None, None),
        # Received and not yet applied: the only copy too, when its primary lacks it.
        (
            Replication("off", True, 0, "", "", f"{A}:1-7"),
            ("1-4", ""),
            ("1-5", ""),
            "",
            "ahead",
            f"{A}:6-7",
            2,
        ),
        # Received and not yet applied, and purged at its primary: it lacks nothing.
        (FINE, ("1-2", ""), ("1-5", "1-5"), "", "replicating", None, None),
        # Any other refusal is no proof that binary logs are missing.
        (TORN, ("1-5", ""), ("1-6", ""), "", "broken", None, None),
        (TORN, ("1-5", ""), None, "", "broken", None, None),
    ],
)
def test_one_that_holds_what_its_primary_lacks_is_ahead(
    replication: Replication,
    own: tuple[str, str],
    primary: tuple[str, str] | None,
    noted: str,
    state: ReplicaState,
    ahead: str | None,
    number: int | None,
) -> None:
    standing = decide_standing(
        "running", "mysql", replication, _position(own), _position(primary), noted_ahead=noted
    )
    assert (standing.state, standing.ahead, standing.ahead_count) == (state, ahead, number)


@pytest.mark.parametrize("status", ["stopped", "host-down", "volume-lost"])
def test_what_was_found_is_shown_while_its_server_is_away(status: DatabaseStatus) -> None:
    standing = decide_standing(status, "mysql", None, None, None, noted_ahead=f"{A}:6-8")
    assert (standing.state, standing.ahead) == (status, f"{A}:6-8")
    assert standing.problem == f"It has 3 transactions that its primary lacks: {A}:6-8."


def test_a_mariadb_replica_is_ahead_by_the_numbers_of_a_domain() -> None:
    own, primary = Position("0-1-9,4-1-3", ""), Position("0-1-7,4-1-3", "")
    refused = Replication("off", True, 1236, "which is not in the master's binlog", "", "0-1-9")
    standing = decide_standing("running", "mariadb", refused, own, primary)
    assert (standing.state, standing.ahead, standing.ahead_count) == ("ahead", "0:8-9", 2)


def _position(words: tuple[str, str] | None) -> Position | None:
    if words is None:
        return None
    executed, purged = (f"{A}:{word}" if word else "" for word in words)
    return Position(executed, purged)


@pytest.mark.parametrize(
    ("standings", "expected"),
    [
        ({"a": ("replicating", 900), "b": ("replicating", 20)}, "b"),
        ({"a": ("replicating", None), "b": ("replicating", 9000)}, "b"),
        ({"a": ("replicating", 5), "b": ("replicating", 5)}, "a"),
        ({"a": ("broken", 0), "b": ("replicating", 9)}, "b"),
    ],
)
def test_who_is_read_from(
    standings: dict[str, tuple[ReplicaState, int | None]], expected: str
) -> None:
    assert decide_reader(_standings(standings), "shop") == expected


@pytest.mark.parametrize(
    ("standings", "said"),
    [
        ({"a": ("broken", 0), "b": ("stopped", None)}, "a is broken, b is stopped"),
        ({}, "it has no replicas"),
    ],
)
def test_nobody_is_read_from_that_is_not_well(
    standings: dict[str, tuple[ReplicaState, int | None]], said: str
) -> None:
    with pytest.raises(RefusedError, match=said):
        decide_reader(_standings(standings), "shop")


def _standings(
    found: dict[str, tuple[ReplicaState, int | None]],
) -> dict[str, ReplicaStanding]:
    return {name: ReplicaStanding(state, 0, lag_ms) for name, (state, lag_ms) in found.items()}


@pytest.mark.parametrize(
    ("every_s", "age_s", "due"),
    [(3600, 3599, False), (3600, 3600, True), (None, 10**9, False), (3600, -50, False)],
)
def test_when_it_is_due(every_s: int | None, age_s: int, due: bool) -> None:
    assert is_renewal_due(every_s, NOW - timedelta(seconds=age_s), NOW) is due


@pytest.mark.parametrize(("every_s", "allowed"), [(3599, False), (3600, True), (32 * 86400, False)])
def test_how_often(every_s: int, allowed: bool) -> None:
    if allowed:
        require_renewal_interval(every_s)
        return
    with pytest.raises(GrampusError):
        require_renewal_interval(every_s)


def test_what_one_copy_costs_is_said() -> None:
    said = explain_copies(1, "shop")
    assert "replica is lost" in said
    assert "shop loses nothing" in said
    assert explain_copies(2, "shop") == "its own data has 2 copies"


@pytest.mark.parametrize(
    ("lag_ms", "text"), [(None, "-"), (0, "0 s"), (1540, "1.5 s"), (90_000, "90 s")]
)
def test_lag_is_a_duration_or_not_known(lag_ms: int | None, text: str) -> None:
    assert format_lag(lag_ms) == text
