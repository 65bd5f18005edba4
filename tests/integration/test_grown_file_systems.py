"""A crash right after a file system has grown: the volume can be mounted, with all its files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, cast

import pytest

from grampus.hosts.port import CommandFailedError, CommandResult, Host
from grampus.volumes.drivers.export_devices import Devices
from grampus.volumes.file_systems import grow, mount, parse_superblock
from tests.system.command_line import CommandLine
from tests.system.lab_machine import LabMachine

BEFORE, AFTER = "512M", "1G"
# Files in the new part of the device: the log names blocks that the superblock does not know.
WRITE = 'for i in $(seq 400); do mkdir "$1/d$i"; echo "$i" > "$1/d$i/file"; done; sync'


@dataclass
class FileSystem:
    """A file system in a file on a host of the lab, whose device has just become larger."""

    machine: LabMachine
    directory: str
    device: str

    @property
    def path(self) -> PurePosixPath:
        return PurePosixPath(self.directory) / "mount"

    def sh(self, script: str, *arguments: str) -> str:
        return self.machine.ok("sh", "-ec", script, "test", *arguments)

    def crash(self) -> FileSystem:
        """What a power cut, or a snapshot, would leave now, as a device of its own."""
        copied = f"{self.directory}/copy.img"
        device = self.sh(
            'cp --sparse=always "$1/first.img" "$2"; losetup --find --show "$2"',
            *(self.directory, copied),
        ).strip()
        return FileSystem(self.machine, f"{self.directory}/after", device)

    def size_on_disk(self) -> int:
        """What the superblock says, in bytes."""
        printed = self.machine.ok(
            *("xfs_db", "-r", "-c", "sb 0"),
            *("-c", "print blocksize agblocks dblocks agcount", self.device),
        )
        found = parse_superblock(printed)
        assert found is not None, printed
        return found.block_bytes * found.geometry.blocks


class OnHost:
    """The part of a `Host` that these functions use."""

    def __init__(self, machine: LabMachine) -> None:
        self.name = machine.host
        self._machine = machine

    def run(self, argv: Any, *, check: bool = True, **_: Any) -> CommandResult:
        done = self._machine.run(*argv)
        result = CommandResult(tuple(argv), done.code, done.stdout, done.stderr)
        if check and done.code != 0:
            raise CommandFailedError(self.name, result)
        return result


@pytest.fixture
def larger(lab: CommandLine) -> Iterator[FileSystem]:
    machine = LabMachine(lab, "h1")
    directory = str(machine.scratch() / "grown")
    made = f"""
        mkdir -p "$1/mount" "$1/after/mount"
        truncate -s {BEFORE} "$1/first.img"
        mkfs.xfs -q "$1/first.img"
        device=$(losetup --find --show "$1/first.img")
        mount -t xfs -o nouuid "$device" "$1/mount"
        truncate -s {AFTER} "$1/first.img"
        losetup --set-capacity "$device"
        echo "$device"
    """
    found = FileSystem(machine, directory, "")
    found.device = found.sh(made, directory).strip()
    try:
        yield found
    finally:
        found.sh(
            """
            for mount in "$1/mount" "$1/after/mount"; do
              ! mountpoint -q "$mount" || umount "$mount"
            done
            for file in first copy; do
              for device in $(losetup --list --noheadings --output NAME,BACK-FILE |
                  grep "$1/$file.img" | cut -d' ' -f1); do losetup --detach "$device"; done
            done
            rm -rf "$1"
            """,
            directory,
        )


def test_a_growth_that_only_the_log_knows_of_is_mounted_with_all_its_files(
    larger: FileSystem,
) -> None:
    """As an earlier release grew it; Linux 6.18 cannot mount this by itself."""
    larger.sh('xfs_growfs -d "$1" >/dev/null', str(larger.path))
    larger.sh(WRITE, str(larger.path))
    after = larger.crash()
    assert after.size_on_disk() == 512 * 2**20, "the superblock is older than the log"
    host = cast(Host, OnHost(larger.machine))
    # A kernel that replays such a log needs no correction, which is as good.
    mount(host, Devices(after.device), after.path)
    assert after.sh('cat "$1"/d*/file | wc -l', str(after.path)).strip() == "400"
    after.sh('umount "$1"', str(after.path))
    after.sh('xfs_repair -n "$1" >/dev/null 2>&1', after.device)
    assert after.size_on_disk() == 2**30


def test_a_growth_is_on_disk_when_it_has_ended(larger: FileSystem) -> None:
    host = cast(Host, OnHost(larger.machine))
    larger.sh(WRITE, str(larger.path))
    grow(host, larger.path, just_mounted=False)
    assert larger.crash().size_on_disk() == 2**30
    # It was thawed: a write does not wait.
    larger.sh('timeout 10 touch "$1/thawed"', str(larger.path))
