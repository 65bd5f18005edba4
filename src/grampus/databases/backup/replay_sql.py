"""Archived binary logs applied by the server's own applier, in its words: options and SQL (pure).

A binary log is a valid relay log. A channel that is made after its files and their index are there
takes them over, and its applier applies them as a replica would: without the limits of statements
as text, row by row, and never a transaction twice. The applier goes from file to file, and deletes
each once it is applied. It begins a relay log of its own behind them, so that even the last one of
ours is read to its end. Tried with MySQL 9.7.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from grampus.core.errors import GrampusError
from grampus.core.units import GIB, MIB

# Rows and columns may have up to 1 GiB (`max_allowed_packet`), and the applier holds an event and
# the rows that it makes of it.
MEMORY_OF_BIG_ROWS_BYTES = 6 * GIB
# What is left to others on the host.
_SHARE_OF_FREE_MEMORY = 2
_WORKERS = 4


@dataclass(frozen=True)
class Applying:
    """How far the applier of a channel is."""

    is_on: bool
    said: str  # why it stopped
    executed: str  # the server's whole set of transactions
    is_busy: bool  # with a transaction, however long that takes


@dataclass(frozen=True)
class Event:
    """A scheduled event of the server's, as far as it matters whether it runs."""

    schema: str
    name: str
    status: str
    altered: str
    definer: str
    character_set: str
    collation: str

    @property
    def shown(self) -> str:
        return f"{self.schema}.{self.name}"


def decide_replay_memory(memory_bytes: int, available_bytes: int) -> int:
    """The memory limit of the server that applies: the database's own does not count there."""
    extra_bytes = min(MEMORY_OF_BIG_ROWS_BYTES, available_bytes // _SHARE_OF_FREE_MEMORY)
    return memory_bytes + extra_bytes // MIB * MIB


def render_replay_options(directory: PurePosixPath) -> tuple[str, ...]:
    """Options of the server that applies; `directory` is that of the relay logs, as it sees it.

    What fails is undone as a whole, so commits need not be durable one by one; before the server
    stops, `DURABLE` makes all of them so. What is applied goes into no binary log again.
    """
    return (
        f"--relay-log={directory / 'relay'}",
        f"--relay-log-index={directory / 'relay.index'}",
        "--relay-log-recovery=OFF",
        "--relay-log-purge=ON",
        "--relay-log-space-limit=0",
        "--replicate-same-server-id=ON",
        "--log-replica-updates=OFF",
        "--replica-skip-errors=OFF",
        "--replica-exec-mode=STRICT",
        "--replica-sql-verify-checksum=ON",
        f"--replica-parallel-workers={_WORKERS}",
        "--replica-preserve-commit-order=ON",
        "--max-allowed-packet=1G",
        "--replica-max-allowed-packet=1G",
        "--read-only=OFF",
        "--super-read-only=OFF",
        "--transaction-read-only=OFF",
        "--sync-binlog=0",
        "--innodb-flush-log-at-trx-commit=0",
    )


DURABLE = "SET GLOBAL innodb_flush_log_at_trx_commit = 1; FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS"


def relay_name(channel: str, number: int) -> str:
    """The name of a relay log of that channel, as the server makes it."""
    return f"relay-{channel}.{number:06d}"


def index_name(channel: str) -> str:
    return f"relay-{channel}.index"


def render_start_sql(channel: str, first_log: PurePosixPath) -> str:
    """The channel applies from the beginning of `first_log` on, which its index has."""
    return (
        f"CHANGE REPLICATION SOURCE TO RELAY_LOG_FILE = '{first_log}', RELAY_LOG_POS = 4, "
        f"SOURCE_HOST = '-' FOR CHANNEL '{channel}'; START REPLICA SQL_THREAD FOR CHANNEL "
        f"'{channel}'"
    )


def render_end_sql(channel: str) -> str:
    """The channel gone, and the files that are left of it."""
    return f"STOP REPLICA FOR CHANNEL '{channel}'; RESET REPLICA ALL FOR CHANNEL '{channel}'"


def render_applying_sql(channel: str) -> str:
    """Answers with one row for `parse_applying`.

    These tables are there whether performance_schema is switched on or not.
    """
    newline = "CHAR(10)"
    said = f"MAX(REPLACE(LAST_ERROR_MESSAGE, {newline}, ' '))"
    return (
        "SELECT (SELECT SERVICE_STATE FROM performance_schema.replication_applier_status "  # noqa: S608 - own names
        f"WHERE CHANNEL_NAME = '{channel}'), CONCAT_WS(' ', "
        f"(SELECT {said} FROM performance_schema.replication_applier_status_by_coordinator "
        f"WHERE CHANNEL_NAME = '{channel}'), "
        f"(SELECT {said} FROM performance_schema.replication_applier_status_by_worker "
        f"WHERE CHANNEL_NAME = '{channel}')), REPLACE(@@GLOBAL.gtid_executed, {newline}, ''), "
        "(SELECT COUNT(*) FROM performance_schema.replication_applier_status_by_coordinator "
        f"WHERE CHANNEL_NAME = '{channel}' AND PROCESSING_TRANSACTION <> '') + "
        "(SELECT COUNT(*) FROM performance_schema.replication_applier_status_by_worker "
        f"WHERE CHANNEL_NAME = '{channel}' AND APPLYING_TRANSACTION <> '')"
    )


def parse_applying(rows: Sequence[tuple[str, ...]]) -> Applying:
    """From the row that `render_applying_sql` asked for."""
    try:
        [(state, said, executed, busy)] = rows
    except ValueError:
        raise GrampusError(
            "The server's answer about the applied binary logs is not valid.",
            "Try again. If it fails again, run the command as `grampus --debug ...` and "
            "report the output.",
        ) from None
    return Applying(state == "ON", said.strip(), executed, busy != "0")


EXECUTED_SQL = "SELECT REPLACE(@@GLOBAL.gtid_executed, CHAR(10), '')"
EVENTS_SQL = (
    "SELECT EVENT_SCHEMA, EVENT_NAME, STATUS, LAST_ALTERED, DEFINER, CHARACTER_SET_CLIENT, "
    "COLLATION_CONNECTION FROM information_schema.EVENTS ORDER BY 1, 2"
)
# What an applier makes of an event that ran on the server which wrote the log (8.4: SLAVESIDE).
_HELD = ("REPLICA_SIDE_DISABLED", "SLAVESIDE_DISABLED")


def parse_events(rows: Sequence[tuple[str, ...]]) -> list[Event]:
    """From the rows that EVENTS_SQL asked for."""
    return [Event(*row) for row in rows]


def decide_enabled_events(before: Sequence[Event], after: Sequence[Event]) -> list[Event]:
    """Events that were enabled in what was applied: the applier notes them as another server's."""
    known = {(event.schema, event.name): (event.status, event.altered) for event in before}
    return [
        event
        for event in after
        if event.status in _HELD
        and known.get((event.schema, event.name)) != (event.status, event.altered)
    ]


def render_enable_event_sql(event: Event) -> str | None:
    """SQL that lets it run again and changes nothing else of it; it is in no binary log.

    None: the client's character set, which stays with an event, cannot spell its name.
    """
    names = f"{event.schema}{event.name}{event.definer}"
    if not names.isascii() and not event.character_set.startswith("utf8"):
        return None
    user, _, host = event.definer.rpartition("@")
    return (
        f"SET SESSION sql_log_bin = 0; SET character_set_client = {event.character_set}, "
        f"collation_connection = {event.collation}; ALTER DEFINER = {_name(user)}@{_name(host)} "
        f"EVENT {_name(event.schema)}.{_name(event.name)} ENABLE"
    )


def _name(text: str) -> str:
    return f"`{text.replace('`', '``')}`"
