"""What of new limits a running server can take at once: decided from what it has now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grampus.core.errors import RefusedError
from grampus.core.units import format_bytes
from grampus.databases.model import FlavourName
from grampus.databases.settings import PERFORMANCE_SCHEMA_BYTES, ServerSettings

# Of the options that follow from memory, CPUs or size: those that the server changes while it
# runs. The others (chunk size, instances, performance_schema, doublewrite pages) wait for its next
# start; MariaDB keeps the size of its log buffer until then too.
_LIVE_OPTIONS: dict[FlavourName, tuple[str, ...]] = {
    "mysql": (
        "max_connections",
        "max_allowed_packet",
        "max_prepared_stmt_count",
        "table_open_cache",
        "table_definition_cache",
        "tmp_table_size",
        "temptable_max_ram",
        "innodb_log_buffer_size",
        "innodb_redo_log_capacity",
        "innodb_max_dirty_pages_pct",
        "innodb_io_capacity_max",
        "innodb_io_capacity",
        "innodb_max_dirty_pages_pct_lwm",
        "binlog_transaction_dependency_history_size",
    ),
    "mariadb": (
        "max_connections",
        "max_allowed_packet",
        "max_prepared_stmt_count",
        "table_open_cache",
        "table_definition_cache",
        "tmp_table_size",
        "innodb_log_file_size",
        "innodb_max_dirty_pages_pct",
        "innodb_io_capacity_max",
        "innodb_io_capacity",
        "innodb_max_dirty_pages_pct_lwm",
    ),
}


@dataclass(frozen=True)
class RunningPool:
    """What a running server has that its buffer pool's next size depends on."""

    size_bytes: int
    unit_bytes: int  # whole multiples of it alone: chunk size times instances
    max_bytes: int | None  # as far as it can grow (MariaDB reserves addresses at its start)
    performance_schema: bool


def decide_live_pool(settings: ServerSettings, running: RunningPool, database: str) -> int:
    """The size in bytes that the buffer pool is given while the server runs.

    At most what `settings` say, in the units that the server was started with, because it would
    round up; less by what performance_schema keeps until the next start when `settings` count
    with its memory. Raises RefusedError with code `needs-restart` when one unit is too big.
    """
    wanted_bytes = settings.buffer_pool_bytes
    if running.performance_schema and not settings.performance_schema:
        wanted_bytes -= PERFORMANCE_SCHEMA_BYTES
    if running.max_bytes is not None:
        wanted_bytes = min(wanted_bytes, running.max_bytes)
    size_bytes = wanted_bytes // running.unit_bytes * running.unit_bytes
    if size_bytes <= 0:
        raise RefusedError(
            f"The buffer pool of {database} cannot be made smaller than "
            f"{format_bytes(running.unit_bytes)} while its server runs.",
            f"Stop the database first (`grampus db stop {database}`), or choose a larger --memory.",
            code="needs-restart",
        )
    return size_bytes


def decide_live_options(
    flavour: FlavourName,
    own: Mapping[str, str | int],
    parameters: Mapping[str, str],
) -> dict[str, str | int]:
    """Which options to change while the server runs, and to what.

    `own` is what Grampus chooses by the new limits; what the user set (`parameters`) stays.
    """
    return {
        name: own[name] for name in _LIVE_OPTIONS[flavour] if name in own and name not in parameters
    }
