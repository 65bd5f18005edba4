"""OSD sets on hosts in memory: added, gone, or brought to their end after a stop anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError, UsageError
from grampus.core.units import GIB
from grampus.hosts.lab_host import LabFleet
from grampus.hosts.media import WalDbMediaName
from grampus.hosts.port import BlockLimit
from grampus.lab.bootstrap import ClusterBootstrap
from grampus.lab.lab_file import ensure_lab_file, find_lost_records, restore_lab
from grampus.lab.model import LAB_RECORD
from grampus.lab.osd_devices import observe_osd_devices
from grampus.lab.osd_set import OsdSet, find_osd_sets
from grampus.lab.osd_set_service import (
    OsdSetService,
    decide_osd_bytes,
    require_possible,
    require_room,
)
from grampus.state.home import Home
from grampus.state.operations import OperationJournal
from grampus.state.store import Store
from tests.fakes.clock import FakeClock
from tests.fakes.interruption import Fuse, Killed, stopped_runs
from tests.fakes.lab_host import FakeCeph, FakeLabFleet, FakeLabHost
from tests.unit.operation_runner import make_runner

from .test_bootstrap import SPEC
from .test_osd_plans import make_set

LAB = SPEC.model_copy(update={"osds_per_host": 1})
DISKS = make_set(
    name="disks", media="hdd", osds_per_device=2, wal_db_media="nvme", thread_cache_mib=64
)
# For what is done over and over again.
FEW = DISKS.model_copy(update={"osds_per_device": 1})


class World:
    """A lab that is up, and its state; each service is a new process."""

    host_type = FakeLabHost

    def __init__(self, root: Path, osd_set: OsdSet = DISKS) -> None:
        self.osd_set = osd_set
        self.fuse = Fuse()
        self.ceph = FakeCeph()
        self.clock = FakeClock()
        self.ceph.hosts = [
            self.host_type(name, LAB.host_address(name), self.ceph, self.fuse)
            for name in LAB.host_names
        ]
        self.fleet = cast(LabFleet, FakeLabFleet(self.ceph.hosts))
        self.home = Home(root)
        self.store = Store(None)
        self.journal = OperationJournal(self.store, self.clock)
        self.up()
        self.before = self.left()

    def close(self) -> None:
        self.store.close()

    def up(self) -> None:
        """As `lab up` does it."""
        bootstrap = ClusterBootstrap(LAB, self.fleet, self.clock, library_dir=lambda: "/usr/lib/x")
        bootstrap.ensure_configuration()
        bootstrap.ensure_mons()
        bootstrap.ensure_mgrs()
        bootstrap.ensure_osds()
        self.service().ensure_all()
        bootstrap.ensure_pool()

    def service(self) -> OsdSetService:
        return OsdSetService(
            LAB,
            self.home,
            self.store,
            make_runner(LAB.name, self.store, self.journal, self.clock),
            self.fleet,
            self.clock,
        )

    def add(self) -> None:
        self.service().add(self.osd_set)

    def remove(self) -> None:
        self.service().remove(self.osd_set.name)

    def left(self) -> dict[str, object]:
        """All that a set is made of."""
        hosts = self.ceph.hosts
        return {
            # The program that serves disks stays for the next one.
            "files": sorted(
                str(path) for host in hosts for path in host.files if path.name != "volumed"
            ),
            "disks": sorted(str(path) for host in hosts for path in host.served),
            "daemons": sorted(name for host in hosts for name in host.daemons),
            "loops": sorted(ref for host in hosts for _, ref in host.loops.values()),
            "osds": sorted(number for number, _ in self.ceph.osds.values()),
            "crush": dict(self.ceph.crush),
            "rules": list(self.ceph.rules),
            "pools": sorted(self.ceph.pools),
            "records": [one.name for one in find_osd_sets(self.store, LAB.name)],
        }

    def require_whole(self) -> None:
        count = 3 + 3 * self.osd_set.osds_per_host
        assert sorted(self.ceph.running("osd"), key=int) == [str(n) for n in range(count)]
        assert self.ceph.crush["osd.3"] == "h1-disks"
        assert self.ceph.crush["h1-disks"] == "osd-set-disks"
        assert self.ceph.crush["osd.0"] == "h1"
        assert self.ceph.pools["databases-disks"]["rule"] == "osd-set-disks"
        assert self.ceph.pools["databases"]["rule"] == "replicated_rule"
        assert self.journal.unfinished(LAB.name) == []
        (view,) = self.service().observe()
        assert (view.state, view.pools) == ("up", ("databases-disks",))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_set_has_osds_of_its_own_that_no_other_pool_is_on(world: World) -> None:
    world.add()
    world.require_whole()
    specs = {name: one.spec for host in world.ceph.hosts for name, one in host.daemons.items()}
    one, first = specs["osd-3"], specs["osd-0"]
    assert [block.write_iops for block in one.limits.block] == [None, 75_000]
    assert len(one.devices) == 2
    # The hard disk is one to Ceph too; its WAL device and the first OSD's are not.
    rotational = world.ceph.hosts[0].rotational
    assert [rotational[device] for device in (*one.devices, *first.devices)] == ["1", "0", "0"]
    cache = "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES"
    assert (one.env[cache], first.env[cache]) == (str(64 << 20), str(128 << 20))
    assert "--crush-location" not in first.argv


def test_added_twice_nothing_changes(world: World) -> None:
    world.add()
    made = world.left(), len([1 for host in world.ceph.hosts for c in host.commands if "dd" in c])
    world.add()
    assert (
        world.left(),
        len([1 for host in world.ceph.hosts for c in host.commands if "dd" in c]),
    ) == made


def test_removed_nothing_is_left_and_the_first_osds_are_as_they_were(world: World) -> None:
    world.add()
    world.remove()
    assert world.left() == world.before
    assert sorted(world.ceph.running("osd")) == ["0", "1", "2"]
    with pytest.raises(NotFoundError, match="no OSD set named 'disks'"):
        world.remove()


def test_a_set_that_is_made_again_has_the_same_ids_and_new_stores(world: World) -> None:
    world.add()
    world.remove()
    world.add()
    world.require_whole()


def test_stopped_anywhere_an_add_is_finished_by_the_next_one(tmp_path: Path) -> None:
    runs = stopped_runs(lambda n: World(tmp_path / str(n)), World.add, more_than=100)
    for point, world in runs:
        world.add()
        world.require_whole()
        assert len(world.left()["loops"]) == 3 + 12, f"stopped at call {point}"  # type: ignore[arg-type]


def test_stopped_anywhere_an_add_is_undone_by_a_removal(tmp_path: Path) -> None:
    runs = stopped_runs(lambda n: World(tmp_path / str(n), FEW), World.add, more_than=80)
    for point, world in runs:
        if find_osd_sets(world.store, LAB.name):
            world.remove()
        assert world.left() == world.before, f"stopped at call {point}"


def test_stopped_anywhere_an_add_leaves_a_lab_that_comes_up(tmp_path: Path) -> None:
    runs = stopped_runs(lambda n: World(tmp_path / str(n), FEW), World.add, more_than=80)
    for point, world in runs:
        if point % 5:
            continue
        for host in world.ceph.hosts:
            host.reboot()
        world.up()
        world.add()
        world.require_whole()


def test_an_add_that_fails_leaves_nothing(tmp_path: Path) -> None:
    error = GrampusError("The disk is gone.")
    runs = stopped_runs(lambda n: World(tmp_path / str(n), FEW), World.add, error, more_than=80)
    for point, world in runs:
        if not find_osd_sets(world.store, LAB.name):
            assert world.left() == world.before, f"failed at call {point}"
        else:  # It failed after the last change, or in the undo itself.
            world.remove()
            assert world.left() == world.before, f"failed at call {point}"


def test_stopped_anywhere_a_removal_is_finished_by_the_next_one(tmp_path: Path) -> None:
    def added(number: int) -> World:
        world = World(tmp_path / str(number), FEW)
        world.add()
        return world

    for point, world in stopped_runs(added, World.remove, more_than=40):
        if find_osd_sets(world.store, LAB.name):
            world.remove()
        assert world.left() == world.before, f"stopped at call {point}"


def test_stopped_anywhere_a_removal_is_finished_by_the_lab_that_comes_up(tmp_path: Path) -> None:
    def added(number: int) -> World:
        world = World(tmp_path / str(number), FEW)
        world.add()
        return world

    for point, world in stopped_runs(added, World.remove, more_than=40):
        for host in world.ceph.hosts:
            host.reboot()
        world.up()
        if find_osd_sets(world.store, LAB.name):
            # Nothing of it had been removed yet.
            assert "databases-disks" in world.ceph.pools, f"stopped at call {point}"
            assert len(world.ceph.running("osd")) == 6
            world.remove()
        assert world.left()["osds"] == [0, 1, 2], f"stopped at call {point}"
        assert world.left()["crush"] == world.before["crush"]


def test_after_a_reboot_the_lab_comes_up_with_its_sets(world: World) -> None:
    world.add()
    for host in world.ceph.hosts:
        host.reboot()
    made = sum("--mkfs" in command for host in world.ceph.hosts for command in host.commands)
    world.up()
    world.require_whole()
    assert made == sum("--mkfs" in c for host in world.ceph.hosts for c in host.commands)


def test_a_set_in_use_stays(world: World) -> None:
    world.add()
    world.ceph.images["databases-disks"] = 1
    with pytest.raises(RefusedError, match="The pool databases-disks has images"):
        world.remove()
    world.require_whole()
    world.ceph.images.clear()
    world.ceph.journals["databases-disks"] = 2
    with pytest.raises(RefusedError, match="has journals of volumes in other pools") as caught:
        world.remove()
    assert (caught.value.code, "--journal-pool" in caught.value.remedy) == ("in-use", True)
    world.require_whole()
    world.ceph.journals.clear()
    world.ceph.pools["scratch"] = {"rule": "osd-set-disks", "pg_num": "8"}
    with pytest.raises(RefusedError, match="has the pool scratch"):
        world.remove()
    del world.ceph.pools["scratch"]
    world.ceph.hosts[0].kill_daemon("osd-3")
    with pytest.raises(RefusedError, match="1 of 9 OSDs are down"):
        world.remove()
    assert not find_osd_sets(world.store, LAB.name)[0].is_leaving


def test_of_a_lab_that_is_down_the_sets_are_known(world: World) -> None:
    world.add()
    for host in world.ceph.hosts:
        host.state = "down"
    (view,) = world.service().observe()
    assert (view.state, view.osds, view.pools) == ("down", {}, ())


def test_another_set_of_the_name_is_refused_and_so_is_one_that_leaves(world: World) -> None:
    world.add()
    with pytest.raises(RefusedError, match="Another OSD set named 'disks' already exists"):
        world.service().add(DISKS.model_copy(update={"media": "nvme"}))
    world.fuse.left = 30
    with pytest.raises(Killed):
        world.remove()
    with pytest.raises(RefusedError, match="removal of the OSD set 'disks' was interrupted"):
        world.add()
    assert world.service().observe()[0].state == "leaving"


def test_a_lost_state_finds_the_sets_again(world: World) -> None:
    world.store.put(LAB_RECORD, LAB.name, LAB.name, LAB)
    world.add()
    ensure_lab_file(world.home, world.store, LAB.name)
    lost = Store(None)
    restore_lab(lost, LAB.name, find_lost_records(world.home, lost, LAB.name))
    assert find_osd_sets(lost, LAB.name) == [DISKS]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"name": "Fast"}, "not a valid OSD set name"),
        ({"name": "2-copies"}, "not a valid OSD set name"),
        ({"name": "a" * 25}, "is not available as the name of an OSD set"),
        ({"devices_per_host": 0}, "1 to 16 OSDs of a set, not 0"),
        ({"osds_per_device": 17}, "not 17"),
        ({"cores_per_host": 3.0}, "cannot have 3 cores: this machine has 2"),
        ({"cores_per_host": 0.1, "osds_per_device": 2}, "cannot have 0.1 cores"),
        ({"thread_cache_mib": 0}, "thread cache of 0 MiB"),
        ({"memory_target_mib": 895}, "memory target of 895 MiB"),
        ({"memory_target_mib": 65537}, "memory target of 65537 MiB"),
        ({"hosts": 0}, "cannot be on 0 hosts: 3 hosts of the lab have OSDs, and the pool"),
        ({"hosts": 2}, "cannot be on 2 hosts: .* the pool of the set needs 3 for its copies"),
        ({"hosts": 4}, "cannot be on 4 hosts"),
        ({"hosts": 4, "has_pool": False}, r"cannot be on 4 hosts: 3 hosts of the lab have OSDs\."),
    ],
)
def test_what_no_lab_can_have_is_refused(changed: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        require_possible(make_set(**changed), LAB, machine_cores=2)


def test_what_the_disk_does_not_bear_is_refused() -> None:
    require_room(make_set(), 3, 15 * GIB)
    with pytest.raises(GrampusError, match="3 OSDs of 4 GiB do not fit"):
        require_room(make_set(), 3, 14 * GIB)
    with pytest.raises(GrampusError, match="3 OSDs of 6 GiB do not fit"):
        require_room(make_set(wal_db_media="nvme"), 3, 15 * GIB)


def test_osds_are_as_big_as_the_first_unless_the_disk_is_small() -> None:
    assert decide_osd_bytes(None, LAB, 3, 100 * GIB) == LAB.osd_size_bytes == 4 * GIB
    assert decide_osd_bytes(6 * GIB, LAB, 3, 1) == 6 * GIB
    big = LAB.model_copy(update={"osd_size_bytes": 20 * GIB})
    assert decide_osd_bytes(None, big, 3, 30 * GIB) == 8 * GIB
    assert decide_osd_bytes(None, big, 3, 30 * GIB, "nvme") == 6 * GIB


@pytest.mark.parametrize(
    ("free_bytes", "wal_db_media"), [(14 * GIB, None), (20 * GIB, "nvme"), (0, None), (0, "nvme")]
)
def test_a_disk_that_bears_no_osd_is_refused(
    free_bytes: int, wal_db_media: WalDbMediaName | None
) -> None:
    with pytest.raises(GrampusError, match="too little for 3 more OSDs") as caught:
        decide_osd_bytes(None, LAB, 3, free_bytes, wal_db_media)
    assert caught.value.code == "disk-too-small"


@pytest.mark.parametrize("wal_db_media", [None, "nvme"])
def test_the_size_that_nobody_asked_for_fits(wal_db_media: WalDbMediaName | None) -> None:
    big = LAB.model_copy(update={"osd_size_bytes": 20 * GIB})
    size_bytes = decide_osd_bytes(None, big, 3, 30 * GIB, wal_db_media)
    require_room(make_set(size_bytes=size_bytes, wal_db_media=wal_db_media), 3, 30 * GIB)


def test_a_set_keeps_its_meaning_in_the_state() -> None:
    assert OsdSet.model_validate_json(DISKS.model_dump_json()) == DISKS


def test_a_set_without_a_pool_takes_those_of_others_and_stays_while_they_are_on_it(
    world: World,
) -> None:
    bare = DISKS.model_copy(update={"has_pool": False})
    world.service().add(bare)
    assert "databases-disks" not in world.ceph.pools
    world.ceph.pools["scratch"] = {"rule": "osd-set-disks", "pg_num": "8"}
    with pytest.raises(RefusedError, match="has the pool scratch"):
        world.remove()
    # Cut off at its end, gone on with and failing: OSDs under somebody's pool are not undone.
    world.journal.begin("osd-set.add", LAB.name, "disks", bare.model_dump(mode="json"))
    world.fuse.left, world.fuse.error = 4, GrampusError("The MONs do not answer.")
    with pytest.raises(RefusedError, match="has the pool scratch"):
        world.service().add(bare)
    assert len(world.ceph.running("osd")) == 9
    del world.ceph.pools["scratch"]
    world.remove()
    assert world.left() == world.before


def test_limits_of_the_media_are_lifted_and_imposed_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.add()
    world.service().lift_limits(DISKS.name)
    started = {
        (name, limit.device): limit
        for host in world.ceph.hosts
        for name, one in host.daemons.items()
        for limit in one.spec.limits.block
        if name.removeprefix("osd-") not in ("0", "1", "2")
    }
    assert len(started) == 2 * 3 * DISKS.osds_per_host, "data, and WAL and DB"
    assert _limits(world) == {key: BlockLimit(key[1]) for key in started}
    assert [host.unpaced for host in world.ceph.hosts] == [
        {f"disk-{name}-disks.0"} for name in LAB.host_names
    ]
    world.service().impose_limits(DISKS.name)
    assert [host.unpaced for host in world.ceph.hosts] == [set()] * 3
    assert _limits(world) == started
    assert all(("sync",) in host.commands for host in world.ceph.hosts)
    with pytest.raises(NotFoundError):
        world.service().lift_limits("disk")
    world.close()


def test_osds_whose_disk_has_ended_come_up_on_a_new_one(world: World) -> None:
    world.add()
    host = world.ceph.hosts[2]
    host.kill_daemon("disk-h3-disks.0")  # nobody has written to it since
    assert {"3", "4", "5", "6", "7", "8"} <= set(world.ceph.running("osd"))
    world.add()
    world.require_whole()
    assert host.runs("disk-h3-disks.0")
    known = {device for device, (file, _) in host.loops.items() if file in host.served}
    assert known == {
        one.spec.devices[0]
        for name, one in host.daemons.items()
        if name.startswith("osd-") and name != "osd-2"
    }


def test_an_osd_is_known_by_what_it_opens(world: World) -> None:
    world.add()
    opened = {
        name: one.spec.devices[0]
        for host in world.ceph.hosts
        for name, one in host.daemons.items()
        if name.startswith("osd-")
    }
    world.ceph.hosts[2].state = "cut-off"
    found = observe_osd_devices(LAB, world.fleet)
    assert len(found) == 2 * (1 + DISKS.osds_per_host)
    assert all(osd.device == opened[osd.daemon] for osd in found)


def test_osds_that_are_not_there_are_given_no_limits(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.add()
    world.ceph.osds = dict(list(world.ceph.osds.items())[:3])
    world.service().impose_limits(DISKS.name)
    assert _limits(world) == {}
    world.close()


def test_an_osd_without_its_device_is_not_left_without_limits(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.add()
    host = world.ceph.hosts[1]
    host.loops = {device: at for device, at in host.loops.items() if at[1].endswith("/osd-1")}
    with pytest.raises(GrampusError, match=r"osd-\d+ on h2 has lost a block device"):
        world.service().impose_limits(DISKS.name)
    world.close()


def _limits(world: World) -> dict[tuple[str, str], BlockLimit]:
    return {key: limit for host in world.ceph.hosts for key, limit in host.block_limits.items()}
