"""A directory as a place of backups."""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Concatenate, ParamSpec, TypeVar

from grampus.core.errors import GrampusError, NotFoundError, RefusedError, UsageError
from grampus.core.streams import ByteReader, ByteWriter
from grampus.databases.backup.errors import TargetError
from grampus.databases.backup.target import TARGET_FILE, TARGET_ID_BYTES, parse_target_id
from grampus.state.home import write_atomically

_PART = ".part"
P = ParamSpec("P")
ResultT = TypeVar("ResultT")


def explain(error: OSError, place: str) -> TargetError:
    """What to tell the user when the directory `place` cannot be used."""
    said = f"({error.strerror or type(error).__name__})"
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return TargetError(
                f"There is no space left in {place} {said}.",
                "Free space there, or delete old backups (`--keep`, `grampus db backup "
                "delete BACKUP --from PLACE`), then try again.",
                code="target-full",
            )
        case errno.EROFS | errno.EACCES | errno.EPERM:
            return TargetError(
                f"{place} is not writable {said}.",
                "Mount it for writing, or give this user the permission to write there.",
                code="target-read-only",
            )
        case _:
            return TargetError(
                f"The place of backups {place} cannot be used {said}.",
                "Check that its file system is mounted and answers, then try again.",
            )


def _explained(
    method: Callable[Concatenate[DirectoryTarget, P], ResultT],
) -> Callable[Concatenate[DirectoryTarget, P], ResultT]:
    """The method, with OSError as TargetError."""

    @functools.wraps(method)
    def call(self: DirectoryTarget, /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        try:
            return method(self, *args, **kwargs)
        except OSError as error:
            raise explain(error, self.place) from error

    return call


class DirectoryTarget:
    """A directory of the machine that Grampus runs on; a `BackupTarget`.

    What it holds is for its owner alone (0700, 0600). A content is a file that gets its name when
    it is whole and on the disk.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def place(self) -> str:
        return str(self._root)

    @_explained
    def ensure_id(self) -> str:
        """As the port says. Raises NotFoundError unless the parent directory is there.

        A parent that is missing is more often a disk that is not mounted than a new place. Raises
        UsageError where there is something else than a directory.
        """
        if not self._root.parent.is_dir():
            raise NotFoundError(
                f"The directory {self._root.parent} does not exist.",
                "Create the directory, or mount its file system.",
                code="no-target",
            )
        with contextlib.suppress(FileExistsError):
            self._root.mkdir(mode=0o700)
        if not self._root.is_dir():
            raise UsageError(f"{self._root} is not a directory.", "Choose a directory for backups.")
        file = self._root / TARGET_FILE
        if not file.exists():
            # Another process may have been first: then its id counts.
            self.claim(TARGET_FILE, secrets.token_hex(TARGET_ID_BYTES).encode() + b"\n")
        return self._read_id(file)

    @_explained
    def find_id(self) -> str | None:
        try:
            return self._read_id(self._root / TARGET_FILE)
        except (FileNotFoundError, NotADirectoryError):
            return None

    @_explained
    def names(self, below: str = "", *, after: str = "") -> list[str]:
        return [name for name in self._files(below, after) if not name.endswith(_PART)]

    @_explained
    def parts(self, below: str = "") -> list[str]:
        return [name.removesuffix(_PART) for name in self._files(below) if name.endswith(_PART)]

    @_explained
    def read(self, name: str) -> bytes | None:
        try:
            return self._path(name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    @_explained
    def put(self, name: str, content: bytes) -> None:
        path = self._path(name)
        self._ensure_directory(path.parent)
        write_atomically(path, content, mode=0o600)
        _synchronise(path.parent)

    @_explained
    def claim(self, name: str, content: bytes) -> bytes:
        path = self._path(name)
        self._ensure_directory(path.parent)
        made = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        write_atomically(made, content, mode=0o600)
        with contextlib.suppress(FileExistsError):
            os.link(made, path)
        made.unlink()
        _synchronise(path.parent)
        return path.read_bytes()

    @contextmanager
    def reading(self, name: str) -> Iterator[ByteReader]:
        try:
            file = self._path(name).open("rb")
        except FileNotFoundError:
            raise NotFoundError(
                f"{name} does not exist in {self.place}.", code="no-content"
            ) from None
        except OSError as error:
            raise explain(error, self.place) from error
        with file:
            yield _Reader(file, self.place)

    @contextmanager
    def writing(self, name: str) -> Iterator[ByteWriter]:
        path = self._path(name)
        part = path.with_name(path.name + _PART)
        with self._explaining():
            self._ensure_directory(path.parent)
            # Unbuffered: what cannot be written fails where it is written.
            file = open_for_owner(part)
        with file:
            yield _Writer(file, self.place)
            with self._explaining():
                os.fsync(file.fileno())
        with self._explaining():
            part.replace(path)
            _synchronise(path.parent)

    @_explained
    def discard(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    @_explained
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

    def require_lockable(self) -> None:
        raise RefusedError(
            f"{self.place} is a directory, and directories have no object lock.",
            "Remove --object-lock, or choose a bucket that has object lock: --to s3://BUCKET.",
            code="no-object-lock",
        )

    def lock(self, names: Sequence[str], until: datetime) -> None:
        del names, until
        self.require_lockable()

    def locked_until(self, below: str) -> datetime | None:
        del below
        return None

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise explain(error, self.place) from error

    def _read_id(self, file: Path) -> str:
        return parse_target_id(file.read_text(encoding="ascii", errors="replace"), str(file))

    def _files(self, below: str, after: str = "") -> list[str]:
        return sorted(_walk(self._path(below), PurePosixPath(below).as_posix(), after))

    def _path(self, name: str) -> Path:
        relative = PurePosixPath(name)
        if relative.is_absolute() or ".." in relative.parts:
            raise GrampusError(
                f"{name!r} is not a valid name in a place of backups.", code="wrong-name"
            )
        return self._root / relative

    def _ensure_directory(self, directory: Path) -> None:
        missing = [directory, *directory.parents]
        for path in reversed(missing[: missing.index(self._root)]):
            with contextlib.suppress(FileExistsError):
                path.mkdir(mode=0o700)
                _synchronise(path.parent)


def _walk(directory: Path, name: str, after: str, *, may_be_foreign: bool = False) -> Iterator[str]:
    """Names of the files in and below a directory that sort after `after`, in any order.

    Only a directory that `may_be_foreign`, such as `lost+found`, is left out where it cannot be
    read: who takes unreadable backups for absent deletes what they need.
    """
    try:
        with os.scandir(directory) as found:
            entries = list(found)
    except (FileNotFoundError, NotADirectoryError):
        return  # taken away meanwhile
    except PermissionError:
        if may_be_foreign:
            return
        raise
    for entry in entries:
        below = entry.name if name == "." else f"{name}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            inside = f"{below}/"
            # All that is in there sorts as its name does, unless `after` is in there too.
            if inside > after or after.startswith(inside):
                yield from _walk(Path(entry.path), below, after, may_be_foreign=name == ".")
        elif below > after and _is_content(entry, below):
            yield below


def _is_content(entry: os.DirEntry[str], name: str) -> bool:
    return not entry.name.startswith(".") and name != TARGET_FILE and entry.is_file()


class _Reader:
    """A file that is read, with OSError as TargetError."""

    def __init__(self, file: io.BufferedReader, place: str) -> None:
        self._file = file
        self._place = place

    def read(self, size_bytes: int, /) -> bytes:
        try:
            return self._file.read(size_bytes)
        except OSError as error:
            raise explain(error, self._place) from error


class _Writer:
    """A file that is written, with OSError as TargetError."""

    def __init__(self, file: io.FileIO, place: str) -> None:
        self._file = file
        self._place = place

    def write(self, data: bytes, /) -> object:
        left = memoryview(data)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            raise explain(error, self._place) from error
        return len(data)


def open_for_owner(path: Path) -> io.FileIO:
    """A new or emptied file of mode 0600, written without a buffer."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    return io.FileIO(descriptor, "wb")


def _synchronise(directory: Path) -> None:
    """Make names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
