"""The keys of encrypted volumes: one for each, sealed with the master key of a home or a site.

A volume's key is 256 random bits as 64 hexadecimal digits: that text is the passphrase of its
image. It is kept nowhere but sealed, in the image's metadata and in the manifests of its backups:

    1:MASTER KEY ID:BASE64URL(nonce of 12 bytes, AES-256-GCM of the digits)

The key that seals is derived from the master key for this purpose alone; nonces are random, and a
home would have to make 2^32 volumes before one of them were likely to come twice.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from typing import ClassVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import SecretStr

from grampus.core.errors import GrampusError
from grampus.state.home import Home
from grampus.state.keys import KEY_BYTES, KEY_ID_BYTES, KeptKey, KeptKeys, KeyKind, open_keys

_DIRECTORY = "volume.keys"
_FORMAT = "1"
_PURPOSE = "grampus volume key seal 1"
_NONCE_BYTES = 12
_SEALED = re.compile(rf"(\d+):([0-9a-f]{{{2 * KEY_ID_BYTES}}}):([A-Za-z0-9_=-]+)")


class MasterKey(KeptKey):
    """What the keys of volumes are sealed with."""

    KIND: ClassVar[KeyKind] = KeyKind(
        file_word="grampus-volume-master-key-1",
        id_purpose="grampus volume master key id",
        what="master key of volumes",
        code="no-volume-key",
        command="grampus volume key",
        made_where="where the volume was made",
    )


MasterKeys = KeptKeys[MasterKey]


def master_keys(home: Home) -> MasterKeys:
    """The master keys of the home, or of the site that it shares with other machines."""
    return open_keys(home, _DIRECTORY, MasterKey)


def make_volume_key() -> SecretStr:
    """A new key for a volume: 64 hexadecimal digits."""
    return SecretStr(secrets.token_hex(KEY_BYTES))


def seal_volume_key(key: SecretStr, master: MasterKey) -> str:
    """The key as it may be kept anywhere: nothing but the master key opens it."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    digits = key.get_secret_value().encode("ascii")
    sealed = _cipher(master).encrypt(nonce, digits, _context(master))
    text = base64.urlsafe_b64encode(nonce + sealed).decode("ascii")
    return f"{_FORMAT}:{master.id}:{text}"


def master_key_id(sealed: str) -> str:
    """The master key that a volume's key is sealed with. Raises GrampusError `bad-volume-key`."""
    return _parse(sealed)[0]


def unseal_volume_key(sealed: str, keys: MasterKeys) -> SecretStr:
    """The volume's key.

    Raises NotFoundError with code `no-volume-key` when the master key is not here, and
    GrampusError with code `bad-volume-key` when the text is not what was sealed.
    """
    key_id, text = _parse(sealed)
    master = keys.get(key_id)
    try:
        content = base64.urlsafe_b64decode(text)
        digits = _cipher(master).decrypt(
            content[:_NONCE_BYTES], content[_NONCE_BYTES:], _context(master)
        )
    except (binascii.Error, InvalidTag, ValueError):
        raise _damaged() from None
    return SecretStr(digits.decode("ascii"))


def _parse(sealed: str) -> tuple[str, str]:
    found = _SEALED.fullmatch(sealed)
    if found is None or found[1] != _FORMAT:
        raise _damaged()
    return found[2], found[3]


def _cipher(master: MasterKey) -> AESGCM:
    return AESGCM(master.derive(_PURPOSE))


def _context(master: MasterKey) -> bytes:
    return f"{_FORMAT}:{master.id}".encode("ascii")


def _damaged() -> GrampusError:
    return GrampusError(
        "The sealed key of the volume is not valid: it was changed, or a later version of "
        "Grampus wrote it.",
        "Copy the key from a backup's manifest (`volume_key`), and set it with `rbd "
        "image-meta set POOL/IMAGE grampus.encryption.key`.",
        code="bad-volume-key",
    )
