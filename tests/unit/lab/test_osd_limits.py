from __future__ import annotations

from dataclasses import replace

import pytest

from grampus.core.units import GIB
from grampus.hosts.port import BlockLimit
from grampus.lab.media import DeviceMediaName, block_limit
from grampus.lab.osd_limits import decide_limits, lifted
from grampus.lab.osd_plans import DeviceSlice, OsdPlan

LOOP, WAL_DB, DISK = "/dev/loop1", "/dev/loop2", "/dev/vda"


def _plan(media: DeviceMediaName, *, wal_db: bool = False, shared_by: int = 1) -> OsdPlan:
    data = DeviceSlice("0.img", 0, 8 * GIB, media, shared_by)
    plan = OsdPlan("h1", "0", "0" * 32, data)
    return replace(plan, wal_db=DeviceSlice("0.db.img", 0, GIB, "nvme")) if wal_db else plan


@pytest.mark.parametrize(
    ("plan", "disk", "expected"),
    [
        (_plan("hdd"), DISK, (block_limit("hdd", DISK),)),
        (_plan("hdd", shared_by=2), DISK, (block_limit("hdd", DISK, shared_by=2),)),
        # On tmpfs, say: as submitted is better than not at all.
        (_plan("hdd"), None, (block_limit("hdd", LOOP),)),
        # One disk cannot be a hard disk and flash at once.
        (
            _plan("hdd", wal_db=True),
            DISK,
            (block_limit("hdd", LOOP), block_limit("nvme", WAL_DB)),
        ),
        (_plan("ssd"), DISK, (block_limit("ssd", LOOP),)),
        (_plan("nvme"), DISK, (block_limit("nvme", LOOP),)),
    ],
)
def test_a_hard_disk_counts_what_the_kernel_has_merged(
    plan: OsdPlan, disk: str | None, expected: tuple[BlockLimit, ...]
) -> None:
    wal_db_device = None if plan.wal_db is None else WAL_DB
    assert decide_limits(plan, LOOP, wal_db_device, disk) == expected


def test_a_lifted_limit_is_none_on_the_same_device() -> None:
    assert lifted(block_limit("hdd", DISK)) == BlockLimit(DISK)
