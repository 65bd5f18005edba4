"""OSD sets as cells of a matrix ask for them, and how full they are."""

from __future__ import annotations

import os

from grampus.bench.environments.osd_needs import OsdFill, OsdNeeds
from grampus.cli.composition.environment_osds import osd_set_of, parse_fill, pool_on
from grampus.core.names import require_name
from grampus.core.units import GIB
from grampus.lab.osd_set import OsdSet
from grampus.lab.osd_set_service import require_possible
from tests.unit.lab.test_bootstrap import SPEC as LAB


def test_a_need_is_a_set_of_the_same_kind() -> None:
    needs = OsdNeeds(
        media="hdd",
        wal_db_device="optane",
        osds_per_device=2,
        osd_devices_per_host=3,
        osd_cores_per_host=1,
        osd_thread_cache_mib=32,
        osd_memory_target_mib=2048,
        osd_hosts=2,
    )
    osd_set = osd_set_of(needs, first_bytes=20 * GIB)
    assert osd_set == OsdSet(
        name=needs.name,
        media="hdd",
        size_bytes=20 * GIB,
        devices_per_host=3,
        osds_per_device=2,
        wal_db_media="optane",
        thread_cache_mib=32,
        memory_target_mib=2048,
        cores_per_host=1.0,
        hosts=2,
        is_synced=False,
        has_pool=False,
    )
    assert require_possible(osd_set, LAB, machine_cores=os.cpu_count() or 1) == osd_set


def test_what_is_not_asked_for_is_as_the_first_osds_have_it() -> None:
    osd_set = osd_set_of(OsdNeeds(media="ssd", fill_percent=14, osd_bytes=4 * GIB), first_bytes=1)
    assert (osd_set.size_bytes, osd_set.wal_db_media) == (4 * GIB, None)
    assert (osd_set.cores_per_host, osd_set.objectstore) == (None, "bluestore")
    assert (osd_set.memory_target_mib, osd_set.hosts) == (None, None)


def test_pools_of_a_set_are_told_apart_by_their_copies() -> None:
    name = OsdNeeds(media="hdd").name
    assert pool_on(name, 1) == f"{name}-1-copy"
    assert require_name("pool", pool_on(name, 3)).endswith("-3-copies")


def test_only_the_osds_of_the_set_are_counted() -> None:
    nodes = [{"id": osd, "kb": 4096, "kb_used": 100 * osd} for osd in range(5)]
    found = parse_fill({"nodes": nodes, "stray": []}, [3, 4])
    assert found == OsdFill(total_bytes=8192 * 1024, used_bytes=700 * 1024)
