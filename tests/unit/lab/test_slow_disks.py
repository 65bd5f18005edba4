"""Disks of OSDs that are slow on purpose."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import cast

import pytest

from grampus.core.errors import NotFoundError, RefusedError
from grampus.hosts.lab_host import LabFleet
from grampus.hosts.loop_scripts import LIST_LOOPS
from grampus.hosts.port import BlockLimit, DaemonSpec
from grampus.lab.osds import osd_reference
from grampus.lab.slow_disks import SlowDisks
from tests.fakes.hosts import FakeDaemon, FakeHost
from tests.fakes.lab_host import FakeLabFleet

from .test_model import make_spec

SPEC = make_spec(osds_per_host=1)
DIRECTORY = PurePosixPath("/h1/data/osd")
NOTE = DIRECTORY / "slow-osd-0"


class HostWithOsd(FakeHost):
    """A host with osd.0 on a loop device."""

    def __init__(self) -> None:
        super().__init__("h1", address="10.213.0.11")
        self.data_dir = PurePosixPath("/h1/data")
        self.state = "up"
        self.osd_id = 0
        self.daemons["osd-0"] = FakeDaemon(DaemonSpec("osd-0", ()))
        self.limits: list[tuple[str, BlockLimit]] = []

    def set_block_limit(self, daemon: str, limit: BlockLimit) -> None:
        self.limits.append((daemon, limit))

    def play(self, argv: list[str], stdin: str | None, daemon: str | None) -> tuple[int, str]:
        match argv:
            case ["python3", "-c", script, "/dev/"] if script == LIST_LOOPS:
                return 0, json.dumps({"loopdevices": []})
            case ["python3", "-c", script, _] if script == LIST_LOOPS:
                found = {"ref": osd_reference(SPEC, 0), "back-file": "/h1/data/osd/0.img"}
                return 0, json.dumps({"loopdevices": [{"name": "/dev/loop7", **found}]})
            case ["find", directory, "-name", "slow-osd-*"]:
                assert directory == str(DIRECTORY)
                found_files = [file for file in self.files if file.name.startswith("slow-osd-")]
                return 0, "".join(f"{file}\n" for file in found_files)
            case ["rm", "-f", file]:
                self.files.pop(PurePosixPath(file), None)
                return 0, ""
        raise AssertionError(argv)

    def read_file(self, path: PurePosixPath) -> str | None:
        if path == DIRECTORY / "0.json":
            return json.dumps({"id": self.osd_id, "uuid": "u"})
        return super().read_file(path)


@pytest.fixture
def host() -> HostWithOsd:
    return HostWithOsd()


@pytest.fixture
def disks(host: HostWithOsd) -> SlowDisks:
    return SlowDisks(SPEC, cast(LabFleet, FakeLabFleet([host])))


def test_a_disk_is_slow_until_it_is_restored(host: HostWithOsd, disks: SlowDisks) -> None:
    assert disks.slow("osd-0", 20) == "h1"
    slow = BlockLimit("/dev/loop7", read_iops=20, write_iops=20)
    assert host.limits == [("osd-0", slow)]
    assert NOTE in host.files
    assert disks.restore() == ["The disk of osd-0 is as fast as before."]
    daemon, limit = host.limits[-1]
    assert (daemon, limit.device) == ("osd-0", "/dev/loop7")
    assert limit.read_iops != 20
    assert NOTE not in host.files
    assert disks.restore() == [], "once is enough"


def test_one_that_has_ended_has_its_own_limit_when_it_starts(
    host: HostWithOsd, disks: SlowDisks
) -> None:
    disks.slow("osd-0", 20)
    del host.daemons["osd-0"]
    disks.restore()
    assert len(host.limits) == 1
    assert NOTE not in host.files


def test_a_wrong_name_gets_a_suggestion(disks: SlowDisks) -> None:
    with pytest.raises(NotFoundError) as caught:
        disks.slow("osd-1", 20)
    assert "osd-0" in caught.value.remedy


def test_an_osd_of_a_set_is_refused(host: HostWithOsd, disks: SlowDisks) -> None:
    host.osd_id = 9
    with pytest.raises(RefusedError) as caught:
        disks.slow("osd-0", 20)
    assert caught.value.code == "osd-set"
    assert host.limits == []
    assert NOTE not in host.files
