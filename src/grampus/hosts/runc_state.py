"""Whether a container runs, read from what runc noted of it: `runc state` costs 15 ms each time."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

# Fields of /proc/PID/stat behind the name in brackets, which may hold spaces (proc_pid_stat(5)).
_STATE, _START_TIME = 0, 19
_ENDED = frozenset("ZXx")


@dataclass(frozen=True)
class FirstProcess:
    """The first process of a container; `pid` counts for nothing once it has ended."""

    pid: int
    alive: bool


def observe_first_process(directory: Path, proc: Path = Path("/proc")) -> FirstProcess | None:
    """The first process of the container; None when only runc can say.

    `directory` is the container's in runc's root, as runc 1.x writes it. The process is the one
    that was started if it began at the same moment, as runc itself compares it.
    """
    try:
        noted = json.loads((directory / "state.json").read_text(encoding="utf-8"))
        pid, began = int(noted["init_process_pid"]), int(noted["init_process_start"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if (directory / "exec.fifo").exists():  # created, and not started yet
        return None
    try:
        fields = (proc / str(pid) / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return FirstProcess(pid, alive=False)
    alive = fields[_STATE] not in _ENDED and int(fields[_START_TIME]) == began
    return FirstProcess(pid, alive)


def observe_uid(pid: int, proc: Path = Path("/proc")) -> int | None:
    """The user that a process runs as (its effective one); None: it has ended."""
    try:
        status = (proc / str(pid) / "status").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return None
    found = re.search(r"^Uid:\t\d+\t(\d+)\t", status, re.MULTILINE)
    return None if found is None else int(found[1])
