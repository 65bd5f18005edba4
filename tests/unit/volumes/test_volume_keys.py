from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, NotFoundError, UsageError
from grampus.state.home import Home
from grampus.volumes.volume_keys import (
    MasterKey,
    MasterKeys,
    make_volume_key,
    master_key_id,
    master_keys,
    seal_volume_key,
    unseal_volume_key,
)

MASTER = MasterKey(bytes(range(32)))


@pytest.fixture
def keys(tmp_path: Path) -> MasterKeys:
    return master_keys(Home(tmp_path))


def test_volume_key_is_64_lower_case_hexadecimal_digits_and_never_the_same() -> None:
    made = {make_volume_key().get_secret_value() for _ in range(8)}
    assert len(made) == 8
    assert all(re.fullmatch(r"[0-9a-f]{64}", digits) for digits in made)


def test_sealed_key_is_opened_by_the_master_key_that_sealed_it(keys: MasterKeys) -> None:
    master, key = keys.ensure_current(), make_volume_key()
    sealed = seal_volume_key(key, master)
    assert unseal_volume_key(sealed, keys) == key
    assert master_key_id(sealed) == master.id
    assert key.get_secret_value() not in sealed
    # A nonce that came twice would give the key away.
    assert seal_volume_key(key, master) != sealed


def test_sealed_key_fits_into_metadata_and_needs_no_quoting() -> None:
    sealed = seal_volume_key(make_volume_key(), MASTER)
    assert re.fullmatch(r"[A-Za-z0-9:_=-]+", sealed)
    assert len(sealed) < 200


def test_volume_of_another_home_is_opened_once_its_master_key_is_here(keys: MasterKeys) -> None:
    keys.ensure_current()
    key = make_volume_key()
    sealed = seal_volume_key(key, MASTER)
    with pytest.raises(NotFoundError, match=f"{MASTER.id}.*volume key import") as caught:
        unseal_volume_key(sealed, keys)
    assert caught.value.code == "no-volume-key"
    keys.add(MASTER)
    assert unseal_volume_key(sealed, keys) == key


SEALED = seal_volume_key(make_volume_key(), MASTER)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        SEALED[:-4],
        SEALED.replace("1:", "2:", 1),
        SEALED[:-8] + "AAAAAAA=",
        SEALED[:25] + ("A" if SEALED[25] != "A" else "B") + SEALED[26:],
        f"1:{MASTER.id}:AAAA",
        f"1:{MASTER.id}:A",
    ],
)
def test_text_that_was_changed_is_no_key(keys: MasterKeys, text: str) -> None:
    keys.add(MASTER)
    with pytest.raises(GrampusError) as caught:
        unseal_volume_key(text, keys)
    assert caught.value.code == "bad-volume-key"


def test_key_sealed_by_one_master_key_is_not_taken_for_another_ones(keys: MasterKeys) -> None:
    other = keys.ensure_current()
    keys.add(MASTER)
    with pytest.raises(GrampusError) as caught:
        unseal_volume_key(SEALED.replace(MASTER.id, other.id), keys)
    assert caught.value.code == "bad-volume-key"


def test_master_key_is_private_and_beside_the_secrets_of_labs(tmp_path: Path) -> None:
    keys = master_keys(Home(tmp_path))
    keys.ensure_current()
    assert keys.directory == tmp_path / "secrets" / "volume.keys"
    assert stat.S_IMODE(keys.directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys.directory.iterdir()} == {0o600}


def test_backup_key_is_no_master_key(keys: MasterKeys) -> None:
    text = MASTER.render().replace("volume-master", "backup")
    with pytest.raises(UsageError, match="master key of volumes") as caught:
        keys.parse(text)
    assert caught.value.code == "no-volume-key"
