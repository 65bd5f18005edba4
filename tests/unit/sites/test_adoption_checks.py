"""What of a cluster can hurt databases: tables of documents and verdicts."""

from __future__ import annotations

from typing import Any

import pytest

from grampus.sites.adoption_checks import (
    Check,
    classify_clocks,
    classify_health,
    classify_release,
    classify_space,
)
from grampus.sites.pool_checks import (
    classify_failure_domain,
    classify_journals,
    classify_other_users,
    classify_pool,
)

POOL: dict[str, Any] = {
    "pool_name": "databases",
    "type": 1,
    "size": 3,
    "min_size": 2,
    "pg_num": 64,
    "pg_num_target": 64,
    "pg_autoscale_mode": "on",
    "application_metadata": {"rbd": {}},
}


def _verdicts(checks: list[Check]) -> dict[str, str]:
    return {one.name: one.verdict for one in checks if one.verdict != "ok"}


@pytest.mark.parametrize(
    ("changes", "verdicts"),
    [
        ({}, {}),
        ({"type": 3}, {"pool": "refused"}),
        ({"application_metadata": {}}, {"pool": "refused"}),
        ({"application_metadata": {"cephfs": {}}}, {"pool": "refused"}),
        ({"application_metadata": {"rbd": {}, "rgw": {}}}, {"pool": "warning"}),
        ({"size": 1, "min_size": 1}, {"copies": "refused"}),
        ({"size": 2, "min_size": 1}, {"copies": "warning"}),
        ({"size": 2}, {"copies": "warning"}),
        ({"size": 4, "min_size": 1}, {"copies": "warning"}),
        ({"pg_autoscale_mode": "off"}, {}),
        (
            {"pg_autoscale_mode": "off", "pg_num": 8, "pg_num_target": 8},
            {"placement groups": "warning"},
        ),
        ({"pg_autoscale_mode": "warn"}, {"placement groups": "warning"}),
        ({"pg_num": 32}, {"placement groups": "warning"}),
    ],
)
def test_pools(changes: dict[str, Any], verdicts: dict[str, str]) -> None:
    checks = classify_pool({**POOL, **changes}, "databases")
    assert _verdicts(checks) == verdicts
    assert all(one.remedy for one in checks if one.verdict != "ok")


@pytest.mark.parametrize(
    ("changes", "verdict", "remedy"),
    [
        ({}, "ok", ""),
        ({"size": 4, "min_size": 3}, "ok", ""),
        ({"size": 2}, "warning", "ceph osd pool set flash size 3"),
        ({"min_size": 1}, "warning", "ceph osd pool set flash min_size 2"),
        ({"pool_name": "another"}, "refused", "Create the pool again"),
    ],
)
def test_journals_in_another_pool(changes: dict[str, Any], verdict: str, remedy: str) -> None:
    pools = [POOL, {**POOL, "pool_name": "flash", **changes}]
    check = classify_journals(pools, "databases", "flash")
    assert (check.name, check.verdict) == ("journals", verdict)
    assert remedy in (check.remedy or "")


def test_an_absent_pool_has_the_commands_that_create_it() -> None:
    (check,) = classify_pool(None, "shops")
    assert check.verdict == "refused"
    assert "ceph osd pool create shops" in check.remedy
    assert "rbd pool init shops" in check.remedy
    assert "Did you mean" not in check.sentence
    (check,) = classify_pool(None, "shpos", ["images", "shops"])
    assert check.sentence == "The cluster has no pool named 'shpos'. Did you mean 'shops'?"


def rule_of(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"rule_id": 2, "rule_name": "flash", "steps": [{"op": "take"}, *steps, {"op": "emit"}]}


HOSTS = {"op": "chooseleaf_firstn", "num": 0, "type": "host"}
OSDS = {"op": "choose_firstn", "num": 0, "type": "osd"}
RACKS = {"op": "choose_firstn", "num": 0, "type": "rack"}


@pytest.mark.parametrize(
    ("rules", "verdict", "words"),
    [
        ([rule_of(HOSTS)], "ok", "another host"),
        ([rule_of(RACKS, HOSTS)], "ok", "another rack"),
        ([rule_of(OSDS)], "warning", "all copies on one host"),
        ([rule_of()], "warning", "does not say"),
        ([], "warning", "does not say"),
    ],
)
def test_failure_domains(rules: list[dict[str, Any]], verdict: str, words: str) -> None:
    check = classify_failure_domain(rules, 2, "databases")
    assert check.verdict == verdict
    assert words in check.sentence


def versions_of(*versions: str) -> dict[str, Any]:
    return {"overall": {f"ceph version {one} (abc) name (stable)": 3 for one in versions}}


@pytest.mark.parametrize(
    ("versions", "verdict"),
    [
        (("20.2.4",), "ok"),
        (("18.2.7",), "ok"),
        (("16.2.15",), "ok"),
        (("15.2.1",), "refused"),
        (("21.1.0",), "warning"),
        (("18.2.7", "20.2.4"), "warning"),
        ((), "warning"),
    ],
)
def test_releases(versions: tuple[str, ...], verdict: str) -> None:
    assert classify_release(versions_of(*versions)).verdict == verdict


@pytest.mark.parametrize(("skew", "verdict"), [(0.0, "ok"), (-0.04, "ok"), (-0.3, "warning")])
def test_clocks(skew: float, verdict: str) -> None:
    document = {"time_skew_status": {"a": {"skew": 0.0}, "b": {"skew": skew}}}
    assert classify_clocks(document).verdict == verdict


def test_one_mon_has_no_skew() -> None:
    assert classify_clocks({"timechecks": {}}).verdict == "ok"


def test_health() -> None:
    assert classify_health({"health": {"status": "HEALTH_OK"}}).verdict == "ok"
    checks = {"OSD_DOWN": {"summary": {"message": "1 osds down"}}}
    check = classify_health({"health": {"status": "HEALTH_WARN", "checks": checks}})
    assert check.verdict == "warning"
    assert "1 osds down" in check.sentence


@pytest.mark.parametrize(
    ("used", "raised", "verdict"),
    [
        (10, (), "ok"),
        (80, (), "warning"),
        (10, ("POOL_NEARFULL",), "warning"),
        (10, ("OSD_BACKFILLFULL",), "warning"),
        (10, ("OSD_FULL",), "refused"),
        (10, ("POOL_FULL",), "refused"),
    ],
)
def test_space(used: int, raised: tuple[str, ...], verdict: str) -> None:
    usage = {"stats": {"total_bytes": 100, "total_used_raw_bytes": used}}
    ratios = {"full_ratio": 0.95, "nearfull_ratio": 0.85}
    health = {"checks": {name: {} for name in raised}}
    assert classify_space(usage, ratios, health).verdict == verdict


def test_other_users() -> None:
    assert classify_other_users([], "databases").verdict == "ok"
    check = classify_other_users(["a", "b", "c", "d"], "databases")
    assert check.verdict == "warning"
    assert "4 images" in check.sentence
    assert "a, b, c, ..." in check.sentence
