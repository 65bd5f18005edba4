"""How often something is done again, as people write it: `30m`, `1h`, `7d`."""

from __future__ import annotations

import re

from grampus.core.errors import UsageError

_TIME = re.compile(r"(?P<number>\d{1,6})(?P<unit>[smhd])", re.IGNORECASE | re.ASCII)
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_interval_s(text: str) -> int:
    """Seconds in `text`, such as `30m`, `1h` or `1d`. Raises UsageError."""
    match = _TIME.fullmatch(text.strip())
    if match is None or match["unit"].lower() == "s":
        raise UsageError(
            f"{text!r} is not an interval.",
            "Write a whole number and m, h or d, such as 30m, 1h or 1d.",
            code="invalid-interval",
        )
    return int(match["number"]) * _UNIT_S[match["unit"].lower()]


def parse_timeout_s(text: str) -> int:
    """Seconds in `text`, such as `30s`, `10m` or `1h`. Raises UsageError."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"{text!r} is not a time.",
            "Write a whole number and s, m, h or d, such as 30s, 10m or 1h.",
            code="invalid-time",
        )
    return int(match["number"]) * _UNIT_S[match["unit"].lower()]


def format_interval(interval_s: int) -> str:
    """`interval_s` as `parse_interval_s` reads it, in the biggest unit that it is a whole of."""
    for unit in ("d", "h"):
        if interval_s and interval_s % _UNIT_S[unit] == 0:
            return f"{interval_s // _UNIT_S[unit]}{unit}"
    return f"{interval_s / 60:g}m"


def require_interval(what: str, every_s: int, *, least_s: int, most_s: int) -> None:
    """Raise UsageError with code `invalid-schedule` unless `every_s` is within both.

    `what` begins the sentence: "A backup".
    """
    if not least_s <= every_s <= most_s:
        word = "often" if every_s < least_s else "seldom"
        raise UsageError(
            f"{what} every {format_interval(every_s)} is too {word}.",
            f"Choose {format_interval(least_s)} to {format_interval(most_s)}.",
            code="invalid-schedule",
        )
