"""Hours of the week in which something may be done, as people write them: `Sun 02:00-04:00`.

All hours are UTC, as all moments that Grampus shows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from grampus.core.errors import UsageError

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
# Who looks once a minute must find it open.
LEAST_MINUTES = 10
_DAY_MINUTES = 24 * 60
_DAY = "|".join(DAYS)
_WINDOW = re.compile(
    rf"(?:(?P<first>{_DAY})(?:-(?P<last>{_DAY}))?\s+)?"
    r"(?P<begin>\d{1,2}:\d\d)-(?P<end>\d{1,2}:\d\d)",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True)
class WeeklyWindow:
    """A time of day on some days of the week; it may end on the next day."""

    first_day: int  # 0 is Monday
    last_day: int  # before `first_day`: across the end of the week
    begin_minute: int  # of the day
    minutes: int

    def opened_at(self, now: datetime) -> datetime | None:
        """When the window opened that is open now; None: it is closed."""
        midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        for day in (midnight, midnight - timedelta(days=1)):
            begin = day + timedelta(minutes=self.begin_minute)
            is_within = begin <= now < begin + timedelta(minutes=self.minutes)
            if is_within and self._has(day.weekday()):
                return begin
        return None

    def __str__(self) -> str:
        """As `parse_weekly_window` reads it."""
        end = (self.begin_minute + self.minutes) % _DAY_MINUTES
        hours = f"{_format(self.begin_minute)}-{_format(end)}"
        if self.first_day == 0 and self.last_day == len(DAYS) - 1:
            return hours
        first, last = DAYS[self.first_day], DAYS[self.last_day]
        return f"{first} {hours}" if first == last else f"{first}-{last} {hours}"

    def _has(self, weekday: int) -> bool:
        length = (self.last_day - self.first_day) % len(DAYS)
        return (weekday - self.first_day) % len(DAYS) <= length


def parse_weekly_window(text: str) -> WeeklyWindow:
    """The window in `text`. Raises UsageError with code `invalid-window`."""
    match = _WINDOW.fullmatch(text.strip())
    if match is None:
        raise _invalid(text)
    begin, end = _minute(match["begin"]), _minute(match["end"])
    if begin is None or end is None:
        raise _invalid(text)
    minutes = (end - begin) % _DAY_MINUTES
    if minutes < LEAST_MINUTES:
        raise UsageError(
            f"The window {text!r} is shorter than {LEAST_MINUTES} minutes.",
            "Choose a longer one, such as 02:00-04:00.",
            code="invalid-window",
        )
    first = match["first"] or DAYS[0]
    last = match["last"] or match["first"] or DAYS[-1]
    return WeeklyWindow(
        DAYS.index(first.capitalize()), DAYS.index(last.capitalize()), begin, minutes
    )


def _minute(text: str) -> int | None:
    hours, minutes = (int(part) for part in text.split(":"))
    return hours * 60 + minutes if hours < 24 and minutes < 60 else None


def _format(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def _invalid(text: str) -> UsageError:
    return UsageError(
        f"{text!r} is not a weekly window.",
        "Write days and hours in UTC, such as 'Sun 02:00-04:00', 'Mon-Fri 22:00-01:00' or "
        "'02:00-04:00' for every day.",
        code="invalid-window",
    )
