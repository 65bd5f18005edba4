"""What servers are told, what is switched off, what is unfit, what is offered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from grampus.bench.environments.clients import parse_cpu_s
from grampus.bench.environments.devices import (
    decide_device_load,
    decide_operations,
    parse_device_times,
)
from grampus.bench.environments.environment_plan import decide_environment
from grampus.bench.environments.fitness import why_cluster_unfit, why_disk_unfit, why_volumes_full
from grampus.bench.environments.offers import LabFeatures, decide_capabilities, decide_codes
from grampus.bench.environments.quiet import decide_quiet
from grampus.bench.environments.settings import base_parameters, decide_change, decide_parameters
from grampus.bench.matrix.capabilities import why_not_runnable
from grampus.bench.matrix.dimensions import DIMENSIONS, parse_value
from grampus.core.units import GIB, MIB
from grampus.databases.growth.decide_growth import FileSystem
from tests.unit.bench.environments.world import TIMES, make_cell


@pytest.mark.parametrize(
    ("doublewrite", "expected"),
    [
        ("default", {}),
        ("disabled", {"innodb_doublewrite": "OFF"}),
        ("detect-only", {"innodb_doublewrite": "DETECT_ONLY"}),
        ("single", {"innodb_doublewrite_files": "1"}),
        ("parallel", {"innodb_doublewrite_files": "2"}),
    ],
)
def test_parameters_are_what_the_cell_asks_for(doublewrite: str, expected: dict[str, str]) -> None:
    cell = make_cell(doublewrite=doublewrite, trx_commit=2, buffer_ratio=4.0)
    environment = decide_environment(cell)
    parameters = decide_parameters(cell, environment)
    own = {key: v for key, v in parameters.items() if key not in base_parameters(environment)}
    assert own == {
        "innodb_buffer_pool_size": str(16 * MIB),
        "innodb_flush_log_at_trx_commit": "2",
        "sync_binlog": "0",
        **expected,
    }


@pytest.mark.parametrize(("trx_commit", "sync_binlog"), [(0, "0"), (1, "1"), (2, "0")])
def test_the_binary_log_is_flushed_at_each_commit_where_the_redo_log_is(
    trx_commit: int, sync_binlog: str
) -> None:
    cell = make_cell(trx_commit=trx_commit)
    assert decide_parameters(cell, decide_environment(cell))["sync_binlog"] == sync_binlog


def test_a_pool_in_bigger_steps_is_rounded_up_as_the_server_would() -> None:
    cell = make_cell(dataset_bytes=100 * MIB, buffer_ratio=4.0)
    environment = decide_environment(cell).model_copy(update={"chunk_bytes": 8 * MIB})
    assert decide_parameters(cell, environment)["innodb_buffer_pool_size"] == str(32 * MIB)


POOL = "innodb_buffer_pool_size"
COMMIT = "innodb_flush_log_at_trx_commit"
RUNNING = {POOL: "100", COMMIT: "1"}


@pytest.mark.parametrize(
    ("wanted", "recorded", "started", "running", "live", "restarts"),
    [
        # All as wanted.
        ({POOL: "100", COMMIT: "1"}, {POOL: "100", COMMIT: "1"}, {}, RUNNING, {}, False),
        # Two that the server takes while it runs.
        ({POOL: "50", COMMIT: "0"}, {}, {}, RUNNING, {POOL: "50", COMMIT: "0"}, False),
        # Recorded before a kill, and not in effect yet.
        ({COMMIT: "0"}, {COMMIT: "0"}, {}, RUNNING, {COMMIT: "0"}, False),
        # One that waits for a start takes all with it.
        ({COMMIT: "0", "innodb_doublewrite": "OFF"}, {}, {}, RUNNING, {}, True),
        # One that is to go.
        ({COMMIT: "1"}, {}, {"innodb_doublewrite": "OFF"}, RUNNING, {}, True),
    ],
)
def test_a_server_is_restarted_only_when_it_must(
    wanted: dict[str, str],
    recorded: dict[str, str],
    started: dict[str, str],
    running: dict[str, str],
    live: dict[str, str],
    restarts: bool,
) -> None:
    change = decide_change(wanted, recorded, started, running)
    assert (change.live, change.restarts) == (live, restarts)
    assert change.recorded is (wanted != recorded)


def test_nothing_is_switched_off_that_is_off() -> None:
    dump, pools = {"flags_set": ["noscrub"]}, {"a": "on", "b": "off", "c": "warn"}
    found = decide_quiet(dump, {"active": False}, pools, [])
    assert found.flags == ("nodeep-scrub",)
    assert not found.balancer
    assert dict(found.pools) == {"a": "on"}


def _status(
    health: str = "HEALTH_OK", code: str | None = None, state: str = "active+clean"
) -> dict[str, Any]:
    checks = {}
    if code is not None:
        checks[code] = {"severity": health, "summary": {"message": f"about {code.lower()}"}}
    return {
        "health": {"status": health, "checks": checks},
        "pgmap": {"pgs_by_state": [{"state_name": state, "count": 2}]},
    }


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (_status(), None),
        (_status("HEALTH_WARN", "OSDMAP_FLAGS"), None),
        (_status("HEALTH_WARN", "MON_DISK_LOW"), None),
        (_status(state="active+clean+scrubbing"), None),
        (_status("HEALTH_WARN", "OSD_NEARFULL"), "about osd_nearfull (OSD_NEARFULL)"),
        (_status("HEALTH_WARN", "PG_DEGRADED"), "PG_DEGRADED"),
        (_status("HEALTH_ERR", "MON_DISK_CRIT"), "HEALTH_ERR: about mon_disk_crit"),
        (_status("HEALTH_ERR"), "does not say why"),
        (_status(state="active+undersized+degraded"), "2 placement groups are not clean"),
        (_status(state="active+remapped+backfilling"), "moves data"),
    ],
)
def test_what_makes_a_cluster_unfit(status: dict[str, Any], said: str | None) -> None:
    reason = why_cluster_unfit(status)
    assert (reason is None) if said is None else (reason is not None and said in reason)
    assert reason is None or reason.endswith(".")


@pytest.mark.parametrize(("free_bytes", "fit"), [(20 * GIB, True), (5 * GIB, False), (GIB, False)])
def test_a_disk_that_is_nearly_full_is_unfit(free_bytes: int, fit: bool) -> None:
    assert (why_disk_unfit(250 * GIB, free_bytes) is None) is fit


STAT = "{reads} 0 8 {read_ms} {writes} 0 16 {write_ms} 0 {busy_ms} 14 0 0 0 0 0 0"


def test_devices_are_as_busy_as_the_busiest_one() -> None:
    def read(reads: int, read_ms: int, writes: int, write_ms: int, busy_ms: int) -> Any:
        return parse_device_times(
            STAT.format(
                reads=reads, read_ms=read_ms, writes=writes, write_ms=write_ms, busy_ms=busy_ms
            )
        )

    before = {"a": read(10, 5, 10, 5, 100), "b": read(0, 0, 0, 0, 0)}
    after = {"a": read(20, 25, 40, 65, 600), "b": read(10, 0, 0, 0, 1000)}
    load = decide_device_load(before, after, 2.0)
    assert load is not None
    assert load.busy_share == 0.5
    assert load.latency_ms == pytest.approx((20 + 60) / (10 + 30 + 10))
    idle = decide_device_load(before, before, 2.0)
    assert idle is not None
    assert (idle.busy_share, idle.latency_ms) == (0.0, None)
    assert decide_operations(before, after) == 10 + 30 + 10
    for was, then in ((after, before), (before, {"a": after["a"]}), ({}, {})):
        assert decide_operations(was, then) is None
    assert decide_device_load(after, before, 2.0) is None, "a counter went back"
    assert decide_device_load(before, {"a": after["a"]}, 2.0) is None, "a device is gone"
    assert decide_device_load({}, {}, 2.0) is None
    assert parse_device_times("1 2 3") is None
    assert parse_device_times("") is None


@pytest.mark.parametrize(
    ("stderr", "said", "cpu_s"),
    [
        (TIMES, "", 2.0),
        (f"WARNING: slow\n{TIMES}", "WARNING: slow", 2.0),
        ("0m0.1s 0m0.1s\n1m2.5s 0m1.5s\n", "", 64.0),
        ("Killed\n", "Killed\n", None),
        ("", "", None),
    ],
)
def test_a_clients_cpu_time_is_told_apart_from_its_words(
    stderr: str, said: str, cpu_s: float | None
) -> None:
    assert parse_cpu_s(stderr) == (said, cpu_s)


LAB = LabFeatures(
    name="dev",
    copies=3,
    write_paths=("direct", "journal", "cache"),
    free_addresses=100,
    available_memory_bytes=4 * GIB,
    versions={"ceph": ("20.2.4",), "mysql": ("9.7",), "percona": ()},
    hosts=3,
    cores=2,
    drivers=("volumed", "qsd"),
)


@pytest.mark.parametrize(
    "point",
    [
        {},
        {"workload": "update-index", "threads": 128, "trx_commit": 0, "copies": 2},
        {"workload": "mix-75-25", "databases": 5, "buffer_ratio": 4.0, "rate": 100.0},
        {"workload": "rados-read", "clients": 7},
        {"workload": "fio-randwrite", "volumes": 10, "write_path": "cache"},
        {"doublewrite": "single"},
        {"media": "hdd", "wal_db_device": "optane", "osd_thread_cache_mib": 32},
        {"osds_per_device": 4, "osd_cores_per_host": 2},
        {"osd_hosts": 2, "copies": 2},
        {"osd_devices_per_host": 3, "fill_percent": 87},
        {"profile": "defaults"},
        {"driver": "qsd"},
        {"runtime": "bare"},
        {"workload": "rbd-randwrite", "volumes": 2},
        {"workload": "fio-rbd-mix-70-30", "clients": 2, "erasure_code": "k2m1"},
        {"erasure_code": "k2m1"},
        {"driver": "volumed", "workload": "fio-randread", "write_path": "journal"},
        {"profile": "redhat-2016", "workload": "rados-read"},
        {"runtime": "vm", "driver": "librbd"},
    ],
)
def test_a_lab_can_do_what_it_is_made_for(point: dict[str, Any]) -> None:
    assert why_not_runnable(make_cell(**point), decide_capabilities(LAB)) is None


@pytest.mark.parametrize(
    ("point", "said"),
    [
        ({"workload": "tpcc-like"}, "TPC-C"),
        ({"objectstore": "filestore"}, "--image bookworm"),
        ({"layout": "hyperconverged"}, "--osd-hosts 3"),
        ({"fill_percent": 95}, "holds up writes"),
        ({"osds_per_device": 8}, "takes memory"),
        ({"osd_devices_per_host": 5}, "takes memory"),
        ({"erasure_code": "k2m2"}, "3 hosts have OSDs"),
        ({"copies": 4}, "keeps 3 copies"),
        ({"databases": 11}, "1 to 10"),
        ({"osd_cores_per_host": 5}, "cores"),
        ({"osd_hosts": 4}, "3 hosts of the lab have OSDs"),
        ({"osd_memory_target_mib": 60000}, "share the memory"),
        ({"driver": "nbd"}, "kernel"),
        ({"threads": 1024}, "1 to 512"),
        ({"rate": 0.5}, "whole rates"),
    ],
)
def test_what_a_lab_cannot_do_has_a_reason(point: dict[str, Any], said: str) -> None:
    reason = why_not_runnable(make_cell(**point), decide_capabilities(LAB))
    assert reason is not None
    assert said in reason


def test_filestore_is_offered_by_the_versions_of_ceph_that_have_it() -> None:
    pacific = replace(LAB, versions={"ceph": ("16.2.15",)})
    cell = make_cell(objectstore="filestore")
    assert why_not_runnable(cell, decide_capabilities(pacific)) is None
    for versions in ({"ceph": ("16.2.15", "18.2.7")}, {}):
        lab = replace(LAB, versions=versions)
        assert why_not_runnable(cell, decide_capabilities(lab)) is not None


def test_every_dimension_has_an_offer() -> None:
    offers = decide_capabilities(LAB).offers
    assert set(offers) == set(DIMENSIONS)


def test_without_volumed_no_volume_has_a_journal() -> None:
    lab = LabFeatures(**{**LAB.__dict__, "write_paths": ("direct",)})
    reason = why_not_runnable(make_cell(write_path="journal"), decide_capabilities(lab))
    assert reason is not None
    assert "volumed is not built" in reason


@pytest.mark.parametrize(
    ("hosts", "codes"),
    [
        (3, ("k2m1",)),
        (4, ("k2m1", "k3m1", "k2m2")),
        (5, ("k2m1", "k3m1", "k2m2", "k4m1", "k3m2", "k2m3")),
    ],
)
def test_codes_whose_chunks_have_hosts_of_their_own(hosts: int, codes: tuple[str, ...]) -> None:
    assert decide_codes(hosts) == codes
    assert all(parse_value("erasure_code", code) == code for code in decide_codes(9))


def test_a_lab_without_virtual_machines_says_why() -> None:
    lab = LabFeatures(**{**LAB.__dict__, "guest_absence": "the kernel has no TUN device"})
    cell = make_cell(runtime="vm", driver="librbd")
    reason = why_not_runnable(cell, decide_capabilities(lab))
    assert reason is not None
    assert "runtime vm (only bare or container: the kernel has no TUN device)" in reason


@pytest.mark.parametrize(
    ("free_mib", "said"),
    [
        ({}, None),
        ({"b-1": 8, "b-2": 500}, None),
        ({"b-2": 1, "b-1": 500}, "The volume of b-2 is full: 1 MiB of 1 GiB are free."),
        ({"b-2": 0, "b-1": 7, "b-3": 9}, "The volumes of b-1 and b-2 are full."),
    ],
)
def test_volumes_that_are_full_are_named(free_mib: dict[str, int], said: str | None) -> None:
    rooms = {name: FileSystem(GIB, free * MIB) for name, free in free_mib.items()}
    assert why_volumes_full(rooms) == said
