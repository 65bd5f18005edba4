"""Files of a directory of secrets: of mode 0600, in directories of mode 0700.

In a home that shares a site with other machines, each file is kept there, too
(`sites/shared_home.py`): before it is on this machine's disk, and so before anybody uses it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from grampus.state.home import SharedPart, write_atomically


class SecretFiles:
    """The files below one directory. `shared` is what other machines have of them."""

    def __init__(self, directory: Path, shared: SharedPart | None = None) -> None:
        self._directory = directory
        self._shared = shared

    def write(self, file: Path, content: str) -> None:
        """Write a file in place of a former one. Raises OSError, and GrampusError if the other
        machines cannot have it."""
        if self._shared is not None:
            self._shared.keep_secret(self._name(file), content)
            return
        write_secret(self._directory, file, content)

    def write_first(self, file: Path, content: str) -> None:
        """Write a file unless there is one, whoever wrote it. Raises what `write` raises."""
        if self._shared is not None:
            self._shared.keep_secret(self._name(file), content, replaces=False)
            return
        _make_private(self._directory, file)
        with tempfile.TemporaryDirectory(dir=self._directory) as scratch:
            made = Path(scratch) / file.name
            write_atomically(made, content.encode(), mode=0o600)
            with contextlib.suppress(FileExistsError):
                os.link(made, file)

    def remove(self, file: Path) -> None:
        """The file is gone, and its directory if it was the last one in a subdirectory."""
        if self._shared is not None:
            self._shared.forget_secret(self._name(file))
        remove_secret(self._directory, file)

    def move(self, former: Path, file: Path) -> None:
        """The file has another name; nothing happens if there is none."""
        if self._shared is None:
            with contextlib.suppress(FileNotFoundError):
                former.replace(file)
            return
        with contextlib.suppress(FileNotFoundError):
            self.write(file, former.read_text())
            self.remove(former)

    def remove_directory(self, directory: Path) -> None:
        """A subdirectory is gone, with its files."""
        for file in list(directory.glob("*")):
            self.remove(file)
        with contextlib.suppress(FileNotFoundError):
            directory.rmdir()

    def move_directory(self, former: Path, directory: Path) -> None:
        """A subdirectory has another name; nothing happens if there is none."""
        for file in sorted(former.glob("*")):
            directory.mkdir(mode=0o700, exist_ok=True)
            self.move(file, directory / file.name)
        with contextlib.suppress(FileNotFoundError):
            former.rmdir()

    def _name(self, file: Path) -> str:
        return str(file.relative_to(self._directory))


def write_secret(directory: Path, file: Path, content: str) -> None:
    """Write a file of `directory`, which becomes private with its subdirectory."""
    _make_private(directory, file)
    write_atomically(file, content.encode(), mode=0o600)


def _make_private(directory: Path, file: Path) -> None:
    for one in dict.fromkeys((directory, file.parent)):
        one.mkdir(parents=True, exist_ok=True)
        one.chmod(0o700)


def remove_secret(directory: Path, file: Path) -> None:
    """Remove a file of `directory`, if it is there, and a subdirectory that becomes empty."""
    file.unlink(missing_ok=True)
    if file.parent != directory:
        with contextlib.suppress(OSError):  # it is gone, or others are in it
            file.parent.rmdir()
