"""What is wrong with a backup, as errors that callers tell apart by their code."""

from __future__ import annotations

from grampus.core.errors import GrampusError


class BackupDamagedError(GrampusError):
    """A backup is not what was written, or not sealed with the key that it names."""

    default_code = "backup-damaged"


class TargetError(GrampusError):
    """A place of backups cannot be used: it is full, gone, read-only, or does not answer."""

    default_code = "target-unusable"


def damaged(what: str) -> BackupDamagedError:
    """`what` says where the damage is, as the beginning of a sentence."""
    return BackupDamagedError(
        f"{what}: the backup is damaged or was changed.",
        "Restore another backup, and check the disk or system that stores the backups.",
    )
