"""A benchmark on somebody's cluster: what it does there, and that it takes all of it back."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path

import pytest

from grampus.bench.drivers.outcome import DriverFailure
from grampus.bench.matrix.capabilities import why_not_runnable
from grampus.bench.matrix.cells import Cell
from grampus.bench.own.own_place import UNSEEN
from grampus.bench.trials.place import CellPlace
from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.core.units import GIB, MIB, TIB
from tests.fakes.interruption import burn_points, stopped_runs
from tests.unit.bench.environments.measured_cells import sample_of
from tests.unit.bench.environments.world import make_cell, option
from tests.unit.bench.own.somebodys_cluster import ALLOW, FSID, OwnWorld, Pool

OWN = {"media": "own", "wal_db_device": "own", "objectstore": "own"}
WRITE = make_cell(workload="rados-write", copies=2, **OWN)
READ = make_cell(workload="rados-read", clients=2, **OWN)
IMAGE = make_cell(workload="rbd-randwrite", clients=2, threads=4, block_bytes=4096, **OWN)
ALL = (WRITE, READ, IMAGE)
# What the owner has set of the removal of pools, by section; None: nothing.
REMOVAL = [{}, {"global": "true"}, {"mon": "false"}, {"global": "true", "mon": "false"}]


def measure(world: OwnWorld, cells: tuple[Cell, ...] = ALL) -> None:
    """A whole run, but for its archive."""
    place = world.place()
    with place.quiet():
        assert place.prepare(cells) == {}
        for cell in cells:
            sample_of(place.measure(cell, warmup_s=2, measure_s=6))
        place.dismantle()


def test_it_is_a_place_whose_figures_are_no_mere_shapes(tmp_path: Path) -> None:
    place: CellPlace = OwnWorld(tmp_path).place()
    assert place.name == f"cluster {FSID}"
    assert not place.shape_only
    assert place.options == " --conf /mine/ceph.conf"


def test_nothing_is_changed_by_asking_what_it_can_do(tmp_path: Path) -> None:
    world = OwnWorld(tmp_path)
    place = world.place()
    place.capabilities()
    place.facts(ALL)
    assert world.is_as_found
    assert not world.is_known


@pytest.mark.parametrize("removal", REMOVAL)
def test_a_run_leaves_the_cluster_as_it_was(tmp_path: Path, removal: dict[str, str]) -> None:
    world = OwnWorld(tmp_path, removal=removal)
    measure(world)
    assert world.is_as_found
    assert world.place().left() == []


def test_while_it_runs_its_pools_are_marked_bounded_and_as_asked_for(tmp_path: Path) -> None:
    world = OwnWorld(tmp_path)
    world.rule = "on-ssd"
    place = world.place()
    with place.quiet():
        place.prepare(ALL)
        assert {"noscrub", "nodeep-scrub"} <= world.cluster.flags
        assert not world.cluster.balancer
        assert world.cluster.pools["vms"].scaling == "off"
        pools = world.cluster.ours
        assert sorted(pool.copies for pool in pools.values()) == [2, 3, 3]
        for name, pool in pools.items():
            (mark,) = (found["grampus_bench"] for found in pool.applications.values())
            assert f"-{mark}-" in name
            assert pool.rule == "on-ssd"
            assert pool.quota_bytes == pytest.approx(0.2 * 0.7 * 10 * TIB / pool.copies, rel=0.01)
        assert [set(pool.applications) for pool in pools.values() if pool.images] == [{"rbd"}]
        place.dismantle()
    assert "CRUSH rule on-ssd" in place.name
    assert "bench tidy --conf /mine/ceph.conf" in world.progress.notes[0]


def test_load_generators_and_programs_are_told_which_cluster(tmp_path: Path) -> None:
    world = OwnWorld(tmp_path)
    measure(world)
    # No Python with bindings, no sysbench: Ceph's programs, and what any machine has.
    assert set(world.host.programs) <= {"ceph", "rbd", "rados", "bash", "env", "getconf"}
    for argv in world.host.clients:
        words = " ".join(argv)
        assert "--conf /mine/ceph.conf --id bench --keyring /mine/bench.keyring" in words


def test_a_trial_says_that_the_osds_were_not_watched(tmp_path: Path) -> None:
    world = OwnWorld(tmp_path)
    place = world.place()
    with place.quiet():
        place.prepare([READ])
        measured = place.measure(READ, warmup_s=2, measure_s=6)
    assert measured.watched is not None
    assert UNSEEN in measured.watched.gaps
    assert measured.osd_device_busy_share is None
    assert measured.provisioned_bytes == pytest.approx(10 * TIB / 3, rel=0.01)
    (probe,) = (argv for argv in world.host.probes if "python3" in argv)
    assert '"osd_sockets": null' in probe[-1]


@pytest.mark.parametrize("removal", [{}, {"global": "true", "mon": "false"}])
def test_wherever_a_run_is_killed_the_next_command_takes_all_back(
    tmp_path: Path, removal: dict[str, str]
) -> None:
    cells = (READ, IMAGE)
    runs = stopped_runs(
        lambda _: OwnWorld(tmp_path, removal=removal),
        lambda world: measure(world, cells),
        more_than=100,
    )
    for point, world in runs:
        world.place().dismantle()
        assert world.is_as_found, (point, world.cluster.settings, world.cluster.ours)
        assert world.place().left() == [], point


def test_whatever_fails_the_next_command_takes_all_back(tmp_path: Path) -> None:
    for point in burn_points():
        with closing(OwnWorld(tmp_path)) as world:
            world.fuse.left, world.fuse.error = point, GrampusError("It is gone.")
            # A reason of a cell, a failure, or nothing that matters to a trial.
            with suppress(GrampusError, AssertionError):
                measure(world, (IMAGE,))
            if world.fuse.left is not None:
                assert point > 50
                return
            world.place().dismantle()
            assert world.is_as_found, (point, world.cluster.settings, world.cluster.ours)


def test_a_killed_run_is_gone_on_with(tmp_path: Path) -> None:
    runs = stopped_runs(
        lambda _: OwnWorld(tmp_path), lambda world: measure(world, (IMAGE,)), more_than=50
    )
    for point, world in runs:
        if point % 4 == 0:
            measure(world, (IMAGE,))
            assert world.is_as_found, point


def test_what_is_left_of_a_killed_run_is_told(tmp_path: Path) -> None:
    world = OwnWorld(tmp_path)
    place = world.place()
    context = place.quiet()
    context.__enter__()
    place.prepare([IMAGE])
    left = world.place().left()
    assert left[-4:] == [
        "Unset the flag noscrub",
        "Unset the flag nodeep-scrub",
        "Switch the balancer on",
        "Switch the autoscaler of the pool vms on",
    ]
    assert [line.partition(" bench-")[0] for line in left[:1]] == ["Remove the images of"]
    assert left[1].startswith("Remove the pool grampus-")


def test_what_the_owner_sets_meanwhile_stays(tmp_path: Path) -> None:
    world = OwnWorld(tmp_path)
    place = world.place()
    with place.quiet():
        place.prepare([WRITE])
        world.cluster.pools["vms"].scaling = "warn"
        place.dismantle()
    assert world.cluster.pools["vms"].scaling == "warn"


def test_a_setting_that_the_owner_changes_after_a_kill_stays(tmp_path: Path) -> None:
    def leave_taken(world: OwnWorld) -> bool:
        return world.cluster.config.get(("mon", ALLOW)) == "true"

    runs = stopped_runs(
        lambda _: OwnWorld(tmp_path), lambda world: measure(world, (READ,)), more_than=50
    )
    for _, world in runs:
        if leave_taken(world):
            world.cluster.config["mon", ALLOW] = "false"
            world.place().dismantle()
            assert world.cluster.config["mon", ALLOW] == "false"
            break
    else:
        pytest.fail("it was never stopped with the leave taken")


def test_what_was_kept_on_other_osds_is_made_anew(tmp_path: Path) -> None:
    world = OwnWorld(tmp_path)
    for rule, expected in (("on-ssd", "on-ssd"), (None, "replicated_rule")):
        world.rule = rule
        place = world.place()
        with place.quiet():
            place.prepare([READ])
        assert [pool.rule for pool in world.cluster.ours.values()] == [expected]
    world.place().dismantle()
    assert world.is_as_found


# What is somebody's.


def test_a_pool_that_is_not_marked_is_neither_used_nor_removed(tmp_path: Path) -> None:
    world = OwnWorld(tmp_path)
    place = world.place()
    with place.quiet():
        place.prepare([WRITE])
        (name,) = world.cluster.ours
        # The owner has made it their own.
        world.cluster.pools[name].applications = {"rgw": {}}
        with pytest.raises(RefusedError) as caught:
            place.dismantle()
    assert caught.value.code == "not-ours"
    assert name in world.cluster.pools
    assert place.left(), "what was not removed is not forgotten"


def test_a_pool_of_that_name_without_a_record_is_refused(tmp_path: Path) -> None:
    world = OwnWorld(tmp_path)
    place = world.place()
    with place.quiet():
        place.prepare([WRITE])
        (name,) = world.cluster.ours
        place.dismantle()
        world.cluster.pools[name] = Pool({"rbd": {}})
        reason = place.prepare([WRITE])[WRITE.cell_id]
    assert "no benchmark made it" in reason
    assert world.cluster.pools[name] == Pool({"rbd": {}})


def test_images_of_others_keep_a_pool(tmp_path: Path) -> None:
    world = OwnWorld(tmp_path)
    place = world.place()
    with place.quiet():
        place.prepare([IMAGE])
        (pool,) = world.cluster.ours.values()
        pool.images["precious"] = GIB
        with pytest.raises(GrampusError, match="still has images") as caught:
            place.dismantle()
    assert caught.value.code == "pool-kept"
    assert pool.images == {"precious": GIB}


def test_pools_of_another_home_are_told_and_left_alone(tmp_path: Path) -> None:
    world = OwnWorld(tmp_path)
    other = Pool({"grampus-bench": {"grampus_bench": "00000000"}})
    world.cluster.pools["grampus-00000000-bench-1"] = other
    place = world.place()
    assert place.marked_by_others() == ["grampus-00000000-bench-1"]
    place.dismantle()
    assert "grampus-00000000-bench-1" in world.cluster.pools


def test_where_even_the_leave_does_not_help_the_cluster_is_as_it_was(tmp_path: Path) -> None:
    world = OwnWorld(tmp_path)
    world.cluster.file_forbids = True
    place = world.place()
    with place.quiet():
        place.prepare([WRITE])
        with pytest.raises(GrampusError, match="pool deletion is disabled") as caught:
            place.dismantle()
    assert "grampus bench tidy" in caught.value.remedy
    assert world.cluster.settings == world.found
    assert len(place.left()) == 1
    world.cluster.file_forbids = False
    world.place().dismantle()
    assert world.is_as_found


# What cannot be had.


@pytest.mark.parametrize(
    ("point", "said"),
    [
        ({"workload": "rados-write", "copies": 1}, "a pool of one copy needs a switch"),
        ({"workload": "rados-write", "copies": 4}, "of which 3 have OSDs that are up"),
        ({"workload": "rados-write", "erasure_code": "k2m1"}, "erasure_code k2m1"),
        ({"workload": "rados-write", "media": "hdd"}, "media hdd (only own: an external cluster"),
        (
            {"workload": "rados-write", "objectstore": "filestore"},
            "neither changes nor restarts its OSDs",
        ),
        ({"workload": "rados-write", "wal_db_device": "optane"}, "wal_db_device optane"),
        ({"workload": "rados-write", "osd_cores_per_host": 2}, "osd_cores_per_host 2"),
        ({"workload": "rados-write", "fill_percent": 80}, "nobody's cluster is filled"),
        ({"workload": "rados-write", "profile": "redhat-2016"}, "profile redhat-2016"),
        ({"workload": "rados-read", "caches": "osd"}, "the OSDs' caches serve others"),
        ({"workload": "update-index"}, "databases and attached volumes need hosts"),
        ({"workload": "fio-read"}, "workload fio-read"),
    ],
)
def test_what_is_not_ours_to_change_is_refused_with_a_reason(
    tmp_path: Path, point: dict[str, object], said: str
) -> None:
    capabilities = OwnWorld(tmp_path).place().capabilities()
    cell = make_cell(**{**OWN, **point})
    assert said in (why_not_runnable(cell, capabilities) or "")


def test_all_that_it_offers_can_be_measured(tmp_path: Path) -> None:
    capabilities = OwnWorld(tmp_path).place().capabilities()
    assert [why_not_runnable(cell, capabilities) for cell in ALL] == [None] * len(ALL)


def test_a_full_cluster_is_not_written_to(tmp_path: Path) -> None:
    world = OwnWorld(tmp_path)
    world.cluster.used_share = 0.8
    place = world.place()
    reason = place.prepare([WRITE])[WRITE.cell_id]
    assert "80% full" in reason
    assert not world.cluster.ours


def test_no_more_is_written_than_is_small_beside_the_room(tmp_path: Path) -> None:
    world = OwnWorld(tmp_path)
    place = world.place()
    # A fifth of 7 TiB, by 3 copies, and of that the half: 239 GiB.
    small = make_cell(workload="rados-read", dataset_bytes=200 * GIB, **OWN)
    second = make_cell(workload="rados-read", dataset_bytes=50 * GIB, block_bytes=MIB, **OWN)
    reasons = place.prepare([small, second])
    assert list(reasons) == [second.cell_id]
    assert "need 250 GiB" in reasons[second.cell_id]


def test_an_unknown_rule_is_explained(tmp_path: Path) -> None:
    world = OwnWorld(tmp_path)
    world.rule = "on-sdd"
    with pytest.raises(NotFoundError, match="on-ssd"):
        world.place()


def test_an_osd_that_fell_spoils_a_trial(tmp_path: Path) -> None:
    world = OwnWorld(tmp_path)
    place = world.place()
    place.prepare([READ])
    world.host.plays["rados"] = lambda argv: _with_one_osd_less(world, argv)
    measured = place.measure(READ, warmup_s=2, measure_s=6)
    assert isinstance(measured.outcome, DriverFailure)
    assert "osd.2 was down" in measured.outcome.reason


def _with_one_osd_less(world: OwnWorld, argv: list[str]):
    world.cluster.hosts = 2
    return world.host._play_rados(argv)


def test_facts_tell_of_the_cluster_and_nothing_that_is_private(tmp_path: Path) -> None:
    facts = {one.name: one.value for one in OwnWorld(tmp_path).place().facts(ALL)}
    assert facts["FSID"] == FSID
    assert facts["OSDs"] == "3 with bluestore on ssd"
    assert facts["versions of OSDs"] == "18.2.4"
    assert facts["load generators"].startswith("all on client")
    assert facts["osd: osd_max_backfills"] == "2"
    assert not [name for name in facts if "rgw" in name or "password" in name]
    assert "sysbench" not in facts


def test_clients_take_the_objects_of_their_own_pool(tmp_path: Path) -> None:
    world = OwnWorld(tmp_path)
    place = world.place()
    with place.quiet():
        place.prepare([READ])
        pools = {option(argv, "pool") for argv in world.host.clients if "bench" in argv}
        assert pools == set(world.cluster.ours)
        place.dismantle()
