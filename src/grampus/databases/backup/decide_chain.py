"""Which backups stand on which: what can be restored, deleted and let go (pure)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from grampus.core.errors import NotFoundError, RefusedError, UsageError, suggest
from grampus.databases.backup.errors import BackupDamagedError
from grampus.databases.backup.model import BackedUpDatabase, BackupKind, BackupManifest

# A restore reads the whole chain, and one damaged link loses all that stand on it.
MAX_CHAIN_LENGTH = 14
TIME_FORMAT = "%Y%m%dt%H%M%Sz"

Backups = Mapping[str, BackupManifest]


@dataclass(frozen=True)
class Base:
    """What a new backup stands on: `backup` None is nothing (a full one), and `why`."""

    backup: BackupManifest | None
    why: str


def decide_backup_id(database: str, now: datetime, taken: Collection[str]) -> str:
    """DATABASE/TIME, to the second; a second later while that one is taken."""
    moment = now.astimezone(UTC)
    while (found := f"{database}/{moment.strftime(TIME_FORMAT)}") in taken:
        moment += timedelta(seconds=1)
    return found


def snapshot_name(target_id: str, backup_id: str) -> str:
    """The snapshot that a backup is exported from: 32 characters, unique to target and time."""
    return f"{_snapshot_prefix(target_id)}{backup_id.partition('/')[2]}"


def decide_spent_snapshots(
    snapshots: Collection[str], target_id: str, newest: str
) -> tuple[str, ...]:
    """Snapshots made for backups in that target which no further increment will start from."""
    prefix = _snapshot_prefix(target_id)
    return tuple(sorted(name for name in snapshots if name.startswith(prefix) and name != newest))


def require_known(backups: Backups, backup_id: str) -> BackupManifest:
    """The backup by its id. Raises NotFoundError with the closest id there is."""
    found = backups.get(backup_id)
    if found is None:
        raise NotFoundError(
            f"The backup '{backup_id}' does not exist in this place.",
            suggest(backup_id, backups, "`grampus db backup list` shows the backups."),
        )
    return found


def require_whole(backups: Backups, incomplete: Collection[str], backup_id: str) -> BackupManifest:
    """As `require_known`; raises RefusedError with code `incomplete` for half a backup."""
    if backup_id in incomplete:
        raise RefusedError(
            f"The backup {backup_id} is incomplete: it was interrupted, or is running now.",
            f"Choose another backup. `grampus db backup delete {backup_id} --from PLACE` "
            "deletes the incomplete one.",
            code="incomplete",
        )
    return require_known(backups, backup_id)


def decide_chain(backups: Backups, backup_id: str) -> tuple[BackupManifest, ...]:
    """What must be read to restore `backup_id`: the full backup first, itself last.

    Raises NotFoundError, and BackupDamagedError when a link is missing or not the one that was
    built on.
    """
    chain = [require_known(backups, backup_id)]
    while (base := chain[-1].base) is not None:
        below = backups.get(base.id)
        if below is None or below.data.plain_sha256 != base.plain_sha256 or below in chain:
            state = "missing" if below is None else "not its original base"
            raise BackupDamagedError(
                f"The backup {backup_id} cannot be restored: its base {base.id} is {state}.",
                "Restore the file of the base, or choose another backup.",
                code="chain-broken",
            )
        chain.append(below)
    return tuple(reversed(chain))


def decide_base(
    backups: Backups,
    database: BackedUpDatabase,
    target_id: str,
    snapshots: Collection[str],
    *,
    wanted: BackupKind | None,
    key_id: str | None = None,
) -> Base:
    """What a new backup of `database` stands on.

    Only the newest one counts, while the image still has its snapshot: a diff since an older one
    would be bigger and save nothing. Without `wanted`, incremental as long as that works and the
    chain stays at most MAX_CHAIN_LENGTH long. One sealed with `key_id` stands on nothing that is
    sealed with another key, so that one key opens a chain. Raises RefusedError with code `no-base`
    when an incremental one is wanted and cannot be.
    """
    if wanted == "full":
        return Base(None, "a full backup was requested")
    newest = next(iter(_newest_first(backups, database)), None)
    if newest is None:
        return _no_base(wanted, f"the target has no backup of {database.name} yet")
    if newest.snapshot not in snapshots or newest.snapshot != snapshot_name(target_id, newest.id):
        return _no_base(wanted, f"the image no longer has the snapshot of the backup {newest.id}")
    if key_id is not None and newest.key_id != key_id:
        return _no_base(wanted, f"the backup {newest.id} is encrypted with another key")
    try:
        length = len(decide_chain(backups, newest.id))
    except BackupDamagedError as error:
        return _no_base(wanted, error.problem.rstrip(".").replace("The backup", "the backup", 1))
    if wanted is None and length >= MAX_CHAIN_LENGTH:
        return Base(None, f"the chain already has {length} backups")
    return Base(newest, f"it has the changes since {newest.id}")


def decide_latest(backups: Backups, database: str | None) -> BackupManifest:
    """The newest backup, of `database` or of the only one that has any.

    Raises NotFoundError, and UsageError when it is not clear of which.
    """
    names = sorted({backup.database.name for backup in backups.values()})
    if database is None and len(names) > 1:
        raise UsageError(
            f"There are backups of several databases: {', '.join(names)}.",
            "Choose one with --of NAME.",
            code="which-database",
        )
    own = [backup for backup in backups.values() if database in (None, backup.database.name)]
    if not own:
        raise NotFoundError(
            f"There is no backup of '{database}' in this place."
            if database
            else ("There is no backup in this place."),
            suggest(database or "", names, "`grampus db backup list` shows the backups."),
        )
    return max(own, key=lambda backup: (backup.taken_at, backup.id))


def decide_dependants(backups: Backups, backup_id: str) -> tuple[str, ...]:
    """The backups that stand on `backup_id`, directly or not, oldest first."""
    found = {backup_id}
    ordered = sorted(backups.values(), key=lambda backup: backup.taken_at)
    for _ in ordered:  # as often as a chain can be long, whatever the clocks said
        found |= {b.id for b in ordered if b.base is not None and b.base.id in found}
    return tuple(backup.id for backup in ordered if backup.id in found - {backup_id})


def require_deletable(backups: Backups, backup_id: str) -> None:
    """Raise RefusedError with code `has-increments` while others stand on it."""
    dependants = decide_dependants(backups, backup_id)
    if dependants:
        raise RefusedError(
            f"{len(dependants)} backup{'s' if len(dependants) > 1 else ''} stand"
            f"{'' if len(dependants) > 1 else 's'} on {backup_id}: {', '.join(dependants)}.",
            "Delete the newer backups first, the newest one first.",
            code="has-increments",
        )


def decide_retention(backups: Backups, database: BackedUpDatabase, *, keep: int) -> tuple[str, ...]:
    """The backups of `database` to delete, newest first, so that `keep` can still be restored.

    The newest `keep` stay, at least one, and whatever those stand on; so more may stay than
    `keep`. Those of an earlier database of that name are not counted and stay.
    """
    own = _newest_first(backups, database)
    needed: set[str] = set()
    for backup in own[: max(keep, 1)]:
        needed |= _bases_below(backups, backup)
    # Newest first: what a deletion that was cut off leaves can still be restored.
    return tuple(backup.id for backup in own if backup.id not in needed)


def _newest_first(backups: Backups, database: BackedUpDatabase) -> list[BackupManifest]:
    """The backups of that very database."""
    own = [backup for backup in backups.values() if backup.database.is_same(database)]
    return sorted(own, key=lambda backup: (backup.taken_at, backup.id), reverse=True)


def _bases_below(backups: Backups, backup: BackupManifest) -> set[str]:
    """Itself and what it stands on, as far as that is there."""
    found: set[str] = set()
    link: BackupManifest | None = backup
    while link is not None and link.id not in found:
        found.add(link.id)
        link = backups.get(link.base.id) if link.base is not None else None
    return found


def _no_base(wanted: BackupKind | None, why: str) -> Base:
    if wanted == "incremental":
        raise RefusedError(
            f"An incremental backup is not possible: {why}.",
            "Take a full backup: `grampus db backup create ... --full`.",
            code="no-base",
        )
    return Base(None, why)


def _snapshot_prefix(target_id: str) -> str:
    return f"backup-{target_id}-"
