from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from grampus.core.errors import GrampusError
from grampus.core.units import GIB
from grampus.hosts.lab_host import LabFleet
from grampus.lab.bootstrap import (
    ClusterBootstrap,
    decide_min_mon_release,
    decide_placement_groups,
)
from grampus.lab.making import MADE_MARKER, in_parallel
from grampus.lab.model import LabSpec
from grampus.lab.osds import osd_reference
from tests.fakes.clock import FakeClock
from tests.fakes.interruption import Fuse, Killed, is_stopped
from tests.fakes.lab_host import FakeCeph, FakeLabFleet, FakeLabHost

SPEC = LabSpec(
    name="t",
    tag="1a2b3",
    image_id="sid-0123",
    image_name="sid",
    host_count=3,
    osds_per_host=2,
    media="nvme",
    osd_size_bytes=4 * GIB,
    subnet="10.213.7.0/24",
    fsid="7d4c1a6e-6bb1-4c43-a5dd-0d8a3c1f2b90",
)
MARKED = ("mon", "osd")


class Lab:
    """Hosts that are up, and the bootstrap of a new process each time."""

    def __init__(self) -> None:
        self.fuse = Fuse()
        self.ceph = FakeCeph()
        self.clock = FakeClock()
        self.ceph.hosts = [
            FakeLabHost(name, SPEC.host_address(name), self.ceph, self.fuse)
            for name in SPEC.host_names
        ]
        self.fleet = FakeLabFleet(self.ceph.hosts)

    def up(self) -> None:
        bootstrap = ClusterBootstrap(
            SPEC, cast(LabFleet, self.fleet), self.clock, library_dir=lambda: "/usr/lib/x"
        )
        bootstrap.ensure_configuration()
        bootstrap.ensure_mons()
        bootstrap.ensure_mgrs()
        bootstrap.ensure_osds()
        bootstrap.ensure_pool()
        bootstrap.wait_until_healthy()

    def inventory(self) -> dict[str, object]:
        hosts = self.ceph.hosts
        return {
            "files": {host.name: dict(host.files) for host in hosts},
            "daemons": {host.name: host.observe_daemons() for host in hosts},
            "specs": {host.name: {n: d.spec for n, d in host.daemons.items()} for host in hosts},
            "loops": {host.name: dict(host.loops) for host in hosts},
            "labels": {host.name: dict(host.labels) for host in hosts},
            "osds": dict(self.ceph.osds),
            "pools": {pool: dict(facts) for pool, facts in self.ceph.pools.items()},
        }

    def count(self, *words: str) -> int:
        return sum(set(words) <= set(argv) for host in self.ceph.hosts for argv in host.commands)

    def require_whole(self) -> None:
        assert sorted(self.ceph.running("mon")) == ["h1", "h2", "h3"]
        assert sorted(self.ceph.running("mgr")) == ["h1", "h2"]
        assert sorted(self.ceph.running("osd")) == ["0", "1", "2", "3", "4", "5"]
        assert len(self.ceph.osds) == 6
        assert self.ceph.pools["databases"]["application"] == "rbd"


def test_brings_up_a_cluster_with_osds_in_the_order_of_hosts() -> None:
    lab = Lab()
    lab.up()
    lab.require_whole()
    for number, host in enumerate(lab.ceph.hosts):
        assert {f"osd-{2 * number}", f"osd-{2 * number + 1}"} <= set(host.daemons)
    assert (
        lab.ceph.pools["databases"] | {"size": "3", "min_size": "2"} == lab.ceph.pools["databases"]
    )


def test_brings_up_the_cluster_of_an_older_release() -> None:
    lab = Lab()
    lab.ceph.version = "16.2.15"
    lab.up()
    lab.require_whole()


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("ceph version 16.2.15 (618f440892) pacific (stable)\n", 16),
        ("ceph version 18.2.7 (6b0e988052) reef (stable)\n", 18),
        ("ceph version 20.2.4 (0123abcd) tentacle (stable - RelWithDebInfo)\n", 18),
    ],
)
def test_the_release_that_the_first_map_is_for(version: str, expected: int) -> None:
    assert decide_min_mon_release(version) == expected


def test_a_mon_that_names_no_release_is_a_clear_error() -> None:
    with pytest.raises(GrampusError, match="does not report its release: nothing"):
        decide_min_mon_release("\n")


def test_running_it_twice_changes_nothing() -> None:
    lab = Lab()
    lab.up()
    before = lab.inventory()
    made = lab.count("--mkfs"), lab.count("osd", "new"), lab.count("ceph-authtool")
    lab.up()
    assert lab.inventory() == before
    assert (lab.count("--mkfs"), lab.count("osd", "new"), lab.count("ceph-authtool")) == made
    assert made[0] == 9
    assert lab.count("dd") == lab.count("wipefs") == 6


def test_after_a_reboot_the_pool_waits_until_its_groups_serve() -> None:
    lab = Lab()
    lab.up()
    lab.ceph.peering_looks = 3
    lab.up()
    assert lab.ceph.peering_looks == 0
    lab.ceph.peering_looks = 10_000
    with pytest.raises(GrampusError, match="Gave up waiting for the placement groups to serve"):
        lab.up()


def test_after_a_reboot_data_are_found_on_loop_devices_with_other_numbers() -> None:
    lab = Lab()
    lab.up()
    labels = [dict(host.labels) for host in lab.ceph.hosts]
    for host in lab.ceph.hosts:
        host.reboot()
    mkfs = lab.count("--mkfs")
    lab.up()
    lab.require_whole()
    assert lab.count("--mkfs") == mkfs
    assert [host.labels for host in lab.ceph.hosts] == labels
    block = lab.ceph.hosts[0].path("/var/lib/ceph/osd/ceph-0/block")
    assert lab.ceph.hosts[0].text(block) == "/dev/loop40"


@pytest.mark.parametrize("daemon", ["mon-h2", "mgr-h1", "osd-3"])
def test_a_daemon_that_ended_is_started_again(daemon: str) -> None:
    lab = Lab()
    lab.up()
    for host in lab.ceph.hosts:
        if daemon in host.daemons:
            host.kill_daemon(daemon)
    lab.up()
    lab.require_whole()


@pytest.mark.parametrize(
    ("kind", "name", "host"), [("mon", "h2", 1), ("osd", "0", 0), ("osd", "5", 2)]
)
def test_a_half_made_store_is_made_anew(kind: str, name: str, host: int) -> None:
    """Begun and not finished: files and a label are there, the marker is not."""
    lab = Lab()
    lab.up()
    machine = lab.ceph.hosts[host]
    store = machine.path(f"/var/lib/ceph/{kind}/ceph-{name}")
    del machine.files[store / MADE_MARKER]
    machine.kill_daemon(f"{kind}-{name}")
    machine.put(store / "half", "written")
    lab.up()
    lab.require_whole()
    assert store / "half" not in machine.files
    assert store / MADE_MARKER in machine.files


def test_killed_at_any_call_the_next_up_brings_the_same_cluster_up() -> None:
    point = 0
    while True:
        lab = Lab()
        if not is_stopped(lab, Lab.up, point, Killed()):
            assert point > 100
            return
        lab.up()
        lab.require_whole()
        assert sum(len(host.loops) for host in lab.ceph.hosts) == 6, f"killed at call {point}"
        point += 7 if point < 400 else 31


def test_every_key_is_in_private_files_and_on_no_command_line() -> None:
    lab = Lab()
    lab.up()
    for host in lab.ceph.hosts:
        words = " ".join(" ".join(argv) for argv in host.commands)
        assert "secret-" not in words
        assert "key-of-" not in words
        for path, file in host.files.items():
            if "secret-" in file.content or "key-of-" in file.content:
                assert file.mode == 0o600, path


def test_all_hosts_have_the_same_keys_and_configuration() -> None:
    lab = Lab()
    lab.up()
    for name in ("etc-ceph/ceph.conf", "etc-ceph/ceph.client.admin.keyring"):
        contents = {host.text(host.data_dir / name) for host in lab.ceph.hosts}
        assert len(contents) == 1
    conf = lab.ceph.hosts[0].text(lab.ceph.hosts[0].data_dir / "etc-ceph/ceph.conf")
    assert f"fsid = {SPEC.fsid}" in conf
    assert "10.213.7.11" in conf


def test_lost_secret_of_an_unmade_osd_is_a_clear_error() -> None:
    lab = Lab()
    lab.up()
    host = lab.ceph.hosts[0]
    del host.files[host.path(f"/var/lib/ceph/osd/ceph-0/{MADE_MARKER}")]
    del host.files[host.data_dir / "osd/0.secret.json"]
    with pytest.raises(GrampusError, match=r"key of osd\.0 on h1 is lost"):
        lab.up()


@pytest.mark.parametrize(
    ("break_it", "sentence"),
    [
        (
            lambda lab: lab.ceph.hosts[2].files.pop(
                lab.ceph.hosts[2].path("/var/lib/ceph/mon/ceph-h3/store.db")
            ),
            "MONs to form a quorum after 60 s. mon-h3 on h3 ended: mon-h3 found no store",
        ),
        (
            lambda lab: lab.ceph.hosts[1].labels.clear(),
            "all OSDs to be up and in after 2 min. osd-2 on h2 ended",
        ),
        (
            lambda lab: setattr(lab.ceph, "health", "HEALTH_WARN"),
            "the cluster to be healthy after 2 min. Its message: HEALTH_WARN 1 osds down.",
        ),
    ],
    ids=["mon", "osd", "health"],
)
def test_what_does_not_come_up_is_told_with_its_reason(
    break_it: Callable[[Lab], object], sentence: str
) -> None:
    lab = Lab()
    lab.up()
    for host in lab.ceph.hosts:
        host.reboot()
    break_it(lab)
    with pytest.raises(GrampusError) as caught:
        lab.up()
    assert sentence in caught.value.problem
    assert caught.value.code == "timeout"
    assert "lab up" in caught.value.remedy


def test_groups_of_which_the_mons_have_not_heard_are_waited_for() -> None:
    """Right after a short loss the status is still that of before, and seems to be whole."""
    lab = Lab()
    lab.up()
    lab.ceph.group_states = ["active+undersized+degraded", "peering"]
    began_s = lab.clock.monotonic_s()
    lab.up()
    assert lab.ceph.group_states == [], "it was asked until they were clean"
    assert lab.clock.monotonic_s() > began_s, "and waited in between"


def test_osd_reference_is_of_this_lab_and_fits() -> None:
    assert osd_reference(SPEC, 0) == "grampus/1a2b3/osd-0"
    assert len(osd_reference(SPEC, 999)) < 64


@pytest.mark.parametrize(
    ("osds", "copies", "expected"),
    [(3, 3, 32), (6, 3, 64), (1, 3, 32), (12, 3, 128), (72, 3, 1024), (1000, 3, 1024), (8, 2, 128)],
)
def test_placement_groups(osds: int, copies: int, expected: int) -> None:
    found = decide_placement_groups(osds, copies)
    assert found == expected
    assert found & (found - 1) == 0


def test_in_parallel_keeps_the_order_and_raises_after_all_ended() -> None:
    assert in_parallel(lambda number: number * 2, range(20)) == [n * 2 for n in range(20)]
    done: list[int] = []

    def work(number: int) -> None:
        if number == 0:
            raise GrampusError("The first failed.")
        done.append(number)

    with pytest.raises(GrampusError, match="first"):
        in_parallel(work, range(8))
    assert sorted(done) == list(range(1, 8))
