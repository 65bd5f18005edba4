"""Directory trees that are removed only when nothing is mounted in them, and their builders."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from pydantic import ValidationError

from grampus.core.clock import Clock, wait_until
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.models import Model
from grampus.hosts.mounts import MOUNT_TABLE, ensure_unmounted_below, mounts_below
from grampus.hosts.process import run_command
from grampus.state.home import write_atomically

BUILDER_FILE = "builder.json"
_REMOVAL_TRIES = 5


class Builder(Model):
    """The first process of a build, also its process group.

    A process number is reused in time; with the start time (ticks since boot, field 22 of
    proc(5) stat) it is this very process or none.
    """

    pid: int
    start_ticks: int


def observe_start_ticks(pid: int) -> int | None:
    """When the process `pid` started, in clock ticks since boot; None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the name in parentheses and may hold anything, even spaces.
    state, *rest = stat.rpartition(")")[2].split()
    return None if state in {"Z", "X"} else int(rest[18])


def record_builder(building: Path, pid: int) -> None:
    """Remember in the directory `building` which process works on it."""
    start_ticks = observe_start_ticks(pid)
    if start_ticks is not None:
        builder = Builder(pid=pid, start_ticks=start_ticks)
        write_atomically(building / BUILDER_FILE, builder.model_dump_json().encode())


def ensure_builder_ended(building: Path, clock: Clock) -> None:
    """Kill the process group that is recorded in `building`, if it is still that one."""
    try:
        builder = Builder.model_validate_json((building / BUILDER_FILE).read_bytes())
    except (FileNotFoundError, ValidationError):
        return
    if observe_start_ticks(builder.pid) != builder.start_ticks:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(builder.pid, signal.SIGKILL)
    wait_until(
        clock,
        lambda: observe_start_ticks(builder.pid) != builder.start_ticks,
        what=f"an abandoned build (process {builder.pid}) to end",
        remedy="End that process, then try again.",
        timeout_s=30,
    )


def ensure_tree_absent(tree: Path, clock: Clock) -> None:
    """Remove `tree`, after unmounting what is mounted in it.

    Raises RefusedError with code `still-mounted` when a mount stays: removing files across a
    mount point would destroy what is mounted there, such as this machine's own /dev.
    """
    if not tree.exists():
        return
    place = tree.resolve()
    for lazy in (False, True):
        with contextlib.suppress(GrampusError):
            ensure_unmounted_below(place, lazy=lazy)
    if mounts_below(place):
        raise RefusedError(
            f"{place} still has a mounted file system, so it was not removed.",
            "Unmount the file system (`findmnt` shows it), then try again.",
            code="still-mounted",
        )
    for attempt in range(_REMOVAL_TRIES):
        # The last files of a killed build may appear while we remove: then once more.
        last = attempt == _REMOVAL_TRIES - 1
        result = run_command(
            ["rm", "-rf", "--one-file-system", str(place)], timeout_s=600, check=last
        )
        if result.returncode == 0:
            return
        clock.sleep(0.2)


def is_lower_of_overlay(mount_table: str, root: Path) -> bool:
    """Whether `root` is a layer of a mounted overlay, from the text of mountinfo(5)."""
    for line in mount_table.splitlines():
        filesystem, *rest = line.partition(" - ")[2].split(" ", 2)
        if filesystem == "overlay" and rest:
            layers = [
                layer
                for option in rest[-1].split(",")
                if option.startswith(("lowerdir=", "lowerdir+="))
                for layer in option.partition("=")[2].split(":")
            ]
            if str(root) in layers:
                return True
    return False


def is_in_use(root: Path) -> bool:
    """Whether a mounted overlay stands on `root`."""
    return is_lower_of_overlay(MOUNT_TABLE.read_text(encoding="utf-8"), root.resolve())
