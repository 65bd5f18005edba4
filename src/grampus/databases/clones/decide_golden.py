"""Which golden volume a new database is cloned from."""

from __future__ import annotations

import hashlib

from pydantic import ConfigDict

from grampus.core.models import Model
from grampus.core.units import GIB, MIB, TIB
from grampus.databases.model import FlavourName

GOLDEN_PREFIX = "golden-"
GOLDEN_SNAPSHOT = "golden"
# Changed when what is on a golden volume changes: it is part of their names.
# 3: they have RBD namespaces of their own, so that a clone's key reads no other volume.
# 4: time zones, and MySQL's component for MD5() and SHA1().
_LAYOUT = 4
# XFS keeps the size of its allocation groups while it grows: a quarter of the size it was made
# with. Eight times as big it has 32 groups, within what mkfs.xfs itself chooses for big volumes.
_SIZE_CLASSES: tuple[tuple[int, str], ...] = (
    (512 * MIB, "512m"),
    (4 * GIB, "4g"),
    (32 * GIB, "32g"),
    (256 * GIB, "256g"),
    (2 * TIB, "2t"),
)


class GoldenSpec(Model):
    """A volume with an initialised data directory, to be cloned by new databases."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str  # of the volume and of its image, which is in a namespace of its own
    flavour: FlavourName
    image_id: str | None  # as in `DatabaseSpec`
    size_bytes: int
    external_log_bytes: int | None = None  # as in `VolumeSpec`
    pool: str
    host: str  # where it is made


def decide_golden(
    flavour: FlavourName,
    *,
    size_bytes: int,
    external_log_bytes: int | None,
    pool: str,
    host: str,
    image_id: str | None,
    server: str,
) -> GoldenSpec:
    """The golden volume for a database of `size_bytes`: of the biggest class that fits into it.

    `server` is the id of the host image that holds the server, also where `image_id` is None: a
    data directory is made by the very server that will use it.
    """
    class_bytes, label = max(
        (entry for entry in _SIZE_CLASSES if entry[0] <= size_bytes), default=_SIZE_CLASSES[0]
    )
    kind = f"{_LAYOUT}/{server}/{pool}"
    if external_log_bytes is not None:
        # Beside the file system if there is room, so that its groups have the same size: files
        # stay in one piece, and whole objects are given back when they are removed.
        if class_bytes + external_log_bytes <= size_bytes:
            class_bytes += external_log_bytes
        kind += f"/log-{external_log_bytes}-of-{class_bytes}"
    digest = hashlib.sha256(kind.encode()).hexdigest()[:8]
    return GoldenSpec(
        name=f"{GOLDEN_PREFIX}{flavour}-{label}-{digest}",
        flavour=flavour,
        image_id=image_id,
        size_bytes=class_bytes,
        external_log_bytes=external_log_bytes,
        pool=pool,
        host=host,
    )
