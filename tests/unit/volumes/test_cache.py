"""INV-1, INV-3: what a host's own log holds is brought in, or given up on purpose; never by chance.

A log that the fakes are given holds 2 frames which the cluster lacks, beside 3 in its journal.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from grampus.core.errors import RefusedError, UsageError
from grampus.core.units import MIB
from grampus.hosts.port import CommandFailedError, HostUnreachableError
from grampus.volumes.decide_local_log import find_current_log, note_current_log, note_opened
from grampus.volumes.drivers.volumed import memory_limit_bytes
from grampus.volumes.model import LocalLog, LocalLogState, VolumeRecord, VolumeSpec
from tests.fakes.hosts import FakeFile
from tests.unit.operation_runner import planned

from .cluster import POOL
from .local_disk import Log, read_log
from .world import LAB, World


@pytest.fixture
def cached(world: World) -> World:
    """A detached volume with the write path cache."""
    world.build_volumed()
    world.create(write_path="cache", max_lag_ms=50)
    return world


def _leave(world: World) -> None:
    """Attached to h1, written to, its volumed killed, detached."""
    world.attach()
    world.h1.kill_daemon("volumed-demo")
    world.service().ensure_detached("demo")
    assert _log(world) == Log(1, 2)


def _log(world: World, host: str = "h1") -> Log | None:
    return read_log(world.fleet.by_name[host].files, world.local_directory(host))


def _logs(world: World) -> list[tuple[str, LocalLogState]]:
    return [(log.host, log.state) for log in world.service().get("demo").local_logs]


def _asides(world: World) -> list[tuple[str, str]]:
    return [(aside.host, aside.path) for aside in world.service().observe_asides("demo")]


ASIDE = ("h1", "/data/h1/cache/demo/log.aside-1-1")


def test_volumed_gets_a_directory_on_the_host_and_how_far_it_may_lag(cached: World) -> None:
    attachment = cached.attach()
    assert attachment.driver_reason == "only volumed serves the write path cache"
    spec = cached.h1.daemons["volumed-demo"].spec
    index = spec.argv.index("--write-path")
    assert spec.argv[index : index + 6] == (
        *("--write-path", "cache", "--max-lag-ms", "50"),
        *("--local-dir", "/data/h1/cache/demo"),
    )
    assert spec.limits.memory_bytes == memory_limit_bytes(cached.service().get("demo").spec)
    assert ("mkdir", "-p", "-m", "700", "/data/h1/cache/demo") in cached.h1.commands
    assert ("sync", "/data/h1/cache", "/data/h1") in cached.h1.commands
    live = cached.service().observe_live("demo")
    assert live is not None
    assert live.journal is not None
    assert (live.write_path, live.journal.mode, live.journal.max_lag_ms) == ("cache", "cache", 100)
    assert live.journal_counts is not None
    assert live.journal_counts.cluster_writes_per_change == 0.2


def test_a_host_whose_disk_is_broken_serves_as_with_journal(cached: World) -> None:
    cached.h1.disk_is_broken = True
    cached.attach()
    argv = cached.h1.daemons["volumed-demo"].spec.argv
    assert argv[argv.index("--write-path") + 1] == "journal"
    assert "--local-dir" not in argv
    live = cached.service().observe_live("demo")
    assert live is not None
    assert live.journal is not None
    assert str(live.journal.degraded).startswith("the host could not keep a log")
    assert _logs(cached) == [("h1", "drained")]  # the directory may be there: noted before
    cached.service().ensure_detached("demo")
    assert _logs(cached) == []
    cached.h1.disk_is_broken = False
    cached.attach()
    assert _logs(cached) == [("h1", "current")]


def test_a_broken_disk_whose_log_may_be_needed_is_not_passed_over(cached: World) -> None:
    _leave(cached)
    cached.h1.disk_is_broken = True
    with pytest.raises(RefusedError, match="may have commits that the cluster lacks") as refused:
        cached.attach()
    assert refused.value.code == "local-log"
    assert "Input/output error" in str(refused.value)
    assert _logs(cached) == [("h1", "current")]
    assert _log(cached) == Log(1, 2)
    cached.h1.disk_is_broken = False
    cached.service().ensure_attached("demo", "h1")
    assert (_log(cached), cached.image.frames) == (Log(2, 0), 0)


def test_a_clean_detach_drains_the_log_and_removes_it(cached: World) -> None:
    before = cached.inventory()
    cached.attach()
    assert _logs(cached) == [("h1", "current")]
    attached = cached.inventory()
    plan = planned(cached.runner, lambda: cached.service().ensure_detached("demo"))
    assert "Apply the journal" in plan
    assert cached.inventory() == attached
    cached.service().ensure_detached("demo")
    assert (_log(cached), _logs(cached), cached.image.frames) == (None, [], 0)
    after = cached.inventory()
    assert after == {**before, "journals": after["journals"]}


def test_other_write_paths_get_no_directory_while_there_is_none(world: World) -> None:
    world.build_volumed()
    world.create(write_path="journal")
    world.attach()
    argv = world.h1.daemons["volumed-demo"].spec.argv
    assert not {"--local-dir", "--max-lag-ms"} & set(argv)
    assert _logs(world) == []


def test_a_killed_volumeds_log_is_brought_in_where_it_is(cached: World) -> None:
    _leave(cached)
    assert _logs(cached) == [("h1", "current")]
    cached.service().ensure_attached("demo", "h1")
    assert (cached.image.frames, _asides(cached)) == (0, [])
    assert _log(cached) == Log(2, 0)


def test_another_host_is_refused_while_the_log_here_may_be_needed(cached: World) -> None:
    _leave(cached)
    before = cached.inventory()
    service = cached.service()
    for act in (
        lambda: service.ensure_attached("demo", "h2"),
        lambda: planned(cached.runner, lambda: service.ensure_attached("demo", "h2")),
    ):
        with pytest.raises(RefusedError, match="on h1 may have commits") as caught:
            act()
        assert caught.value.code == "local-log"
        assert "volume replay demo" in caught.value.remedy
        assert "volume fence demo" in caught.value.remedy
    assert cached.inventory() == before
    assert cached.service().replay("demo").replayed_frames == 5
    (tool,) = [argv for argv in cached.h1.commands if "replay" in argv]
    assert tool[-2:] == ("--local-dir", "/data/h1/cache/demo")
    assert (_log(cached), _logs(cached)) == (None, [])
    cached.service().ensure_attached("demo", "h2")


def test_what_a_lost_hosts_log_holds_is_given_up_on_purpose_alone(cached: World) -> None:
    _leave(cached)
    cached.cut_off(cached.h1)
    with pytest.raises(HostUnreachableError, match="h1 cannot be reached, and its log") as caught:
        cached.service().replay("demo")
    assert "volume fence demo" in caught.value.remedy
    with pytest.raises(RefusedError):
        cached.service().ensure_attached("demo", "h2")
    before = cached.inventory()
    assert planned(cached.runner, lambda: cached.service().fence("demo")) == [
        "Record that 'demo' does not need its log on h1"
    ]
    assert cached.inventory() == before
    blocklist = list(cached.cluster.blocklist)
    record = cached.service().fence("demo")
    assert (record.fenced, _logs(cached)) == ((), [("h1", "fenced")])
    assert cached.cluster.blocklist == blocklist
    cached.service().ensure_attached("demo", "h2")
    assert cached.image.frames == 0
    # INV-3: back again, its log is of an older epoch.
    cached.h1.up = True
    cached.service().ensure_detached("demo")
    assert _log(cached) == Log(1, 2)
    cached.service().ensure_attached("demo", "h1")
    assert _asides(cached) == [ASIDE]


def test_a_log_set_aside_outlives_detaching_and_goes_with_the_volume(cached: World) -> None:
    cached.attach()
    cached.cut_off(cached.h1)
    cached.service().fence("demo")
    cached.attach(host="h2")
    assert _logs(cached) == [("h1", "fenced"), ("h2", "current")]
    cached.service().ensure_detached("demo")
    assert _logs(cached) == [("h1", "fenced")]
    assert (_asides(cached), _log(cached, "h2")) == ([], None)
    cached.h1.up = True
    cached.service().ensure_attached("demo", "h1")
    cached.service().ensure_detached("demo")
    assert (_logs(cached), _asides(cached)) == ([("h1", "drained")], [ASIDE])
    assert _log(cached) is None
    cached.service().delete("demo")
    assert not [path for path in cached.h1.files if "cache" in str(path)]
    assert not [path for path in cached.h1.directories if "cache" in str(path)]


@pytest.mark.parametrize("act", ["attach", "replay"])
def test_after_a_fence_the_same_host_brings_everything_in(cached: World, act: str) -> None:
    cached.attach()
    cached.service().fence("demo")
    if act == "attach":
        cached.service().ensure_attached("demo", "h1")
    else:
        assert cached.service().replay("demo").replayed_frames == 5
    assert (cached.image.frames, _asides(cached)) == (0, [])


@pytest.mark.parametrize("path", ["direct", "journal"])
def test_a_log_is_brought_in_whatever_the_write_path_is_by_then(cached: World, path: str) -> None:
    _leave(cached)
    cached.service().ensure_write_path("demo", path)  # type: ignore[arg-type]
    cached.service().ensure_attached("demo", "h1")
    argv = cached.h1.daemons["volumed-demo"].spec.argv
    assert ("--local-dir" in argv, "--max-lag-ms" in argv) == (True, False)
    assert (cached.image.frames, _log(cached)) == (0, None)
    cached.service().ensure_detached("demo")
    assert _logs(cached) == []


def test_a_directory_that_nobody_noted_is_brought_in_too(cached: World) -> None:
    """As when the record was lost, or is of an earlier version."""
    _leave(cached)
    record = cached.service().get("demo").model_copy(update={"local_logs": ()})
    cached.store.put("volume", LAB, "demo", record)
    cached.service().ensure_write_path("demo", "journal")
    cached.service().ensure_attached("demo", "h1")
    assert (cached.image.frames, _logs(cached)) == (0, [("h1", "current")])


def test_a_directory_that_cannot_be_removed_keeps_nobody_from_detaching(cached: World) -> None:
    cached.attach()
    cached.h1.failing_removals = (cached.local_directory(),)
    cached.service().ensure_detached("demo")
    assert cached.service().get("demo").host is None
    assert _logs(cached) == [("h1", "drained")]
    cached.service().ensure_attached("demo", "h2")
    cached.h1.failing_removals = ()
    cached.service().ensure_detached("demo")
    assert (_logs(cached), cached.local_directory() in cached.h1.directories) == ([], False)


def test_a_drained_log_on_a_host_that_is_away_is_removed_once_it_is_back(cached: World) -> None:
    cached.attach()
    directory = cached.local_directory()
    cached.service().ensure_detached("demo")
    cached.h1.directories.add(directory)  # as if the removal had been cut off
    record = cached.service().get("demo")
    record = record.model_copy(update={"local_logs": (LocalLog(host="h1"),)})
    cached.store.put("volume", LAB, "demo", record)
    cached.h1.up = False
    cached.service().ensure_attached("demo", "h2")
    assert _logs(cached) == [("h1", "drained"), ("h2", "current")]
    cached.h1.up = True
    cached.service().ensure_detached("demo")
    assert (_logs(cached), directory in cached.h1.directories) == ([], False)


def test_delete_leaves_what_it_cannot_reach(cached: World) -> None:
    _leave(cached)
    cached.cut_off(cached.h1)
    cached.service().delete("demo")
    assert cached.cluster.images == {}
    assert cached.service().all() == []
    assert cached.local_directory() in cached.h1.directories


@pytest.mark.parametrize(
    ("path", "lag_ms", "expected"),
    [
        ("cache", 20, ("cache", 20)),
        (None, 20, ("cache", 20)),
        ("cache", None, ("cache", 50)),
        ("journal", None, ("journal", 100)),
    ],
)
def test_set_changes_path_and_lag(
    cached: World, path: str | None, lag_ms: int | None, expected: tuple[str, int]
) -> None:
    spec = cached.service().ensure_write_path("demo", path, max_lag_ms=lag_ms).spec  # type: ignore[arg-type]
    assert (spec.write_path, spec.max_lag_ms) == expected


def test_set_changes_the_memory_of_the_journal(cached: World) -> None:
    service = cached.service()
    assert service.ensure_write_path("demo", None, journal_memory_bytes=64 * MIB).spec == (
        service.get("demo").spec.model_copy(update={"journal_memory_bytes": 64 * MIB})
    )
    assert service.ensure_write_path("demo", "journal").spec.journal_memory_bytes == 64 * MIB
    record = service.ensure_write_path("demo", None, journal_memory_bytes=256 * MIB)
    assert record.spec.journal_memory_bytes is None, "the default again"
    service.ensure_write_path("demo", None, journal_memory_bytes=64 * MIB)
    assert service.ensure_write_path("demo", "direct").spec.journal_memory_bytes is None
    with pytest.raises(UsageError, match="has no journal") as caught:
        service.ensure_write_path("demo", None, journal_memory_bytes=64 * MIB)
    assert "--write-path journal" in caught.value.remedy


def test_another_lag_needs_a_detached_volume(cached: World) -> None:
    cached.attach()
    cached.service().ensure_write_path("demo", "cache", max_lag_ms=50)  # it is so already
    with pytest.raises(RefusedError, match="attached to h1"):
        cached.service().ensure_write_path("demo", "cache", max_lag_ms=60)


@pytest.mark.parametrize(
    "act",
    [
        lambda w: w.service().plan_create("other", POOL, 1 << 30, max_lag_ms=100),
        lambda w: w.service().ensure_write_path("demo", "journal", max_lag_ms=100),
    ],
)
def test_a_lag_without_cache_is_refused(cached: World, act: Callable[[World], object]) -> None:
    with pytest.raises(UsageError, match="has no max-lag") as caught:
        act(cached)
    assert "--write-path cache" in caught.value.remedy


SPEC = VolumeSpec(name="demo", pool="p", image="i", size_bytes=1, write_path="cache")


def _record(*logs: tuple[str, LocalLogState]) -> VolumeRecord:
    noted = tuple(LocalLog(host=host, state=state) for host, state in logs)
    return VolumeRecord(spec=SPEC, ceph_user="u", local_logs=noted)


@pytest.mark.parametrize(
    ("before", "has_log", "after"),
    [
        ([], True, [("h2", "current")]),
        ([], False, []),
        ([("h1", "current")], True, [("h1", "drained"), ("h2", "current")]),
        ([("h1", "fenced")], True, [("h1", "fenced"), ("h2", "current")]),
        ([("h2", "fenced"), ("h1", "current")], True, [("h1", "drained"), ("h2", "current")]),
        ([("h2", "drained")], True, [("h2", "current")]),
        ([("h2", "current")], False, [("h2", "drained")]),
    ],
)
def test_at_most_one_log_is_current(
    before: list[tuple[str, LocalLogState]],
    has_log: bool,
    after: list[tuple[str, LocalLogState]],
) -> None:
    record = note_opened(_record(*before), "h2", has_log=has_log)
    assert [(log.host, log.state) for log in record.local_logs] == after
    fenced = note_current_log(record, "fenced")
    assert find_current_log(fenced) is None
    assert len(fenced.local_logs) == len(after)


def test_a_log_set_aside_stays_while_its_host_cannot_say_whether_it_is_there(
    cached: World,
) -> None:
    cached.attach()
    aside = cached.local_directory() / "log.aside-1-1"
    cached.h1.files[aside] = FakeFile("what the cluster lacks", 0o600)
    cached.h1.broken_programs["find"] = 1
    cached.service().ensure_detached("demo")
    assert (cached.service().get("demo").host, _logs(cached)) == (None, [("h1", "drained")])
    assert aside in cached.h1.files
    cached.h1.broken_programs.clear()
    assert _asides(cached) == [ASIDE]


def test_a_disk_that_does_not_answer_keeps_no_look_from_the_volume(cached: World) -> None:
    cached.attach()
    cached.h1.broken_programs["find"] = 1
    assert _asides(cached) == []
    cached.h1.broken_programs.clear()
    cached.h1.files[cached.local_directory() / "log.aside-1-1"] = FakeFile("of before", 0o600)
    assert _asides(cached) == [ASIDE]


def test_a_log_that_cannot_be_looked_for_is_not_taken_for_none(cached: World) -> None:
    _leave(cached)
    record = cached.service().get("demo").model_copy(update={"local_logs": ()})
    cached.store.put("volume", LAB, "demo", record)
    cached.service().ensure_write_path("demo", "journal")
    frames = cached.image.frames
    cached.h1.broken_programs["stat"] = 1
    with pytest.raises(CommandFailedError):
        cached.service().ensure_attached("demo", "h1")
    assert (_log(cached), cached.image.frames) == (Log(1, 2), frames)
    cached.h1.broken_programs.clear()
    cached.service().ensure_attached("demo", "h1")
    assert cached.image.frames == 0
