"""What is refused on a replica, and on a database that replicas follow: decided from records.

A replica may not be changed by anybody but its primary, and no copy may be made of it: it would
go on following under another name. A primary keeps its name, its history and its data.
"""

from __future__ import annotations

from collections.abc import Mapping

from grampus.core.errors import RefusedError
from grampus.databases.model import DatabaseRecord

_ON_PRIMARY = "Run the command for {primary}: {name} follows."
_AWAY = "`grampus db replica remove {name}` removes it."
_PROMOTE = "Make the replica an independent database first: `grampus db replica promote {name}`."
_OF_PRIMARY = "Run the command for {primary}, or make {name} an independent database first: "
_OF_PRIMARY += "`grampus db replica promote {name}`."

# Kinds of operations that replicas refuse: what it would be, and what to do instead.
_NOT_ON_REPLICA: Mapping[str, tuple[str, str]] = {
    "db.user-add": ("has the users of its primary", _ON_PRIMARY),
    "db.user-remove": ("has the users of its primary", _ON_PRIMARY),
    "db.user-passwd": ("has the users of its primary", _ON_PRIMARY),
    "db.user-discard": ("has the users of its primary", _ON_PRIMARY),
    "db.role-add": ("has the roles of its primary", _ON_PRIMARY),
    "db.role-change": ("has the roles of its primary", _ON_PRIMARY),
    "db.role-remove": ("has the roles of its primary", _ON_PRIMARY),
    "db.role-grant": ("has the roles of its primary", _ON_PRIMARY),
    "db.role-revoke": ("has the roles of its primary", _ON_PRIMARY),
    "db.rotate": ("accepts no new passwords, because it is read-only", _PROMOTE),
    "db.rotate-discard": ("accepts no new passwords, because it is read-only", _PROMOTE),
    "db.rename": ("keeps its name", _PROMOTE),
    "db.trash": ("does not go to the trash: its primary has all its data", _AWAY),
    "db.delete": ("is deleted with another command, which also updates its primary", _AWAY),
    "db.snapshot": ("does not have its own snapshots", _OF_PRIMARY),
    "db.snapshot-schedule": ("does not have its own snapshots", _OF_PRIMARY),
    "db.rollback": ("cannot be rolled back: it follows its primary", _PROMOTE),
    "db.rollback-for-good": ("cannot be rolled back: it follows its primary", _PROMOTE),
    "db.backup": ("is not backed up, because its primary is", _OF_PRIMARY),
    "db.backup-schedule": ("is not backed up, because its primary is", _OF_PRIMARY),
    "db.upgrade": ("has the server of its primary", _PROMOTE),
}
# Those that a database refuses while replicas follow it, and why.
_NOT_UNDER_REPLICAS: Mapping[str, str] = {
    "db.rename": "they know it by its name",
    "db.trash": "they would have no primary",
    "db.delete": "they would have no primary",
    "db.upgrade": "their servers cannot follow a newer one",
    "db.rollback": "they have transactions that the rollback would remove",
    "db.rollback-for-good": "they have transactions that the rollback would remove",
}


def replicas_of(records: Mapping[str, DatabaseRecord], name: str) -> list[str]:
    """The names of the databases that follow `name`, sorted."""
    return sorted(other for other, record in records.items() if record.spec.replica_of == name)


def require_allowed(kind: str, name: str, records: Mapping[str, DatabaseRecord]) -> None:
    """Raise RefusedError when an operation of that kind would tear replication apart.

    Its code is `is-replica` or `has-replicas`.
    """
    record = records.get(name)
    if record is None:
        return
    if record.spec.replica_of is not None and kind in _NOT_ON_REPLICA:
        primary = record.spec.replica_of
        what, remedy = _NOT_ON_REPLICA[kind]
        raise RefusedError(
            f"The database {name} is a replica of {primary}, and {what}.",
            remedy.format(name=name, primary=primary),
            code="is-replica",
        )
    followers = replicas_of(records, name)
    if followers and kind in _NOT_UNDER_REPLICAS:
        raise RefusedError(
            f"The database {name} has replicas ({', '.join(followers)}), and "
            f"{_NOT_UNDER_REPLICAS[kind]}.",
            _remedy_under_replicas(kind, followers),
            code="has-replicas",
        )


def require_no_replica(record: DatabaseRecord, what: str) -> None:
    """Raise RefusedError with code `is-replica` unless the database follows nobody.

    `what` cannot be had of a replica, such as `a clone`.
    """
    name, primary = record.spec.name, record.spec.replica_of
    if primary is not None:
        raise RefusedError(
            f"The database {name} is a replica of {primary}: {what} of it would be a replica, too.",
            f"Use {primary} as the source.",
            code="is-replica",
        )


def _remedy_under_replicas(kind: str, followers: list[str]) -> str:
    first = followers[0]
    promote = f"`grampus db replica promote {first}`"
    if kind in ("db.trash", "db.delete"):
        return f"Add --with-replicas to remove them too, or promote them first: {promote}."
    return f"Remove or promote them first: `grampus db replica remove {first}` or {promote}."
