"""Which cells need OSDs of their own, what they are called, and how full they are made."""

from __future__ import annotations

from typing import Any

import pytest

from grampus.bench.environments.environment_plan import (
    decide_environment,
    merge_environments,
    place_on,
)
from grampus.bench.environments.fitness import NEARLY_FULL_CHECKS, why_cluster_unfit
from grampus.bench.environments.osd_needs import (
    MIN_FILLED_BYTES,
    OsdFill,
    OsdNeeds,
    PlaceOsds,
    decide_fill_bytes,
    decide_name_on,
    decide_osd_needs,
    decide_provisioned_bytes,
    require_disk_room,
)
from grampus.core.errors import RefusedError
from grampus.core.names import require_name
from grampus.core.units import GIB, MIB
from tests.unit.bench.environments.world import make_cell

PLACE = PlaceOsds(OsdNeeds(media="nvme"), hosts=3, first_bytes=6 * GIB)


def needs_of(**point: Any) -> OsdNeeds | None:
    return decide_osd_needs(make_cell(**point), PLACE)


@pytest.mark.parametrize(
    "point",
    [
        {},
        {"workload": "rados-write"},
        {"copies": 2, "threads": 64, "write_path": "journal", "databases": 4},
        {"media": "nvme", "osds_per_device": 1},
        {"media": "own", "objectstore": "own", "wal_db_device": "own"},
    ],
)
def test_cells_that_ask_for_what_is_there_stand_on_it(point: dict[str, Any]) -> None:
    assert needs_of(**point) is None


@pytest.mark.parametrize(
    "point",
    [
        {"media": "hdd"},
        {"wal_db_device": "nvme"},
        {"osds_per_device": 2},
        {"osd_devices_per_host": 2},
        {"osd_cores_per_host": 1},
        {"osd_thread_cache_mib": 32},
        {"osd_memory_target_mib": 2048},
        {"osd_hosts": 2},
        {"fill_percent": 14},
    ],
)
def test_each_dimension_of_osds_makes_a_set_of_its_own(point: dict[str, Any]) -> None:
    needs = needs_of(**point)
    assert needs is not None
    (name, value), *_ = point.items()
    assert getattr(needs, name) == value
    assert require_name("OSD set", needs.name) == needs.name
    assert needs.name != PLACE.first.name
    # Another load on the same OSDs is no reason for others.
    assert needs_of(**point, threads=64, trx_commit=0) == needs


def test_a_set_keeps_its_name_when_a_dimension_is_added() -> None:
    assert OsdNeeds(media="hdd", osd_thread_cache_mib=32).name == "bench-feeb87e6"


def test_of_a_place_of_hard_disks_the_flash_is_what_is_added() -> None:
    disks = PlaceOsds(OsdNeeds(media="hdd", osd_devices_per_host=2), 3, 6 * GIB)
    assert decide_osd_needs(make_cell(media="hdd", osd_devices_per_host=2), disks) is None
    assert decide_osd_needs(make_cell(media="nvme", osd_devices_per_host=2), disks) is not None


@pytest.mark.parametrize(
    ("point", "gib"),
    [
        ({"copies": 3}, 6),
        ({"copies": 2}, 9),
        ({"erasure_code": "k2m1"}, 12),
        ({"copies": 2, "osd_devices_per_host": 2}, 18),
        ({"copies": 2, "osd_hosts": 2}, 6),
        ({"copies": 2, "media": "hdd", "osds_per_device": 3}, 27),
        ({"copies": 2, "fill_percent": 50}, 3),  # of 4 GiB an OSD: they are made as small as can be
        ({"copies": 2, "fill_percent": 25}, 1.5),
    ],
)
def test_what_is_provisioned_is_a_share_of_the_room_before_copies(
    point: dict[str, Any], gib: float
) -> None:
    cell = make_cell(**point)
    assert decide_provisioned_bytes(cell, PLACE) == pytest.approx(gib * GIB)


def test_an_environment_on_other_osds_is_another_environment() -> None:
    plan = decide_environment(make_cell(copies=2))
    assert place_on(plan, None) == plan
    disks, ssds = needs_of(media="hdd"), needs_of(media="ssd")
    there = [plan, place_on(plan, disks), place_on(plan, ssds)]
    assert len({one.name for one in there}) == 3
    assert [one.osd_set for one in there] == [None, disks and disks.name, ssds and ssds.name]
    assert there[1].name == decide_name_on(plan.name, disks)
    assert len(merge_environments([*there, *there])) == 3


def test_osds_to_be_filled_are_big_enough_to_be_nearly_empty_first() -> None:
    tiny = needs_of(fill_percent=14, copies=2, dataset_bytes=128 * MIB)
    assert tiny is not None
    assert tiny.osd_bytes == MIN_FILLED_BYTES
    big = needs_of(fill_percent=14, copies=2, dataset_bytes=GIB, databases=4)
    assert big is not None
    data_bytes = 4 * 2 * GIB / 3
    assert data_bytes / big.osd_bytes < 0.14
    # All fills of a comparison have OSDs of the same size.
    nearly_full = needs_of(fill_percent=87, copies=2, dataset_bytes=GIB, databases=4)
    assert nearly_full is not None
    assert nearly_full.osd_bytes == big.osd_bytes
    assert needs_of(fill_percent=50, workload="rados-write") is not None


@pytest.mark.parametrize(
    ("used_bytes", "percent", "expected"),
    [(0, 50, 50), (10, 50, 40), (50, 50, 0), (52, 50, 0), (14, 14, 0)],
)
def test_what_is_missing_is_written(used_bytes: int, percent: int, expected: int) -> None:
    assert decide_fill_bytes(OsdFill(100, used_bytes), percent) == expected


def test_osds_that_are_too_full_already_are_refused() -> None:
    with pytest.raises(RefusedError, match="53% full already"):
        decide_fill_bytes(OsdFill(100, 53), 50)
    assert OsdFill(0, 0).percent == 0.0


def test_the_machines_disk_keeps_its_reserve() -> None:
    require_disk_room(26 * GIB, 250 * GIB, 36 * GIB, 0.04)
    with pytest.raises(RefusedError, match="takes 27 GiB of the machine's disk, and 26 GiB"):
        require_disk_room(27 * GIB, 250 * GIB, 36 * GIB, 0.04)


@pytest.mark.parametrize("code", sorted(NEARLY_FULL_CHECKS))
def test_nearly_full_is_fit_only_where_it_is_what_is_measured(code: str) -> None:
    check = {"severity": "HEALTH_WARN", "summary": {"message": "3 nearfull osd(s)"}}
    status = {"health": {"status": "HEALTH_WARN", "checks": {code: check}}}
    assert code in (why_cluster_unfit(status) or "")
    assert why_cluster_unfit(status, expected=NEARLY_FULL_CHECKS) is None
    status["health"]["checks"] = {"OSD_FULL": check}  # type: ignore[index]
    assert why_cluster_unfit(status, expected=NEARLY_FULL_CHECKS) is not None
