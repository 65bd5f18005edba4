"""The hook that maps owners, as far as it needs no root; on a lab, every server starts with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from grampus.hosts import idmap_mounts_hook
from grampus.hosts.idmap_mounts_hook import render_id_map

PROGRAM = idmap_mounts_hook.__file__


def test_nobody_but_root_and_the_owner_is_known() -> None:
    assert render_id_map(64050, 2027225445) == "0 0 1\n64050 2027225445 1\n"


def test_what_it_cannot_do_is_noted_and_fails(tmp_path: Path) -> None:
    note = tmp_path / "note"
    arguments = ["64050", "2027225445", "2027225445", str(note), str(tmp_path / "none")]
    run = subprocess.run(
        [sys.executable, "-I", "-S", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    code, _, said = note.read_text().strip().partition(" ")
    assert run.returncode == 1
    assert int(code) > 0
    assert said in run.stderr
