"""Who keeps binary logs, what gives way when they take too much room, and who is warned before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from grampus.core.units import MIB
from grampus.databases.binlog_keeping.decide_purge import (
    KeptLog,
    LogRoom,
    Need,
    decide_expiry_s,
    decide_purge,
    decide_unattended_s,
    find_first_needed,
)
from grampus.databases.replicas.gtid_sets import parse_gtid_set

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
HOUR = 3600
ROOM = LogRoom(share_bytes=100 * MIB, free_bytes=900 * MIB, low_bytes=150 * MIB)
TIGHT = LogRoom(share_bytes=100 * MIB, free_bytes=20 * MIB, low_bytes=150 * MIB)
ARCHIVE, ALL_ARCHIVE = Need("archive", first_log="b.7"), Need("archive")
BEHIND = Need("replica", "r1", "b.1")
CAUGHT_UP = Need("replica", "r1", "b.8")
AWAY = Need("replica", "r2", is_away=True)


def logs(count: int, *, size: int = 10 * MIB, apart_s: float = 600) -> list[KeptLog]:
    """Logs `b.1` to the one in use, each ended so long after the one before."""
    return [
        KeptLog(f"b.{n}", size, NOW - timedelta(seconds=apart_s * (count - n)))
        for n in range(1, count + 1)
    ]


@pytest.mark.parametrize(
    ("count", "needs", "room", "retention_s", "keep_from", "given_up"),
    [
        # Nobody needs anything: all but the log in use, once the retention is over.
        (8, (), ROOM, 0, "b.8", ()),
        (8, (), ROOM, HOUR, "b.3", ()),
        (8, (), ROOM, 24 * HOUR, None, ()),
        # The archive and replicas keep what they lack, however old it is.
        (8, (ARCHIVE,), ROOM, 0, "b.7", ()),
        (8, (ARCHIVE, CAUGHT_UP), ROOM, 0, "b.7", ()),
        (8, (ARCHIVE, BEHIND), ROOM, 0, None, ()),
        (8, (CAUGHT_UP,), ROOM, 0, "b.8", ()),
        # Not known is not absent: all are kept.
        (8, (ALL_ARCHIVE,), ROOM, 0, None, ()),
        (8, (AWAY,), ROOM, 0, None, ()),
        (8, (Need("replica", "r1", "b.99"),), ROOM, 0, None, ()),
        # Over the share: the retention gives way, then who is away, then who is not.
        (12, (), ROOM, 24 * HOUR, "b.3", ()),
        (12, (AWAY,), ROOM, 0, "b.3", (AWAY,)),
        (12, (BEHIND,), ROOM, 0, None, ()),
        (12, (ALL_ARCHIVE, AWAY), ROOM, 0, None, ()),
        (24, (ALL_ARCHIVE, AWAY), ROOM, 0, "b.5", (ALL_ARCHIVE, AWAY)),
        (24, (BEHIND,), ROOM, 0, "b.5", (BEHIND,)),
        # A volume that is nearly full: what is only retained goes, what is needed has its share.
        (8, (), TIGHT, 24 * HOUR, "b.8", ()),
        (8, (ALL_ARCHIVE,), TIGHT, 0, None, ()),
        (12, (ALL_ARCHIVE,), TIGHT, 0, "b.3", (ALL_ARCHIVE,)),
        # The log in use is never deleted, whatever its size.
        (1, (), TIGHT, 0, None, ()),
        (0, (), TIGHT, 0, None, ()),
    ],
)
def test_logs_are_kept_until_nobody_needs_them(
    count: int,
    needs: tuple[Need, ...],
    room: LogRoom,
    retention_s: int,
    keep_from: str | None,
    given_up: tuple[Need, ...],
) -> None:
    """INV-80."""
    purge = decide_purge(logs(count), needs, room, retention_s=retention_s, now=NOW)
    assert (purge.keep_from, purge.given_up) == (keep_from, given_up)


@pytest.mark.parametrize(
    ("count", "need", "is_warned"),
    [
        (7, AWAY, False),
        (9, AWAY, True),  # 80 of 100 MiB
        (10, AWAY, True),
        (9, BEHIND, False),  # 80 of 200 MiB
        (17, BEHIND, True),
        (17, ALL_ARCHIVE, True),
        (9, CAUGHT_UP, False),
    ],
)
def test_who_holds_much_is_warned_of_before_anything_is_lost(
    count: int, need: Need, is_warned: bool
) -> None:
    purge = decide_purge(logs(count), [need], ROOM, retention_s=0, now=NOW)
    assert any(held.is_to_be_warned_of for held in purge.held) is is_warned
    assert purge.given_up == ()


def test_one_huge_log_that_a_replica_reads_is_not_deleted_for_the_others_sake() -> None:
    """A transaction of more than the share makes a log of its own."""
    huge = [
        KeptLog("b.1", 10 * MIB, NOW - timedelta(hours=9)),
        KeptLog("b.2", 150 * MIB, NOW - timedelta(hours=8)),
        KeptLog("b.3", 1 * MIB, NOW),
    ]
    reading = Need("replica", "r1", "b.2")
    purge = decide_purge(huge, [reading], ROOM, retention_s=0, now=NOW)
    assert (purge.keep_from, purge.given_up) == ("b.2", ())


@pytest.mark.parametrize(
    ("found", "retention_s", "is_needed", "expected_s"),
    [
        # Nobody looks, nobody needs: as the volume allows, or as its user said.
        (logs(8), 0, False, 640),
        (logs(8), 24 * HOUR, False, 24 * HOUR),
        # Somebody needs them: an hour more than the oldest is old, at least.
        (logs(1), 0, True, HOUR),
        (logs(20), 0, True, 19 * 600 + HOUR),
        # 20 MiB in 20 hours: what is left of the share lasts for 80 hours at that rate.
        (logs(3, apart_s=10 * HOUR), 0, True, 100 * HOUR),
        ([], 0, True, 640),
    ],
)
def test_a_server_that_nobody_looks_after_keeps_logs_by_what_was_measured(
    found: list[KeptLog], retention_s: int, is_needed: bool, expected_s: int
) -> None:
    expiry_s = decide_expiry_s(
        found,
        100 * MIB,
        retention_s=retention_s,
        unattended_s=640,
        is_needed=is_needed,
        now=NOW,
    )
    assert expiry_s == expected_s


@pytest.mark.parametrize(
    ("executed", "first"),
    [("a:1-5", "b.1"), ("a:1-10", "b.2"), ("a:1-19", "b.2"), ("a:1-35", "b.4"), ("", "b.1")],
)
def test_a_replica_needs_logs_from_the_first_transaction_that_it_lacks(
    executed: str, first: str
) -> None:
    previous = {f"b.{n}": parse_gtid_set("mysql", f"a:1-{(n - 1) * 10}") for n in range(2, 5)}
    previous["b.1"] = parse_gtid_set("mysql", "")
    names = sorted(previous)
    assert find_first_needed(names, parse_gtid_set("mysql", executed), previous.__getitem__) == (
        first
    )


@pytest.mark.parametrize(
    ("expire_s", "share_bytes", "is_replica", "expected_s"),
    [
        (80, 1280 * MIB, False, 80),
        (80, 1280 * MIB, True, 640),  # its own may be the only copy of what its primary lost
        (60, 256 * MIB, True, 300),
        (7 * 86400, 1280 * MIB, True, 7 * 86400),
    ],
)
def test_a_replica_alone_keeps_its_own_logs_longer(
    expire_s: int, share_bytes: int, is_replica: bool, expected_s: int
) -> None:
    assert decide_unattended_s(expire_s, share_bytes, is_replica=is_replica) == expected_s
