"""Programs of a test's own in place of a machine's: what is started instead of runc or mysql."""

from __future__ import annotations

from pathlib import Path

import pytest

SYSTEM = "/usr/sbin:/usr/bin:/sbin:/bin"


def put_programs(directory: Path, programs: dict[str, str]) -> None:
    """Scripts by the names of programs, each of which can be run."""
    directory.mkdir(exist_ok=True)
    for name, script in programs.items():
        (directory / name).write_text(script)
        (directory / name).chmod(0o755)


def put_first_in_path(
    directory: Path, programs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever starts one of these programs by name runs the script; FAKE is `directory`."""
    put_programs(directory / "bin", programs)
    monkeypatch.setenv("PATH", f"{directory / 'bin'}:{SYSTEM}")
    monkeypatch.setenv("FAKE", str(directory))
