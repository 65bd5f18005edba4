from __future__ import annotations

import pytest

from grampus.core.units import GIB
from grampus.hosts.media import block_limit
from grampus.lab.osd_plans import (
    OSD_CPUS,
    THREAD_CACHE_MIB,
    WAL_DB_BYTES,
    decide_first_osds,
    decide_set_osds,
)
from grampus.lab.osd_set import OsdSet, describe_osd_set

from .test_model import make_spec

SPEC = make_spec()


def make_set(**changed: object) -> OsdSet:
    return OsdSet.model_validate({"name": "fast", "media": "ssd", "size_bytes": 4 * GIB} | changed)


def test_the_first_osds_are_whole_devices_where_ceph_puts_them() -> None:
    plans = decide_first_osds(SPEC)
    assert [(plan.host, plan.slot) for plan in plans[:3]] == [("h1", "0"), ("h1", "1"), ("h2", "0")]
    assert {plan.crush_location for plan in plans} == {None}
    assert {(plan.data.offset_bytes, plan.data.shared_by) for plan in plans} == {(0, 1)}
    assert plans[0].uuid == SPEC.osd_uuid("h1", 0)
    assert {(plan.cpus, plan.thread_cache_mib) for plan in plans} == {(OSD_CPUS, THREAD_CACHE_MIB)}


def test_osds_of_a_device_are_slices_that_do_not_overlap_and_share_its_limits() -> None:
    plans = decide_set_osds(SPEC, make_set(devices_per_host=2, osds_per_device=3))
    assert len(plans) == SPEC.host_count * 6
    assert len({plan.uuid for plan in plans} | {p.uuid for p in decide_first_osds(SPEC)}) == 18 + 6
    assert len({(plan.host, plan.slot) for plan in plans}) == len(plans)
    on_first = [plan.data for plan in plans if plan.host == "h1" and plan.data.file == "fast.0.img"]
    assert [part.offset_bytes // GIB for part in on_first] == [0, 4, 8]
    assert {part.device_bytes for part in on_first} == {12 * GIB}
    limits = [block_limit(part.media, "/dev/loop1", shared_by=part.shared_by) for part in on_first]
    whole = block_limit("ssd", "/dev/loop1")
    for field in ("read_iops", "write_iops", "read_bytes_per_s", "write_bytes_per_s"):
        assert sum(getattr(limit, field) for limit in limits) == pytest.approx(
            getattr(whole, field), abs=3
        )


def test_wal_and_db_have_a_device_beside_each_data_device() -> None:
    plans = decide_set_osds(SPEC, make_set(wal_db_media="optane", osds_per_device=2))
    parts = [plan.wal_db for plan in plans if plan.host == "h2"]
    assert [(p.file, p.offset_bytes, p.size_bytes, p.media, p.shared_by) for p in parts if p] == [
        ("fast.0.db.img", 0, WAL_DB_BYTES, "optane", 2),
        ("fast.0.db.img", WAL_DB_BYTES, WAL_DB_BYTES, "optane", 2),
    ]


def test_a_set_stands_under_a_root_of_its_own_with_its_share_of_cores() -> None:
    (plan,) = decide_set_osds(SPEC, make_set(cores_per_host=1.0, thread_cache_mib=32))[-1:]
    assert plan.crush_location == "root=osd-set-fast host=h3-fast"
    assert (plan.cpus, plan.thread_cache_mib) == (1.0, 32)
    four = decide_set_osds(SPEC, make_set(cores_per_host=1.0, devices_per_host=4))
    assert {plan.cpus for plan in four} == {0.25}
    assert {plan.cpus for plan in decide_set_osds(SPEC, make_set())} == {OSD_CPUS}


def test_a_set_may_be_on_the_first_hosts_only_with_a_memory_target() -> None:
    plans = decide_set_osds(SPEC, make_set(hosts=2, memory_target_mib=2048, devices_per_host=2))
    assert [plan.host for plan in plans] == ["h1", "h1", "h2", "h2"]
    assert {plan.memory_target_mib for plan in plans} == {2048}
    # OSDs keep their identity when a set like it is on all hosts.
    assert [plan.uuid for plan in plans] == [
        plan.uuid for plan in decide_set_osds(SPEC, make_set(devices_per_host=2))[:4]
    ]


@pytest.mark.parametrize("is_synced", [True, False])
def test_only_a_set_says_that_its_disks_do_not_wait_for_the_machine(is_synced: bool) -> None:
    assert {plan.data.is_synced for plan in decide_first_osds(SPEC)} == {True}
    of_set = decide_set_osds(SPEC, make_set(media="hdd", is_synced=is_synced))
    assert {plan.data.is_synced for plan in of_set} == {is_synced}


def test_no_limit_is_none_by_being_shared() -> None:
    assert block_limit("ssd", "/dev/loop1", shared_by=100_000).write_iops == 1


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({}, "1 OSD of 4 GiB on 1 ssd"),
        (
            {"osds_per_device": 2, "wal_db_media": "nvme"},
            "2 OSDs of 4 GiB on 1 ssd, WAL and DB on nvme",
        ),
        (
            {"objectstore": "filestore", "wal_db_media": "nvme"},
            "1 OSD of 4 GiB on 1 ssd, journal on nvme, filestore",
        ),
        (
            {"cores_per_host": 1.5, "thread_cache_mib": 64},
            "1 OSD of 4 GiB on 1 ssd, 1.5 cores, thread cache 64 MiB",
        ),
        (
            {"memory_target_mib": 2048, "hosts": 2},
            "1 OSD of 4 GiB on 1 ssd, memory target 2048 MiB, only on 2 hosts",
        ),
        ({"hosts": 1}, "1 OSD of 4 GiB on 1 ssd, only on 1 host"),
        ({"is_synced": False}, "1 OSD of 4 GiB on 1 ssd"),
        (
            {"media": "hdd", "is_synced": False},
            "1 OSD of 4 GiB on 1 hdd, lost when this machine crashes",
        ),
    ],
)
def test_a_set_is_described_in_a_line(changed: dict[str, object], sentence: str) -> None:
    assert describe_osd_set(make_set(**changed)) == sentence


def test_hosts_without_osds_have_none_of_a_set_either() -> None:
    spec = make_spec(host_count=5, osd_host_count=3)
    assert [plan.host for plan in decide_first_osds(spec)] == ["h1", "h1", "h2", "h2", "h3", "h3"]
    assert [plan.host for plan in decide_set_osds(spec, make_set())] == ["h1", "h2", "h3"]
