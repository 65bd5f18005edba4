"""Whole runs over a played host: figures, failures, interruption, and what is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from grampus.bench.paths.plan import PathsOptions
from grampus.bench.paths.run_volume import VOLUME_RECORD
from grampus.bench.paths.runner import PathsRunner
from grampus.bench.paths.stage import VOLUME, VOLUME_WITH_EXTERNAL_LOG
from grampus.bench.paths.suite import PathsSuite
from grampus.bench.quick_suite import load_suite
from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.hosts.port import HostUnreachableError
from grampus.state.runs import PathsRun, RunArchive
from tests.unit.bench.paths.fakes import PathsWorld

# Nothing of MySQL and of the write paths.
FIO_ONLY = "*-qd1,*-qd16,*-qd32"
WRITE_PATHS = ("direct", "journal", "cache", "local")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PathsWorld]:
    made = PathsWorld(tmp_path)
    yield made
    made.store.close()


def suite() -> PathsSuite:
    loaded = load_suite(Path(__file__).parents[4] / "suites", "paths")
    assert isinstance(loaded, PathsSuite)
    return loaded


def run(world: PathsWorld, **options: object) -> PathsRun:
    values: dict[str, object] = {
        "measures": FIO_ONLY,
        "seed": 1,
        "scale": "small",
        "rounds": 5,
    }
    asked = PathsOptions(**values | options)  # type: ignore[arg-type]
    return PathsRunner(world.ports()).run(suite(), asked)


def require_nothing_left(world: PathsWorld) -> None:
    assert world.volumes.records == {}
    assert world.store.names(VOLUME_RECORD, "dev") == []
    assert world.host.daemons == {}
    assert world.host.loops == {}
    assert world.host.mounted == set()
    assert "/data/bench/paths" in world.host.removed


def test_a_run_compares_all_ways_and_leaves_nothing(world: PathsWorld) -> None:
    found = run(world)
    assert {arm.name for arm in found.arms} == {
        "rbd",
        *(
            f"{way}-{over}"
            for way in ("volumed-uring", "volumed-classic", "qsd")
            for over in ("raw", "xfs")
        ),
        "memory-uring",
        "memory-classic",
    }
    ratios = {(one.measure, one.arm, one.against): one for one in found.comparisons}
    ceiling = ratios["16k-randread-qd16", "volumed-uring-raw", "rbd"]
    assert ceiling.ratio == pytest.approx(300 / 320, rel=1e-3)
    assert ceiling.rounds == 5
    assert ratios["1m-write-qd16", "volumed-uring-raw", "qsd-raw"].ratio == pytest.approx(
        3.75, rel=1e-3
    )
    added = {
        (one.measure, one.arm): one.difference_us
        for one in found.differences
        if one.against == "rbd"
    }
    assert added["16k-randread-qd1", "volumed-uring-raw"] == pytest.approx(20)
    verdicts = {(one.name, one.measure): one.reached for one in found.targets}
    assert verdicts["librbd-throughput", "16k-randwrite-qd32"] is True
    assert verdicts["added-latency", "4k-randread-qd1"] is True
    assert verdicts["qsd-sequential-write", "1m-write-qd16"] is False
    assert verdicts["transport-qd1", "transport-4k-randread-qd1"] is True
    assert verdicts["mysql-update-index", "update-index"] is None
    require_nothing_left(world)


def test_it_is_archived_with_its_raw_data(world: PathsWorld) -> None:
    found = run(world, rounds=2)
    archive = RunArchive(world.home.runs_dir)
    assert archive.load("latest") == found
    raw = archive.run_dir(found.run_id) / "raw"
    assert (raw / "round-02.volumed-uring-xfs.json").exists()
    assert "[16k-randread-qd16]" in (raw / "round-01.rbd.fio").read_text(encoding="utf-8")
    settings = {(one.group, one.name): one.value for one in found.environment}
    assert settings["versions", "volumed"] == "volumed 1.0"
    assert settings["load", "seed"] == "1"
    assert "too few to judge" in " ".join(found.warnings)
    assert [len(order) for order in found.order] == [6, 6]


def test_all_arms_of_a_round_get_the_same_offsets_and_order(world: PathsWorld) -> None:
    run(world, rounds=2)
    seeds: dict[str, set[str]] = {}
    for _, name, text in world.host.fio_jobs:
        if name.startswith("round-"):
            number = name.partition(".")[0]
            seeds.setdefault(number, set()).update(
                line for line in text.splitlines() if line.startswith("randseed")
            )
    assert [len(found) for found in seeds.values()] == [1, 1]
    assert seeds["round-01"] != seeds["round-02"]


def test_raw_writes_stay_behind_the_file_system(world: PathsWorld) -> None:
    run(world, rounds=1)
    (spec,) = world.volumes.made
    assert spec.filesystem_bytes is not None
    for _, name, text in world.host.fio_jobs:
        options = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        offset, size = int(options["offset"]), int(options["size"])
        if name.endswith("raw") or name in ("round-01.rbd", "fill.image"):
            assert offset >= spec.filesystem_bytes
            assert offset + size <= spec.size_bytes
        else:
            assert offset == 0


def test_while_fio_opens_the_image_itself_the_volume_is_detached(world: PathsWorld) -> None:
    run(world, rounds=1)
    ways = {name: way for way, name, _ in world.host.fio_jobs}
    assert ways["round-01.rbd"] == "rbd"
    assert ways["round-01.qsd-xfs"] == "qsd"
    assert ways["round-01.memory-classic"] == "memory-classic"
    memory = {one.argv for one in world.host.started if one.name == "bench-memory"}
    assert {argv[argv.index("--classic-threads") + 1] for argv in memory} == {"2"}
    assert {argv[argv.index("--transport") + 1] for argv in memory} == {"uring", "classic"}
    keyring = "/data/bench/paths/keyring"
    assert world.host.files[PurePosixPath(keyring)].mode == 0o600
    assert not any("SECRETKEY" in word for argv in world.host.commands for word in argv)


def test_a_way_that_is_not_there_is_said_and_left_out(world: PathsWorld) -> None:
    absent = GrampusError("h1 cannot attach a volume through volumed.", code="no-driver")
    world.volumes.broken = {"volumed-uring": absent, "volumed-classic": absent}
    found = run(world)
    assert {one.arm for one in found.results} >= {"rbd", "qsd-raw", "qsd-xfs"}
    assert not any("volumed" in one.arm for one in found.results)
    said = [one for one in found.warnings if one.startswith("volumed-uring failed in round 1")]
    assert len(said) == 1
    assert "left out from here on" in said[0]
    verdicts = {one.name: one.reached for one in found.targets}
    assert verdicts["librbd-throughput"] is None
    require_nothing_left(world)


def test_what_fails_once_is_tried_again(world: PathsWorld) -> None:
    def failing(way: str, name: str) -> str | None:
        return "fio: io error" if name == "round-02.volumed-uring-xfs" else None

    world.host.failing = failing
    found = run(world)
    results = {(one.arm, one.measure): one.rounds for one in found.results}
    assert results["volumed-uring-raw", "16k-randread-qd16"] == 5
    assert results["volumed-uring-xfs", "16k-randread-qd16"] == 4
    assert any("fio: io error" in warning for warning in found.warnings)
    assert any("Fewer rounds than planned" in warning for warning in found.warnings)


def test_what_fails_twice_is_given_up(world: PathsWorld) -> None:
    world.host.failing = lambda way, name: "fio: io error" if ".qsd" in name else None
    found = run(world)
    assert world.volumes.attached_by.count("qsd") == 1 + 2  # once to fill the file system
    assert not any(one.arm == "qsd-raw" for one in found.results)


def test_when_everything_fails_there_is_no_run(world: PathsWorld) -> None:
    world.host.failing = lambda way, name: "broken" if name.startswith("round") else None
    with pytest.raises(GrampusError) as caught:
        run(world)
    assert caught.value.code == "nothing-measured"
    assert RunArchive(world.home.runs_dir).run_ids() == []
    require_nothing_left(world)


@pytest.mark.parametrize(
    "where",
    ["fill.image", "fill.xfs", "round-01.rbd", "round-02.qsd-xfs", "round-03.memory-uring"],
)
def test_an_interrupt_anywhere_leaves_nothing(world: PathsWorld, where: str) -> None:
    world.host.interrupt_at = where
    with pytest.raises(KeyboardInterrupt):
        run(world)
    assert RunArchive(world.home.runs_dir).run_ids() == []
    require_nothing_left(world)


def test_a_volume_that_shall_be_kept_is_detached_and_replaced_by_the_next_run(
    world: PathsWorld,
) -> None:
    run(world, rounds=1, keep_data=True)
    assert world.volumes.records[VOLUME].attachment is None
    run(world, rounds=1)
    assert world.volumes.deleted == [VOLUME, VOLUME]
    require_nothing_left(world)


@pytest.mark.parametrize("name", [VOLUME, VOLUME_WITH_EXTERNAL_LOG])
def test_a_volume_of_somebody_else_is_never_touched(world: PathsWorld, name: str) -> None:
    spec = world.volumes.plan_create(name, "databases", 1)
    theirs = world.volumes.create(spec)
    with pytest.raises(RefusedError) as caught:
        run(world, measures="4k-append-fsync", arms="direct,journal")
    assert caught.value.code == "exists"
    assert world.volumes.records == {name: theirs}
    assert name not in world.volumes.deleted


def test_a_database_that_cannot_be_made_is_said_and_the_rest_goes_on(world: PathsWorld) -> None:
    found = run(world, measures="*", rounds=1)
    assert any("The database could not be prepared" in warning for warning in found.warnings)
    assert not any(one.measure == "update-index" for one in found.results)
    require_nothing_left(world)


def test_a_slow_machine_shortens_the_jobs(world: PathsWorld) -> None:
    slow = world.clock.sleep
    world.clock.sleep = lambda seconds: slow(seconds * 4)  # type: ignore[method-assign]
    found = run(world)
    assert any(warning.startswith("Jobs were shortened from 800 ms") for warning in found.warnings)
    assert found.rounds == 5


def test_hosts(world: PathsWorld) -> None:
    runner = PathsRunner(world.ports())
    assert runner.plan(suite(), PathsOptions()).host == "h1"
    with pytest.raises(NotFoundError):
        runner.plan(suite(), PathsOptions(host="h9"))
    world.host.up = False
    for options in (PathsOptions(), PathsOptions(host="h1")):
        with pytest.raises(HostUnreachableError):
            runner.plan(suite(), options)
