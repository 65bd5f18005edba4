"""What backups may need whose manifests cannot be read now (pure).

Such a backup may be damaged. It may also have been written by a newer Grampus, or be whole again
once its disk is. Until it is deleted, what it may stand on stays.
"""

from __future__ import annotations

from collections.abc import Collection

from grampus.core.errors import RefusedError
from grampus.databases.backup.decide_chain import Backups


def decide_needed_unread(backups: Backups, unreadable: Collection[str]) -> set[str]:
    """The backups that unreadable ones may stand on.

    A backup is an increment of the newest one before it or of none (`decide_base`). Its id has its
    time, so the newest one with a smaller id and everything below that one may be needed.
    """
    needed: set[str] = set()
    for backup_id in unreadable:
        needed |= _possible_chain(backups, backup_id)
    return needed


def require_not_needed_unread(
    backups: Backups, unreadable: Collection[str], backup_id: str
) -> None:
    """Raise RefusedError with code `has-increments` when an unreadable one may stand on it."""
    users = sorted(one for one in unreadable if backup_id in _possible_chain(backups, one))
    if users:
        raise RefusedError(
            f"The backup {users[0]} may depend on {backup_id}: its manifest cannot be read.",
            "Make the manifest readable, or delete that backup first: `grampus db backup "
            f"delete {users[0]} --from ...`.",
            code="has-increments",
        )


def _possible_chain(backups: Backups, unreadable: str) -> set[str]:
    database, _, _ = unreadable.partition("/")
    # Databases that had the same name one after the other share the directory: of each, the newest
    # one before it.
    newest: dict[object, str] = {}
    for backup_id in sorted(backups):
        if backup_id.partition("/")[0] == database and backup_id < unreadable:
            newest[backups[backup_id].database.created_at] = backup_id
    found: set[str] = set()
    for link in newest.values():
        found |= chain_ids(backups, link)
    return found


def chain_ids(backups: Backups, backup_id: str) -> set[str]:
    """The backup and what it stands on, as far as that is there."""
    found: set[str] = set()
    at: str | None = backup_id
    while at is not None and at not in found and at in backups:
        found.add(at)
        base = backups[at].base
        at = base.id if base is not None else None
    return found
