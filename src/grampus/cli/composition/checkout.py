"""Which commit of Grampus runs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from grampus.core.installation import COMMIT_FILE


def observe_commit(data: Path) -> str | None:
    """The commit of the installation with these data, as 40 hex digits; None if nothing says it.

    The Debian package names its own. In a git checkout, git's own files are read, since git need
    not be there; what is changed beside the commit is not told.
    """
    with suppress(OSError, UnicodeDecodeError):
        if (data / COMMIT_FILE).is_file():
            return (data / COMMIT_FILE).read_text(encoding="utf-8").strip() or None
        directory = data / ".git"
        if directory.is_file():  # a further worktree of a repository elsewhere
            where = directory.read_text(encoding="utf-8").strip().removeprefix("gitdir: ")
            directory = data / where
        head = (directory / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref: "):
            return head or None
        common = directory
        if (directory / "commondir").exists():
            common = directory / (directory / "commondir").read_text(encoding="utf-8").strip()
        return _find_ref(common, head.removeprefix("ref: "))
    return None


def _find_ref(repository: Path, ref: str) -> str | None:
    loose = repository / ref
    if loose.exists():
        return loose.read_text(encoding="utf-8").strip()
    packed = (repository / "packed-refs").read_text(encoding="utf-8")
    commits = [line.split(" ")[0] for line in packed.splitlines() if line.endswith(f" {ref}")]
    return commits[0] if commits else None
