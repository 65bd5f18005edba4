from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from grampus.ceph.image_objects import LIST_OBJECTS
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.progress import SilentProgress
from grampus.hosts.lab_host import LabFleet
from grampus.hosts.loop_scripts import LIST_LOOPS
from grampus.hosts.port import DaemonSpec
from grampus.lab.bit_rot import FLIP_BIT, LIST_WRITES, BitRot
from grampus.lab.osds import osd_reference
from tests.fakes.clock import FakeClock
from tests.fakes.hosts import FakeDaemon, FakeHost
from tests.fakes.lab_host import FakeLabFleet
from tests.fakes.mon_commands import as_ceph_command

from .test_model import make_spec

SPEC = make_spec(osds_per_host=1)
NAMES = [f"rbd_data.aa.{number:016x}" for number in range(3)]
NOTES = "/h1/data/osd/rot-0.json"


class RottenHost(FakeHost):
    """A host with osd.0, whose device is a file of this machine, and which knows the cluster."""

    def __init__(self, device: Path) -> None:
        super().__init__("h1", address="10.213.0.11")
        self.data_dir = PurePosixPath("/h1/data")
        self.device = device
        self.osd_record: str | None = json.dumps({"id": 0, "uuid": "u"})
        self.stops_when_rotten = False
        self.whole = device.read_bytes()
        self.state = "up"
        self.group_state = "active+clean"
        self.has_places = True
        self.daemons["osd-0"] = FakeDaemon(DaemonSpec("osd-0", ()))

    @property
    def osd_runs(self) -> bool:
        return self.runs("osd-0")

    def play(self, argv: list[str], stdin: str | None, daemon: str | None) -> tuple[int, str]:
        words = as_ceph_command(argv)
        if words[:1] == ["ceph"]:
            words = [words[0], *words[3:]]  # without how long it may take to connect
        said = self._answer(words, stdin)
        return 0, said if isinstance(said, str) else json.dumps(said)

    def _answer(self, argv: list[str], stdin: str | None) -> Any:
        match argv:
            case ["python3", "-c", script, where] if script == LIST_LOOPS and "/disks/" in where:
                return {"loopdevices": []}
            case ["python3", "-c", script, where] if script == LIST_LOOPS:
                file = f"{self.data_dir}/osd/0.img"
                assert where in (f"{self.data_dir}/osd/", file)
                found = {"ref": osd_reference(SPEC, 0), "back-file": file}
                return {"loopdevices": [{"name": str(self.device), **found}]}
            case ["python3", "-c", script, *_] if script == LIST_OBJECTS:
                layer = {"pool": "databases", "image": "shop.1/db-shop", "prefix": "rbd_data.aa"}
                return [{**layer, "numbers": [0, 1, 2], "others": ["rbd_header.aa"]}]
            case ["python3", "-c", script, "databases/shop.1"] if script == LIST_WRITES:
                return {name: -number for number, name in enumerate(json.loads(stdin or ""))}
            case ["python3", "-c", script, *arguments] if script == FLIP_BIT:
                return flip(*arguments)
            case ["ceph-objectstore-tool", _, _, "--pgid", _, "--op", "list", name]:
                assert not self.osd_runs, "the tool needs the OSD stopped"
                # One of the same name in another namespace, which is not to be touched.
                theirs, ours = (
                    {"oid": name, "snapid": -2, "namespace": namespace}
                    for namespace in ("", "shop.1")
                )
                return "".join(json.dumps(["1.0", one]) + "\n" for one in (theirs, ours))
            case ["ceph-objectstore-tool", _, _, listed, "dump"]:
                assert json.loads(listed)[1]["namespace"] == "shop.1"
                number = int(json.loads(listed)[1]["oid"][-1])
                place = {"offset": number * 8192, "length": 4096}
                blob = {"extents": [place], "csum_data": [1] if self.has_places else []}
                return {"onode": {"extents": [{"length": 4096, "blob_offset": 0, "blob": blob}]}}
            case ["ceph", "osd", "pool", "get", *_]:
                return {"pool_id": 1, "pg_num": 1}
            case ["ceph", "pg", "dump", "pgs", *_]:
                stamp = {"last_deep_scrub_stamp": "1"}
                return [{"pgid": "1.0", "state": self.group_state, "acting": [1, 2, 0], **stamp}]
            case ["ceph", "status", *_]:
                up = 3 if self.osd_runs else 2
                return {
                    "health": {"status": "HEALTH_OK"},
                    "osdmap": {"num_osds": 3, "num_up_osds": up, "num_in_osds": 3},
                    "pgmap": {
                        "num_pgs": 1,
                        "pgs_by_state": [{"state_name": "active+clean", "count": 1}],
                    },
                }
            case ["ceph", "mon", "dump", *_]:
                return {"mons": []}
            case ["find", *_]:
                return "\n".join(map(str, self.files))
            case ["rm", "-f", path]:
                self.files.pop(PurePosixPath(path), None)
                return ""
        raise AssertionError(f"nobody asks that: {argv}")

    def start(self, spec: DaemonSpec) -> FakeDaemon:
        assert spec.name == "osd-0"
        is_rotten = self.device.read_bytes() != self.whole
        return FakeDaemon(spec, "stopped" if self.stops_when_rotten and is_rotten else "running")

    def read_file(self, path: PurePosixPath) -> str | None:
        if path == self.data_dir / "osd/0.json":
            return self.osd_record
        return super().read_file(path)


def flip(*arguments: str) -> str:
    argv = [sys.executable, "-c", FLIP_BIT, *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def host(tmp_path: Path) -> RottenHost:
    device = tmp_path / "device"
    device.write_bytes(bytes(range(256)) * 128)
    return RottenHost(device)


def rot_of(host: RottenHost) -> BitRot:
    fleet = cast(LabFleet, FakeLabFleet([host]))
    return BitRot(SPEC, fleet, FakeClock(), SilentProgress())


def differing(host: RottenHost) -> list[int]:
    now = host.device.read_bytes()
    return [place for place in range(len(now)) if now[place] != host.whole[place]]


def test_one_bit_flips_and_flips_back_only_from_what_it_left(tmp_path: Path) -> None:
    device = tmp_path / "device"
    device.write_bytes(bytes(12288))
    digest = flip(str(device), "4100").strip()
    rotten = device.read_bytes()
    assert (rotten[4100], sum(rotten)) == (1, 1)
    assert digest == hashlib.sha256(rotten[4096:8192]).hexdigest()
    assert flip(str(device), "4100", "0" * 64) == ""
    assert device.read_bytes() == rotten
    flip(str(device), "4100", digest)
    assert device.read_bytes() == bytes(12288)


def test_the_copies_of_the_objects_least_written_to_lose_a_bit_each(host: RottenHost) -> None:
    rot = rot_of(host)
    plan = rot.plan("databases", "shop.1/db-shop", osd=None, count=2)
    assert (plan.osd, plan.host, list(plan.groups)) == (0, "h1", [NAMES[2], NAMES[1]])
    assert differing(host) == []
    flipped = rot.flip(plan)
    assert [(bit.object, bit.offset_bytes) for bit in flipped] == [
        (NAMES[2], 16384),
        (NAMES[1], 8192),
    ]
    assert differing(host) == [8192, 16384]
    assert host.osd_runs


def test_an_osd_that_ends_by_it_gets_its_data_back(host: RottenHost) -> None:
    rot = rot_of(host)
    host.stops_when_rotten = True
    with pytest.raises(GrampusError) as caught:
        rot.flip(rot.plan("databases", "shop.1/db-shop", osd=0, count=3))
    assert caught.value.code == "overwritten"
    assert (differing(host), host.osd_runs, host.files) == ([], True, {})


def test_heal_looks_for_nothing_on_a_host_without_osds() -> None:
    spec = SPEC.model_copy(update={"host_count": 4, "osd_host_count": 3})
    fleet = SimpleNamespace(lab_hosts=lambda: [SimpleNamespace(name="h4")])
    rot = BitRot(spec, cast(LabFleet, fleet), FakeClock(), SilentProgress())
    assert rot.take_back() == []


def test_heal_takes_back_what_an_osd_ended_by_later(host: RottenHost) -> None:
    rot = rot_of(host)
    rot.flip(rot.plan("databases", "shop.1/db-shop", osd=0, count=1))
    assert rot.take_back() == []  # it runs: a repair puts it right
    assert len(differing(host)) == 1
    assert list(map(str, host.files)) == [NOTES]
    host.daemons["osd-0"].state = "stopped"
    assert rot.take_back() == ["Flipped the bits of osd.0 back, because the OSD had ended."]
    assert (differing(host), host.files) == ([], {})


def test_the_osd_runs_again_when_nothing_can_be_spoilt(host: RottenHost) -> None:
    rot = rot_of(host)
    host.has_places = False
    with pytest.raises(GrampusError) as caught:
        rot.flip(rot.plan("databases", "shop.1/db-shop", osd=0, count=1))
    assert caught.value.code == "no-place"
    assert host.osd_runs


def test_a_group_that_lacks_a_copy_is_refused(host: RottenHost) -> None:
    host.group_state = "active+undersized+degraded"
    with pytest.raises(RefusedError) as caught:
        rot_of(host).plan("databases", "db-shop", osd=None, count=1)
    assert caught.value.code == "not-whole"


def test_an_osd_of_a_set_is_left_alone(host: RottenHost) -> None:
    host.osd_record = json.dumps({"id": 7, "uuid": "u"})
    with pytest.raises(RefusedError, match="belongs to an OSD set"):
        rot_of(host).plan("databases", "shop.1/db-shop", osd=None, count=1)
