from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from grampus.cli.foreground import KILLED, run_in_foreground


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", KILLED), ("kill -TERM $$", 143)],
)
def test_the_code_is_what_a_shell_gives(script: str, code: int) -> None:
    assert run_in_foreground(["sh", "-c", script]) == code


def test_ctrl_c_is_for_the_program_and_afterwards_ours_again() -> None:
    """As a terminal does it, to the whole process group."""
    ours = (
        "import signal\n"
        "from grampus.cli.foreground import run_in_foreground\n"
        "kill = 'trap \"echo caught; exit 5\" INT; kill -INT 0; exit 1'\n"
        "code = run_in_foreground(['sh', '-c', kill])\n"
        "print(code, signal.getsignal(signal.SIGINT) is signal.default_int_handler)\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", ours],
        capture_output=True,
        text=True,
        check=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        timeout=60,
    )
    assert finished.stdout == "caught\n5 True\n", finished.stderr


def test_what_a_program_is_to_read_is_on_no_command_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_in_foreground(["cat"], "SELECT 'x';\n") == 0
    assert capfd.readouterr().out == "SELECT 'x';\n"
