"""Mounts of this machine, in order, and what a host has mounted."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from grampus.hosts.port import CommandFailedError, Host
from grampus.hosts.process import run_command

MOUNT_TABLE = Path("/proc/self/mountinfo")
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


def ensure_unmounted_below(directory: Path, *, lazy: bool = False) -> None:
    """Unmount everything at or below `directory`, newest first."""
    for mount in mounts_below(directory):
        run_command(["umount", *(["--lazy"] if lazy else []), mount.target], check=not lazy)


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
