"""A recovery after a crash that does not end, because the buffer pool is too small (ADR 59).

InnoDB keeps the redo log that it applies in the buffer pool, more than twice as large as on disk.
Where that leaves little room, the threads that apply it wait for each other for ever (MySQL 9.7.4).
Such a server is ended, and recovers once with more memory, for Grampus alone.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath

from grampus.core.clock import Clock, wait_until
from grampus.core.errors import GrampusError
from grampus.core.units import MIB, format_bytes
from grampus.databases.instance import READY_TIMEOUT_S, require_running, since_last_start
from grampus.databases.layout import InstancePlan, server_daemon
from grampus.databases.placement import parse_memory_available
from grampus.databases.quiet_servers import quiet_options
from grampus.hosts.port import DaemonSpec, Host, Limits

# How much of the buffer pool a redo log takes, of its own size: 2.3 with sysbench's update_index.
LOG_RATIO = 3
_FREE_SHARE = 0.8  # of the host's free memory
# Written as it begins to serve (ER_SERVER_STARTUP_MSG).
_SERVES = "[MY-010931]"
_READY_LINES = 40
# All that it has changed is written before it ends.
_STOP_TIMEOUT_S = 1800.0
_MEMINFO = PurePosixPath("/proc/meminfo")
REDO_LOG = "data/#innodb_redo"  # below the volume


def decide_recovery_pool(log_bytes: int, pool_bytes: int, available_bytes: int) -> int | None:
    """The buffer pool, in bytes, that a redo log of that size is recovered in.

    None: the free memory of the host is not enough for one that is worth trying.
    """
    wanted_bytes = pool_bytes + max(LOG_RATIO * log_bytes, pool_bytes)
    bearable_bytes = pool_bytes + int(available_bytes * _FREE_SHARE)
    chosen_bytes = min(wanted_bytes, bearable_bytes) // MIB * MIB
    return chosen_bytes if chosen_bytes >= 2 * pool_bytes else None


def recover_with_more_memory(host: Host, plan: InstancePlan, clock: Clock) -> int:
    """Recover the data directory with a larger buffer pool, which is returned, in bytes.

    The server is ended before and afterwards. It runs as `plan.init_daemon`, and nobody can
    connect to it. Raises GrampusError with code `recovery-memory` when the host has too little,
    `server-stopped` or `timeout`.
    """
    host.ensure_daemon_absent(plan.daemon, kill=True)
    host.ensure_daemon_absent(plan.init_daemon, kill=True)  # of a recovery that was cut off
    log_bytes = _observe_log_bytes(host, plan)
    available_bytes = parse_memory_available(host.read_file(_MEMINFO) or "")
    before_bytes = plan.settings.buffer_pool_bytes
    pool_bytes = decide_recovery_pool(log_bytes, before_bytes, available_bytes)
    if pool_bytes is None:
        raise GrampusError(
            f"The server of {plan.database} cannot recover from its crash: its redo log of "
            f"{format_bytes(log_bytes)} needs a larger buffer pool, and {host.name} has "
            f"{format_bytes(available_bytes)} of memory free.",
            f"Free memory on {host.name}, or run the database on another host: "
            f"`grampus db move {plan.database} HOST`.",
            code="recovery-memory",
        )
    host.ensure_daemon(_recovering_daemon(plan, pool_bytes))
    wait_until(
        clock,
        lambda: _has_recovered(host, plan),
        what=f"the recovery of {plan.database}",
        remedy=f"Read the log of the daemon {plan.init_daemon} on {host.name}.",
        timeout_s=READY_TIMEOUT_S,
        interval_s=0.5,
    )
    host.ensure_daemon_absent(plan.init_daemon)
    return pool_bytes


def _recovering_daemon(plan: InstancePlan, pool_bytes: int) -> DaemonSpec:
    daemon = server_daemon(plan)
    options = (
        f"--innodb-buffer-pool-size={pool_bytes}",
        "--skip-networking",
        "--skip-replica-start",
        "--innodb-buffer-pool-load-at-startup=OFF",
        *quiet_options(plan.flavour),
    )
    limits = daemon.limits
    if limits.memory_bytes is not None:
        more_bytes = pool_bytes - plan.settings.buffer_pool_bytes
        limits = Limits(cpus=limits.cpus, memory_bytes=limits.memory_bytes + more_bytes)
    return replace(
        daemon,
        name=plan.init_daemon,
        argv=(*daemon.argv, *options),
        limits=limits,
        stop_timeout_s=_STOP_TIMEOUT_S,
    )


def _has_recovered(host: Host, plan: InstancePlan) -> bool:
    require_running(host, plan, plan.init_daemon)
    log = host.daemon_log(plan.init_daemon, last_lines=_READY_LINES)
    return _SERVES in since_last_start(log)


def _observe_log_bytes(host: Host, plan: InstancePlan) -> int:
    """The size of the redo log on the volume, its spare files included."""
    said = host.run(["du", "--summarize", "--block-size=1", str(plan.volume / REDO_LOG)]).stdout
    return int(said.split()[0])
