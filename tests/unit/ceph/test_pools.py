"""Pools with fewer copies than Ceph takes without a word."""

from __future__ import annotations

import json
from typing import Any

import pytest

from grampus.ceph.cluster import CephCluster
from grampus.ceph.journal_objects import COUNT_JOURNALS
from grampus.ceph.pools import (
    COUNT_IMAGES,
    ensure_empty_pool_absent,
    ensure_pool_of_copies,
    parse_unredundant_pools,
)
from grampus.core.errors import GrampusError, RefusedError
from tests.fakes.clock import FakeClock
from tests.fakes.commands import FakeRunner

from . import documents

JSON = " --format json"
POOL = "databases-1-copy"
STATUS = {f"ceph status{JSON}": documents.HEALTHY, f"ceph mon dump{JSON}": documents.MON_DUMP}
LEAVE = "ceph config set global mon_allow_pool_size_one true"
NO_LEAVE = "ceph config rm global mon_allow_pool_size_one"
SIZE = f"ceph osd pool set {POOL} size 1 --yes-i-really-mean-it"
MUTE = "ceph health mute POOL_NO_REDUNDANCY"
CREATE = f"ceph osd pool create {POOL} 32 32 replicated --autoscale-mode=off"


def health(*pools: str) -> dict[str, Any]:
    detail = [{"message": f"pool '{pool}' has no replicas configured"} for pool in pools]
    checks = {"POOL_NO_REDUNDANCY": {"detail": detail}} if pools else {}
    return {"status": "HEALTH_WARN", "checks": checks}


def runner(**changes: Any) -> FakeRunner:
    table: dict[str, Any] = {
        **STATUS,
        f"ceph osd pool ls{JSON}": ["databases"],
        CREATE: "",
        LEAVE: "",
        SIZE: "",
        f"ceph osd pool set {POOL} min_size 1": "",
        NO_LEAVE: "",
        f"rbd pool init {POOL}": "",
        f"ceph health detail{JSON}": health(POOL),
        MUTE: "",
    }
    return FakeRunner({**table, **changes})


def ensure(made: FakeRunner, copies: int = 1) -> None:
    ensure_pool_of_copies(CephCluster(made), FakeClock(), POOL, placement_groups=32, copies=copies)


def test_leave_for_one_copy_is_given_for_that_moment_alone() -> None:
    made = runner()
    ensure(made)
    assert made.asked.index(LEAVE) < made.asked.index(SIZE) < made.asked.index(NO_LEAVE)
    assert made.asked[-1] == MUTE


def test_the_leave_ends_when_the_change_fails() -> None:
    def fails() -> str:
        raise GrampusError("no")

    made = runner(**{SIZE: fails})
    with pytest.raises(GrampusError, match="no"):
        ensure(made)
    assert made.asked[-1] == NO_LEAVE


def test_a_warning_about_others_is_not_muted() -> None:
    made = runner(**{f"ceph health detail{JSON}": health("somebodys", POOL)})
    ensure(made)
    assert MUTE not in made.asked


def test_it_waits_until_the_cluster_has_noticed() -> None:
    answers = iter([health(), health(), health(POOL)])
    made = runner(**{f"ceph health detail{JSON}": lambda: next(answers)})
    ensure(made)
    assert made.asked[-1] == MUTE


def test_one_that_is_there_is_left_alone() -> None:
    made = FakeRunner(
        {
            f"ceph osd pool ls{JSON}": json.dumps(["databases", POOL]),
            f"ceph osd pool get {POOL} size{JSON}": {"size": 1},
        }
    )
    ensure(made)
    assert not any(line.startswith("ceph osd pool set") for line in made.asked)


def test_two_copies_need_no_leave() -> None:
    made = runner(
        **{f"ceph osd pool set {POOL} size 2": "", f"ceph osd pool set {POOL} min_size 1": ""}
    )
    ensure(made, copies=2)
    assert LEAVE not in made.asked


def test_none_is_made_while_an_osd_is_down() -> None:
    made = runner(**{f"ceph status{JSON}": documents.ONE_OSD_DOWN})
    with pytest.raises(RefusedError) as caught:
        ensure(made)
    assert caught.value.code == "osds-down"
    assert CREATE not in made.asked


@pytest.mark.parametrize(
    ("images", "journals", "status", "gone"),
    [
        (0, 0, documents.HEALTHY, True),
        (1, 0, documents.HEALTHY, False),
        (0, 1, documents.HEALTHY, False),
        (0, 0, documents.ONE_OSD_DOWN, False),
    ],
)
def test_only_an_empty_pool_is_removed(
    images: int, journals: int, status: dict[str, Any], gone: bool
) -> None:
    remove = f"ceph osd pool rm {POOL} {POOL} --yes-i-really-really-mean-it"
    made = FakeRunner(
        {
            f"ceph status{JSON}": status,
            f"ceph mon dump{JSON}": documents.MON_DUMP,
            f"ceph osd pool ls{JSON}": json.dumps(["databases", POOL]),
            f"python3 -c {COUNT_IMAGES} {POOL}": f"{images}\n",
            f"python3 -c {COUNT_JOURNALS} {POOL}": f"{journals}\n",
            "ceph config set global mon_allow_pool_delete true": "",
            remove: "",
            "ceph config rm global mon_allow_pool_delete": "",
        }
    )
    assert ensure_empty_pool_absent(CephCluster(made), POOL) is gone
    assert (remove in made.asked) is gone
    if gone:
        assert made.asked[-1] == "ceph config rm global mon_allow_pool_delete"


@pytest.mark.parametrize(
    ("document", "pools"),
    [(health(), set()), (health("a", "b"), {"a", "b"}), ({"status": "HEALTH_OK"}, set())],
)
def test_pools_without_redundancy(document: dict[str, Any], pools: set[str]) -> None:
    assert parse_unredundant_pools(document) == pools


@pytest.mark.parametrize("copies", [1, 2])
def test_a_pool_is_kept_to_the_osds_of_its_rule(copies: int) -> None:
    create = f"ceph osd pool create {POOL} 32 32 replicated osd-set-fast --autoscale-mode=off"
    more = {f"ceph osd pool set {POOL} {name}": "" for name in ("size 2", "min_size 1")}
    made = runner(**{create: ""}, **more)
    ensure_pool_of_copies(
        CephCluster(made),
        FakeClock(),
        POOL,
        placement_groups=32,
        copies=copies,
        rule="osd-set-fast",
    )
    assert create in made.asked
    assert CREATE not in made.asked
