from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grampus.core.errors import UsageError
from grampus.databases.snapshots.decide_retention import (
    SnapshotSchedule,
    decide_due,
    decide_let_go,
    decide_next,
    is_scheduled,
    name_at,
    require_schedule,
)
from grampus.volumes.model import SnapshotInfo

HOURLY = SnapshotSchedule(every_s=3600, keep=3)
NOON = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)


def at(moment: datetime, *, name: str | None = None, protected: bool = False) -> SnapshotInfo:
    return SnapshotInfo(
        name=name or name_at("auto-", moment),
        size_bytes=1 << 30,
        created_at=moment,
        protected=protected,
    )


def ago(**span: float) -> datetime:
    return NOON - timedelta(**span)


@pytest.mark.parametrize(
    ("schedule", "is_good"),
    [
        (SnapshotSchedule(every_s=300, keep=1), True),
        (SnapshotSchedule(every_s=31 * 86400, keep=500, keep_daily=500), True),
        (SnapshotSchedule(every_s=299, keep=1), False),
        (SnapshotSchedule(every_s=31 * 86400 + 1, keep=1), False),
        (SnapshotSchedule(every_s=3600, keep=0), False),
        (SnapshotSchedule(every_s=3600, keep=501), False),
        (SnapshotSchedule(every_s=3600, keep=1, keep_daily=-1), False),
    ],
)
def test_what_can_be_carried_out(schedule: SnapshotSchedule, is_good: bool) -> None:
    if is_good:
        assert require_schedule(schedule) == schedule
        return
    with pytest.raises(UsageError) as caught:
        require_schedule(schedule)
    assert caught.value.code == "invalid-schedule"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("auto-20261122-120000", True),
        ("auto-20261122", False),
        ("auto-20261122-120000-x", False),
        ("before-auto-20261122-120000", False),
        ("at-20261122-120000", False),
    ],
)
def test_which_are_scheduled_ones(name: str, expected: bool) -> None:
    assert is_scheduled(name) is expected


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        ([], True),
        ([at(ago(hours=1))], True),
        ([at(ago(minutes=59, seconds=59))], True),  # of the interval before
        ([at(ago())], False),
        ([at(ago(hours=5)), at(ago(seconds=0))], False),
        ([at(ago(), name="by-hand")], True),  # not the schedule's
        ([at(ago(minutes=-30))], False),  # a clock was set back a little
        ([at(ago(hours=-8))], True),  # by much: waiting for it would be 8 hours without any
        ([at(ago(hours=-8)), at(ago())], False),
    ],
)
def test_when_one_is_due(taken: list[SnapshotInfo], expected: bool) -> None:
    assert decide_due(HOURLY, taken, NOON) is expected


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        ([], ago()),
        ([at(ago(hours=5))], ago(hours=4)),  # it has been due since
        ([at(ago())], NOON + timedelta(hours=1)),
        ([at(ago(minutes=-30))], NOON + timedelta(hours=1)),
        ([at(ago(), name="by-hand")], ago()),
    ],
)
def test_when_the_next_one_is_due(taken: list[SnapshotInfo], expected: datetime) -> None:
    assert decide_next(HOURLY, taken, NOON) == expected


def test_a_caller_that_comes_a_little_early_misses_none() -> None:
    taken: list[SnapshotInfo] = []
    for hour, second in enumerate((5, 2, 0, 3, 1)):  # a cron that jitters
        now = NOON + timedelta(hours=hour, seconds=second)
        assert decide_due(HOURLY, taken, now)
        taken.append(at(now))
        assert not decide_due(HOURLY, taken, now + timedelta(minutes=58))


@pytest.mark.parametrize(
    ("schedule", "snapshots", "gone"),
    [
        (HOURLY, [], []),
        (HOURLY, [at(ago(hours=n)) for n in range(3)], []),
        (HOURLY, [at(ago(hours=n)) for n in range(5)], [at(ago(hours=4)), at(ago(hours=3))]),
        # Those of others are no business of it, and take nobody's place.
        (HOURLY, [at(ago(days=n), name=f"by-hand-{n}") for n in range(9)], []),
        (
            HOURLY,
            [at(ago(hours=n), name=f"x-{n}") for n in range(3)] + [at(ago(days=2))],
            [],
        ),
        # A protected one stays, and counts.
        (
            HOURLY,
            [at(ago(hours=n), protected=n == 4) for n in range(6)],
            [at(ago(hours=5)), at(ago(hours=3))],
        ),
        # The newest of each day, besides the newest: 13 hours before noon is the day before.
        (
            SnapshotSchedule(every_s=3600, keep=1, keep_daily=2),
            [at(ago(hours=n)) for n in (0, 1, 12, 13, 14, 40)],
            [at(ago(hours=n)) for n in (40, 14, 12, 1)],
        ),
        # Days without one do not count.
        (
            SnapshotSchedule(every_s=3600, keep=1, keep_daily=2),
            [at(ago(days=0)), at(ago(days=30)), at(ago(days=60))],
            [at(ago(days=60))],
        ),
    ],
)
def test_what_is_let_go(
    schedule: SnapshotSchedule, snapshots: list[SnapshotInfo], gone: list[SnapshotInfo]
) -> None:
    assert decide_let_go(schedule, snapshots) == gone
    assert decide_let_go(schedule, list(reversed(snapshots))) == gone


@given(
    hours=st.lists(st.integers(0, 2000), unique=True, max_size=40),
    keep=st.integers(1, 30),
    keep_daily=st.integers(0, 10),
)
def test_let_go_again_nothing_goes(hours: list[int], keep: int, keep_daily: int) -> None:
    schedule = SnapshotSchedule(every_s=3600, keep=keep, keep_daily=keep_daily)
    snapshots = [at(ago(hours=n)) for n in hours]
    gone = decide_let_go(schedule, snapshots)
    left = [snapshot for snapshot in snapshots if snapshot not in gone]
    assert decide_let_go(schedule, left) == []
    assert len(left) >= min(keep, len(snapshots))
    newest = sorted(snapshots, key=lambda s: s.created_at, reverse=True)[:keep]
    assert all(snapshot in left for snapshot in newest)
