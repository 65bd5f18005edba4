from __future__ import annotations

from typing import Any

import pytest

from grampus.ceph.cluster import CephCluster
from grampus.ceph.scrubs import (
    REQUEST_SCRUBS,
    DamagedCopy,
    ScrubbedGroup,
    Scrubs,
    parse_damaged,
)
from grampus.core.errors import GrampusError
from tests.fakes.commands import FakeRunner

DUMP = "ceph pg dump pgs --format json"
OSD_DUMP = "ceph osd dump --format json"


def stats(group: str, state: str = "active+clean", stamp: str = "1") -> dict[str, Any]:
    return {"pgid": group, "state": state, "acting": [1, 2, 0], "last_deep_scrub_stamp": stamp}


def shard(osd: int, *errors: str) -> dict[str, Any]:
    return {"osd": osd, "primary": osd == 1, "errors": list(errors), "size": 4194304}


def entry(name: str, shards: list[dict[str, Any]], errors: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "object": {"name": name, "nspace": "", "locator": "", "snap": "head", "version": 1},
        "errors": list(errors),
        "union_shard_errors": ["read_error"],
        "shards": shards,
    }


def make(table: dict[str, Any]) -> tuple[Scrubs, FakeRunner]:
    runner = FakeRunner(table)
    return Scrubs(CephCluster(runner)), runner


@pytest.mark.parametrize("wrapped", [True, False])
def test_groups_are_those_asked_for(wrapped: bool) -> None:
    groups = [stats("1.a"), stats("1.b", "active+clean+inconsistent"), stats("2.0", "peering")]
    scrubs, _ = make({DUMP: {"pg_ready": True, "pg_stats": groups} if wrapped else groups})
    found = scrubs.observe(["1.b", "2.0", "9.9"])
    assert sorted(found) == ["1.b", "2.0"]
    assert found["1.b"] == ScrubbedGroup(
        id="1.b", state="active+clean+inconsistent", acting=(1, 2, 0), deep_scrub_stamp="1"
    )
    assert found["1.b"].is_clean
    assert found["1.b"].is_inconsistent
    assert not found["2.0"].is_clean


def test_scrubs_are_asked_for_over_one_connection() -> None:
    scrubs, runner = make({f"python3 -c {REQUEST_SCRUBS} repair 1.a 1.b": ""})
    scrubs.request("repair", ["1.b", "1.a"])
    scrubs.request("repair", [])
    assert len(runner.asked) == 1


@pytest.mark.parametrize(
    ("flags_set", "pool_flags", "found"),
    [
        ([], "hashpspool", []),
        (["sortbitwise", "noscrub"], "hashpspool", ["noscrub"]),
        ([], "hashpspool,nodeep-scrub", ["nodeep-scrub of databases"]),
    ],
)
def test_flags_against_scrubs(flags_set: list[str], pool_flags: str, found: list[str]) -> None:
    pools = [
        {"pool_name": "databases", "flags_names": pool_flags},
        {"pool_name": "others", "flags_names": "noscrub"},
    ]
    scrubs, _ = make({OSD_DUMP: {"flags_set": flags_set, "pools": pools}})
    assert scrubs.forbidding_flags(["databases"]) == found


def test_what_is_damaged_and_where() -> None:
    document = {
        "epoch": 20,
        "inconsistents": [
            entry("b", [shard(0, "read_error"), shard(1), shard(2)]),
            entry("a", [shard(0), shard(1)], errors=("data_digest_mismatch",)),
        ],
    }
    first, second = parse_damaged("1.17", document)
    assert (first.name, first.damaged, first.good_osds) == ("a", (), (0, 1))
    assert first.errors == ("data_digest_mismatch",)
    assert second.damaged == (DamagedCopy(osd=0, errors=("read_error",)),)
    assert second.good_osds == (1, 2)


def test_a_group_without_scrub_information_says_so() -> None:
    scrubs, _ = make({"rados list-inconsistent-obj 1.a --format json": "No scrub information"})
    with pytest.raises(GrampusError) as caught:
        scrubs.damaged_objects("1.a")
    assert caught.value.code == "no-scrub-information"
