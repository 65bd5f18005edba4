"""What all hosts on one machine share: its shared memory, and limits of its kernel."""

from __future__ import annotations

import contextlib
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


AIO_LIMIT_FILE = Path("/proc/sys/fs/aio-max-nr")
# Requests that all processes may have announced (io_setup(2)). An OSD announces thousands, a mysqld
# some more: with Linux's 65,536, from about twenty daemons on the next one ends as it starts
# ("Data Dictionary initialization failed" of a mysqld). cephadm sets the same on its hosts.
AIO_LIMIT = 1_048_576


def ensure_aio_limit(file: Path = AIO_LIMIT_FILE) -> None:
    """Let all daemons announce `AIO_LIMIT` requests, until the machine's next boot.

    Only ever raised: it takes no memory, and others may count on it when a lab is gone. A machine
    that refuses has room for a small lab all the same.
    """
    with contextlib.suppress(OSError, ValueError):
        if int(file.read_text()) < AIO_LIMIT:
            file.write_text(f"{AIO_LIMIT}\n")
