"""What differs between the releases of Ceph that a lab can have."""

from __future__ import annotations

# Source: Ceph's release notes of Reef (18), which starts no OSD on FileStore.
LAST_FILESTORE_RELEASE = 17


def parse_release(version: str) -> int | None:
    """20 of `20.2.4`; None when it does not begin with a number."""
    release = version.partition(".")[0]
    return int(release) if release.isdecimal() else None


def explain_no_filestore(version: str) -> str | None:
    """Why a cluster of that version has no FileStore, without a full stop; None: it has."""
    release = parse_release(version)
    if release is not None and release <= LAST_FILESTORE_RELEASE:
        return None
    return f"Ceph {version} has no FileStore, which ended with {LAST_FILESTORE_RELEASE}"
