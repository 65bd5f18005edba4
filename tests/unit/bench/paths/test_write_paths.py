"""The write paths in whole runs: what is compared, what rests first, and what is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grampus.bench.calm import REST_BYTES, is_drained
from grampus.core.errors import GrampusError
from grampus.state.runs import PathsRun
from grampus.volumes.decide_external_log import EXTERNAL_LOG_BYTES
from grampus.volumes.live import LiveVolume
from tests.unit.bench.paths.fakes import PathsWorld, journal_status
from tests.unit.bench.paths.test_paths_runner import require_nothing_left, run

MIB = 1024 * 1024
WRITE_PATHS = ("direct", "journal", "cache", "local")
FILES = "4k-burst,4k-append-fsync,16k-randwrite-zipf,*-uniform,*-full"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PathsWorld]:
    made = PathsWorld(tmp_path)
    yield made
    made.store.close()


def run_files(world: PathsWorld, **options: object) -> PathsRun:
    values: dict[str, object] = {"measures": FILES, "arms": ",".join(WRITE_PATHS), "scale": "small"}
    return run(world, **values | options)


def test_the_write_paths_are_compared_with_direct_and_with_the_local_disk(
    world: PathsWorld,
) -> None:
    found = run_files(world)
    assert [arm.name for arm in found.arms] == list(WRITE_PATHS)
    ratios = {(one.measure, one.arm, one.against): one.ratio for one in found.comparisons}
    assert ratios["4k-burst", "journal", "direct"] == pytest.approx(2)
    assert ratios["4k-burst", "cache", "direct"] == pytest.approx(8)
    assert ratios["16k-randwrite-zipf", "cache", "local"] == pytest.approx(0.8)
    verdicts = {one.name: one.reached for one in found.targets}
    assert (verdicts["journal-burst"], verdicts["journal-full"]) == (False, True)
    assert verdicts["cache-fsync-local"] is True
    assert verdicts["cache-point-select"] is None
    assert set(world.volumes.attached_by) == {"qsd", "direct", "journal", "cache"}
    details = {arm.name: arm.detail for arm in found.arms}
    assert details["direct"].endswith("write path direct")
    assert details["cache"].endswith("write path cache; external log")
    assert "over the file /data/bench/paths/local/disk" in details["local"]
    require_nothing_left(world)


def test_what_the_osds_do_for_a_write_is_told_of_the_clusters_ways_alone(
    world: PathsWorld,
) -> None:
    found = run_files(world)
    (cost,) = (one for one in found.measures if one.better == "less")
    assert (cost.name, cost.unit) == ("osd-cpu-us-per-write", "us-per-operation")
    results = {one.arm: one for one in found.results if one.measure == cost.name}
    assert set(results) == {"direct", "journal", "cache"}
    # The played OSD works all the time, so an I/O of 400 us costs 400 us.
    assert results["direct"].throughput == pytest.approx(400, rel=0.01)
    assert results["direct"].latency_avg_us is None
    (ratio,) = (
        one
        for one in found.comparisons
        if (one.measure, one.arm, one.against) == (cost.name, "cache", "direct")
    )
    assert (ratio.quantity, ratio.ratio) == ("cost", pytest.approx(1 / 8, rel=0.01))


def test_each_load_finds_the_volume_at_rest_unless_it_follows_another(world: PathsWorld) -> None:
    run_files(world, rounds=1)
    names = [name for way, name, _ in world.host.fio_jobs if way == "journal"]
    assert sorted(names) == [
        "round-01.journal.16k-randwrite-uniform",
        "round-01.journal.16k-randwrite-zipf",
        "round-01.journal.4k-append-fsync",
        "round-01.journal.4k-burst",
    ]
    (text,) = (text for _, name, text in world.host.fio_jobs if name == names[0])
    jobs = {name: text for _, name, text in world.host.fio_jobs}
    full = jobs["round-01.journal.16k-randwrite-uniform"]
    assert full.index("[16k-randwrite-uniform]") < full.index("[16k-randwrite-qd64-full]")
    assert "filename=/data/volumes/bench-paths-log/fio.data" in text
    on_one_device = jobs["round-01.direct.4k-burst"]
    assert "filename=/data/volumes/bench-paths/fio.data" in on_one_device
    assert "io_size=67108864" in jobs["round-01.local.4k-burst"]
    assert "filename=/data/bench/paths/local/mounted/fio.data" in jobs["round-01.local.4k-burst"]


def test_the_journal_is_measured_with_the_layout_that_databases_have(world: PathsWorld) -> None:
    found = run_files(world, arms="journal,journal-one-device,cache,direct", measures="4k-burst")
    layouts = {spec.name: spec for spec in world.volumes.made}
    external, inside = layouts["bench-paths-log"], layouts["bench-paths"]
    assert external.external_log_bytes == EXTERNAL_LOG_BYTES
    assert inside.external_log_bytes is None
    assert external.size_bytes - EXTERNAL_LOG_BYTES == inside.filesystem_bytes
    compared = {(one.arm, one.against) for one in found.comparisons}
    assert {("journal", "journal-one-device"), ("journal-one-device", "direct")} <= compared
    require_nothing_left(world)


@pytest.mark.parametrize(
    ("arms", "made"),
    [
        ("journal,cache,local", ["bench-paths-log"]),
        ("direct,journal-one-device,rbd", ["bench-paths"]),
        ("local", []),
    ],
)
def test_only_the_volumes_that_are_measured_are_made(
    world: PathsWorld, arms: str, made: list[str]
) -> None:
    run_files(world, rounds=1, arms=arms, measures="4k-burst")
    assert [spec.name for spec in world.volumes.made] == made


def test_a_journal_is_waited_for(world: PathsWorld) -> None:
    world.volumes.busy_answers = 40
    before_s = world.clock.monotonic_s()
    run_files(world, rounds=1, arms="journal", measures="4k-burst")
    assert world.volumes.busy_answers == -1
    assert world.clock.monotonic_s() - before_s > 40 * 0.25


def test_a_journal_that_never_rests_is_said(world: PathsWorld) -> None:
    world.volumes.busy_answers = 10**6
    found = run_files(world, rounds=1, arms="journal,direct", measures="4k-burst")
    assert {one.arm for one in found.results} == {"direct"}
    assert any("Gave up waiting for the volume to come to rest" in one for one in found.warnings)
    require_nothing_left(world)


def test_a_full_disk_leaves_the_local_arm_out(world: PathsWorld) -> None:
    world.host.disk_is_full = True
    found = run_files(world)
    assert {one.arm for one in found.results} == {"direct", "journal", "cache"}
    said = [one for one in found.warnings if "local" in one]
    assert "No space left on device" in said[0]
    assert any("left out from here on" in one for one in said)
    require_nothing_left(world)


@pytest.mark.parametrize(
    "where", ["fill.xfs", "fill.local", "round-01.local.4k-burst", "round-02.cache.4k-burst"]
)
def test_an_interrupt_anywhere_leaves_nothing(world: PathsWorld, where: str) -> None:
    world.host.interrupt_at = where
    with pytest.raises(KeyboardInterrupt):
        run_files(world, rounds=2)
    require_nothing_left(world)


def test_a_write_path_that_is_not_there_is_left_out(world: PathsWorld) -> None:
    world.volumes.broken = {"cache": GrampusError("volumed is older.", code="no-driver")}
    found = run_files(world)
    assert {one.arm for one in found.results} == {"direct", "journal", "local"}
    verdicts = {one.name: one.reached for one in found.targets}
    assert (verdicts["cache-burst"], verdicts["journal-fsync"]) == (None, True)


def test_a_whole_run_measures_the_write_paths_as_often_as_there_is_time(world: PathsWorld) -> None:
    found = run(world, scale="tiny", rounds=None, measures=None)
    trials = [[name for name in order if name in WRITE_PATHS] for order in found.order]
    assert [len(names) for names in trials] == [4, 0, 0, 0, 0]
    assert len(found.order) == 5
    said = [one for one in found.warnings if "in 1 of 5 rounds, to end in time" in one]
    assert len(said) == 1
    assert "--arms direct,journal,cache,local" in said[0]
    verdicts = {one.name: one for one in found.targets}
    assert verdicts["journal-burst"].note == "measured in fewer than 5 rounds"
    assert verdicts["librbd-throughput"].reached is not None


def test_a_late_run_leaves_the_write_paths_out(world: PathsWorld) -> None:
    slow = world.clock.sleep

    def sleep(seconds: float) -> None:
        slow(seconds * (60 if world.host.way in WRITE_PATHS else 1))

    world.clock.sleep = sleep  # type: ignore[method-assign]
    found = run(world, scale="full", rounds=None, measures=None)
    results = {(one.arm, one.measure): one.rounds for one in found.results}
    assert results["direct", "4k-burst"] < 5
    assert results["volumed-uring-raw", "16k-randread-qd16"] == 5
    assert any(one.startswith("The write paths were left out of round") for one in found.warnings)


@pytest.mark.parametrize(
    ("live", "expected"),
    [
        (None, False),
        (LiveVolume(state="running"), True),
        (LiveVolume(state="dead"), False),
        (LiveVolume(state="running", journal=journal_status(busy=True)), False),
        (LiveVolume(state="running", journal=journal_status(busy=False)), True),
        (
            LiveVolume(state="running", journal=journal_status(busy=True, held_bytes=REST_BYTES)),
            True,
        ),
        (LiveVolume(state="running", journal=journal_status(busy=False, lag_bytes=MIB)), False),
    ],
)
def test_a_volume_is_drained_when_its_image_holds_all(
    live: LiveVolume | None, expected: bool
) -> None:
    assert is_drained(live) is expected
