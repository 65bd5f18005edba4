"""Which commit of Grampus a run was made with."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.cli.composition.checkout import observe_commit
from grampus.core.installation import COMMIT_FILE

COMMIT = "2c84125" + 33 * "0"
REF = "refs/heads/main"


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n", encoding="utf-8")


@pytest.mark.parametrize("kept", [f".git/{REF}", ".git/packed-refs", ".git/HEAD"])
def test_the_commit_of_a_checkout(tmp_path: Path, kept: str) -> None:
    _write(tmp_path / ".git" / "HEAD", f"ref: {REF}")
    line = f"# pack-refs with: peeled\n{COMMIT} {REF}" if kept.endswith("packed-refs") else COMMIT
    _write(tmp_path / kept, line)
    assert observe_commit(tmp_path) == COMMIT


def test_the_commit_of_a_further_worktree(tmp_path: Path) -> None:
    own = tmp_path / "main" / ".git" / "worktrees" / "side"
    _write(tmp_path / "side" / ".git", f"gitdir: {own}")
    _write(own / "HEAD", f"ref: {REF}")
    _write(own / "commondir", "../..")
    _write(tmp_path / "main" / ".git" / REF, COMMIT)
    assert observe_commit(tmp_path / "side") == COMMIT


def test_the_commit_of_a_package(tmp_path: Path) -> None:
    _write(tmp_path / COMMIT_FILE, COMMIT)
    assert observe_commit(tmp_path) == COMMIT


def test_what_is_no_checkout_has_no_commit(tmp_path: Path) -> None:
    assert observe_commit(tmp_path) is None
    _write(tmp_path / ".git" / "HEAD", f"ref: {REF}")
    assert observe_commit(tmp_path) is None
