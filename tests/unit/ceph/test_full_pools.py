"""Commands that wait because a pool is full, and what says so beforehand."""

from __future__ import annotations

from typing import Any

import pytest

from grampus.ceph.cluster import CephCluster
from grampus.ceph.full_pools import find_full_pool, parse_full_pools
from grampus.ceph.rbd import RbdImages
from grampus.core.errors import GrampusError, RefusedError
from tests.fakes.clock import FakeClock
from tests.fakes.commands import FakeRunner, Output, Reply

OSD_DUMP = "ceph osd dump --format json"
INFO = "rbd info --format json databases/ns/shop"


def osd_map(**flags: str) -> dict[str, Any]:
    """Pools by name, with their flags."""
    pools = [{"pool_name": name, "flags_names": names} for name, names in flags.items()]
    return {"pools": pools}


@pytest.mark.parametrize(
    ("flags", "full"),
    [
        ("hashpspool,selfmanaged_snaps", []),
        ("hashpspool,full,selfmanaged_snaps", ["databases"]),
        ("hashpspool,full_quota,full", ["databases"]),
        ("hashpspool,nearfull,backfillfull", []),
        ("", []),
    ],
)
def test_full_pools_are_those_whose_writes_are_held_up(flags: str, full: list[str]) -> None:
    assert parse_full_pools(osd_map(databases=flags, backups="hashpspool")) == full


@pytest.mark.parametrize(
    ("argv", "pool"),
    [
        (["rbd", "info", "databases/ns/shop"], "databases"),
        (["python3", "-c", "import rbd", "databases", "ns/shop"], "databases"),
        (["rbd", "info", "databases-disks/shop"], None),
        (["rbd", "info", "backups/databases"], None),
        (["ceph", "status"], None),
    ],
)
def test_which_full_pool_a_command_names(argv: list[str], pool: str | None) -> None:
    assert find_full_pool(argv, ["archive", "databases"]) == pool


def timed_out() -> Reply:
    raise GrampusError("`rbd` did not end within 60 s on h1 and was stopped.", code="timeout")


def no_mon() -> Reply:
    raise GrampusError("No MON answers.", code="timeout")


@pytest.mark.parametrize(
    ("info", "dump", "code"),
    [
        (timed_out, osd_map(databases="full"), "pool-full"),
        (timed_out, osd_map(databases="hashpspool"), "timeout"),
        (timed_out, osd_map(backups="full"), "timeout"),
        (timed_out, no_mon, "timeout"),
        (timed_out, Output(1, "", "Error EPERM"), "timeout"),
        (Output(5, "", "error: (5) I/O error"), osd_map(databases="full"), "command-failed"),
    ],
)
def test_a_wait_for_a_full_pool_is_explained(info: Any, dump: Any, code: str) -> None:
    cluster = CephCluster(FakeRunner({INFO: info, OSD_DUMP: dump}))
    with pytest.raises(GrampusError) as caught:
        RbdImages(cluster, FakeClock()).find("databases", "ns/shop")
    assert caught.value.code == code
    assert ("'databases' is full" in caught.value.problem) == (code == "pool-full")


def test_who_waits_for_the_mons_waits_once() -> None:
    runner = FakeRunner({"ceph status --format json": no_mon})
    with pytest.raises(GrampusError, match="No MON answers"):
        CephCluster(runner).ask("status")
    assert runner.asked == ["ceph status --format json"]


def test_a_full_pool_is_known_before_anything_waits() -> None:
    runner = FakeRunner({OSD_DUMP: osd_map(databases="full", backups="hashpspool")})
    cluster = CephCluster(runner)
    cluster.require_writable("backups")
    with pytest.raises(RefusedError, match="'databases' is full") as caught:
        cluster.require_writable("databases")
    assert caught.value.code == "pool-full"
    assert "quota" in (caught.value.remedy or "")
