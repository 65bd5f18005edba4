"""Mounts of this machine, in order, and what a host has mounted."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from grampus.core.clock import Clock, SystemClock
from grampus.core.errors import GrampusError
from grampus.hosts.port import CommandFailedError, CommandResult, Host
from grampus.hosts.process import run_command

MOUNT_TABLE = Path("/proc/self/mountinfo")
# A process that is just being started holds what its parent had open; a monitoring agent looks
# at each mount for an instant.
BUSY_TIMEOUT_S = 10.0
BUSY_INTERVAL_S = 0.1
# PID and name of each process that has a file below $1 open, mapped, or as its directory.
LIST_USERS = """
find /proc/[0-9]*/cwd /proc/[0-9]*/root /proc/[0-9]*/fd /proc/[0-9]*/map_files \\
  -lname "$1" -o -lname "$1/*" 2>/dev/null | cut -d/ -f3 | sort -nu |
while read -r pid; do read -r name <"/proc/$pid/comm" && echo "$pid $name"; done 2>/dev/null
exit 0
"""
_MOST_NAMED = 5
_SYSTEM_CLOCK = SystemClock()
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo(5)."""

    target: str
    filesystem: str
    source: str
    is_shared: bool


def parse_mount_table(text: str) -> list[Mount]:
    """Mounts in the order in which they were made, from the text of `/proc/self/mountinfo`."""
    mounts = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        mounts.append(
            Mount(
                target=_unescape(fields[4]),
                filesystem=kinds[0],
                source=_unescape(kinds[1]),
                is_shared=any(option.startswith("shared:") for option in fields[6:]),
            )
        )
    return mounts


def _unescape(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


def mounts_below(directory: Path) -> list[Mount]:
    """Mounts at or below `directory`, newest first: the order in which they can be undone."""
    prefix = str(directory)
    return [
        mount
        for mount in reversed(parse_mount_table(MOUNT_TABLE.read_text()))
        if mount.target == prefix or mount.target.startswith(prefix + os.sep)
    ]


def is_mounted(target: Path) -> bool:
    """Whether something is mounted exactly at `target`."""
    return any(mount.target == str(target) for mount in mounts_below(target))


def observe_mounted_source(host: Host, path: PurePosixPath) -> str | None:
    """The device mounted at `path` of the host, or None.

    Raises CommandFailedError when the host cannot say: a file system that is taken for unmounted
    would lose its device.
    """
    argv = ["findmnt", "--noheadings", "--output", "SOURCE", "--mountpoint", str(path)]
    result = host.run(argv, check=False)
    # findmnt(8): 1 is "nothing found", and it says so without a word.
    if result.returncode not in (0, 1) or (result.returncode == 1 and result.stderr.strip()):
        raise CommandFailedError(host.name, result)
    return result.stdout.strip() or None


def ensure_unmounted(
    host: Host,
    path: PurePosixPath,
    clock: Clock = _SYSTEM_CLOCK,
    *,
    busy_timeout_s: float = BUSY_TIMEOUT_S,
) -> None:
    """Nothing mounted at `path` of the host; what is written there has reached its device.

    Raises GrampusError with code `in-use`, naming the processes, when some have kept files open
    for `busy_timeout_s`, and CommandFailedError when it cannot be unmounted otherwise.
    """
    if observe_mounted_source(host, path) is not None:
        _unmount(host.run, host.name, path, clock, busy_timeout_s)


def ensure_unmounted_below(
    directory: Path, *, lazy: bool = False, clock: Clock = _SYSTEM_CLOCK
) -> None:
    """Unmount everything at or below `directory`, newest first. Raises like `ensure_unmounted`."""
    for mount in mounts_below(directory):
        if lazy:
            run_command(["umount", "--lazy", mount.target], check=False)
        else:
            path = PurePosixPath(mount.target)
            _unmount(run_command, "this machine", path, clock, BUSY_TIMEOUT_S)


def _unmount(
    run: Callable[..., CommandResult],
    where: str,
    path: PurePosixPath,
    clock: Clock,
    busy_timeout_s: float,
) -> None:
    deadline_s = clock.monotonic_s() + busy_timeout_s
    while (result := run(["umount", str(path)], check=False)).returncode != 0:
        if "target is busy" not in result.stderr:
            raise CommandFailedError(where, result)
        if clock.monotonic_s() >= deadline_s:
            listed = run(["sh", "-c", LIST_USERS, "list-users", str(path)], check=False)
            raise _in_use(where, path, listed.stdout.splitlines(), result)
        clock.sleep(BUSY_INTERVAL_S)


def _in_use(
    where: str, path: PurePosixPath, processes: Sequence[str], refused: CommandResult
) -> GrampusError:
    """`processes` has a PID and a name a line. It is empty when something is mounted over it."""
    if not processes:
        return CommandFailedError(where, refused)
    split = [line.partition(" ") for line in processes[:_MOST_NAMED]]
    named = ", ".join(f"{name} (PID {pid})" for pid, _, name in split)
    more = len(processes) - len(split)
    return GrampusError(
        f"{path} on {where} is in use by {named}{f' and {more} more' if more else ''}.",
        "End the process or close its files, and repeat the command.",
        code="in-use",
    )


def ensure_shared_bind(directory: Path) -> None:
    """Make `directory` a mount of its own whose mounts are seen by all who bind it as shared."""
    directory.mkdir(parents=True, exist_ok=True)
    existing = [mount for mount in mounts_below(directory) if mount.target == str(directory)]
    if existing and existing[0].is_shared:
        return  # made anew, it would lose the peers that already bind it
    if not existing:
        run_command(["mount", "--bind", str(directory), str(directory)])
    # Private first: a bind of a shared parent would join that parent's peers.
    run_command(["mount", "--make-private", str(directory)])
    run_command(["mount", "--make-shared", str(directory)])


def ensure_overlay(lower: Path, upper: Path, work: Path, merged: Path) -> None:
    """Mount `merged`: the directory `lower`, with changes kept in `upper`."""
    if is_mounted(merged):
        return
    for directory in (upper, work, merged):
        directory.mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    run_command(["mount", "-t", "overlay", "overlay", "-o", options, str(merged)])
