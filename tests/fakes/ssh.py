"""A stand-in for the program `ssh`: it answers by what the command is, and keeps its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.programs import put_first_in_path

# The last word is the command line for the host. What it is called (`grampus-check`) selects the
# file with the answer; a file `NAME.code` has the exit code.
_SSH = """#!/bin/sh
for word; do last=$word; done
name=$(printf '%s' "$last" | grep -o 'grampus-[a-z][a-z]*' | head -1)
name=${name:-other}
echo "$name" >> "$FAKE/ssh.calls"
case $name in grampus-unpack) cat > /dev/null ;; esac
cat "$FAKE/ssh.answers/$name" 2>/dev/null
test ! -e "$FAKE/ssh.answers/$name.err" || cat "$FAKE/ssh.answers/$name.err" >&2
exit "$(cat "$FAKE/ssh.answers/$name.code" 2>/dev/null || echo 0)"
"""


class FakeSsh:
    """What is started as `ssh` in this test."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        put_first_in_path(directory, {"ssh": _SSH}, monkeypatch)
        self._calls = directory / "ssh.calls"
        self._answers = directory / "ssh.answers"
        self._answers.mkdir()

    def answer(self, name: str, text: str = "", *, code: int = 0, err: str = "") -> None:
        """What commands of that name answer from now on."""
        (self._answers / name).write_text(text)
        (self._answers / f"{name}.code").write_text(str(code))
        (self._answers / f"{name}.err").write_text(err)

    def calls(self) -> list[str]:
        """The names of the commands, in order."""
        return self._calls.read_text().split() if self._calls.exists() else []
