"""Whose backups are whose: by the database's id, not by its name (pure).

A name says little in a place that several labs share, or after a database was deleted and made
anew. Manifests of earlier releases have no id: name and moment of creation stand for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from grampus.core.clock import format_moment
from grampus.core.errors import NotFoundError, RefusedError, UsageError
from grampus.databases.backup.decide_chain import TIME_FORMAT, Backups, decide_latest
from grampus.databases.backup.model import BackedUpDatabase, BackupManifest
from grampus.databases.model import DatabaseRecord

SHORT_ID = 8  # characters of an id that people are shown
_LEAST_PREFIX = 4


@dataclass(frozen=True)
class Owner:
    """A database that has backups in a place."""

    id: str  # the database's; of backups by earlier releases alone, when it was created
    name: str  # as of its newest backup
    lab: str  # where it was; empty: an earlier release did not note it
    created_at: datetime
    newest_at: datetime  # its newest backup
    database_id: str  # empty: none of its manifests has one
    names: frozenset[str]  # under which it has backups

    @property
    def short_id(self) -> str:
        """What tells it from others, for people; `--from-id` takes it."""
        return self.id[:SHORT_ID] if self.database_id else self.id

    @property
    def words(self) -> str:
        """For people."""
        where = f" of lab {self.lab}" if self.lab else ""
        newest = format_moment(self.newest_at)
        return f"{self.name}{where} (id {self.short_id}, last backup {newest})"


def is_of(backup: BackupManifest, record: DatabaseRecord) -> bool:
    """Whether the backup is one of that very database."""
    return is_same(backup.database, record)


def is_same(was: BackedUpDatabase, record: DatabaseRecord) -> bool:
    """Whether what was backed up is that very database, under whatever name."""
    if was.database_id and record.id:
        return was.database_id == record.id
    return (was.name, was.created_at) == (record.spec.name, record.created_at)


def own_backups(backups: Backups, record: DatabaseRecord) -> dict[str, BackupManifest]:
    """The backups of that very database."""
    return {found: backup for found, backup in backups.items() if is_of(backup, record)}


def group_by_owner(backups: Iterable[BackupManifest]) -> dict[Owner, list[BackupManifest]]:
    """The backups of each database; the owner with the newest backup comes first."""
    ordered = sorted(backups, key=lambda backup: (backup.taken_at, backup.id))
    # A database of an earlier release gets its id later: its manifests have the same creation.
    ids = {
        (one.database.name, one.database.created_at): one.database.database_id
        for one in ordered
        if one.database.database_id
    }
    grouped: dict[str, list[BackupManifest]] = {}
    for one in ordered:
        was = one.database
        known = was.database_id or ids.get((was.name, was.created_at), "")
        grouped.setdefault(known or f"{was.created_at:{TIME_FORMAT}}", []).append(one)
    owners = {_owner(owner_id, found): found for owner_id, found in grouped.items()}
    return dict(sorted(owners.items(), key=lambda item: item[0].newest_at, reverse=True))


def owner_of(backups: Backups, backup: BackupManifest) -> Owner:
    """Whose the backup is, which is one of `backups`."""
    owners = group_by_owner(backups.values())
    return next(owner for owner, found in owners.items() if backup in found)


def decide_meant(
    backups: Backups,
    name: str | None,
    *,
    owner_id: str | None,
    find_record: Callable[[str], DatabaseRecord | None],
) -> dict[str, BackupManifest]:
    """The backups of the one database that is meant, at least one, and nobody else's.

    `name` is the database's; None: of the only one that has any. `owner_id` is the beginning of an
    id. `find_record` finds the database of a name here: where there is one, that one is meant.
    Raises NotFoundError, RefusedError with code `other-database`, and UsageError with code
    `which-database`.
    """
    owners = group_by_owner(backups.values())
    if owner_id is not None:
        return _with_id(owners, owner_id, name)
    name = decide_latest(backups, name).database.name  # says when it is not clear of which
    named = {owner: found for owner, found in owners.items() if name in owner.names}
    record = find_record(name)
    if record is not None:
        own = [owner for owner, found in named.items() if any(is_of(b, record) for b in found)]
        if not own:
            raise RefusedError(
                f"The backups of '{name}' in this place do not belong to the database "
                f"'{name}' of this lab, but to {_list(named)}.",
                "To restore the other database's data, use --from-id "
                f"{next(iter(named)).short_id}.",
                code="other-database",
            )
        named = {owner: named[owner] for owner in own}
    if len(named) > 1:
        raise UsageError(
            f"The place has backups of {len(named)} databases named '{name}': {_list(named)}.",
            f"Choose one with --from-id, such as --from-id {next(iter(named)).short_id}.",
            code="which-database",
        )
    return {one.id: one for found in named.values() for one in found}


def shared_names(backups: Iterable[BackupManifest]) -> dict[str, Owner]:
    """Whose each backup is, by its id, where several databases have backups under one name."""
    owners = group_by_owner(backups)
    counts = Counter(name for owner in owners for name in owner.names)
    return {
        one.id: owner
        for owner, found in owners.items()
        for one in found
        if counts[one.database.name] > 1
    }


def _with_id(
    owners: Mapping[Owner, list[BackupManifest]], wanted: str, name: str | None
) -> dict[str, BackupManifest]:
    if len(wanted) < _LEAST_PREFIX:
        raise UsageError(
            f"{wanted!r} is too short for the id of a database.",
            f"Give at least {_LEAST_PREFIX} characters of the id.",
            code="which-database",
        )
    found = [o for o in owners if o.id.startswith(wanted) and (name is None or name in o.names)]
    if not found:
        of = f" named '{name}'" if name else ""
        there = f" Available databases: {_list(owners)}." if owners else ""
        raise NotFoundError(
            f"The place has no backups of a database{of} with an id that begins with "
            f"{wanted}.{there}",
            "`grampus db backup list` shows the ids.",
        )
    if len(found) > 1:
        raise UsageError(
            f"Several ids begin with {wanted}: {_list(found)}.",
            "Give more characters of the id.",
            code="which-database",
        )
    return {one.id: one for one in owners[found[0]]}


def _owner(owner_id: str, backups: list[BackupManifest]) -> Owner:
    newest: BackedUpDatabase = backups[-1].database
    database_id = next((b.database.database_id for b in backups if b.database.database_id), "")
    return Owner(
        id=owner_id,
        name=newest.name,
        lab=newest.lab,
        created_at=newest.created_at,
        newest_at=backups[-1].taken_at,
        database_id=database_id,
        names=frozenset(backup.database.name for backup in backups),
    )


def _list(owners: Iterable[Owner]) -> str:
    return "; ".join(owner.words for owner in owners)
