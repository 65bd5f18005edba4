"""What one command takes: the program itself, with its start."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence

from grampus.core.errors import GrampusError
from tests.system.command_line import CommandLine


def measure(command_line: CommandLine, arguments: Sequence[str], tell: str) -> dict[str, float]:
    """Seconds of CPU and of wall time of one command.

    CPU time is that of the program and of all processes that it waits for. Raises GrampusError when
    the command fails, with `tell` to find it.
    """
    began_s = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", "grampus", *arguments],
        env=command_line.environment(""),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.monotonic() - began_s
    if process.returncode != 0:
        raise GrampusError(f"grampus {' '.join(arguments)} failed ({tell}): {said.decode()}")
    return {"cpu_s": used.ru_utime + used.ru_stime, "wall_s": wall_s}
