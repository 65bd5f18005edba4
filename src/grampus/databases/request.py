"""A database as a user asks for it, and what makes the request acceptable."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import get_args

from grampus.core.errors import RefusedError, UsageError, suggest
from grampus.core.intervals import parse_timeout_s
from grampus.core.names import MAX_NAME_LENGTH, require_name
from grampus.core.units import GIB, MIB, TIB, format_bytes
from grampus.core.weekly_window import WeeklyWindow, parse_weekly_window
from grampus.databases.model import DEFAULT_WRITE_PATH, FailoverMode, FlavourName
from grampus.volumes.model import WritePath
from grampus.volumes.write_paths import (
    decide_journal_memory_bytes,
    decide_journal_pool,
    decide_max_lag_ms,
)

FLAVOURS: tuple[FlavourName, ...] = get_args(FlavourName)
FAILOVER_MODES: tuple[FailoverMode, ...] = get_args(FailoverMode)
# A fresh data directory with its redo log and undo is about 0.3 GiB.
MIN_SIZE_BYTES = GIB
MAX_SIZE_BYTES = 256 * TIB
# 32 busy clients stayed alive in 256 MiB with a buffer pool of 32 MiB; below, the server dies.
MIN_MEMORY_BYTES = 256 * MIB
MIN_CPUS = 0.1
# With less, a server writes pages all the time; with more, nothing is bounded.
MIN_RECOVERY_GOAL_S, MAX_RECOVERY_GOAL_S = 3, 3600
# The daemons of other instances are called mysqld-local-NAME and mysqld-init-NAME; golden- begins
# the volumes that new databases are cloned from (`decide_golden`).
_RESERVED_PREFIXES = ("local-", "init-", "golden-")


@dataclass(frozen=True)
class CreateRequest:
    """What the user asked for; `host` None lets Grampus choose."""

    name: str
    size_bytes: int
    memory_bytes: int = 512 * MIB
    cpus: float = 1.0
    flavour: str = "mysql"
    host: str | None = None
    protect: bool = False
    write_path: WritePath | None = None  # None: DEFAULT_WRITE_PATH
    max_lag_ms: int | None = None  # None: the default; with the write path `cache` alone
    journal_memory_bytes: int | None = None  # None: the default; not with `direct`
    journal_pool: str | None = None  # None: that of the image; not with `direct`
    version: str | None = None  # of the server, such as `10.11`; None: the newest there is
    pool: str | None = None  # None: where new volumes go; a clone is in its source's
    encrypt: bool = False  # its volume, at rest; a clone is as its source
    binlog_retention_s: int | None = None  # None: the default; a clone is as its source
    recovery_goal_s: int | None = None  # None: no goal; a clone is as its source
    failover: FailoverMode = "automatic"
    maintenance_window: str | None = None


@dataclass(frozen=True)
class MachineSize:
    """What the machine under a host has."""

    memory_bytes: int
    cpus: int


def parse_failover_mode(text: str) -> FailoverMode:
    """The mode named `text`. Raises UsageError, with a suggestion where one is likely."""
    for mode in FAILOVER_MODES:
        if mode == text:
            return mode
    raise UsageError(
        f"{text!r} is not a failover mode.",
        suggest(text.strip().lower(), FAILOVER_MODES, f"Choose {' or '.join(FAILOVER_MODES)}."),
        code="unknown-failover-mode",
    )


def parse_maintenance_window(text: str) -> WeeklyWindow | None:
    """The window in `text`, or None for `none`. Raises UsageError with code `invalid-window`."""
    return None if text.strip().lower() == "none" else parse_weekly_window(text)


def parse_recovery_goal_s(text: str) -> int | None:
    """Seconds of a goal such as `10s`, or None for `none`.

    Raises UsageError with code `invalid-time`.
    """
    if text.strip().lower() == "none":
        return None
    goal_s = parse_timeout_s(text)
    if not MIN_RECOVERY_GOAL_S <= goal_s <= MAX_RECOVERY_GOAL_S:
        raise UsageError(
            f"A server cannot have the recovery goal {text.strip()}.",
            f"Choose {MIN_RECOVERY_GOAL_S}s to {MAX_RECOVERY_GOAL_S // 60}m, or none.",
            code="invalid-time",
        )
    return goal_s


def require_request(request: CreateRequest) -> FlavourName:
    """The request's flavour, when all of it is acceptable by itself.

    Raises UsageError, with a suggestion where one is likely to be meant.
    """
    _require_database_name(request.name)
    if request.flavour not in FLAVOURS:
        raise UsageError(
            f"{request.flavour!r} is not a flavour.",
            suggest(request.flavour.lower(), FLAVOURS, f"Choose one of {', '.join(FLAVOURS)}."),
            code="unknown-flavour",
        )
    _require_between("size", request.size_bytes, MIN_SIZE_BYTES, MAX_SIZE_BYTES)
    if request.memory_bytes < MIN_MEMORY_BYTES:
        raise UsageError(
            f"{format_bytes(request.memory_bytes)} of memory is too little for a server.",
            f"Choose at least {format_bytes(MIN_MEMORY_BYTES)}.",
            code="too-small",
        )
    if not request.cpus >= MIN_CPUS:  # also refuses "not a number"
        raise UsageError(
            f"{request.cpus:g} CPUs are too few for a server.",
            f"Choose at least {MIN_CPUS:g}.",
            code="too-small",
        )
    write_path = request.write_path or DEFAULT_WRITE_PATH
    decide_max_lag_ms(write_path, request.max_lag_ms)
    decide_journal_memory_bytes(write_path, request.journal_memory_bytes)
    decide_journal_pool(write_path, request.journal_pool, pool="")
    return request.flavour


def require_machine_holds(request: CreateRequest, machine: MachineSize, host: str) -> None:
    """Raise RefusedError with code `too-big` when `host` is smaller than the request."""
    if request.memory_bytes > machine.memory_bytes:
        raise RefusedError(
            f"{host} has {format_bytes(machine.memory_bytes)} of memory, less than the "
            f"requested {format_bytes(request.memory_bytes)}.",
            "Choose a smaller --memory.",
            code="too-big",
        )
    if request.cpus > machine.cpus:
        raise RefusedError(
            f"{host} has {machine.cpus} CPUs, fewer than the requested {request.cpus:g}.",
            "Choose a smaller --cpus.",
            code="too-big",
        )


def suggest_name(text: str) -> str | None:
    """The valid name closest to `text`, or None when nothing of it can be kept."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower())
    name = re.sub(r"^[^a-z]+", "", name)[:MAX_NAME_LENGTH].rstrip("-")
    return name or None


def _require_database_name(name: str) -> None:
    try:
        require_name("database", name)
    except UsageError as error:
        suggestion = suggest_name(name)
        if suggestion is None or suggestion == name:
            raise
        remedy = f"Did you mean '{suggestion}'? {error.remedy}"
        raise UsageError(error.problem, remedy, code=error.code) from None
    if name.startswith(_RESERVED_PREFIXES):
        raise UsageError(
            f"'{name}' is not available as a database name: Grampus uses names that begin "
            f"with {', '.join(_RESERVED_PREFIXES)}.",
            "Choose another name.",
            code="invalid-name",
        )


def _require_between(what: str, size_bytes: int, lowest: int, highest: int) -> None:
    if lowest <= size_bytes <= highest:
        return
    small = size_bytes < lowest
    raise UsageError(
        f"A {what} of {format_bytes(size_bytes)} is too {'small' if small else 'big'} for a "
        "database.",
        f"Choose at {'least' if small else 'most'} {format_bytes(lowest if small else highest)}.",
        code="too-small" if small else "too-big",
    )
