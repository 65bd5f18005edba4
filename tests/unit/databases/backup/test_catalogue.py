from __future__ import annotations

import contextlib
import io
import json
import threading
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, NotFoundError
from grampus.databases.backup.catalogue import DATA, MANIFEST, BackupCatalogue
from grampus.databases.backup.directory_target import DirectoryTarget
from grampus.databases.backup.errors import BackupDamagedError, TargetError
from grampus.databases.backup.keys import BackupKey, BackupKeys
from grampus.databases.backup.manifest_file import (
    parse_manifest,
    render_manifest,
    require_authentic,
)
from grampus.databases.backup.model import BackupManifest
from grampus.databases.backup.sealed_stream import SealedWriter

from .made import made_backup

KEY = BackupKey(bytes(range(32)))
CONTENT = b"page" * 5000


@pytest.fixture
def target(tmp_path: Path) -> DirectoryTarget:
    made = DirectoryTarget(tmp_path / "backups")
    made.ensure_id()
    return made


@pytest.fixture
def keys(tmp_path: Path) -> BackupKeys:
    made = BackupKeys(tmp_path / "keys", BackupKey)
    made.add(KEY)
    return made


@pytest.fixture
def catalogue(target: DirectoryTarget, keys: BackupKeys) -> BackupCatalogue:
    return BackupCatalogue(target, keys)


def kept(
    target: DirectoryTarget, catalogue: BackupCatalogue, number: int, content: bytes = CONTENT
) -> BackupManifest:
    """A whole backup in the target."""
    planned = made_backup(number)
    with target.writing(f"{planned.id}/{DATA}") as file:
        writer = SealedWriter(file, KEY, planned.id, chunk_bytes=1000)
        writer.write(content)
        facts = writer.finish()
    manifest = planned.model_copy(update={"data": facts, "key_id": KEY.id})
    catalogue.keep(manifest)
    return manifest


def change(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_whole_backups_are_listed_as_they_were_kept(
    target: DirectoryTarget, catalogue: BackupCatalogue
) -> None:
    first, second = kept(target, catalogue, 1), kept(target, catalogue, 2)
    assert catalogue.observe().backups == {first.id: first, second.id: second}
    assert catalogue.observe("shop").backups.keys() == {first.id, second.id}
    assert catalogue.observe("bar").backups == {}
    assert catalogue.is_whole(first.id)


def test_listing_needs_no_key(
    target: DirectoryTarget, catalogue: BackupCatalogue, tmp_path: Path
) -> None:
    manifest = kept(target, catalogue, 1)
    elsewhere = BackupCatalogue(target, BackupKeys(tmp_path / "no keys", BackupKey))
    assert elsewhere.observe().backups == {manifest.id: manifest}
    with pytest.raises(NotFoundError, match="key import"):
        elsewhere.verify(manifest)


@pytest.mark.parametrize("is_data_whole", [True, False])
def test_backup_that_was_cut_off_never_looks_whole(
    target: DirectoryTarget, catalogue: BackupCatalogue, is_data_whole: bool
) -> None:
    name = f"shop/20261122t010000z/{DATA}"
    with contextlib.suppress(KeyboardInterrupt), target.writing(name) as file:
        file.write(b"all or not")
        if not is_data_whole:
            raise KeyboardInterrupt
    contents = catalogue.observe()
    assert (contents.backups, contents.incomplete) == ({}, ("shop/20261122t010000z",))
    assert not catalogue.is_whole("shop/20261122t010000z")
    catalogue.remove("shop/20261122t010000z")
    assert catalogue.observe().incomplete == ()


def test_removed_backup_stops_looking_whole_first(
    target: DirectoryTarget, catalogue: BackupCatalogue, tmp_path: Path
) -> None:
    manifest = kept(target, catalogue, 1)
    catalogue.remove(manifest.id)
    assert catalogue.observe().backups == {}
    assert target.names() == []


def test_content_comes_back(target: DirectoryTarget, catalogue: BackupCatalogue) -> None:
    manifest = kept(target, catalogue, 1)
    assert b"".join(catalogue.open(manifest)) == CONTENT
    catalogue.verify(manifest)


def test_changed_data_is_found(
    target: DirectoryTarget, catalogue: BackupCatalogue, tmp_path: Path
) -> None:
    manifest = kept(target, catalogue, 1)
    change(tmp_path / "backups" / manifest.id / DATA, at=300)
    with pytest.raises(BackupDamagedError, match=manifest.id):
        catalogue.verify(manifest)


def test_data_of_another_attempt_is_found(
    target: DirectoryTarget, catalogue: BackupCatalogue
) -> None:
    manifest = kept(target, catalogue, 1)
    sink = io.BytesIO()
    writer = SealedWriter(sink, KEY, manifest.id)  # authentic, and not what the manifest is of
    writer.write(CONTENT)
    writer.finish()
    target.put(f"{manifest.id}/{DATA}", sink.getvalue())
    with pytest.raises(BackupDamagedError, match="match its manifest"):
        catalogue.verify(manifest)


def test_missing_data_is_found(
    target: DirectoryTarget, catalogue: BackupCatalogue, tmp_path: Path
) -> None:
    manifest = kept(target, catalogue, 1)
    (tmp_path / "backups" / manifest.id / DATA).unlink()
    with pytest.raises(GrampusError, match=DATA):
        catalogue.verify(manifest)


def test_changed_manifest_is_found(
    target: DirectoryTarget, catalogue: BackupCatalogue, tmp_path: Path
) -> None:
    manifest = kept(target, catalogue, 1)
    path = tmp_path / "backups" / manifest.id / MANIFEST
    path.write_text(path.read_text().replace('"cpus": 0.5', '"cpus": 5'))
    changed = catalogue.observe().backups[manifest.id]
    with pytest.raises(BackupDamagedError, match="manifest"):
        catalogue.verify(changed)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"backup": {"format": 1}}'])
def test_manifest_that_cannot_be_read_is_told_and_hides_no_other(
    target: DirectoryTarget, catalogue: BackupCatalogue, content: bytes
) -> None:
    good = kept(target, catalogue, 1)
    target.put(f"shop/bad/{MANIFEST}", content)
    contents = catalogue.observe()
    assert contents.backups.keys() == {good.id}
    assert contents.unreadable.keys() == {"shop/bad"}


def test_manifest_of_a_later_version_says_so() -> None:
    document = json.dumps({"backup": {"format": 2}}).encode()
    with pytest.raises(BackupDamagedError, match="format 2") as caught:
        parse_manifest(document, "shop/1")
    assert caught.value.code == "unknown-format"


def test_manifest_in_the_place_of_another_is_found() -> None:
    content = render_manifest(made_backup(1), KEY)
    with pytest.raises(BackupDamagedError, match="belongs to"):
        parse_manifest(content, made_backup(2).id)


def test_manifest_is_authentic_with_its_key_alone() -> None:
    manifest = made_backup(1)
    content = render_manifest(manifest, KEY)
    assert parse_manifest(content, manifest.id) == manifest
    require_authentic(content, manifest, KEY)
    with pytest.raises(BackupDamagedError):
        require_authentic(content, manifest, BackupKey(bytes(32)))


class _Far(DirectoryTarget):
    """A place whose answers come only once four are waited for; some of them are errors."""

    def __init__(self, root: Path, *, fails: str = "") -> None:
        super().__init__(root)
        self._barrier = threading.Barrier(4, timeout=20)
        self._fails = fails

    def read(self, name: str) -> bytes | None:
        if name.endswith(MANIFEST):
            self._barrier.wait()
            if self._fails and name.startswith(self._fails):
                raise TargetError("The place does not answer.", "Wait.")
        return super().read(name)


def test_manifests_are_read_side_by_side(
    target: DirectoryTarget, catalogue: BackupCatalogue, keys: BackupKeys, tmp_path: Path
) -> None:
    made = [kept(target, catalogue, number) for number in range(1, 9)]
    far = BackupCatalogue(_Far(tmp_path / "backups"), keys)
    assert list(far.observe().backups) == [manifest.id for manifest in made]
    # One that cannot be read now is not one that is gone.
    broken = BackupCatalogue(_Far(tmp_path / "backups", fails=made[5].id), keys)
    with pytest.raises(TargetError, match="does not answer"):
        broken.observe()
