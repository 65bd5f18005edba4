"""Whether a container runs, read from what runc noted of it: `runc state` costs 15 ms each time."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from grampus.core.processes import find_start


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
    return FirstProcess(pid, alive=find_start(pid, proc) == began)


def runs_older_program(pid: int, proc: Path = Path("/proc")) -> bool:
    """Whether another file was put in the place of the program that a process runs
    (proc_pid_exe(5))."""
    try:
        return (proc / str(pid) / "exe").readlink().name.endswith(" (deleted)")
    except OSError:
        return False  # it has ended


def observe_uid(pid: int, proc: Path = Path("/proc")) -> int | None:
    """The user that a process runs as (its effective one); None: it has ended."""
    try:
        status = (proc / str(pid) / "status").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return None
    found = re.search(r"^Uid:\t\d+\t(\d+)\t", status, re.MULTILINE)
    return None if found is None else int(found[1])
