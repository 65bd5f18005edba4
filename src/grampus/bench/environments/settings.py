"""What a cell asks of its databases' servers, and what it takes to have it. All pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grampus.bench.environments.caches import EMPTY_START
from grampus.bench.environments.environment_plan import EnvironmentPlan, decide_pool_bytes
from grampus.bench.environments.profiles import PROFILES
from grampus.bench.matrix.cells import Cell
from grampus.databases.live.decide_parameters import is_same_value

POOL = "innodb_buffer_pool_size"
# What the server takes while it runs; all others wait for its next start.
LIVE = (POOL, "innodb_flush_log_at_trx_commit", "sync_binlog")
# A minute of binary logs is all that an environment has room for.
BINLOG_KEPT_S = 60
# The server's default.
DEFAULT_STATEMENTS = 16_382
# The server's default too: for each part of the buffer pool one file for its list of changed
# pages, and one for that of pages to be given up (the manual, on innodb_doublewrite_files).
PARALLEL_FILES = 2
_DOUBLEWRITE: Mapping[str, Mapping[str, str]] = {
    "default": {},
    "disabled": {"innodb_doublewrite": "OFF"},
    "detect-only": {"innodb_doublewrite": "DETECT_ONLY"},
    "single": {"innodb_doublewrite_files": "1"},
    "parallel": {"innodb_doublewrite_files": str(PARALLEL_FILES)},
}


@dataclass(frozen=True)
class ServerChange:
    """What brings a server to what is wanted.

    `live` are set while it runs, unless it `restarts`: then it takes all at its start. `recorded`
    says whether the parameters must be written down first.
    """

    parameters: Mapping[str, str]
    recorded: bool
    live: Mapping[str, str]
    restarts: bool


def base_parameters(environment: EnvironmentPlan) -> dict[str, str]:
    """Parameters of every database of an environment, from its creation on."""
    return {
        "max_connections": str(environment.max_connections),
        "max_prepared_stmt_count": str(max(environment.statements, DEFAULT_STATEMENTS)),
        "innodb_buffer_pool_chunk_size": str(environment.chunk_bytes),
        "innodb_buffer_pool_instances": "1",
        "binlog_expire_logs_seconds": str(BINLOG_KEPT_S),
    }


def decide_parameters(cell: Cell, environment: EnvironmentPlan) -> dict[str, str]:
    """All parameters that the databases under this cell have beside Grampus's own.

    Raises RefusedError as `decide_pool_bytes`.
    """
    pool_bytes = decide_pool_bytes(cell)
    # In the environment's own steps: the server would round up to them by itself.
    pool_bytes = -(-pool_bytes // environment.chunk_bytes) * environment.chunk_bytes
    return {
        **base_parameters(environment),
        **PROFILES[cell.point.profile].server,
        POOL: str(pool_bytes),
        "innodb_flush_log_at_trx_commit": str(cell.point.trx_commit),
        # Whoever can lose the last second does not flush the binary log at each commit: with 1
        # every transaction would wait for that flush instead.
        "sync_binlog": "1" if cell.point.trx_commit == 1 else "0",
        **_DOUBLEWRITE[cell.point.doublewrite],
        **(EMPTY_START if cell.point.caches == "all" else {}),
    }


def decide_change(
    wanted: Mapping[str, str],
    recorded: Mapping[str, str],
    started: Mapping[str, str],
    running: Mapping[str, str],
) -> ServerChange:
    """From the parameters that are recorded, that the server was started with, and that it has
    now (those of `LIVE`).
    """
    waiting = {
        name
        for name in {*wanted, *started}
        if name not in LIVE and wanted.get(name) != started.get(name)
    }
    live = {
        name: wanted[name]
        for name in LIVE
        if name in wanted and not is_same_value(wanted[name], running.get(name, ""))
    }
    restarts = bool(waiting)
    return ServerChange(
        parameters=dict(wanted),
        recorded=dict(wanted) != dict(recorded),
        live={} if restarts else live,
        restarts=restarts,
    )
