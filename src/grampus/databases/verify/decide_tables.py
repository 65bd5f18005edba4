"""Which tables are checked, how, and what the server's answer means. All pure."""

from __future__ import annotations

from collections.abc import Sequence

from grampus.databases.verify.model import TableCheck

# Schemas that hold no data of their own. Hexadecimal: a name may hold a tab or a line end. The
# sizes are the last ones that the server noted, which is enough to tell how far a check is.
LIST_TABLES = (
    "SELECT HEX(table_schema), HEX(table_name), COALESCE(data_length + index_length, 0) "
    "FROM information_schema.tables "
    "WHERE table_type = 'BASE TABLE' "
    "AND table_schema NOT IN ('information_schema', 'performance_schema', 'sys') "
    "ORDER BY table_schema, table_name"
)
# "Server has gone away", "Lost connection", and that nobody listens (errmsg.h).
CONNECTION_LOST = frozenset({2002, 2003, 2006, 2013})
# ER_NO_SUCH_TABLE and ER_CHECK_NOT_IMPLEMENTED (errmsg of both servers).
_GONE, _NO_CHECK = "doesn't exist", "doesn't support check"
_SOUND = ("OK", "Table is already up to date")

# A check goes through the pages in their order: more cache than for its read-ahead brings nothing.
_CLONE_MEMORY_BYTES = 2**30
# What InnoDB checks of a secondary index it does in one thread.
_MOST_AT_ONCE = 4

Table = tuple[str, str]  # schema, name


def parse_tables(rows: Sequence[Sequence[str]]) -> list[Table]:
    """The tables that `LIST_TABLES` named."""
    return [(_unhex(row[0]), _unhex(row[1])) for row in rows]


def parse_sizes(rows: Sequence[Sequence[str]]) -> dict[Table, int]:
    """How many bytes each of them takes, with its indexes, as `LIST_TABLES` told."""
    return {(_unhex(row[0]), _unhex(row[1])): int(row[2]) for row in rows}


def decide_clone_memory(memory_bytes: int) -> int:
    """The memory of that clone, whose database has `memory_bytes`."""
    return min(memory_bytes, _CLONE_MEMORY_BYTES)


def decide_checks_at_once(cpus: float) -> int:
    """How many tables a server that nobody else uses checks at once: one for each whole CPU."""
    return max(1, min(_MOST_AT_ONCE, int(cpus)))


def show_table(table: Table) -> str:
    """The table as a reader knows it, such as `shop.orders`."""
    return ".".join(table)


def render_check(table: Table) -> str:
    """The statement that checks all of a table. EXTENDED is what either server does most of."""
    schema, name = (part.replace("`", "``") for part in table)
    return f"CHECK TABLE `{schema}`.`{name}` EXTENDED"


def classify_check(table: Table, rows: Sequence[Sequence[str]]) -> TableCheck:
    """What an answer to CHECK TABLE says: rows of table, operation, kind and text.

    The last row is the verdict (kind `status`); those before it say why. A warning or a note
    (such as a count of clients that have not closed a MyISAM table) breaks nothing.
    """
    shown = show_table(table)
    kinds = [(row[2].lower(), row[3].strip()) for row in rows if len(row) >= 4]
    errors = [text for kind, text in kinds if kind == "error"]
    said = "; ".join(dict.fromkeys([*errors, *(t for k, t in kinds if k == "warning")]))
    if any(_GONE in text for text in errors):
        return TableCheck(table=shown, outcome="unchecked", said="It was dropped during the check.")
    for kind, text in kinds:
        if kind == "note" and _NO_CHECK in text:
            return TableCheck(table=shown, outcome="unchecked", said=text)
    verdicts = [text for kind, text in kinds if kind == "status"]
    if verdicts and verdicts[-1] in _SOUND and not errors:
        return TableCheck(table=shown, outcome="sound")
    return TableCheck(
        table=shown,
        outcome="broken",
        said=said or "; ".join(verdicts) or "The check gave no result.",
    )


def _unhex(text: str) -> str:
    return bytes.fromhex(text).decode()
