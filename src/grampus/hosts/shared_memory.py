"""Files in a machine's shared memory: on no disk, and gone when it loses power."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

# Privileged daemons see the host's own /dev, and what is mounted below it.
SHARED_MEMORY = PurePosixPath("/dev/shm")  # noqa: S108 - what we put there is 0600 and ours alone


def shared_memory_name(tag: str, name: str) -> str:
    """The name of a file there; `tag` is that of home and lab, whose hosts may be one machine."""
    return f"grampus-{tag}-{name}"


def ensure_shared_memory_clear(tag: str, directory: Path = Path(SHARED_MEMORY)) -> None:
    """Remove what commands that were cut off have left on this machine under that tag."""
    for path in directory.glob(shared_memory_name(tag, "*")):
        path.unlink(missing_ok=True)
