"""Files that a user names, such as with `--output FILE`, for what a command has found."""

from __future__ import annotations

import os
from pathlib import Path

from grampus.core.errors import GrampusError, UsageError
from grampus.state.home import write_atomically


def require_writable(target: Path, *, example: str) -> Path:
    """`target`, asked about before anything is made for it. `example` is a file's name.

    Raises UsageError for a directory, or for a file in one that cannot be written to.
    """
    if target.is_dir():
        raise UsageError(f"{target} is a directory.", f"Choose a file, such as {example}.")
    if not os.access(target.parent, os.W_OK):
        raise UsageError(f"{target.parent} cannot be written to.", "Choose another directory.")
    return target


def write_result(target: Path, text: str, *, code: str = "file-unwritable") -> None:
    """Put `text` there, whole or not at all; a link is followed. Raises GrampusError with `code`.

    What is no file, such as /dev/stdout or a pipe, is written to and never replaced: root could
    otherwise turn /dev/null into a file.
    """
    try:
        if target.exists() and not target.is_file():
            with target.open("wb") as stream:
                stream.write(text.encode())
            return
        write_atomically(target.resolve(), text.encode())
    except OSError as error:
        raise GrampusError(
            f"{target} cannot be written to: {error.strerror}.",
            "Free space there, or choose another directory.",
            code=code,
        ) from error
