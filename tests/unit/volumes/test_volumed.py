"""The driver volumed: what it starts, and what it makes of what the daemon says."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

import pytest

from grampus.core.errors import GrampusError
from grampus.core.units import GIB, MIB
from grampus.volumes.drivers.port import Driver, MapRequest
from grampus.volumes.drivers.table import build_drivers
from grampus.volumes.drivers.volumed import (
    NOT_BUILT,
    VolumedProgram,
    explain_probe,
    memory_limit_bytes,
)
from grampus.volumes.live import (
    parse_journal_counts,
    parse_result,
    parse_statistics,
    parse_status,
)
from grampus.volumes.model import WritePath

from .cluster import Image
from .test_drivers import REQUEST
from .world import IMAGE, World

EXPORT = PurePosixPath("/data/h1/exports/demo/image")
STATUS = {
    "version": "0.1.0",
    "pid": 7,
    "state": "running",
    "state_reason": None,
    "image": IMAGE,
    "device": "rbd",
    "size_bytes": GIB,
    "block_size_bytes": 4096,
    "client_address": "10.9.0.11:0/77",
    "lock_owner": True,
    "transport": {
        "name": "uring",
        "reason": "the kernel offers it",
        "queues": 2,
        "entries_per_queue": 32,
        "threads": 2,
    },
    "in_flight": 3,
    "oldest_in_flight_ms": 12,
    "librbd_version": "1.20.0",
    "uptime_s": 3.5,
}
JOURNAL = {
    "state": "quiescing",
    "epoch": 7,
    "fill_ratio": 0.125,
    "held_bytes": MIB,
    "used_bytes": 32 * MIB,
    "capacity_bytes": 256 * MIB,
    "lag_bytes": 4096,
    "lag_ms": 1.5,
    "freed_bytes_per_s": 1000,
    "retrying": "no space",
    "sealed": 9,
    "replicated": 8,
    "applied": 7,
    "trimmed": 6,
}
LATENCY = {"count": 9, "sum": 900, "min": 50, "max": 300, "p50": 90, "p90": 200, "p99": 290.5}
READ = {"operations": 9, "bytes": 36864, "errors": 1, "in_flight": 0, "latency_us": LATENCY}


@pytest.fixture
def prepared(world: World) -> World:
    """An image and its user, the user's keyring on h1, and a volumed that was built."""
    world.cluster.images[IMAGE] = Image(GIB)
    world.cluster.users["client.u"] = {}
    keyring = PurePosixPath("/data/h1/etc-ceph/ceph.client.u.keyring")
    world.h1.write_file(keyring, "key", mode=0o600)
    world.build_volumed()
    return world


def _driver(world: World) -> Driver:
    return build_drivers(world.clock, VolumedProgram(world.volumed))["volumed"]


def test_the_program_goes_to_the_host_and_serves_the_image_as_its_user(prepared: World) -> None:
    mapped = _driver(prepared).ensure_mapped(prepared.h1, REQUEST)
    assert prepared.h1.programs == {PurePosixPath("/data/h1/bin/volumed"): b"ELF"}
    spec = prepared.h1.daemons["volumed-demo"].spec
    assert spec.argv == (
        *("/data/h1/bin/volumed", "serve"),
        *("--image", IMAGE, "--user", "u", "--conf", "/etc/ceph/ceph.conf"),
        *("--mountpoint", str(EXPORT), "--socket", "/data/h1/exports/demo/control"),
        *("--transport", "auto", "--log-format", "text"),
    )
    assert spec.env == {"LD_PRELOAD": "/usr/lib/a/libtcmalloc.so.4"}
    assert spec.privileged
    read_only = {bind.target: bind.read_only for bind in spec.binds}
    assert read_only == {"/etc/ceph": True, "/data/h1/bin": True, str(EXPORT.parent): False}
    assert mapped.export_path == str(EXPORT)
    assert mapped.transport == "uring"
    assert [mapped.client_address] == prepared.cluster.watchers(IMAGE)


def test_transport_that_is_asked_for_is_passed_on(prepared: World) -> None:
    asked = MapRequest(REQUEST.volume, "u", REQUEST.reference, transport="classic")
    assert _driver(prepared).ensure_mapped(prepared.h1, asked).transport == "classic"


def test_without_a_built_volumed_the_mapping_says_so(prepared: World) -> None:
    prepared.volumed.unlink()
    assert VolumedProgram(None).observe_absence(prepared.h1) == NOT_BUILT
    with pytest.raises(GrampusError, match="has not been built") as caught:
        _driver(prepared).ensure_mapped(prepared.h1, REQUEST)
    assert caught.value.code == "no-volumed"


def test_a_daemon_that_never_answers_is_waited_for_and_not_for_ever(prepared: World) -> None:
    prepared.h1.is_volumed_mute = True
    with pytest.raises(GrampusError, match=r"export of databases/demo\.1/demo on h1 after 30 s"):
        _driver(prepared).ensure_mapped(prepared.h1, REQUEST)
    assert not prepared.h1.loops


def test_a_daemon_that_stops_answering_still_serves_its_device(prepared: World) -> None:
    driver = _driver(prepared)
    device = driver.ensure_mapped(prepared.h1, REQUEST).device
    prepared.h1.is_volumed_mute = True
    assert driver.find(prepared.h1, REQUEST) == device
    prepared.h1.commands.clear()
    live = driver.observe_live(prepared.h1, REQUEST)
    assert live is not None
    assert (live.state, live.state_reason) == ("unknown", "volumed-demo does not answer")
    asked = [argv for argv in prepared.h1.commands if "ctl" in argv]
    assert len(asked) == 1, "it is not waited for twice"
    driver.ensure_unmapped(prepared.h1, REQUEST)
    assert not prepared.h1.daemons


def test_a_daemon_of_another_version_still_serves_its_device(prepared: World) -> None:
    driver = _driver(prepared)
    device = driver.ensure_mapped(prepared.h1, REQUEST).device
    prepared.h1.volumed_answers = '{"condition": "fine"}'
    assert driver.find(prepared.h1, REQUEST) == device
    live = driver.observe_live(prepared.h1, REQUEST)
    assert live is not None
    assert (live.state, live.kinds) == ("unknown", {})
    assert "is not valid" in (live.state_reason or "")
    driver.ensure_unmapped(prepared.h1, REQUEST)
    assert not prepared.h1.daemons


def test_killed_daemon_is_dead_and_mapped_anew(prepared: World) -> None:
    driver = _driver(prepared)
    driver.ensure_mapped(prepared.h1, REQUEST)
    prepared.h1.kill_daemon("volumed-demo")
    assert driver.find(prepared.h1, REQUEST) is None
    live = driver.observe_live(prepared.h1, REQUEST)
    assert live is not None
    assert live.state == "dead"
    device = driver.ensure_mapped(prepared.h1, REQUEST).device
    assert prepared.h1.image_of(device) is prepared.image
    assert list(prepared.h1.loops) == [device]


def test_a_fenced_daemon_is_dead_and_goes_without_a_flush(prepared: World) -> None:
    driver, before = _driver(prepared), prepared.inventory()
    mapped = driver.ensure_mapped(prepared.h1, REQUEST)
    assert mapped.client_address is not None
    prepared.cluster.blocklist.append(mapped.client_address)
    assert driver.find(prepared.h1, REQUEST) is None
    driver.ensure_unmapped(prepared.h1, REQUEST)  # the fake refuses a stop that would flush
    assert prepared.inventory() == before


def test_a_device_of_the_same_volume_on_another_host_of_the_machine_is_left_alone(
    prepared: World,
) -> None:
    """Lab hosts see each other's loop devices; both may be of one volume after a fence."""
    driver = _driver(prepared)
    driver.ensure_mapped(prepared.h1, REQUEST)
    (loop,) = prepared.h1.loops.values()
    prepared.h2.loops["/dev/loop1"] = loop
    assert driver.find(prepared.h2, REQUEST) is None
    driver.ensure_unmapped(prepared.h2, REQUEST)
    assert list(prepared.h2.loops) == ["/dev/loop1"]


def test_device_grows_with_the_image(prepared: World) -> None:
    driver = _driver(prepared)
    device = driver.ensure_mapped(prepared.h1, REQUEST).device
    prepared.image.size_bytes = 2 * GIB
    grown = MapRequest(
        REQUEST.volume.model_copy(update={"size_bytes": 2 * GIB}), "u", REQUEST.reference
    )
    driver.ensure_grown(prepared.h1, grown)
    assert prepared.h1.loops[device].size_bytes == 2 * GIB


def test_a_daemon_that_sees_another_size_than_asked_is_an_error(prepared: World) -> None:
    driver = _driver(prepared)
    driver.ensure_mapped(prepared.h1, REQUEST)
    grown = MapRequest(
        REQUEST.volume.model_copy(update={"size_bytes": 2 * GIB}), "u", REQUEST.reference
    )
    with pytest.raises(GrampusError, match=f"the image has {GIB} bytes, not {2 * GIB}"):
        driver.ensure_grown(prepared.h1, grown)


def test_status_and_statistics_are_read() -> None:
    live = parse_status(parse_result(json.dumps(STATUS)))
    assert (live.state, live.transport, live.transport_reason) == (
        *("running", "uring"),
        "the kernel offers it",
    )
    assert (live.size_bytes, live.in_flight, live.oldest_in_flight_ms) == (GIB, 3, 12)
    kinds = parse_statistics({"kinds": {"read": READ}})
    assert (kinds["read"].p50_us, kinds["read"].p99_us, kinds["read"].errors) == (90, 290.5, 1)


def test_a_journal_is_read_and_none_of_an_older_volumed() -> None:
    live = parse_status({**STATUS, "write_path": "journal", "journal": JOURNAL})
    assert live.write_path == "journal"
    assert live.journal is not None
    older = {"mode": None, "degraded": None, "local_used_bytes": 0, "local_capacity_bytes": 0}
    none = {"max_lag_ms": None, "local_asides": (), "left_behind": None, "silent_ms": None}
    assert live.journal.model_dump() == {**JOURNAL, **older, **none}
    assert (live.read_cache, live.journal_counts) == (None, None)
    live = parse_status({**STATUS, "write_path": "direct", "journal": None})
    assert (live.write_path, live.journal) == ("direct", None)
    assert (parse_status(STATUS).write_path, parse_status(STATUS).journal) == (None, None)


@pytest.mark.parametrize(
    ("facts", "silent_ms", "has_waited", "is_silent"),
    [
        ({}, None, False, False),
        ({}, 1900.0, False, False),
        ({}, 2000.0, True, False),
        ({}, 5000.0, True, True),
        ({"oldest_in_flight_ms": 2100.0}, None, True, False),
        ({"oldest_in_flight_ms": 1900.0}, 1900.0, False, False),
        ({"state": "stalled"}, None, True, True),
    ],
)
def test_for_how_long_a_volume_has_waited(
    facts: dict[str, object], silent_ms: float | None, has_waited: bool, is_silent: bool
) -> None:
    journal = {**JOURNAL, "silent_ms": silent_ms}
    live = parse_status({**STATUS, "journal": journal, **facts})
    assert (live.has_waited(2.0), live.is_silent) == (has_waited, is_silent)


READ_CACHE = {
    "on": True,
    "off_reason": None,
    "capacity_bytes": 1024 * MIB,
    "used_bytes": 512 * MIB,
    "hits": 75,
    "misses": 25,
    "hit_bytes": 75 * 16384,
    "miss_bytes": 25 * 16384,
    "fills": 25,
    "evictions": 2,
    "checksum_failures": 0,
}


def test_a_cache_that_works_as_a_journal_is_read_with_its_reason() -> None:
    journal = {
        **JOURNAL,
        "mode": "journal",
        "degraded": "the log failed: No space left on device",
        "left_behind": "h1:/d/log",
        "silent_ms": None,
        "local_used_bytes": 0,
        "local_capacity_bytes": 256 * MIB,
        "max_lag_ms": 100.0,
        "local_asides": ["/d/log.aside-3-1"],
    }
    live = parse_status(
        {**STATUS, "write_path": "cache", "journal": journal, "read_cache": READ_CACHE}
    )
    assert live.journal is not None
    assert live.journal.model_dump(mode="json") == journal
    assert live.read_cache is not None
    assert live.read_cache.model_dump() == READ_CACHE
    assert live.read_cache.hit_ratio == 0.75
    off = parse_status({**STATUS, "read_cache": {"on": False, "off_reason": "no room"}})
    assert off.read_cache is not None
    assert (off.read_cache.off_reason, off.read_cache.hit_ratio) == ("no room", None)


def test_what_a_journal_has_done_is_counted() -> None:
    counts = parse_journal_counts(
        {
            "journal": {
                "changes": 100,
                "change_bytes": 1000,
                "batches": 4,
                "append_bytes": 800,
                "appends": 5,
                "records": 1,
                "applies": 24,
                "coalesced_in_batch_bytes": 200,
                "coalesced_settled_bytes": 50,
                "a later one": 1,
            }
        }
    )
    assert counts is not None
    assert (counts.mean_batch_bytes, counts.coalesced_ratio) == (200, 0.25)
    assert (counts.cluster_writes_per_change, counts.local_appends) == (0.3, 0)
    assert parse_journal_counts({"kinds": {}}) is None
    assert parse_journal_counts({"journal": None}) is None
    idle = parse_journal_counts({"journal": {}})
    assert idle is not None
    assert (idle.mean_batch_bytes, idle.coalesced_ratio, idle.cluster_writes_per_change) == (
        *(None, None),
        None,
    )
    with pytest.raises(GrampusError, match="is not valid"):
        parse_journal_counts({"journal": {"changes": "x"}})


def test_write_path_goes_to_the_daemon_with_the_memory_for_it(prepared: World) -> None:
    volume = REQUEST.volume.model_copy(update={"write_path": "journal"})
    _driver(prepared).ensure_mapped(prepared.h1, MapRequest(volume, "u", REQUEST.reference))
    spec = prepared.h1.daemons["volumed-demo"].spec
    index = spec.argv.index("--write-path")
    assert spec.argv[index : index + 2] == ("--write-path", "journal")
    assert spec.limits.memory_bytes == memory_limit_bytes(volume)
    assert "--journal-memory" not in spec.argv, "a volumed of before knows no such option"
    assert spec.stop_timeout_s == 120.0


@pytest.mark.parametrize("write_path", ["journal", "cache"])
def test_the_memory_of_the_journal_goes_to_the_daemon(prepared: World, write_path: str) -> None:
    changed = {"write_path": write_path, "journal_memory_bytes": 64 * MIB}
    volume = REQUEST.volume.model_copy(update=changed)
    request = MapRequest(volume, "u", REQUEST.reference, has_local_log=write_path == "cache")
    _driver(prepared).ensure_mapped(prepared.h1, request)
    argv = prepared.h1.daemons["volumed-demo"].spec.argv
    assert argv[argv.index("--journal-memory") + 1] == str(64 * MIB)


def test_a_journal_that_is_applied_first_is_waited_for(prepared: World) -> None:
    prepared.h1.is_volumed_mute = True
    request = MapRequest(REQUEST.volume, "u", REQUEST.reference, is_unapplied=True)
    with pytest.raises(GrampusError, match=r"export of databases/demo\.1/demo on h1 after 10 min"):
        _driver(prepared).ensure_mapped(prepared.h1, request)


def test_percentiles_of_nothing_are_none() -> None:
    idle = {**READ, "operations": 0, "latency_us": {**LATENCY, "count": 0}}
    assert parse_statistics({"kinds": {"flush": idle}})["flush"].p50_us is None


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "null", "7"])
def test_an_answer_that_is_no_document_is_a_clear_error(text: str) -> None:
    with pytest.raises(GrampusError, match="answer of volumed is not valid") as caught:
        parse_result(text)
    assert caught.value.code == "volumed-answer"


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"state": 7},
        {"state": "running", "in_flight": "x"},
        {"state": "running", "journal": {"state": "running"}},
    ],
)
def test_a_status_of_another_form_is_a_clear_error(document: dict[str, object]) -> None:
    with pytest.raises(GrampusError, match="is not valid"):
        parse_status(document)


@pytest.mark.parametrize(
    "document", [{}, {"kinds": []}, {"kinds": {"read": {}}}, {"kinds": {"read": None}}]
)
def test_statistics_of_another_form_are_a_clear_error(document: dict[str, object]) -> None:
    with pytest.raises(GrampusError, match="is not valid"):
        parse_statistics(document)


@pytest.mark.parametrize(
    ("probe", "why"),
    [
        ('{"fuse": true, "reason": "enable_uring is N", "librbd_version": "1.20.0"}', None),
        (
            '{"fuse": true, "librbd_version": null, "librbd_reason": "no librbd.so.1"}',
            "librbd cannot be loaded (no librbd.so.1)",
        ),
        ('{"fuse": false, "reason": "no /dev/fuse"}', "FUSE cannot be used (no /dev/fuse)"),
        ('{"fuse": false}', "FUSE cannot be used (no reason given)"),
    ],
)
def test_probe_says_why_not(probe: str, why: str | None) -> None:
    assert explain_probe(probe) == why


def test_the_memory_limit_depends_on_no_count_of_cpus() -> None:
    def limit(write_path: WritePath, memory_bytes: int | None = None) -> int:
        changed = {"write_path": write_path, "journal_memory_bytes": memory_bytes}
        return memory_limit_bytes(REQUEST.volume.model_copy(update=changed))

    assert limit("direct") == 896 * MIB
    assert limit("journal") == limit("journal", 16 * MIB) == (896 + 512) * MIB
    assert limit("journal", 1024 * MIB) == (896 + 2048) * MIB
    assert limit("cache") == (896 + 512 + 160) * MIB


def test_program_is_found_only_as_a_file(tmp_path: Path) -> None:
    assert not VolumedProgram(tmp_path).is_built()
    assert not VolumedProgram(tmp_path / "none").is_built()
