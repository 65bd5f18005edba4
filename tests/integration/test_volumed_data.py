"""What is written to a volume is what is read: on its FUSE file and on its block device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.system.command_line import CommandLine
from tests.system.exerciser import Exerciser
from tests.system.lab_machine import LabMachine
from tests.system.volumes import attached_volume, unmount

MIB = 1024 * 1024
# Where each exercise has the volume for itself: bytes read through the block device's page cache
# may be older than what somebody else writes to the file under it.
REGION_BYTES = 64 * MIB
FIO_OFFSET_BYTES, FIO_JOB_BYTES = 256 * MIB, 48 * MIB


@dataclass(frozen=True)
class BareVolume:
    """A volume without its file system, to be overwritten."""

    machine: LabMachine
    exerciser: Exerciser
    document: dict[str, Any]

    @property
    def device(self) -> str:
        return str(self.document["device"])

    @property
    def file(self) -> str:
        return str(self.document["export_path"])


@pytest.fixture(scope="module", params=["uring", "classic"])
def volume(
    lab: CommandLine, exerciser_program: Path, request: pytest.FixtureRequest
) -> Iterator[BareVolume]:
    """A volume served through each transport in turn."""
    transport = str(request.param)
    with attached_volume(lab, "bare", "--transport", transport) as document:
        assert document["transport"] == transport
        machine = LabMachine(lab, "h1")
        unmount(machine, document)
        yield BareVolume(machine, Exerciser(machine, exerciser_program), document)


# (which path, options of the exerciser, number of the region)
EXERCISES = [
    pytest.param("file", (), 0, id="file-any-byte"),
    pytest.param("file", ("--direct", "--align", "1"), 1, id="file-direct-any-byte"),
    pytest.param("device", (), 2, id="device-page-cache"),
    pytest.param("device", ("--direct",), 3, id="device-direct"),
]


@pytest.mark.parametrize(("path", "options", "region"), EXERCISES)
def test_random_operations_agree_with_a_model(
    volume: BareVolume, path: str, options: tuple[str, ...], region: int
) -> None:
    where = volume.file if path == "file" else volume.device
    place = ("--offset", str(region * REGION_BYTES), "--length", str(REGION_BYTES))
    # Time ends it where the cluster is slow; the seed is in what a failure prints.
    limits = ("--operations", "4000", "--seconds", "8", "--workers", "6")
    document = volume.exerciser.ok("model", "--path", where, *options, *place, *limits)
    assert document["summary"]["operations"] > 200
    assert document["summary"]["checks"] > 10


@pytest.mark.parametrize(("path", "options", "region"), EXERCISES)
def test_zeroed_ranges_read_zeros_at_every_alignment(
    volume: BareVolume, path: str, options: tuple[str, ...], region: int
) -> None:
    where = volume.file if path == "file" else volume.device
    offset = ("--offset", str(region * REGION_BYTES))
    document = volume.exerciser.ok("zeros", "--path", where, *options, *offset)
    assert document["ranges"] > 100


def test_fio_verifies_what_its_jobs_wrote(volume: BareVolume) -> None:
    volume.machine.ok(
        *("fio", "--name=verified", f"--filename={volume.device}", "--direct=1"),
        *("--ioengine=libaio", "--iodepth=8", "--rw=randwrite", "--bsrange=512-128k"),
        *("--blockalign=512", "--numjobs=3", f"--offset={FIO_OFFSET_BYTES}"),
        *(f"--size={FIO_JOB_BYTES}", f"--offset_increment={FIO_JOB_BYTES}"),
        *("--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0", "--group_reporting"),
        timeout_s=120,
    )


@pytest.mark.parametrize(
    ("make", "check"),
    [
        pytest.param(("mkfs.xfs", "-q", "-f"), ("xfs_repair", "-n"), id="xfs"),
        pytest.param(("mke2fs", "-q", "-F", "-t", "ext4"), ("e2fsck", "-f", "-n"), id="ext4"),
    ],
)
def test_file_system_is_whole_after_use(
    volume: BareVolume, make: tuple[str, ...], check: tuple[str, ...]
) -> None:
    machine, mounted = volume.machine, volume.machine.scratch() / "mounted"
    machine.ok(*make, volume.device)
    machine.ok(*check, volume.device)
    mounted.mkdir(exist_ok=True)
    # Many files, some removed and their space discarded, and what is left compared after a mount
    # that has nothing in memory.
    machine.ok("mount", volume.device, str(mounted))
    try:
        script = (
            "cp -a /usr/share/sysbench /usr/lib/*/ceph /usr/lib/python3/dist-packages . "
            "&& cp -a ceph removed && rm -r removed && sync -f . && fstrim . "
            "&& find . -type f ! -name list -print0 | sort -z | xargs -0 sha256sum >list"
        )
        machine.ok("sh", "-c", f"cd {mounted} && {script}")
    finally:
        machine.ok("umount", str(mounted))
    machine.ok(*check, volume.device)
    machine.ok("mount", volume.device, str(mounted))
    try:
        machine.ok("sh", "-c", f"cd {mounted} && test -s list && sha256sum --quiet -c list")
    finally:
        machine.ok("umount", str(mounted))
