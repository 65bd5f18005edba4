"""Limits of this machine's kernel that daemons of a lab share."""

from __future__ import annotations

import contextlib
from pathlib import Path

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
