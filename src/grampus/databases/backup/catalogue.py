"""The backups in a target, as its manifests tell of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from grampus.core.errors import GrampusError
from grampus.databases.backup.decide_chain import decide_chain
from grampus.databases.backup.decide_tested import RestoreTest
from grampus.databases.backup.errors import BackupDamagedError, damaged
from grampus.databases.backup.keys import BackupKey, BackupKeys
from grampus.databases.backup.manifest_file import (
    parse_manifest,
    render_manifest,
    require_authentic,
)
from grampus.databases.backup.model import BackupManifest
from grampus.databases.backup.sealed_stream import StreamDigest, read_sealed
from grampus.databases.backup.target import BackupTarget

MANIFEST = "manifest.json"
DATA = "image.sealed"
TESTED = "tested.json"
# A place far away answers each read after some milliseconds; an S3 client keeps ten connections.
_READS_AT_ONCE = 8
# Whose directory it is: two labs may begin backups of one name in the same second.
CLAIM = "claim"


@dataclass(frozen=True)
class Contents:
    """What a target holds: backups that are whole by their manifests, and what is none."""

    backups: dict[str, BackupManifest]
    incomplete: tuple[str, ...]  # begun and cut off, or being taken now
    unreadable: dict[str, str]  # why, by id
    tests: dict[str, RestoreTest]  # the last restore test of those that were tested, by id


class BackupCatalogue:
    """Backups by id in one target."""

    def __init__(self, target: BackupTarget, keys: BackupKeys) -> None:
        self._target = target
        self._keys = keys

    def observe(self, database: str | None = None) -> Contents:
        """What is there, of one database or of all."""
        files: dict[str, set[str]] = {}
        begun = {f"{name}.begun" for name in self._target.parts(database or "")}
        for name in (*self._target.names(database or ""), *begun):
            backup_id, _, file = name.rpartition("/")
            if (
                file in (MANIFEST, DATA, TESTED, CLAIM, f"{DATA}.begun")
                and backup_id.count("/") == 1
            ):
                files.setdefault(backup_id, set()).add(file)
        backups: dict[str, BackupManifest] = {}
        unreadable: dict[str, str] = {}
        tests: dict[str, RestoreTest] = {}
        whole = [backup_id for backup_id, there in sorted(files.items()) if MANIFEST in there]
        tested = [backup_id for backup_id in whole if TESTED in files[backup_id]]
        with ThreadPoolExecutor(max_workers=_READS_AT_ONCE) as pool:
            # What fails is raised below: a manifest that cannot be read is not one that is absent.
            manifests = pool.map(self._read_manifest, whole)
            results = pool.map(self._read_test, tested)
            for backup_id, content in zip(whole, manifests, strict=True):
                try:
                    backups[backup_id] = parse_manifest(content, backup_id)
                except BackupDamagedError as error:
                    unreadable[backup_id] = error.problem
            for backup_id, test in zip(tested, results, strict=True):
                if test is not None:
                    tests[backup_id] = test
        incomplete = tuple(sorted(set(files) - set(backups) - set(unreadable)))
        return Contents(backups, incomplete, unreadable, tests)

    def is_whole(self, backup_id: str) -> bool:
        """Whether its manifest was written."""
        return self._target.read(f"{backup_id}/{MANIFEST}") is not None

    def claim(self, backup_id: str, claim: str) -> bool:
        """Take the id for who makes that claim; False: somebody else has it."""
        content = f"{claim}\n".encode()
        return self._target.claim(f"{backup_id}/{CLAIM}", content) == content

    def is_claimed_by_other(self, backup_id: str, claim: str) -> bool:
        """Whether somebody else has the id; nobody has it where nothing is claimed."""
        found = self._target.read(f"{backup_id}/{CLAIM}")
        return found is not None and found != f"{claim}\n".encode()

    def keep(self, manifest: BackupManifest) -> None:
        """Write the manifest, which makes the backup one."""
        content = render_manifest(manifest, self._keys.get(manifest.key_id))
        self._target.put(f"{manifest.id}/{MANIFEST}", content)

    def lock(self, backup_id: str, until: datetime) -> None:
        """Let nobody delete the backup before then, nor any that it stands on."""
        backups = self.observe(backup_id.partition("/")[0]).backups
        for link in decide_chain(backups, backup_id):
            self._target.lock([f"{link.id}/{file}" for file in (DATA, MANIFEST)], until)

    def locked_until(self, backup_id: str) -> datetime | None:
        """Until when it cannot be deleted, which may be over; None: nobody locked it."""
        return self._target.locked_until(backup_id)

    def keep_test(self, backup_id: str, test: RestoreTest) -> None:
        """Note what a restore test found, in place of the one before."""
        self._target.put(f"{backup_id}/{TESTED}", test.model_dump_json(indent=2).encode())

    def remove(self, backup_id: str) -> None:
        """Take a backup away, or what was begun of it; first what makes it look whole."""
        self._target.remove(backup_id, first=MANIFEST)

    def open(self, manifest: BackupManifest) -> Iterator[bytes]:
        """The diff that the backup holds, a chunk at a time.

        Only when it ends by itself was all of it given. Raises BackupDamagedError when anything
        of manifest or data is not what was written, NotFoundError without the key or the data.
        """
        key = self.require_authentic(manifest)
        with self._target.reading(f"{manifest.id}/{DATA}") as file:
            stored = StreamDigest(file)
            plain_bytes = 0
            for chunk in read_sealed(stored, [key], manifest.id):
                plain_bytes += len(chunk)
                yield chunk
        facts = manifest.data
        # Every chunk was authentic by itself: this finds another stream of the same backup.
        if (plain_bytes, stored.sha256) != (facts.plain_bytes, facts.stored_sha256):
            raise damaged(f"The data of {manifest.id} does not match its manifest")

    def require_authentic(self, manifest: BackupManifest) -> BackupKey:
        """The backup's key, when its manifest was sealed with it; errors as `open`."""
        key = self._keys.get(manifest.key_id)
        require_authentic(self._read_manifest(manifest.id), manifest, key)
        return key

    def verify(self, manifest: BackupManifest) -> None:
        """Read all of it; errors as `open`."""
        for _chunk in self.open(manifest):
            pass

    def _read_test(self, backup_id: str) -> RestoreTest | None:
        """The last test; None also where it cannot be read: the backup is none the worse."""
        content = self._target.read(f"{backup_id}/{TESTED}")
        with contextlib.suppress(ValidationError):
            return None if content is None else RestoreTest.model_validate_json(content)
        return None

    def _read_manifest(self, backup_id: str) -> bytes:
        content = self._target.read(f"{backup_id}/{MANIFEST}")
        if content is None:
            raise GrampusError(
                f"The backup {backup_id} is not in {self._target.place} any more.",
                "`grampus db backup list` shows the backups.",
                code="backup-gone",
            )
        return content
