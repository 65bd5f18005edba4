"""A rule by which a volume grows, and what a guard did: kept with the database's record."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Literal

from pydantic import ConfigDict

from grampus.core.clock import format_moment
from grampus.core.errors import UsageError
from grampus.core.models import Model
from grampus.core.units import MIB, TIB, format_bytes, parse_bytes

MIN_WHEN_PERCENT, MAX_WHEN_PERCENT = 10, 95
MIN_STEP_BYTES = 64 * MIB
MAX_STEP_PERCENT = 100
MAX_UP_TO_BYTES = 64 * TIB
_PERCENT = re.compile(r"(?P<number>\d{1,3})\s*%", re.ASCII)


class GrowthRule(Model):
    """Grow by `step` when the file system is `when_percent` full, never past `up_to_bytes`.

    Exactly one of the two steps is given; the percentage is of the volume's size at the time.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    when_percent: int
    step_percent: int | None = None
    step_bytes: int | None = None
    up_to_bytes: int

    def step_of(self, size_bytes: int) -> int:
        """Bytes of one step of a volume of that size."""
        if self.step_bytes is not None:
            return self.step_bytes
        return size_bytes * (self.step_percent or 0) // 100


class GuardState(Model):
    """What the guard did to a database, while that lasts.

    `closed`: nobody can write. `released`: its user was let write for a while, to make room.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: Literal["closed", "released"]
    since: datetime
    reason: str  # a sentence
    release_bytes: int  # `closed`: with so much room it is opened again
    until: datetime | None = None  # `released` alone


def parse_when_percent(text: str) -> int:
    """The percentage in `text`, such as `80%`. Raises UsageError."""
    percent = _parse_percent(text)
    if percent is None or not MIN_WHEN_PERCENT <= percent <= MAX_WHEN_PERCENT:
        raise UsageError(
            f"{text!r} is not a percentage for growth.",
            f"Write a percentage from {MIN_WHEN_PERCENT}% to {MAX_WHEN_PERCENT}%, such as 80%.",
            code="invalid-rule",
        )
    return percent


def parse_step(text: str) -> tuple[int | None, int | None]:
    """Percent and bytes of a step such as `25%` or `2G`; one of them is None. Raises UsageError."""
    if "%" in text:
        percent = _parse_percent(text)
        if percent is None or not 1 <= percent <= MAX_STEP_PERCENT:
            raise UsageError(
                f"{text!r} is not a growth step.",
                f"Write 1% to {MAX_STEP_PERCENT}%, or a size such as 2G.",
                code="invalid-rule",
            )
        return percent, None
    step_bytes = parse_bytes(text, what="step")
    if step_bytes < MIN_STEP_BYTES:
        raise UsageError(
            f"A step of {format_bytes(step_bytes)} is too small: the volume would grow all "
            "the time.",
            f"Choose at least {format_bytes(MIN_STEP_BYTES)}, or a percentage.",
            code="invalid-rule",
        )
    return None, step_bytes


def require_rule(rule: GrowthRule, size_bytes: int) -> GrowthRule:
    """The rule if a volume of that size can grow by it. Raises UsageError."""
    if not size_bytes < rule.up_to_bytes <= MAX_UP_TO_BYTES:
        why = (
            f"the volume already has {format_bytes(size_bytes)}"
            if rule.up_to_bytes <= size_bytes
            else "this is larger than the maximum"
        )
        raise UsageError(
            f"The volume cannot grow up to {format_bytes(rule.up_to_bytes)}: {why}.",
            f"Choose more than {format_bytes(size_bytes)}, and at most "
            f"{format_bytes(MAX_UP_TO_BYTES)}.",
            code="invalid-rule",
        )
    return rule


def describe_rule(rule: GrowthRule | None) -> str:
    """The rule in words, such as `at 80% by 25% up to 20 GiB`."""
    if rule is None:
        return "off"
    step = f"{rule.step_percent}%" if rule.step_bytes is None else format_bytes(rule.step_bytes)
    return f"at {rule.when_percent}% by {step} up to {format_bytes(rule.up_to_bytes)}"


def describe_guard(guard: GuardState | None) -> str:
    """What the guard did, in words."""
    if guard is None:
        return "open"
    if guard.state == "closed":
        return f"read-only since {format_moment(guard.since)}: {guard.reason}"
    until = f" until {format_moment(guard.until)}" if guard.until is not None else ""
    return f"released{until}, to free space"


def details_of_growth(rule: GrowthRule | None, guard: GuardState | None) -> dict[str, str]:
    """What there is to show of both with a database; nothing where neither is."""
    return {
        **({"grows": describe_rule(rule)} if rule else {}),
        **({"writers": describe_guard(guard)} if guard else {}),
    }


def _parse_percent(text: str) -> int | None:
    match = _PERCENT.fullmatch(text.strip())
    return None if match is None else int(match["number"])
