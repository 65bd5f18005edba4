"""Where everything lives under GRAMPUS_HOME, and how files are written there."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from grampus.core.errors import GrampusError

DEFAULT_HOME = Path("/var/lib/grampus")
HOME_VARIABLE = "GRAMPUS_HOME"


@dataclass(frozen=True)
class Home:
    """The paths under one GRAMPUS_HOME."""

    root: Path

    @classmethod
    def from_environment(cls) -> Home:
        """`$GRAMPUS_HOME`, or `/var/lib/grampus`."""
        return cls(Path(os.environ.get(HOME_VARIABLE) or DEFAULT_HOME).absolute())

    def unusable(self, error: OSError) -> GrampusError:
        """What to tell the user when this home cannot be written to."""
        return GrampusError(
            f"{self.root} cannot be used: {error.strerror}.",
            f"Run the command as root, or set {HOME_VARIABLE} to a directory of your own.",
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
