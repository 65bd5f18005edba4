"""What a restore test found in tables, and what it is compared with (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from pydantic import ConfigDict

from grampus.core.models import Model
from grampus.databases.verify.decide_scratch import TEST_LABEL, scratch_name
from grampus.databases.verify.decide_tables import Table, show_table
from grampus.databases.verify.model import TableCheck

# What a server has of its own: accounts differ in a restore, which has new passwords.
SYSTEM_SCHEMAS = frozenset({"mysql"})
_SHOWN = 3
# Why a moment cannot be restored: faults of the archived binary logs, or of what applies them.
LOG_PROBLEMS = frozenset(
    {
        "archive-gap",
        "backup-too-late",
        "binlog-anonymous",
        "binlog-encrypted",
        "replay-failed",
        "replay-incomplete",
    }
)


class RestoreTest(Model):
    """A restore test of one backup, as it is kept beside it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: datetime
    tables: int  # that were checked
    compared: bool  # with the snapshot that the backup was read from
    problem: str | None  # None: the backup is good
    # The latest moment of its archived binary logs, which was restored too; None: there are none.
    logs_until: datetime | None = None


def name_of_scratch(role: str, database: str) -> str:
    """The name of a database that a test of `database` makes; always the same one."""
    return scratch_name(f"{TEST_LABEL}-{role}", database)


def render_checksums(tables: Sequence[Table]) -> str:
    """The statement that reads every row of these tables; both flavours know it."""
    names = (tuple(part.replace("`", "``") for part in table) for table in tables)
    return "CHECKSUM TABLE " + ", ".join(f"`{schema}`.`{name}`" for schema, name in names)


def parse_checksums(tables: Sequence[Table], rows: Sequence[Sequence[str]]) -> dict[Table, str]:
    """The checksums in the answer, which has the tables in their order; `NULL`: unreadable."""
    return {table: row[1] for table, row in zip(tables, rows, strict=True)}


def decide_problem(
    checks: Sequence[TableCheck],
    restored: Mapping[Table, str],
    original: Mapping[Table, str] | None,
) -> str | None:
    """What is wrong with a restored database, in one sentence, or None.

    `restored` and `original` are checksums by table; without `original` nothing is compared.
    """
    broken = [check.table for check in checks if check.outcome == "broken"]
    if broken:
        return f"CHECK TABLE found {_listed(broken)} broken."
    unread = [show_table(table) for table, found in restored.items() if found == "NULL"]
    if unread:
        return f"{_listed(unread)} cannot be read."
    if original is None:
        return None
    missing = [show_table(table) for table in original if table not in restored]
    if missing:
        return f"{_listed(missing)} is in the snapshot, but not in the restore."
    added = [show_table(table) for table in restored if table not in original]
    if added:
        return f"{_listed(added)} is in the restore, but not in the snapshot."
    differing = [show_table(table) for table in original if original[table] != restored[table]]
    if differing:
        return f"{_listed(differing)} differs between the snapshot and the restore."
    return None


def _listed(tables: Sequence[str]) -> str:
    more = len(tables) - _SHOWN
    shown = ", ".join(sorted(tables)[:_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown
