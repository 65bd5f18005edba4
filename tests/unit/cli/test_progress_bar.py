from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest

from grampus.cli.progress_bar import PlainProgress, TerminalProgress, make_progress
from grampus.core.errors import Planned

Captured = pytest.CaptureFixture[str]

# Its stderr has no reader; it must come to its end all the same.
WORK_GOES_ON = """
import sys
from grampus.cli.progress_bar import PlainProgress
with PlainProgress() as progress:
    for number in range(10_000):
        progress.phase(f"Step {number}")
    progress.note("a note")
print("done")
"""


def test_off_a_terminal_progress_is_lines_on_stderr(capsys: Captured) -> None:
    progress = make_progress()
    assert isinstance(progress, PlainProgress)
    with progress:
        progress.phase("Make the image [red]x[/red]")
        progress.detail("half", fraction=0.5)
        progress.note("Fell back to :warning: qsd.")
        progress.phase("Wait")
    progress.close(failed=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "Make the image [red]x[/red] ...\nFell back to :warning: qsd.\nWait ...\n"
    )


def test_work_is_not_broken_off_when_nobody_reads_its_progress() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    child = subprocess.run(
        [sys.executable, "-c", WORK_GOES_ON],
        stdout=subprocess.PIPE,
        stderr=writer,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (child.returncode, child.stdout) == (0, "done\n")


class FakeTerminal(io.StringIO):
    """A stderr that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("error", "mark"), [(None, "✓"), (RuntimeError("broken"), "✗"), (Planned([]), "✓")]
)
def test_on_a_terminal_finished_phases_stay(
    monkeypatch: pytest.MonkeyPatch, error: BaseException | None, mark: str
) -> None:
    """A dry run that ends with its plan has not failed."""
    terminal = FakeTerminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    progress = make_progress()
    assert isinstance(progress, TerminalProgress)

    def work() -> None:
        with progress:
            progress.detail("before any phase")
            progress.phase("First [red]x")
            progress.detail("of [b] three", fraction=2.0)
            progress.note("A [note].")
            progress.phase("Last")
            progress.detail("on")
            if error is not None:
                raise error

    if error is not None:
        with pytest.raises(type(error)):
            work()
    else:
        work()
    shown = terminal.getvalue()
    for text in ("First [red]x", "A [note].", "✓", f"{mark}"):
        assert text in shown
    assert shown.index("First") < shown.rindex("Last")
    assert shown.count("✗") == int(mark == "✗")


def test_closing_twice_does_nothing() -> None:
    progress = TerminalProgress()
    progress.close()
    progress.close(failed=True)
