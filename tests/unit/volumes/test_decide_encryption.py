from __future__ import annotations

import pytest

from grampus.core.errors import GrampusError
from grampus.core.units import GIB, MIB
from grampus.volumes.decide_encryption import (
    decide_clone_encryption,
    image_bytes,
    sector_bytes,
)
from grampus.volumes.model import EncryptionName, VolumeSpec


@pytest.mark.parametrize(
    ("encryption", "expected_bytes", "expected_sector"),
    [(None, GIB, None), ("luks2", GIB + 16 * MIB, 4096)],
)
def test_header_is_beside_what_the_user_asked_for(
    encryption: EncryptionName | None, expected_bytes: int, expected_sector: int | None
) -> None:
    spec = VolumeSpec(name="a", pool="p", image="a", size_bytes=GIB, encryption=encryption)
    assert image_bytes(spec) == expected_bytes
    assert sector_bytes(encryption) == expected_sector


@pytest.mark.parametrize(
    ("fact", "asked", "expected"),
    [
        (None, None, None),
        ("luks2", None, "luks2"),
        ("luks2", "luks2", "luks2"),
    ],
)
def test_clone_is_encrypted_as_its_parent_is(
    fact: str | None, asked: EncryptionName | None, expected: EncryptionName | None
) -> None:
    assert decide_clone_encryption("The volume 'a'", fact, asked) == expected


@pytest.mark.parametrize(
    ("fact", "asked", "code"),
    [(None, "luks2", "encryption"), ("luks9", None, "unknown-encryption")],
)
def test_clone_is_encrypted_in_no_other_way(
    fact: str | None, asked: EncryptionName | None, code: str
) -> None:
    with pytest.raises(GrampusError) as caught:
        decide_clone_encryption("The volume 'a'", fact, asked)
    assert caught.value.code == code
