"""A process that waits until it is ended, for tests of those that end others."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator


def waiting_process() -> Iterator[subprocess.Popen[bytes]]:
    """For a fixture: the process, which SIGTERM ends; it is gone afterwards."""
    program = [sys.executable, "-c", "import signal; print(flush=True); signal.pause()"]
    with subprocess.Popen(program, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it waits now
        yield process
        process.kill()
