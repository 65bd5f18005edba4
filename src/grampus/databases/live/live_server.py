"""A server changed under its clients: the size of its pool, its variables, its dirty pages.

Source: the MySQL 9.7 and MariaDB 11.8 manuals, on `innodb_buffer_pool_size` and
`innodb_max_dirty_pages_pct`; both tried.
"""

from __future__ import annotations

from collections.abc import Mapping

from grampus.core.clock import Clock, wait_until
from grampus.core.errors import GrampusError, RefusedError
from grampus.databases.administrator import Administrator
from grampus.databases.live.decide_live_limits import RunningPool
from grampus.databases.live.decide_page_writing import (
    DirtyPages,
    is_worth_waiting,
    keep_looked_back,
)
from grampus.hosts.port import Limits

# Giving pages back waits for whoever uses them, and moves what is worth keeping.
RESIZE_TIMEOUT_S = 600.0
# What the pool gave back reaches the kernel a moment later.
FREEING_TIMEOUT_S = 15.0
# Longer than this a planned stop does not wait: a load that changes pages faster than they can be
# written would hold it up for ever. The rest is written while the server stops.
FLUSH_TIMEOUT_S = 30.0
_PAGES = "Innodb_buffer_pool_pages_"
_DIRTY_LIMITS = ("innodb_max_dirty_pages_pct_lwm", "innodb_max_dirty_pages_pct")
# Pages a second meanwhile: at the 500 of every day a planned switch waited 11 to 22 s for them,
# with these 2 to 3 s (measured under a load, 2026-11-24). The limit first, so that it is never
# below the other.
_HURRIED = {"innodb_io_capacity_max": 20_000, "innodb_io_capacity": 10_000}


def observe_pool(administrator: Administrator) -> RunningPool:
    """The running server's buffer pool."""
    if administrator.flavour == "mysql":
        [(size, chunk, instances, schema)] = administrator.query(
            "SELECT @@innodb_buffer_pool_size, @@innodb_buffer_pool_chunk_size, "
            "@@innodb_buffer_pool_instances, @@performance_schema"
        )
        return RunningPool(int(size), int(chunk) * int(instances), None, schema == "1")
    # In MariaDB the size changes by whole MiB.
    [(size, largest, schema)] = administrator.query(
        "SELECT @@innodb_buffer_pool_size, @@innodb_buffer_pool_size_max, @@performance_schema"
    )
    return RunningPool(int(size), 1024 * 1024, int(largest), schema == "1")


def ensure_pool_size(administrator: Administrator, clock: Clock, size_bytes: int) -> None:
    """The buffer pool at that size, and memory that it no longer needs given back.

    Raises GrampusError with code `timeout` when the server does not come to an end with it.
    """
    _wait_for_resize(administrator, clock)
    if int(administrator.value("@@innodb_buffer_pool_size")) == size_bytes:
        return
    administrator.query(
        f"SET GLOBAL innodb_buffer_pool_size = {size_bytes}", timeout_s=RESIZE_TIMEOUT_S
    )
    _wait_for_resize(administrator, clock)


def _wait_for_resize(administrator: Administrator, clock: Clock) -> None:
    if administrator.flavour != "mysql":
        return  # MariaDB answers when it is done
    wait_until(
        clock,
        lambda: _status(administrator, "Innodb_buffer_pool_resize_status_code") == "0",
        what=f"{administrator.daemon} to change the size of its buffer pool",
        remedy="A long transaction may use its pages. End the transaction, then try again.",
        timeout_s=RESIZE_TIMEOUT_S,
        interval_s=0.1,
    )


def ensure_options(administrator: Administrator, options: Mapping[str, str | int]) -> None:
    """Global variables at those values; all of them are numbers or words."""
    if options:
        pairs = ", ".join(f"GLOBAL {name} = {value}" for name, value in options.items())
        administrator.query(f"SET {pairs}")


def ensure_limits(administrator: Administrator, clock: Clock, limits: Limits) -> None:
    """The daemon's limits, waiting a while for memory that the server is about to give back.

    Raises RefusedError with code `memory-in-use` when it does not.
    """
    refusals: list[RefusedError] = []

    def taken() -> bool:
        try:
            administrator.host.set_limits(administrator.daemon, limits)
        except RefusedError as error:
            if error.code != "memory-in-use":
                raise
            refusals.append(error)
            return False
        return True

    try:
        wait_until(
            clock,
            taken,
            what=f"{administrator.daemon} to free memory",
            timeout_s=FREEING_TIMEOUT_S,
            interval_s=0.5,
        )
    except GrampusError as error:
        if error.code == "timeout" and refusals:
            raise refusals[-1] from error
        raise


def ensure_pages_written(administrator: Administrator, clock: Clock) -> None:
    """As few changed pages as the load lets be, so that a stop that follows is short."""
    [row] = administrator.query("SELECT " + ", ".join(f"@@{name}" for name in _HURRIED))
    faster = {
        name: max(int(value), hurried)
        for value, (name, hurried) in zip(row, _HURRIED.items(), strict=True)
    }
    ensure_options(administrator, {**dict.fromkeys(_DIRTY_LIMITS, 0), **faster})
    deadline_s = clock.monotonic_s() + FLUSH_TIMEOUT_S
    seen = [_observe_dirty_pages(administrator, clock)]
    while is_worth_waiting(seen) and seen[-1].at_s < deadline_s:
        clock.sleep(0.2)
        seen = keep_looked_back([*seen, _observe_dirty_pages(administrator, clock)])


def restore_page_writing(administrator: Administrator, options: Mapping[str, str | int]) -> None:
    """Undo `ensure_pages_written`: what the user or Grampus chose, else the server's defaults."""
    names = (*reversed(_DIRTY_LIMITS), *reversed(_HURRIED))
    ensure_options(administrator, {name: options.get(name, "DEFAULT") for name in names})


def _observe_dirty_pages(administrator: Administrator, clock: Clock) -> DirtyPages:
    at_s = clock.monotonic_s()
    rows = administrator.query(f"SHOW GLOBAL STATUS LIKE '{_PAGES}%'")
    found = {row[0]: row[1] for row in rows}
    return DirtyPages(at_s, int(found[f"{_PAGES}dirty"]), int(found[f"{_PAGES}flushed"]))


def _status(administrator: Administrator, name: str) -> str:
    return administrator.query(f"SHOW GLOBAL STATUS LIKE '{name}'")[0][1]
