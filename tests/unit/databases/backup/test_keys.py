from __future__ import annotations

import stat
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, NotFoundError, UsageError
from grampus.databases.backup.keys import BackupKey, BackupKeys

KEY = BackupKey(bytes(range(32)))


def test_key_comes_back_from_its_file() -> None:
    key = BackupKey.make()
    assert BackupKey.parse(key.render()) == key
    assert BackupKey.make() != key


def test_id_is_of_the_key_and_its_secret_is_not_shown() -> None:
    assert KEY.id == BackupKey(bytes(range(32))).id != BackupKey.make().id
    assert len(KEY.id) == 16
    assert KEY.secret.hex()[:8] not in f"{KEY!r}"


def test_each_purpose_and_salt_has_a_key_of_its_own() -> None:
    derived = {KEY.derive("a"), KEY.derive("b"), KEY.derive("a", salt=b"1"), KEY.secret}
    assert len(derived) == 4


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        KEY.render()[:-6],
        KEY.render().replace(KEY.id, "0" * 16),
        KEY.render().replace("AAEC", "AAED"),
        KEY.render().replace("-1 ", "-2 "),
        f"grampus-backup-key-1 {KEY.id} ****",
        f"grampus-backup-key-1 {KEY.id} \u00e4",
    ],
)
def test_text_that_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        BackupKey.parse(text)
    assert caught.value.code == "no-backup-key"


def test_first_use_makes_the_key_and_later_ones_find_it(tmp_path: Path) -> None:
    directory = tmp_path / "keys"
    assert BackupKeys(directory, BackupKey).find_current() is None
    key = BackupKeys(directory, BackupKey).ensure_current()
    assert BackupKeys(directory, BackupKey).ensure_current() == key
    assert BackupKeys(directory, BackupKey).get(key.id) == key
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}


def test_key_that_came_later_is_beside_the_current_one(tmp_path: Path) -> None:
    keys = BackupKeys(tmp_path, BackupKey)
    current = keys.ensure_current()
    keys.add(KEY)
    assert keys.get(KEY.id) == KEY
    assert keys.ensure_current() == current
    assert keys.ids() == sorted([KEY.id, current.id])


def test_key_that_is_not_here_says_how_to_bring_it(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="key import"):
        BackupKeys(tmp_path, BackupKey).get("00112233aabbccdd")


def test_key_under_another_name_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "00112233aabbccdd.key").write_text(KEY.render())
    with pytest.raises(GrampusError, match=KEY.id):
        BackupKeys(tmp_path, BackupKey).get("00112233aabbccdd")
