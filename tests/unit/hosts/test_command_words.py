"""How a command and its end are told of: never as a script, never as a bare number."""

from __future__ import annotations

import pytest

from grampus.hosts.port import (
    CommandFailedError,
    CommandResult,
    describe_command,
    explain_code,
)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["rbd", "snap", "create", "x"], "`rbd snap`"),
        (["/usr/sbin/mkfs.xfs", "/dev/loop3"], "`mkfs.xfs`"),
        (["ceph", "--format", "json", "osd", "df"], "`ceph json`"),
        (["dd", "if=/secret/place", "bs=1"], "`dd`"),
        (["true"], "`true`"),
        (["sh", "-ec", "mkdir a\nrm b"], "A script of Grampus"),
        (["bash", "-o", "pipefail", "-ec", "a | b", "bash", "/x"], "A script of Grampus"),
        (["bash", "-c", "echo; exit 1", "end-clients", "x"], "The script 'end-clients' of Grampus"),
        (["sh", "-c", 'exec "$0" "$@"', "rbd", "flatten", "x"], "`rbd flatten`"),
        (["timeout", "5", "bash", "-c", "read x", "10.0.0.1"], "`10.0.0.1`"),
        (["env", "A=b", "mysqlbinlog", "x.1"], "`mysqlbinlog`"),
        (["python3", "-c", "import os\nos.sync()", "x"], "A script of Grampus"),
        ([], "`a command`"),
    ],
)
def test_a_command_is_told_of_by_its_program(argv: list[str], said: str) -> None:
    assert describe_command(argv) == said


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (137, "needed more memory"),
        (-9, "needed more memory"),
        (139, "it crashed"),
        (143, "it was terminated"),
        (127, "not installed"),
        (124, "took too long"),
        (1, "it ended with code 1"),
        (255, "it ended with code 255"),
    ],
)
def test_a_code_is_explained(code: int, words: str) -> None:
    assert words in explain_code(code)


def test_a_killed_script_shows_no_shell() -> None:
    argv = ("bash", "-o", "pipefail", "-ec", "mysqlbinlog x | mysql", "bash")
    said = str(CommandFailedError("h1", CommandResult(argv, 137, "", "")))
    assert "pipefail" not in said
    assert "137" not in said
    assert "memory" in said
    assert "`grampus host list`" in said
