from __future__ import annotations

import pytest

from grampus.core.errors import UsageError
from grampus.core.intervals import (
    format_interval,
    parse_interval_s,
    parse_timeout_s,
    require_interval,
)


@pytest.mark.parametrize(
    ("text", "interval_s", "shown"),
    [
        ("30m", 1800, "30m"),
        ("1h", 3600, "1h"),
        ("90m", 5400, "90m"),
        (" 1D ", 86400, "1d"),
        ("48h", 172800, "2d"),
    ],
)
def test_intervals(text: str, interval_s: int, shown: str) -> None:
    assert parse_interval_s(text) == interval_s
    assert format_interval(interval_s) == shown


@pytest.mark.parametrize(("text", "timeout_s"), [("30s", 30), ("10M", 600), (" 1h", 3600)])
def test_timeouts_may_be_seconds(text: str, timeout_s: int) -> None:
    assert parse_timeout_s(text) == timeout_s
    with pytest.raises(UsageError, match="is not a time"):
        parse_timeout_s(f"{text} or so")


@pytest.mark.parametrize(
    "text", ["", "1", "30s", "h", "1.5h", "-1h", "1w", "1h30m", "\u0661h", "1 h"]
)
def test_what_is_no_interval(text: str) -> None:
    with pytest.raises(UsageError):
        parse_interval_s(text)


@pytest.mark.parametrize(
    ("every_s", "words"),
    [(60, None), (3600, None), (30, "A look every 0.5m is too often"), (7200, "2h is too seldom")],
)
def test_what_is_within_bounds(every_s: int, words: str | None) -> None:
    if words is None:
        require_interval("A look", every_s, least_s=60, most_s=3600)
        return
    with pytest.raises(UsageError, match=words) as caught:
        require_interval("A look", every_s, least_s=60, most_s=3600)
    assert "Choose 1m to 1h." in str(caught.value)
