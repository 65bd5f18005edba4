"""Hours of the week: read, shown, and open or closed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grampus.core.errors import UsageError
from grampus.core.weekly_window import DAYS, LEAST_MINUTES, WeeklyWindow, parse_weekly_window

SUNDAY = datetime(2026, 11, 29, tzinfo=UTC)


def at(day: int, hour: int, minute: int = 0) -> datetime:
    """A moment in the week that begins on the Sunday."""
    return SUNDAY + timedelta(days=day, hours=hour, minutes=minute)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Sun 02:00-04:00", "Sun 02:00-04:00"),
        (" sun  2:00-4:00 ", "Sun 02:00-04:00"),
        ("MON-fri 22:00-01:00", "Mon-Fri 22:00-01:00"),
        ("02:00-04:00", "02:00-04:00"),
        ("Mon-Sun 02:00-04:00", "02:00-04:00"),
        ("Sat-Mon 00:00-00:10", "Sat-Mon 00:00-00:10"),
    ],
)
def test_it_is_shown_as_it_is_read(text: str, shown: str) -> None:
    assert str(parse_weekly_window(text)) == shown
    assert parse_weekly_window(shown) == parse_weekly_window(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "Sun", "02:00", "Sunday 02:00-04:00", "Sun 02:00-24:00", "Sun 02:60-04:00"),
        *("Sun 02:00-02:00", "Sun 02:00-02:09", "Sun,Mon 02:00-04:00", "Sun 2-4", "0२:00-04:00"),
    ],
)
def test_what_is_no_window_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_weekly_window(text)
    assert caught.value.code == "invalid-window"


@pytest.mark.parametrize(
    ("text", "now", "opened_at"),
    [
        ("Sun 02:00-04:00", at(0, 1, 59), None),
        ("Sun 02:00-04:00", at(0, 2), at(0, 2)),
        ("Sun 02:00-04:00", at(0, 3, 59), at(0, 2)),
        ("Sun 02:00-04:00", at(0, 4), None),
        ("Sun 02:00-04:00", at(1, 3), None),
        ("Sun 23:00-01:00", at(1, 0, 30), at(0, 23)),  # it goes on after midnight
        ("Sun 23:00-01:00", at(0, 0, 30), None),
        ("Fri-Mon 02:00-04:00", at(0, 3), at(0, 2)),  # across the end of the week
        ("Fri-Mon 02:00-04:00", at(1, 3), at(1, 2)),
        ("Fri-Mon 02:00-04:00", at(2, 3), None),
        ("02:00-04:00", at(3, 3), at(3, 2)),
        # Whatever zone the moment is written in.
        ("Sun 02:00-04:00", at(0, 3).astimezone(timezone(timedelta(hours=9))), at(0, 2)),
    ],
)
def test_when_it_is_open(text: str, now: datetime, opened_at: datetime | None) -> None:
    assert parse_weekly_window(text).opened_at(now) == opened_at


windows = st.builds(
    WeeklyWindow,
    st.integers(0, 6),
    st.integers(0, 6),
    st.integers(0, 24 * 60 - 1),
    st.integers(LEAST_MINUTES, 24 * 60 - 1),
)


@given(windows)
def test_each_window_is_read_as_it_is_shown_and_opens_once_on_each_of_its_days(
    window: WeeklyWindow,
) -> None:
    assert parse_weekly_window(str(window)).opened_at(SUNDAY) == window.opened_at(SUNDAY)
    moments = [SUNDAY + timedelta(minutes=5 * n) for n in range(7 * 24 * 12)]
    opened = {window.opened_at(now) for now in moments} - {None}
    days = (window.last_day - window.first_day) % len(DAYS) + 1
    # One that is open as the week begins opened in the week before.
    assert days <= len(opened) <= days + 1
