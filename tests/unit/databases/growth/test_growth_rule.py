"""Rules of growth as a user writes and reads them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from grampus.core.errors import UsageError
from grampus.core.units import GIB, MIB, TIB
from grampus.databases.growth.growth_rule import (
    GrowthRule,
    GuardState,
    describe_rule,
    details_of_growth,
    parse_step,
    parse_when_percent,
    require_rule,
)


@pytest.mark.parametrize(("text", "percent"), [("80%", 80), (" 10 % ", 10), ("95%", 95)])
def test_when(text: str, percent: int) -> None:
    assert parse_when_percent(text) == percent


@pytest.mark.parametrize("text", ["80", "9%", "96%", "-5%", "2G", "8O%", "٨٠%", ""])
def test_when_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match="is not a percentage for growth"):
        parse_when_percent(text)


@pytest.mark.parametrize(
    ("text", "step"), [("25%", (25, None)), ("2G", (None, 2 * GIB)), ("64M", (None, 64 * MIB))]
)
def test_step(text: str, step: tuple[int | None, int | None]) -> None:
    assert parse_step(text) == step


@pytest.mark.parametrize("text", ["0%", "101%", "63M", "big", "%"])
def test_step_that_is_none(text: str) -> None:
    with pytest.raises(UsageError):
        parse_step(text)


@pytest.mark.parametrize(
    ("up_to_bytes", "why"),
    [(10 * GIB, "already has 10 GiB"), (5 * GIB, "already"), (65 * TIB, "larger than the maximum")],
)
def test_ceiling_that_is_none(up_to_bytes: int, why: str) -> None:
    rule = GrowthRule(when_percent=80, step_percent=25, up_to_bytes=up_to_bytes)
    with pytest.raises(UsageError, match=why):
        require_rule(rule, 10 * GIB)


def test_words() -> None:
    rule = GrowthRule(when_percent=80, step_bytes=2 * GIB, up_to_bytes=20 * GIB)
    assert describe_rule(rule) == "at 80% by 2 GiB up to 20 GiB"
    by_percent = rule.model_copy(update={"step_bytes": None, "step_percent": 25})
    assert describe_rule(by_percent) == "at 80% by 25% up to 20 GiB"
    assert describe_rule(None) == "off"


def test_shown_with_a_database_where_there_is_something() -> None:
    assert details_of_growth(None, None) == {}
    rule = GrowthRule(when_percent=80, step_percent=25, up_to_bytes=20 * GIB)
    since = datetime(2026, 1, 1, tzinfo=UTC)
    guard = GuardState(state="closed", since=since, reason="its volume is full", release_bytes=1)
    assert details_of_growth(rule, guard) == {
        "grows": "at 80% by 25% up to 20 GiB",
        "writers": "read-only since 2026-01-01 00:00:00 UTC: its volume is full",
    }
