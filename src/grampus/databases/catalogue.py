"""Every kind of operation on a database, and where it is defined.

A kind's module is imported when an operation of that kind is met: nearly all commands meet none
that was cut off, and what all kinds are made of is a third of the modules of databases.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from grampus.core.errors import GrampusError
from grampus.databases.kinds import AnyDatabaseOperation

KIND_PREFIX = "db."
READ_ENDPOINT = "db.read-endpoint"
# As journaled, and MODULE:NAME below this package.
KINDS: Mapping[str, str] = {
    "db.create": "creating:CREATE",
    "db.golden": "clones.golden_steps:GOLDEN",
    "db.clone": "clones.clone_steps:CLONE",
    "db.flatten": "clones.clone_steps:FLATTEN",
    "db.replica-add": "replicas.replica_steps:ADD_REPLICA",
    "db.replica-remove": "replicas.replica_steps:REMOVE_REPLICA",
    "db.replica-promote": "replicas.replica_steps:PROMOTE_REPLICA",
    "db.replica-renew": "replicas.replica_steps:RENEW_REPLICA",
    "db.replica-schedule": "replicas.replica_steps:SCHEDULE_RENEWAL",
    READ_ENDPOINT: "endpoints.endpoint_steps:CHANGE_ENDPOINT",
    "db.delete": "lifecycle:DELETE",
    "db.start": "lifecycle:START",
    "db.stop": "lifecycle:STOP",
    "db.protect": "changes:PROTECT",
    "db.resize": "changes:RESIZE",
    "db.binlog-retention": "changes:SET_RETENTION",
    "db.recovery-goal": "live.recovery_goal:SET_RECOVERY_GOAL",
    "db.failover-mode": "changes:SET_FAILOVER",
    "db.maintenance-window": "changes:SET_WINDOW",
    "db.growth": "growth.growth_steps:SET_RULE",
    "db.grow": "growth.growth_steps:GROW",
    "db.close": "growth.growth_steps:CLOSE",
    "db.open": "growth.growth_steps:OPEN",
    "db.set": "changes:SET_WRITE_PATH",
    "db.scratch": "scratch:SCRATCH",
    "db.scratch-stop": "scratch:SCRATCH_STOP",
    "db.backup": "backup.taking:BACKUP",
    "db.restore": "backup.restoring:RESTORE_BACKUP",
    "db.backup-schedule": "backup.schedule_steps:SCHEDULE_BACKUPS",
    "db.limits": "live.live_changes:SET_LIMITS",
    "db.parameter": "live.live_changes:SET_PARAMETER",
    "db.restart": "live.live_changes:RESTART",
    "db.move": "live.move_steps:MOVE",
    "db.failover": "failover.failover_steps:FAIL_OVER",
    "db.migrate": "live.migrate_steps:MIGRATE_POOL",
    "db.user-add": "users.user_steps:ADD_USER",
    "db.user-remove": "users.user_steps:REMOVE_USER",
    "db.user-passwd": "users.user_steps:CHANGE_PASSWORD",
    "db.user-discard": "users.user_steps:DISCARD_PASSWORD",
    "db.role-add": "users.role_steps:ADD_ROLE",
    "db.role-change": "users.role_steps:CHANGE_ROLE",
    "db.role-remove": "users.role_steps:REMOVE_ROLE",
    "db.role-grant": "users.role_steps:GRANT_ROLE",
    "db.role-revoke": "users.role_steps:REVOKE_ROLE",
    "db.rotate": "users.rotation_steps:ROTATE",
    "db.rotate-discard": "users.rotation_steps:DISCARD",
    "db.certificate-rotate": "tls.certificate_steps:ROTATE_CERTIFICATES",
    "db.certificate-retire": "tls.certificate_steps:RETIRE_CERTIFICATES",
    "db.label": "names.naming_steps:LABEL",
    "db.rename": "names.naming_steps:RENAME",
    "db.trash": "names.trash_steps:TRASH",
    "db.undelete": "names.trash_steps:RESTORE",
    "db.purge": "names.trash_steps:PURGE",
    "db.snapshot": "snapshots.snapshot_steps:TAKE_SNAPSHOT",
    "db.snapshot-delete": "snapshots.snapshot_steps:DELETE_SNAPSHOT",
    "db.snapshot-protect": "snapshots.snapshot_steps:PROTECT_SNAPSHOT",
    "db.snapshot-schedule": "snapshots.snapshot_steps:SCHEDULE_SNAPSHOTS",
    "db.rollback": "snapshots.snapshot_steps:ROLLBACK",
    "db.rollback-for-good": "snapshots.snapshot_steps:ROLLBACK_FOR_GOOD",
    "db.upgrade": "upgrades.upgrade_steps:UPGRADE",
    "db.verify": "verify.verify_steps:VERIFY",
}


def find_operation_type(kind: str) -> AnyDatabaseOperation | None:
    """The type of a journaled operation, or None for one of another release."""
    if kind not in KINDS:
        return None
    module, _, name = KINDS[kind].partition(":")
    found: AnyDatabaseOperation = getattr(import_module(f"grampus.databases.{module}"), name)
    return found


def operation_type(kind: str) -> AnyDatabaseOperation:
    """The type of a journaled operation. Raises GrampusError for one of another release."""
    found = find_operation_type(kind)
    if found is None:
        raise GrampusError(
            f"An interrupted operation has the kind '{kind}', which this release does not support.",
            "Run the release that began the operation: it finishes or undoes the operation.",
        )
    return found
