"""File systems of volumes: mounted when only their log knows of a growth, and grown (INV-92)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, cast

import pytest

from grampus.hosts.port import CommandFailedError, CommandResult, Host
from grampus.volumes.drivers.export_devices import Devices
from grampus.volumes.file_systems import (
    Geometry,
    Superblock,
    decide_geometry,
    grow,
    mount,
    parse_superblock,
)

DEVICES, PATH = Devices("/dev/loop3"), PurePosixPath("/data/volumes/shop")
GIB = 1024**3
PRINTED = "blocksize = 4096\nagblocks = 32768\ndblocks = 131072\nagcount = 4\n"
SMALL = Superblock(4096, 32768, Geometry(131072, 4))
EUCLEAN = "mount: /data/volumes/shop: fsconfig() failed: Structure needs cleaning.\n"


@dataclass
class XfsHost:
    """A host whose `mount` fails so often, and then works."""

    failures: int
    said: str = EUCLEAN
    printed: str = PRINTED
    grown: str = ""
    ran: list[tuple[str, ...]] = field(default_factory=list)
    name: str = "h1"

    def run(self, argv: Any, *, check: bool = True, **_: Any) -> CommandResult:
        self.ran.append(tuple(argv))
        answers = {"blockdev": str(2 * GIB), "xfs_db": self.printed, "xfs_growfs": self.grown}
        result = CommandResult(tuple(argv), 0, answers.get(argv[0], ""), "")
        if argv[0] == "mount" and self.failures:
            self.failures -= 1
            result = CommandResult(tuple(argv), 32, "", self.said)
        if check and result.returncode:
            raise CommandFailedError(self.name, result)
        return result

    def host(self) -> Host:
        return cast(Host, self)

    def written(self) -> list[str]:
        """What was written to the superblock."""
        return [word for argv in self.ran for word in argv if word.startswith("write")]


def test_a_superblock() -> None:
    assert parse_superblock(PRINTED) == SMALL
    assert parse_superblock("xfs_db: /dev/loop3 is not a valid XFS filesystem\n") is None


@pytest.mark.parametrize(
    ("device_bytes", "expected"),
    [
        (GIB // 2, None),
        (GIB // 2 + 63 * 4096, None),  # too small for a group: the kernel leaves it alone
        (GIB // 2 + 64 * 4096, Geometry(131072 + 64, 5)),
        (2 * GIB, Geometry(524288, 16)),
        (GIB // 4, None),
    ],
)
def test_the_geometry_of_a_grown_device(device_bytes: int, expected: Geometry | None) -> None:
    assert decide_geometry(SMALL, device_bytes) == expected


def test_a_file_system_that_mounts_is_left_alone() -> None:
    host = XfsHost(failures=0)
    assert mount(host.host(), DEVICES, PATH) is False
    assert [argv[0] for argv in host.ran] == ["mount"]


def test_one_that_was_grown_right_before_a_crash_gets_the_size_of_its_device() -> None:
    host = XfsHost(failures=1)
    assert mount(host.host(), DEVICES, PATH) is True
    assert host.written() == ["write -d dblocks 524288", "write -d agcount 16"]


def test_one_with_an_external_log_is_asked_and_corrected_with_it() -> None:
    host = XfsHost(failures=1)
    assert mount(host.host(), Devices("/dev/loop3", "/dev/loop4"), PATH) is True
    assert all("logdev=/dev/loop4" in argv[4] for argv in host.ran if argv[0] == "mount")
    asked = [argv for argv in host.ran if argv[0] == "xfs_db"]
    assert [argv[argv.index("-l") + 1] for argv in asked] == ["/dev/loop4"] * 2
    assert host.written() == ["write -d dblocks 524288", "write -d agcount 16"]


def test_one_that_is_damaged_otherwise_is_left_as_it_was() -> None:
    host = XfsHost(failures=2)
    with pytest.raises(CommandFailedError, match="Structure needs cleaning"):
        mount(host.host(), DEVICES, PATH)
    assert host.written()[2:] == ["write -d dblocks 131072", "write -d agcount 4"]


@pytest.mark.parametrize(
    ("said", "printed"),
    [
        ("mount: wrong fs type, bad option, bad superblock on /dev/loop3.\n", PRINTED),
        (EUCLEAN, "nothing of XFS\n"),
        (EUCLEAN, PRINTED.replace("131072", "524288")),
    ],
)
def test_nothing_is_written_without_a_reason(said: str, printed: str) -> None:
    host = XfsHost(failures=1, said=said, printed=printed)
    with pytest.raises(CommandFailedError):
        mount(host.host(), DEVICES, PATH)
    assert host.written() == []


@pytest.mark.parametrize(
    ("grown", "just_mounted", "writes"),
    [
        ("data blocks changed from 131072 to 524288\n", True, True),
        ("data size unchanged, skipping\n", True, False),
        # A growth before this one may have been cut off before its superblock was written.
        ("data size unchanged, skipping\n", False, True),
    ],
)
def test_a_growth_writes_the_superblock(grown: str, *, just_mounted: bool, writes: bool) -> None:
    host = XfsHost(failures=0, grown=grown)
    grow(host.host(), PATH, just_mounted=just_mounted)
    assert ("write-superblock" in host.ran[-1]) is writes
