"""Pools for images whose data are erasure-coded: what is asked of Ceph, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from grampus.ceph.cluster import CephCluster
from grampus.ceph.erasure_pools import (
    chunks_of,
    coded_pool,
    data_pool_of,
    ensure_coded_pools_absent,
    ensure_erasure_pool,
    ensure_erasure_pool_absent,
    parse_place,
)
from grampus.ceph.pools import COUNT_IMAGES
from grampus.core.errors import GrampusError
from tests.fakes.commands import FakeRunner, Reply
from tests.unit.ceph.documents import HEALTHY, MON_DUMP

POOL = "databases-k2m1"
DATA = "databases-k2m1-data"
LS = "ceph osd pool ls --format json"
RULE = {"steps": [{"op": "take", "item_name": "default~nvme"}, {"op": "emit"}]}
DUMP_RULE = "ceph osd crush rule dump replicated --format json"
RULES = "ceph osd crush rule ls --format json"
PROFILES = "ceph osd erasure-code-profile ls --format json"


def _table(pools: list[str], **more: Reply) -> dict[str, Any]:
    said = {
        LS: pools,
        DUMP_RULE: RULE,
        f"ceph osd erasure-code-profile set {DATA} k=2 m=1 crush-failure-domain=host "
        "crush-root=default crush-device-class=nvme --force": "",
        f"ceph osd pool create {DATA} 32 32 erasure {DATA} --autoscale-mode=off": "",
        f"ceph osd pool set {DATA} allow_ec_overwrites true": "",
        f"ceph osd pool application enable {DATA} rbd --yes-i-really-mean-it": "",
        "ceph config set global mon_allow_pool_delete true": "",
        "ceph config rm global mon_allow_pool_delete": "",
        f"ceph osd pool rm {DATA} {DATA} --yes-i-really-really-mean-it": "",
        RULES: ["replicated", DATA],
        f"ceph osd crush rule rm {DATA}": "",
        PROFILES: ["default", DATA],
        f"ceph osd erasure-code-profile rm {DATA}": "",
    }
    return {**said, **more}


def test_the_pool_of_the_data_is_found_by_the_name_of_the_images_pool() -> None:
    assert coded_pool("databases", "k2m1") == POOL
    assert data_pool_of(POOL) == DATA
    assert data_pool_of("databases-2-copies-k4m2") == "databases-2-copies-k4m2-data"
    for pool in ("databases", "databases-2-copies", DATA, "k2m1", "shop-k1m1", "shop-k2m5"):
        assert data_pool_of(pool) is None, pool


def test_codes() -> None:
    assert chunks_of("k16m4") == (16, 4)
    for text in ("none", "k2", "k2m1 ", "k1m1"):
        with pytest.raises(GrampusError, match="not an erasure code"):
            chunks_of(text)


@pytest.mark.parametrize(
    ("taken", "place"), [("default", ("default", None)), ("sets~fast", ("sets", "fast"))]
)
def test_where_a_rule_takes_osds_from(taken: str, place: tuple[str, str | None]) -> None:
    steps = [{"op": "set_choose_tries", "num": 5}, {"op": "take", "item_name": taken}]
    assert parse_place({"steps": steps}) == place


def test_a_new_pool_is_on_the_osds_of_a_rule_and_can_be_overwritten() -> None:
    runner = FakeRunner(_table(["databases"]))
    ensure_erasure_pool(
        CephCluster(runner), DATA, code="k2m1", placement_groups=32, rule="replicated"
    )
    changes = [line for line in runner.asked if not line.endswith("--format json")]
    assert [line.split()[2] for line in changes] == ["erasure-code-profile", *["pool"] * 3]
    assert changes[2].endswith("allow_ec_overwrites true")


def test_one_that_is_there_is_not_made_anew() -> None:
    runner = FakeRunner(_table([DATA]))
    ensure_erasure_pool(
        CephCluster(runner), DATA, code="k2m1", placement_groups=32, rule="replicated"
    )
    assert not any("create" in line or "profile" in line for line in runner.asked)


def test_its_rule_and_its_profile_go_with_it() -> None:
    runner = FakeRunner(_table([DATA]))
    ensure_erasure_pool_absent(CephCluster(runner), DATA)
    removed = [line.split() for line in runner.asked if " rm " in line]
    assert [words[2] for words in removed] == ["pool", "rm", "crush", "erasure-code-profile"]


def test_what_is_gone_is_not_removed_again() -> None:
    runner = FakeRunner(_table([], **{RULES: [], PROFILES: ["default"]}))
    ensure_erasure_pool_absent(CephCluster(runner), DATA)
    assert runner.asked == [LS, RULES, PROFILES]


def test_the_data_stay_while_an_image_is_named_in_the_pool() -> None:
    counted = " ".join(["python3", "-c", COUNT_IMAGES, POOL])
    status = {"ceph status --format json": HEALTHY, "ceph mon dump --format json": MON_DUMP}
    runner = FakeRunner(_table([POOL, DATA], **status, **{counted: "1\n"}))
    assert not ensure_coded_pools_absent(CephCluster(runner), POOL)
    assert not any(" rm " in line for line in runner.asked)
    assert not ensure_coded_pools_absent(CephCluster(runner), "databases")


def test_the_data_go_when_the_pool_of_the_images_is_gone() -> None:
    runner = FakeRunner(_table([DATA]))
    assert ensure_coded_pools_absent(CephCluster(runner), POOL)
    assert f"ceph osd pool rm {DATA} {DATA} --yes-i-really-really-mean-it" in runner.asked
