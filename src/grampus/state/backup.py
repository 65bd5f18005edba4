"""A copy of the state that is safe to put back at any later time."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from grampus.core.errors import GrampusError, RefusedError
from grampus.state.operations import UNFINISHED
from grampus.state.store import Store

_CLOSED = "it had not ended when the state was copied"
_CLOSE = "UPDATE operations SET status = 'undone', step = '', error = ? WHERE status IN (?, ?)"
# No state has such an id: put back, the copy counts as older than whatever a cluster has noted.
_MARK = "UPDATE generation SET state = 'copy-' || lower(hex(randomblob(16)))"
_DOUBT = "DELETE FROM confirmed"


def back_up_state(store: Store, file: Path) -> int:
    """Write a copy of the whole state to `file`, mode 0600; how many operations it has closed.

    Commands may run meanwhile: the copy is of one moment. An operation that has not ended then is
    closed in the copy, so nobody finishes or undoes it later. The file is there whole or not at
    all. Raises RefusedError with code `exists`, GrampusError with code `state-backup`.
    """
    if file.exists():
        raise RefusedError(
            f"The file {file} already exists.", "Choose another name for the copy.", code="exists"
        )
    try:
        descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        os.close(descriptor)  # mkstemp makes it with mode 0600
        try:
            closed = _copy(store, Path(temporary))
            _sync(Path(temporary))
            os.link(temporary, file)  # never over a file that came meanwhile
            _sync(file.parent)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except (OSError, sqlite3.Error) as error:
        raise GrampusError(
            f"The state cannot be copied to {file}: {error}.",
            "Choose a file in an existing, writable directory with free space.",
            code="state-backup",
        ) from error
    return closed


def _copy(store: Store, target: Path) -> int:
    with closing(sqlite3.connect(target)) as copy:
        store.copy_to(copy)
        # One file, without a log beside it.
        copy.execute("PRAGMA journal_mode=DELETE").close()
        with copy:
            closed = copy.execute(_CLOSE, (_CLOSED, *UNFINISHED)).rowcount
            copy.execute(_MARK)
            copy.execute(_DOUBT)
    return closed


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
