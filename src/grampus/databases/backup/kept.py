"""The backups in one place, whether their databases, or any lab, are still there or not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime

from grampus.core.clock import Clock, format_moment
from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.core.units import format_bytes
from grampus.databases.backup.catalogue import BackupCatalogue, Contents
from grampus.databases.backup.decide_chain import (
    decide_chain,
    decide_retention,
    require_deletable,
    require_known,
    require_whole,
)
from grampus.databases.backup.decide_unread import (
    chain_ids,
    decide_needed_unread,
    require_not_needed_unread,
)
from grampus.databases.backup.errors import TargetError
from grampus.databases.backup.keys import backup_keys
from grampus.databases.backup.model import BackedUpDatabase
from grampus.databases.backup.opening import open_target
from grampus.databases.backup.places import TargetPlace
from grampus.state.home import Home
from grampus.state.locks import hold_lock


@dataclass(frozen=True)
class Verdict:
    """What reading a backup to its end showed; `problem` None: it is as it was written."""

    backup_id: str
    problem: str | None
    is_known: bool = True  # False: the place could not be read, so nothing is known of the backup

    @property
    def words(self) -> str:
        """For people."""
        if self.problem is None:
            return "whole"
        return self.problem if self.is_known else f"unknown: {self.problem}"


@dataclass(frozen=True)
class Retained:
    """What became of backups that need not be kept."""

    deleted: tuple[str, ...]
    locked: dict[str, datetime]  # until when, by id: they stay


class KeptBackups:
    """Backups in one place."""

    def __init__(self, home: Home, clock: Clock, place: TargetPlace) -> None:
        self._home = home
        self._clock = clock
        self.target = open_target(place, home)
        self.keys = backup_keys(home)
        self.catalogue = BackupCatalogue(self.target, self.keys)

    def adding(self, target_id: str) -> AbstractContextManager[None]:
        """Held while a backup is taken, beside others that are; nothing is deleted meanwhile."""
        return hold_lock(self._home, f"backups.{target_id}", self._clock, shared=True)

    def observe(self, database: str | None = None) -> Contents:
        """What is there, of one database or of all. Raises NotFoundError with `no-target`."""
        self._require_id()
        return self.catalogue.observe(database)

    def verify(
        self,
        *,
        database: str | None = None,
        backup_id: str | None = None,
        tell: Callable[[str], None] = lambda _text: None,
    ) -> list[Verdict]:
        """Read backups to their ends, each by itself, and see whether its chain is whole.

        All of them, those of one database, or one. `tell` is told of each before it is read.
        Raises NotFoundError when there is no such backup, RefusedError with code `incomplete`.
        """
        contents = self.observe(database)
        wanted = sorted({*contents.backups, *contents.unreadable})
        if backup_id is not None:
            if backup_id not in contents.unreadable:
                require_whole(contents.backups, contents.incomplete, backup_id)
            wanted = [backup_id]
        return [self._judge(contents, found, tell) for found in wanted]

    def plan_delete(self, backup_id: str) -> None:
        """Raise NotFoundError, or RefusedError with code `has-increments` or `locked`."""
        contents = self.observe()
        if backup_id not in {*contents.incomplete, *contents.unreadable}:
            require_known(contents.backups, backup_id)
            require_deletable(contents.backups, backup_id)
            require_not_needed_unread(contents.backups, contents.unreadable, backup_id)
        until = self._find_lock(contents, backup_id)
        if until is not None:
            raise RefusedError(
                f"The backup {backup_id} is locked until {format_moment(until)}, and cannot "
                "be deleted before.",
                "Delete the backup after that time. A schedule with --keep deletes it "
                "automatically.",
                code="locked",
            )

    def delete(self, backup_id: str) -> None:
        """Take a backup away, or what was left of one.

        Raises what `plan_delete` raises, and RefusedError with code `busy` while one is taken.
        """
        with self._deleting():
            self.plan_delete(backup_id)
            self.catalogue.remove(backup_id)

    def retain(self, database: BackedUpDatabase, *, keep: int) -> Retained:
        """Delete the backups that `decide_retention` chose, and answer with their ids.

        What is locked stays, with all that it stands on, until its lock is over.
        """
        with self._deleting():
            contents = self.observe(database.name)
            spent = decide_retention(contents.backups, database, keep=keep)
            needed = decide_needed_unread(contents.backups, contents.unreadable)
            deleted: list[str] = []
            locked: dict[str, datetime] = {}
            for backup_id in spent:  # what stands on others comes before them
                if backup_id in needed:
                    continue
                until = self._find_lock(contents, backup_id)
                if until is not None:
                    locked[backup_id] = until
                    needed |= chain_ids(contents.backups, backup_id)
                else:
                    self.catalogue.remove(backup_id)
                    deleted.append(backup_id)
        return Retained(tuple(deleted), locked)

    def _find_lock(self, contents: Contents, backup_id: str) -> datetime | None:
        """Until when the backup is locked; None: it can be deleted now.

        Only a manifest that says so is reason to ask, or one that cannot be read: keys of a bucket
        without locks need not be allowed to ask.
        """
        manifest = contents.backups.get(backup_id)
        if manifest is not None and manifest.locked_until is None:
            return None
        if backup_id in contents.incomplete:
            return None  # a backup is locked once it is whole
        until = self.catalogue.locked_until(backup_id)
        return until if until is not None and until > self._clock.now() else None

    def _deleting(self) -> AbstractContextManager[None]:
        return hold_lock(self._home, f"backups.{self._require_id()}", self._clock)

    def _require_id(self) -> str:
        target_id = self.target.find_id()
        if target_id is None:
            raise NotFoundError(
                f"There are no backups in {self.target.place}.",
                "Choose the place of the backups: `grampus db backup create NAME --to PLACE`.",
                code="no-target",
            )
        return target_id

    def _judge(self, contents: Contents, backup_id: str, tell: Callable[[str], None]) -> Verdict:
        """Whether the backup can be restored."""
        if backup_id in contents.unreadable:
            return Verdict(backup_id, contents.unreadable[backup_id])
        manifest = contents.backups[backup_id]
        tell(f"Read {backup_id} ({format_bytes(manifest.data.stored_bytes)})")
        try:
            decide_chain(contents.backups, backup_id)
            self.catalogue.verify(manifest)
        except TargetError as error:
            return Verdict(backup_id, error.problem, is_known=False)
        except GrampusError as error:
            return Verdict(backup_id, error.problem)
        return Verdict(backup_id, None)
