"""A program at this terminal, for as long as it runs."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from types import FrameType

# As a shell tells of what was killed.
KILLED = 128 + signal.SIGKILL


def run_in_foreground(argv: Sequence[str], stdin: str | None = None) -> int:
    """The exit code of `argv`, which has our stdout, stderr and terminal, and reads `stdin` (None:
    ours).

    Ctrl-C is for the program to act on, and not for us. Of a program that a signal ended, the code
    is what a shell gives: 128 and the signal. Raises FileNotFoundError.
    """

    def leave_it_to_the_program(_signal: int, _frame: FrameType | None) -> None:
        """A handler, unlike ignoring it, is not passed on to the program."""

    former = signal.signal(signal.SIGINT, leave_it_to_the_program)
    try:
        content = None if stdin is None else stdin.encode()
        code = subprocess.run(argv, input=content, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, former)
    return code if code >= 0 else 128 - code
