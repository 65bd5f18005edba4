"""A new current key of a home: cut off anywhere, every key that was used for anything is there."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from grampus.core.errors import NotFoundError
from grampus.volumes.volume_keys import MasterKey, MasterKeys


@pytest.fixture
def keys(tmp_path: Path) -> MasterKeys:
    return MasterKeys(tmp_path / "keys", MasterKey)


def test_next_key_is_used_for_nothing_until_it_is_settled(keys: MasterKeys) -> None:
    former = keys.ensure_current()
    following = keys.ensure_next()
    assert keys.ensure_next() == following  # that of a rotation that was cut off
    assert (keys.find_current(), keys.ids()) == (former, [former.id])
    keys.settle_next(following.id)
    assert keys.ensure_current() == following
    assert keys.find_next() is None
    assert keys.all() == sorted([former, following], key=lambda key: key.id)


def test_settling_is_right_wherever_it_was_cut_off(keys: MasterKeys) -> None:
    keys.ensure_current()
    following = keys.ensure_next()
    left = keys.directory / "next"
    content = left.read_text()
    keys.add(following)  # killed after the first of its writes
    keys.settle_next(following.id)
    left.write_text(content)  # killed before the last
    keys.settle_next(following.id)
    keys.settle_next(following.id)
    assert keys.ensure_current() == following
    assert not left.exists()
    other = keys.ensure_next()
    keys.settle_next(following.id)  # one that was settled before leaves the next one alone
    assert (keys.find_current(), keys.find_next()) == (following, other)
    keys.settle_next(other.id)
    keys.settle_next(following.id)  # nor does it come back
    assert keys.find_current() == other


def test_key_that_is_nowhere_is_never_the_current_one(keys: MasterKeys) -> None:
    former = keys.ensure_current()
    with pytest.raises(NotFoundError):
        keys.settle_next("00112233aabbccdd")
    assert keys.find_current() == former


def test_every_file_is_private(keys: MasterKeys) -> None:
    keys.ensure_current()
    keys.ensure_next()
    modes = {stat.S_IMODE(path.stat().st_mode) for path in keys.directory.iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE(keys.directory.stat().st_mode) == 0o700
