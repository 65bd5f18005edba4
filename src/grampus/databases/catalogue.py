"""Every kind of operation on a database."""

from __future__ import annotations

from grampus.core.errors import GrampusError
from grampus.databases.backup.restoring import RESTORE_BACKUP
from grampus.databases.backup.schedule_steps import SCHEDULE_BACKUPS
from grampus.databases.backup.taking import BACKUP
from grampus.databases.changes import PROTECT, RESIZE, SET_WRITE_PATH
from grampus.databases.clones.clone_steps import CLONE, FLATTEN
from grampus.databases.clones.golden_steps import GOLDEN
from grampus.databases.creating import CREATE
from grampus.databases.growth.growth_steps import CLOSE, GROW, OPEN, SET_RULE
from grampus.databases.kinds import AnyOperationType
from grampus.databases.lifecycle import DELETE, START, STOP
from grampus.databases.live.live_changes import RESTART, SET_LIMITS, SET_PARAMETER
from grampus.databases.live.migrate_steps import MIGRATE_POOL
from grampus.databases.live.move_steps import MOVE
from grampus.databases.names.naming_steps import LABEL, RENAME
from grampus.databases.names.trash_steps import PURGE, RESTORE, TRASH
from grampus.databases.replicas.replica_steps import (
    ADD_REPLICA,
    PROMOTE_REPLICA,
    REMOVE_REPLICA,
    RENEW_REPLICA,
    SCHEDULE_RENEWAL,
)
from grampus.databases.scratch import SCRATCH, SCRATCH_STOP
from grampus.databases.snapshots.snapshot_steps import (
    DELETE_SNAPSHOT,
    PROTECT_SNAPSHOT,
    ROLLBACK,
    ROLLBACK_FOR_GOOD,
    SCHEDULE_SNAPSHOTS,
    TAKE_SNAPSHOT,
)
from grampus.databases.upgrades.upgrade_steps import UPGRADE
from grampus.databases.users.rotation_steps import DISCARD, ROTATE
from grampus.databases.users.user_steps import (
    ADD_USER,
    CHANGE_PASSWORD,
    DISCARD_PASSWORD,
    REMOVE_USER,
)
from grampus.databases.verify.verify_steps import VERIFY

KIND_PREFIX = "db."
OPERATION_TYPES: tuple[AnyOperationType, ...] = (
    CREATE,
    GOLDEN,
    CLONE,
    FLATTEN,
    ADD_REPLICA,
    REMOVE_REPLICA,
    PROMOTE_REPLICA,
    RENEW_REPLICA,
    SCHEDULE_RENEWAL,
    DELETE,
    START,
    STOP,
    PROTECT,
    RESIZE,
    SET_RULE,
    GROW,
    CLOSE,
    OPEN,
    SET_WRITE_PATH,
    SCRATCH,
    SCRATCH_STOP,
    BACKUP,
    RESTORE_BACKUP,
    SCHEDULE_BACKUPS,
    SET_LIMITS,
    SET_PARAMETER,
    RESTART,
    MOVE,
    MIGRATE_POOL,
    ADD_USER,
    REMOVE_USER,
    CHANGE_PASSWORD,
    DISCARD_PASSWORD,
    ROTATE,
    DISCARD,
    LABEL,
    RENAME,
    TRASH,
    RESTORE,
    PURGE,
    TAKE_SNAPSHOT,
    DELETE_SNAPSHOT,
    PROTECT_SNAPSHOT,
    SCHEDULE_SNAPSHOTS,
    ROLLBACK,
    ROLLBACK_FOR_GOOD,
    UPGRADE,
    VERIFY,
)
_BY_KIND = {operation_type.kind: operation_type for operation_type in OPERATION_TYPES}


def find_operation_type(kind: str) -> AnyOperationType | None:
    """The type of a journaled operation, or None for one of another release."""
    return _BY_KIND.get(kind)


def operation_type(kind: str) -> AnyOperationType:
    """The type of a journaled operation. Raises GrampusError for one of another release."""
    found = find_operation_type(kind)
    if found is None:
        raise GrampusError(
            f"An operation of the kind '{kind}' had been cut off, and this release knows no such.",
            "Run the release that began it: it finishes or undoes it.",
        )
    return found
