"""Where the log of a volume's file system is, as its image says it: pure."""

from __future__ import annotations

from collections.abc import Mapping

from grampus.core.errors import GrampusError
from grampus.core.units import MIB
from grampus.volumes.model import VolumeSpec, WritePath

# XFS makes no smaller file system (mkfs.xfs 6.0 and later).
MIN_FILESYSTEM_BYTES = 320 * MIB
# What mkfs.xfs chooses for a file system of this class by itself (xfsprogs 5.15 and later).
EXTERNAL_LOG_BYTES = 64 * MIB
# A fact on the image, as `RbdImages.metadata` knows it: bytes in front of the file system.
EXTERNAL_LOG_FACT = "external-log-bytes"


def decide_external_log(write_path: WritePath, size_bytes: int) -> int | None:
    """The external log of a new database's volume; None: it gets none.

    It is for databases alone: what else is flushed on such a volume is durable a moment later
    (docs/adr/0060). Without a journal nothing is gained by it.
    """
    is_big_enough = size_bytes >= EXTERNAL_LOG_BYTES + MIN_FILESYSTEM_BYTES
    return EXTERNAL_LOG_BYTES if write_path != "direct" and is_big_enough else None


def external_log_facts(spec: VolumeSpec) -> dict[str, str]:
    """The facts on the volume's image."""
    log_bytes = spec.external_log_bytes
    return {} if log_bytes is None else {EXTERNAL_LOG_FACT: str(log_bytes)}


def parse_external_log(source: str, facts: Mapping[str, str]) -> int | None:
    """The bytes that the facts of `source` tell of; None: the log is inside the file system.

    Raises GrampusError with code `unknown-layout` when they cannot be read.
    """
    text = facts.get(EXTERNAL_LOG_FACT)
    if text is None:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise GrampusError(
            f"{source} has its file system at a place that this Grampus does not support: "
            f"{text[:20]!r}.",
            f"Use the version of Grampus that created {source}.",
            code="unknown-layout",
        )
    return int(text)
