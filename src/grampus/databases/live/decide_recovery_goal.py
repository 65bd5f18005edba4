"""How long a server may take to recover after a crash: a goal, and what follows from it. Pure.

InnoDB applies at its start what its redo log has since the last checkpoint, and reads the pages
that it names (InnoDB Recovery, MySQL Reference Manual). With fewer changed pages and a smaller log
the server writes pages earlier (docs/adr/0057). A parameter that the user set wins.
"""

from __future__ import annotations

from grampus.core.errors import RefusedError
from grampus.core.units import format_bytes
from grampus.databases.model import DatabaseSpec, FlavourName
from grampus.databases.settings import settings_of

# What follows from a goal.
_PARAMETERS: dict[FlavourName, tuple[str, ...]] = {
    "mysql": ("innodb_redo_log_capacity", "innodb_max_dirty_pages_pct"),
    "mariadb": ("innodb_log_file_size", "innodb_max_dirty_pages_pct"),
}


def require_no_parameter(spec: DatabaseSpec) -> None:
    """Raise RefusedError with code `parameter-set` if the user has set what a goal decides."""
    for parameter in _set_by_user(spec):
        raise RefusedError(
            f"The parameter {parameter} of {spec.name} is set, and a recovery goal sets it, too.",
            f"Reset it first: `grampus db parameter reset {spec.name} {parameter}`.",
            code="parameter-set",
        )


def describe_recovery_goal(spec: DatabaseSpec) -> str | None:
    """The goal in words, with what follows from it; None without one."""
    if spec.recovery_goal_s is None:
        return None
    for parameter in _set_by_user(spec):
        return f"{spec.recovery_goal_s} s, not in effect: the parameter {parameter} is set"
    settings = settings_of(spec)
    redo_log = format_bytes(settings.redo_log_capacity_bytes)
    dirty = f"{settings.dirty_pages_pct:.3g} % of the buffer pool"
    return f"{spec.recovery_goal_s} s: a redo log of {redo_log}, changed pages in {dirty}"


def _set_by_user(spec: DatabaseSpec) -> list[str]:
    return [name for name in _PARAMETERS[spec.flavour] if name in spec.parameters]
