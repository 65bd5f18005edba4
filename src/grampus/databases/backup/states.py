"""What is remembered of a database's backups, so that nobody has to read the place for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from grampus.core.clock import Clock
from grampus.databases.backup.archive import BinlogArchive
from grampus.databases.backup.binlog_links import links_of
from grampus.databases.backup.binlogs import decide_leading, decide_reach
from grampus.databases.backup.decide_chain import Backups
from grampus.databases.backup.decide_schedule import ArchiveEnd, BackupState
from grampus.databases.backup.decide_tested import RestoreTest
from grampus.databases.backup.errors import TargetError
from grampus.databases.backup.kept import KeptBackups
from grampus.databases.backup.model import BackupManifest
from grampus.databases.backup.owners import is_of, own_backups
from grampus.databases.backup.places import TargetPlace
from grampus.databases.model import DatabaseRecord
from grampus.databases.records import DatabaseRecords
from grampus.state.home import Home
from grampus.state.locks import hold_lock


@dataclass(frozen=True)
class Copied:
    """How far binary logs are copied."""

    until: datetime  # everything that was committed before
    end: ArchiveEnd


class StatesOwner(Protocol):
    """Whose databases they are: all of it that is needed. `DatabaseOperations` is one."""

    @property
    def lab(self) -> str: ...

    @property
    def home(self) -> Home: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def records(self) -> DatabaseRecords: ...


class BackupStates:
    """The states of the databases of one lab or cluster."""

    def __init__(self, owner: StatesOwner) -> None:
        self._owner = owner

    def find(self, name: str, place: TargetPlace | None = None) -> BackupState | None:
        """Of the database's backups in `place`, or wherever the last ones are."""
        record = self._owner.records.find(name)
        found = None if record is None else self._owner.records.backup_state(record)
        is_there = found is not None and (place is None or place.url == found.place)
        return found if is_there else None

    def require_place(self, name: str, place: TargetPlace, found_id: str | None) -> None:
        """Raise TargetError with code `target-gone` when something else is there now.

        A disk that is not mounted leaves an empty directory, which looks like a new place.
        """
        state = self.find(name, place)
        expected = state.place_id if state is not None else None
        if expected not in (None, found_id):
            raise TargetError(
                f"{place.url} is not the place of the backups of {name}: it has "
                f"{f'the id {found_id}' if found_id else 'no id'}, not {expected}.",
                "Mount the former place. If you emptied it, begin again: `grampus db backup "
                f"create {name} {place.options('--to')} --full`.",
                code="target-gone",
            )

    def note_place(self, name: str, place: TargetPlace, place_id: str) -> None:
        """Backups of the database are kept there from now on."""
        state = self.find(name, place)
        if state is None or state.place_id != place_id:
            self._change(name, place, {"place_id": place_id})

    def note_backup(self, manifest: BackupManifest, place: TargetPlace) -> None:
        """A backup was taken."""
        changes: dict[str, object] = {
            "last_id": manifest.id,
            "last_taken_at": manifest.taken_at,
            "needs_backup": False,
        }
        if manifest.binlog is not None:
            changes["leading"] = decide_leading([manifest], manifest.database.name)
        if manifest.kind == "full":
            changes["last_full_at"] = manifest.taken_at
        self._change(manifest.database.name, place, changes)

    def note_test(self, manifest: BackupManifest, place: TargetPlace, test: RestoreTest) -> None:
        """A backup was restored for a while; of a database that is gone nothing is noted."""
        record = self._owner.records.find(manifest.database.name)
        if record is not None and is_of(manifest, record):
            changes = {"last_tested_at": test.at, "test_problem": test.problem}
            self._change(manifest.database.name, place, changes)

    def refresh(self, name: str, place: TargetPlace) -> BackupState | None:
        """Note what the place itself says now of the backups of that database.

        For when some of them may have gone: it reads all manifests and lists all binary logs.
        Raises what the place says.
        """
        record = self._owner.records.find(name)
        if record is None:
            return None
        kept = KeptBackups(self._owner.home, self._owner.clock, place)
        backups = own_backups(kept.catalogue.observe(name).backups, record)
        own = list(backups.values())
        newest = max(own, key=lambda backup: backup.taken_at, default=None)
        reach = _observe_reach(kept, backups, record)
        former = self.find(name, place)
        last_id = former.last_id if former is not None else None
        was_renamed = last_id is not None and not last_id.startswith(f"{name}/")
        changes: dict[str, object] = {
            "leading": decide_leading(own, name),
            "archived_until": reach[0] if reach is not None else None,
            "reaching_id": reach[1] if reach is not None else None,
            "read_at": self._owner.clock.now(),
        }
        # Those that were taken under a former name are not below this one, and still there.
        if newest is not None or not was_renamed:
            changes |= {
                "last_id": newest.id if newest is not None else None,
                "last_taken_at": newest.taken_at if newest is not None else None,
                "last_full_at": max((b.taken_at for b in own if b.kind == "full"), default=None),
            }
        self._change(name, place, changes)
        return self.find(name, place)

    def note_linked(self, name: str, place: TargetPlace, linked: str) -> None:
        """The stretch and the leading backup that `linked` names belong together."""
        self._change(name, place, {"linked": linked})

    def note_archived(self, name: str, place: TargetPlace, copied: Copied, leading_id: str) -> None:
        """Binary logs are archived, and that backup leads to all of them."""
        changes: dict[str, object] = {
            **_of_copied(copied),
            "archived_until": copied.until,
            "reaching_id": leading_id,
            "archive_problem": None,
            "needs_backup": False,
        }
        self._change(name, place, changes)

    def note_copied(self, name: str, place: TargetPlace, copied: Copied) -> None:
        """Binary logs are copied; what can be restored is as before."""
        self._change(name, place, {**_of_copied(copied), "archive_problem": None})

    def note_unreachable(self, name: str, place: TargetPlace, copied: Copied, problem: str) -> None:
        """Binary logs are copied, and none of the backups leads to them."""
        changes: dict[str, object] = {
            **_of_copied(copied),
            "archive_problem": problem,
            "needs_backup": True,
        }
        self._change(name, place, changes)

    def note_gap(self, name: str, place: TargetPlace, problem: str, *, after: str) -> None:
        """Binary logs could not be archived: some are gone that follow the piece `after`.

        A backup is needed once for each gap. It stays one until somebody goes on after it, and no
        further backup would lead to more.
        """
        state = self.find(name, place)
        changes: dict[str, object] = {"archive_problem": problem, "gap_after": after}
        if state is None or state.gap_after != after:
            changes["needs_backup"] = True
        self._change(name, place, changes)

    def _change(self, name: str, place: TargetPlace, changes: Mapping[str, object]) -> None:
        owner = self._owner
        record = owner.records.find(name)
        if record is None:
            return
        # A backup and the archiving of binary logs run at the same time.
        with hold_lock(owner.home, f"backup-state.{owner.lab}.{name}", owner.clock):
            found = owner.records.backup_state(record)
            place_id = changes.get("place_id")
            is_other = found is not None and place_id is not None and found.place_id is not None
            if (
                found is None
                or found.place != place.url
                or (is_other and found.place_id != place_id)
            ):
                found = BackupState(created_at=record.created_at, place=place.url)
            if any(getattr(found, field) != value for field, value in changes.items()):
                owner.records.put_backup_state(name, found.model_copy(update=changes))


def _of_copied(copied: Copied) -> dict[str, object]:
    return {"copied_until": copied.until, "archive_end": copied.end, "gap_after": None}


def _observe_reach(
    kept: KeptBackups, backups: Backups, record: DatabaseRecord
) -> tuple[datetime, str] | None:
    """As `decide_reach`; nothing where there is no key that could have sealed any log."""
    key = kept.keys.find_current()
    if key is None:
        return None
    name = record.spec.name
    archive = BinlogArchive(
        *(kept.target, key, name), others=kept.keys.all(), database_id=record.id
    )
    return decide_reach(backups, archive.stretches(), name, links_of(archive))
