"""What encryption at rest means for a volume's sizes and file system: pure."""

from __future__ import annotations

from grampus.core.errors import GrampusError, RefusedError
from grampus.core.units import MIB
from grampus.volumes.model import EncryptionName, VolumeSpec

# What libcryptsetup puts before the data of a LUKS2 image: two copies of its header and the key
# slots. librbd rounds it up to whole objects of the image, 4 MiB each unless somebody chose
# objects of more than 16 MiB.
LUKS2_HEADER_BYTES = 16 * MIB
# librbd encrypts in sectors of so many bytes: a smaller write would have to read one first.
LUKS2_SECTOR_BYTES = 4096
# Facts on the image, as `RbdImages.metadata` knows them: volumed goes by the first one.
ENCRYPTION_FACT = "encryption"
KEY_FACT = "encryption.key"
ENCRYPTION_FACTS = (ENCRYPTION_FACT, KEY_FACT)


def header_bytes(encryption: EncryptionName | None) -> int:
    """How much bigger than the volume its image is."""
    return 0 if encryption is None else LUKS2_HEADER_BYTES


def image_bytes(spec: VolumeSpec) -> int:
    """The size of the volume's image."""
    return spec.size_bytes + header_bytes(spec.encryption)


def sector_bytes(encryption: EncryptionName | None) -> int | None:
    """What the file system has to write at least at once; None: whatever it likes."""
    return None if encryption is None else LUKS2_SECTOR_BYTES


def decide_clone_encryption(
    source: str, fact: str | None, asked: EncryptionName | None
) -> EncryptionName | None:
    """The encryption of a clone: its parent's, whose data it shares, and `fact` tells of.

    Raises RefusedError with code `encryption` when another is asked for, and GrampusError with
    code `unknown-encryption` when this version does not know the parent's.
    """
    if fact not in (None, "luks2"):
        raise GrampusError(
            f"{source} has a type of encryption that this Grampus does not support: {fact[:20]!r}.",
            f"Use the version of Grampus that created {source}.",
            code="unknown-encryption",
        )
    if asked is not None and fact is None:
        raise RefusedError(
            f"{source} is not encrypted, and a clone shares its data.",
            "Create a new encrypted volume or database, and copy the data into it.",
            code="encryption",
        )
    return None if fact is None else "luks2"
