"""Which database in the trash is meant, and which have had their time. All pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from grampus.core.errors import NotFoundError, UsageError, suggest
from grampus.databases.model import TrashedDatabase

DEFAULT_KEEP_DAYS = 7
MAX_KEEP_DAYS = 365


def decide_key(name: str, deleted_at: datetime) -> str:
    """What a deleted database is known by: no two have the same, and none that is there has it."""
    return f"{name}.{deleted_at:%Y%m%dT%H%M%S}"


def decide_expiry(deleted_at: datetime, keep_days: int) -> datetime:
    """Until when a deleted database is kept. Raises UsageError."""
    if not 1 <= keep_days <= MAX_KEEP_DAYS:
        raise UsageError(
            f"A deleted database cannot be kept for {keep_days} days.",
            f"Choose 1 to {MAX_KEEP_DAYS} days, or delete it at once with --now.",
            code="invalid-days",
        )
    return deleted_at + timedelta(days=keep_days)


def decide_meant(wanted: str, trashed: Iterable[TrashedDatabase]) -> TrashedDatabase:
    """The one with the key `wanted`, or the one of that name that was deleted last.

    Raises NotFoundError with the closest name there is.
    """
    known = sorted(trashed, key=lambda entry: entry.deleted_at)
    for entry in reversed(known):
        if wanted in (entry.key, entry.record.spec.name):
            return entry
    raise NotFoundError(
        f"The trash has no database named '{wanted}'.",
        suggest(
            wanted,
            {entry.record.spec.name for entry in known},
            "`grampus db trash list` shows the databases in the trash"
            + ("." if known else " (nothing)."),
        ),
    )


def decide_expired(trashed: Iterable[TrashedDatabase], now: datetime) -> list[TrashedDatabase]:
    """Those whose time has come, the oldest first."""
    over = [entry for entry in trashed if entry.expires_at <= now]
    return sorted(over, key=lambda entry: entry.deleted_at)
