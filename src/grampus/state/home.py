"""Where everything lives under GRAMPUS_HOME, and how files are written there."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Protocol

from grampus.core.errors import GrampusError

DEFAULT_HOME = Path("/var/lib/grampus")
HOME_VARIABLE = "GRAMPUS_HOME"


class SharedPart(Protocol):
    """What a home shares with other machines that work on the same site."""

    @property
    def site(self) -> str:
        """The site's name."""
        ...

    def hold(self, name: str, *, shared: bool, timeout_s: float) -> AbstractContextManager[None]:
        """Hold a lock against these machines; errors as `locks.hold_lock`."""
        ...

    def keep_secret(self, name: str, content: str, *, replaces: bool = True) -> None:
        """Keep a file of `secrets_dir`, here and for the others. One that is there stays unless
        this one `replaces` it. Raises GrampusError."""
        ...

    def forget_secret(self, name: str) -> None:
        """Remove it, here and for the others. Raises GrampusError."""
        ...


@dataclass(frozen=True)
class Home:
    """The paths under one GRAMPUS_HOME."""

    root: Path
    shared: SharedPart | None = field(default=None, compare=False, repr=False)

    @classmethod
    def from_environment(cls) -> Home:
        """`$GRAMPUS_HOME`, or `/var/lib/grampus`."""
        return cls(Path(os.environ.get(HOME_VARIABLE) or DEFAULT_HOME).absolute())

    def unusable(self, error: OSError) -> GrampusError:
        """What to tell the user when this home cannot be written to."""
        return GrampusError(
            f"{self.root} cannot be used: {error.strerror}.",
            f"Run the command as root, or set {HOME_VARIABLE} to a directory of your own user.",
            code="home-unusable",
        )

    @property
    def store_file(self) -> Path:
        """The SQLite file that holds records and the operation journal."""
        return self.root / "state.db"

    @property
    def images_dir(self) -> Path:
        """Host images, one directory each, named by definition and digest."""
        return self.root / "images"

    @property
    def locks_dir(self) -> Path:
        return self.root / "locks"

    def lab_dir(self, lab: str) -> Path:
        """All that the lab named `lab` keeps on disk."""
        return self.root / "labs" / lab

    def cluster_dir(self, fsid: str) -> Path:
        """All that is kept on disk of a cluster that is no lab's, but for its runs."""
        return self.root / "clusters" / fsid

    def secrets_dir(self, lab: str) -> Path:
        """Passwords and keys of the databases of `lab`, each file mode 0600."""
        return self.root / "secrets" / lab

    @property
    def runs_dir(self) -> Path:
        """Archived benchmark runs, one directory each."""
        return self.root / "runs"


def write_atomically(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Replace `path` by `content` so that a reader, or a crash, sees the old or the new file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def require_below(path: PurePath, directory: Path, whose: str) -> Path:
    """The file of that path, which is within `directory`. Raises GrampusError otherwise."""
    target = Path(path)
    if not target.is_relative_to(directory) or ".." in target.parts:
        raise GrampusError(f"{path} is outside the data directory of {whose}.")
    return target


def write_owned(target: Path, content: str, *, mode: int, uid: int, gid: int) -> None:
    """As `write_atomically`, for somebody else than root where one is named."""
    write_atomically(target, content.encode(), mode=mode)
    if (uid, gid) != (0, 0):
        os.chown(target, uid, gid)


def ensure_same(source: Path, target: Path, *, mode: int) -> None:
    """`target` with the content of `source`, written only where it differs.

    Raises GrampusError with code `no-such-file`.
    """
    try:
        content = source.read_bytes()
    except FileNotFoundError:
        raise GrampusError(f"The file {source} does not exist.", code="no-such-file") from None
    # Both are on this machine: their bytes say as much as their digests.
    is_same = target.exists() and target.read_bytes() == content
    if not is_same or stat.S_IMODE(target.stat().st_mode) != mode:
        write_atomically(target, content, mode=mode)


def read_if_there(path: PurePath) -> str | None:
    """The text of a file; None: there is none."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
