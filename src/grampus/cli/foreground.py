"""A program at this terminal, for as long as it runs."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from types import FrameType

# As a shell tells of what was killed.
KILLED = 128 + signal.SIGKILL


def run_in_foreground(argv: Sequence[str]) -> int:
    """The exit code of `argv`, which has our stdin, stdout, stderr and terminal.

    Ctrl-C is for the program to act on, and not for us. Of a program that a signal ended, the code
    is what a shell gives: 128 and the signal. Raises FileNotFoundError.
    """

    def leave_it_to_the_program(_signal: int, _frame: FrameType | None) -> None:
        """A handler, unlike ignoring it, is not passed on to the program."""

    former = signal.signal(signal.SIGINT, leave_it_to_the_program)
    try:
        code = subprocess.run(argv, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, former)
    return code if code >= 0 else 128 - code
