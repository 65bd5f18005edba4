"""Where backups are kept: named contents, as an object store has them. And a directory as that."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path, PurePosixPath
from typing import Protocol

from grampus.core.errors import GrampusError, NotFoundError
from grampus.core.streams import ByteReader, ByteWriter
from grampus.state.home import write_atomically

TARGET_FILE = "grampus-backups"
TARGET_ID_BYTES = 4
_PART = ".part"


class BackupTarget(Protocol):
    """Contents by name; names are words with `/` between them."""

    @property
    def place(self) -> str:
        """Where it is, for people."""
        ...

    def ensure_id(self) -> str:
        """8 hexadecimal digits that tell this target from others, made at the first use."""
        ...

    def find_id(self) -> str | None:
        """As `ensure_id`, or None when nothing was ever kept there."""
        ...

    def names(self, below: str = "") -> list[str]:
        """All whole contents whose names begin with `below` and a `/`, sorted."""
        ...

    def parts(self, below: str = "") -> list[str]:
        """As `names`, of contents that were begun and are not whole (`writing`)."""
        ...

    def read(self, name: str) -> bytes | None:
        """A small content, or None when there is none."""
        ...

    def put(self, name: str, content: bytes) -> None:
        """Keep a small content durably, in place of an older one; never half of it."""
        ...

    def reading(self, name: str) -> AbstractContextManager[ByteReader]:
        """A content of any size. Raises NotFoundError."""
        ...

    def writing(self, name: str) -> AbstractContextManager[ByteWriter]:
        """A new content, durable and to be seen once the block ends without an error."""
        ...

    def remove(self, below: str, *, first: str | None = None) -> None:
        """Take away all below a name, also what is half-written; `first` goes before the rest."""
        ...


class DirectoryTarget:
    """A directory of the machine that Grampus runs on; a `BackupTarget`.

    What it holds is for its owner alone (0700, 0600). A content is a file that gets its name when
    it is whole and on the disk. Raises OSError when the directory cannot be used.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def place(self) -> str:
        return str(self._root)

    def ensure_id(self) -> str:
        """As the port says. Raises NotFoundError unless the parent directory is there.

        A parent that is missing is more often a disk that is not mounted than a new place.
        """
        if not self._root.parent.is_dir():
            raise NotFoundError(
                f"There is no directory {self._root.parent}.",
                "Make it, or mount what shall be there.",
                code="no-target",
            )
        with contextlib.suppress(FileExistsError):
            self._root.mkdir(mode=0o700)
        file = self._root / TARGET_FILE
        if not file.exists():
            made = self._root / f".{TARGET_FILE}.{secrets.token_hex(8)}"
            write_atomically(made, secrets.token_hex(TARGET_ID_BYTES).encode() + b"\n", mode=0o600)
            # Another process may have been first: then its id counts.
            with contextlib.suppress(FileExistsError):
                os.link(made, file)
            made.unlink()
        return self._read_id(file)

    def find_id(self) -> str | None:
        try:
            return self._read_id(self._root / TARGET_FILE)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self, below: str = "") -> list[str]:
        return [name for name in self._files(below) if not name.endswith(_PART)]

    def parts(self, below: str = "") -> list[str]:
        return [name.removesuffix(_PART) for name in self._files(below) if name.endswith(_PART)]

    def read(self, name: str) -> bytes | None:
        try:
            return self._path(name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def put(self, name: str, content: bytes) -> None:
        path = self._path(name)
        self._ensure_directory(path.parent)
        write_atomically(path, content, mode=0o600)
        _synchronise(path.parent)

    @contextmanager
    def reading(self, name: str) -> Iterator[ByteReader]:
        try:
            with self._path(name).open("rb") as file:
                yield file
        except FileNotFoundError:
            raise NotFoundError(f"There is no {name} in {self.place}.", code="no-content") from None

    @contextmanager
    def writing(self, name: str) -> Iterator[ByteWriter]:
        path = self._path(name)
        self._ensure_directory(path.parent)
        part = path.with_name(path.name + _PART)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        _synchronise(path.parent)

    def remove(self, below: str, *, first: str | None = None) -> None:
        directory = self._path(below)
        if first is not None:
            (directory / first).unlink(missing_ok=True)
            if directory.is_dir():
                _synchronise(directory)
        if directory.is_dir():
            shutil.rmtree(directory)
        if directory.parent != self._root:
            # The directory of a database goes with its last backup; one with others stays.
            with contextlib.suppress(OSError):
                directory.parent.rmdir()

    def _read_id(self, file: Path) -> str:
        text = file.read_text(encoding="ascii", errors="replace").strip()
        if len(text) != 2 * TARGET_ID_BYTES or not set(text) <= set("0123456789abcdef"):
            raise GrampusError(
                f"The file {file} does not hold the id of a place of backups.",
                "Choose an empty directory, or bring that file back.",
                code="no-target",
            )
        return text

    def _files(self, below: str) -> list[str]:
        return sorted(
            path.relative_to(self._root).as_posix()
            for path in self._path(below).rglob("*")
            if not path.name.startswith(".") and path != self._root / TARGET_FILE and path.is_file()
        )

    def _path(self, name: str) -> Path:
        relative = PurePosixPath(name)
        if relative.is_absolute() or ".." in relative.parts:
            raise GrampusError(f"{name!r} is no name in a place of backups.", code="wrong-name")
        return self._root / relative

    def _ensure_directory(self, directory: Path) -> None:
        missing = [directory, *directory.parents]
        for path in reversed(missing[: missing.index(self._root)]):
            with contextlib.suppress(FileExistsError):
                path.mkdir(mode=0o700)
                _synchronise(path.parent)


def _synchronise(directory: Path) -> None:
    """Make names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
