"""Which commit of Grampus runs, where it runs from a git checkout."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def observe_commit(checkout: Path) -> str | None:
    """The commit that `checkout` is at, as 40 hex digits; None where it is no git checkout.

    What is changed beside it is not told: git's own files are read, since git need not be there.
    """
    with suppress(OSError, UnicodeDecodeError):
        directory = checkout / ".git"
        if directory.is_file():  # a further worktree of a repository elsewhere
            where = directory.read_text(encoding="utf-8").strip().removeprefix("gitdir: ")
            directory = checkout / where
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
