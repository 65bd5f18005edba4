from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from grampus.ceph.cluster import CONNECT_TIMEOUT_S, CephCluster, ClusterStatus, parse_status
from grampus.core.errors import GrampusError
from tests.fakes.commands import ENOENT, FakeRunner, Output

from . import documents

JSON = " --format json"


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (documents.HEALTHY, {"health": "HEALTH_OK", "checks": ()}),
        (
            documents.HEALTHY,
            {
                "osds": 3,
                "osds_up": 3,
                "osds_in": 3,
                "placement_groups": 33,
                "placement_groups_clean": 33,
                "raw_total_bytes": 64424509440,
                "raw_available_bytes": 64339509248,
                "mons_in_quorum": ("h1", "h2", "h3"),
            },
        ),
        (
            documents.ONE_OSD_DOWN,
            {
                "health": "HEALTH_WARN",
                "checks": (
                    "OSD_DOWN: 1 osds down",
                    "OSD_HOST_DOWN: 1 host (1 osds) down",
                    "PG_DEGRADED: Degraded data redundancy: 5/15 objects degraded (33.333%), "
                    "4 pgs degraded",
                ),
                "osds": 3,
                "osds_up": 2,
                "osds_in": 3,
                "placement_groups_clean": 4,  # scrubbing is clean, undersized is not
            },
        ),
        (
            documents.MON_LOST_NO_MGR,
            {"mons_in_quorum": ("h1", "h2"), "health": "HEALTH_WARN"},
        ),
        (
            documents.NEWBORN,
            {"osds": 0, "placement_groups": 0, "placement_groups_clean": 0, "raw_total_bytes": 0},
        ),
        (
            {"health": {"status": "HEALTH_ERR"}},
            {"health": "HEALTH_ERR", "checks": (), "mons_in_quorum": (), "osds": 0},
        ),
    ],
)
def test_status_document(document: dict[str, Any], expected: dict[str, Any]) -> None:
    status = parse_status(document, None)
    assert {name: getattr(status, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("document", "mgr_active"),
    [
        (documents.HEALTHY, ""),  # there is one, but `ceph status` does not say its name
        ({**documents.HEALTHY, "mgrmap": {"available": True, "active_name": "h2"}}, "h2"),
        (documents.MON_LOST_NO_MGR, None),
    ],
)
def test_observed_status_knows_all_mons_and_the_mgr(
    document: dict[str, Any], mgr_active: str | None
) -> None:
    runner = FakeRunner(
        {f"ceph status{JSON}": document, f"ceph mon dump{JSON}": documents.MON_DUMP}
    )
    status = CephCluster(runner).observe_status()
    assert status.mons == ("h1", "h2", "h3")
    assert status.mons_in_quorum == tuple(document["quorum_names"])
    assert status.mgr_active == mgr_active
    assert ClusterStatus.model_validate_json(status.model_dump_json()) == status


OLD_CLIENT = "10.213.2.11:0/39648"


def test_every_command_gives_up_when_no_mon_answers() -> None:
    runner = FakeRunner({"ceph version": ""})
    CephCluster(runner).ceph("version")
    # The command's own limit must end first: it says more than being stopped by us.
    assert runner.timeouts_s[0] > CONNECT_TIMEOUT_S


def test_pool_usage() -> None:
    runner = FakeRunner(
        {
            f"ceph df detail{JSON}": documents.DF_DETAIL,
            f"ceph osd pool get databases size{JSON}": {"pool": "databases", "size": 3},
        }
    )
    usage = CephCluster(runner).observe_pool("databases")
    assert usage.model_dump() == {
        "name": "databases",
        "stored_bytes": 19,
        "available_bytes": 20374892544,
        "copies": 3,
    }


def test_pool_that_is_not_there() -> None:
    runner = FakeRunner({f"ceph df detail{JSON}": documents.DF_DETAIL})
    with pytest.raises(GrampusError, match="no pool named 'database'") as caught:
        CephCluster(runner).observe_pool("database")
    assert caught.value.code == "no-pool"


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("ceph version 20.2.4 (0123abc) tentacle (stable)\n", "20.2.4 tentacle"),
        ("ceph version 16.2.15 (0123abc) pacific (stable)\n", "16.2.15 pacific"),
        ("ceph version 20.2.4\n", "ceph version 20.2.4"),
        ("", ""),
    ],
)
def test_version(said: str, version: str) -> None:
    assert CephCluster(FakeRunner({"ceph version": said})).observe_versions() == version


CREATE_POOL = "ceph osd pool create databases 32 32 replicated --autoscale-mode=off"
POOL_SETTINGS = {
    "ceph osd pool set databases size 3": "",
    "ceph osd pool set databases min_size 2": "",
    "rbd pool init databases": "",
}


@pytest.mark.parametrize(
    ("pools", "changes"),
    [
        ([".mgr"], [CREATE_POOL, *POOL_SETTINGS]),
        ([".mgr", "databases"], list(POOL_SETTINGS)),
        ([".mgr", "databases2"], [CREATE_POOL, *POOL_SETTINGS]),
    ],
)
def test_pool_is_made_once_and_its_settings_always_hold(
    pools: list[str], changes: list[str]
) -> None:
    runner = FakeRunner({f"ceph osd pool ls{JSON}": pools, CREATE_POOL: "", **POOL_SETTINGS})
    CephCluster(runner).ensure_pool("databases", placement_groups=32, copies=3, min_size=2)
    assert runner.changes() == changes


KEYRING = "[client.grampus.shop]\n\tkey = AQ==\n"
CAPABILITIES = {"mon": "profile rbd", "osd": "profile rbd pool=databases"}
WITH_CAPABILITIES = "mon profile rbd osd profile rbd pool=databases"
GET_OR_CREATE = "ceph auth get-or-create client.grampus.shop"


def test_client_is_made_or_found() -> None:
    runner = FakeRunner({f"{GET_OR_CREATE} {WITH_CAPABILITIES}": KEYRING})
    assert CephCluster(runner).ensure_client("grampus.shop", CAPABILITIES) == KEYRING
    assert len(runner.asked) == 1


def test_client_with_other_capabilities_gets_these_and_keeps_its_key() -> None:
    # The capabilities go with the second call, too: a site's user may make no client without.
    answers: list[Output | str] = [Output(22, "", "key exists but cap mon differs"), KEYRING]
    runner = FakeRunner(
        {
            f"{GET_OR_CREATE} {WITH_CAPABILITIES}": lambda: answers.pop(0),
            f"ceph auth caps client.grampus.shop {WITH_CAPABILITIES}": "",
        }
    )
    assert CephCluster(runner).ensure_client("grampus.shop", CAPABILITIES) == KEYRING


def test_client_of_a_cluster_that_does_not_answer_is_an_error() -> None:
    silent = Output(1, "", "timed out connecting to the MONs")
    runner = FakeRunner(
        {
            f"{GET_OR_CREATE} {WITH_CAPABILITIES}": silent,
            f"ceph auth caps client.grampus.shop {WITH_CAPABILITIES}": silent,
        }
    )
    with pytest.raises(GrampusError, match="timed out"):
        CephCluster(runner).ensure_client("grampus.shop", CAPABILITIES)


def test_client_is_removed_and_fenced_by_its_exact_address() -> None:
    runner = FakeRunner(
        {
            "ceph auth rm client.grampus.shop": "",
            "ceph osd blocklist add 10.213.0.11:0/3405691582 86400": "",
        }
    )
    cluster = CephCluster(runner)
    cluster.ensure_client_absent("grampus.shop")
    cluster.ensure_blocklisted("10.213.0.11:0/3405691582")
    assert len(runner.asked) == 2


@pytest.mark.parametrize("wrap", [lambda groups: groups, lambda groups: {"pg_stats": groups}])
def test_acting_sets(wrap: Callable[[object], object]) -> None:
    groups = [{"pgid": "2.1", "acting": [2, 0, 1]}, {"pgid": "2.2", "acting": [0, 1]}]
    runner = FakeRunner(
        {"ceph pg dump pgs_brief --format json": Output(0, json.dumps(wrap(groups)))}
    )
    assert CephCluster(runner).observe_acting_sets() == [(2, 0, 1), (0, 1)]


@pytest.mark.parametrize(
    ("states", "unclean"),
    [
        ([], 0),
        (["active+clean", "active+clean+scrubbing+deep"], 0),
        (["active+clean", "active+undersized+degraded", "peering", "unknown"], 3),
        (["active+clean+remapped", "stale+active"], 1),
    ],
)
def test_groups_that_are_not_clean(states: list[str], unclean: int) -> None:
    groups = [{"pgid": f"2.{at}", "acting": [0], "state": s} for at, s in enumerate(states)]
    runner = FakeRunner({"ceph pg dump pgs_brief --format json": Output(0, json.dumps(groups))})
    assert CephCluster(runner).count_unclean_groups() == unclean


def test_failure_is_raised_unless_it_is_asked_for() -> None:
    cluster = CephCluster(FakeRunner({"ceph osd pool rm x": ENOENT}))
    assert cluster.ceph("osd", "pool", "rm", "x", check=False).returncode == 2
    with pytest.raises(GrampusError, match="No such file"):
        cluster.ceph("osd", "pool", "rm", "x")


@pytest.mark.parametrize(
    ("said", "addresses"),
    [
        ("[][]", []),
        ('[{"addr":"10.213.2.11:0/39648","until":"2026-11-22T14:48:07.37"}][]', [OLD_CLIENT]),
        (
            '\n[{"addr":"10.213.2.11:0/39648","until":"x"}]\n[{"addr":"cidr:10.0.0.0/8"}]',
            [OLD_CLIENT],
        ),
    ],
)
def test_fenced_clients(said: str, addresses: list[str]) -> None:
    """`ceph osd blocklist ls` prints two documents: single addresses, then ranges."""
    runner = FakeRunner({"ceph osd blocklist ls --format json": said})
    assert CephCluster(runner).observe_blocklist() == addresses


def _session(kind: str, entity: str, address: str) -> dict[str, object]:
    host, _, nonce = address.partition("/")
    socket = {"type": "any", "addr": host, "nonce": int(nonce)}
    return {"con_type": kind, "entity_name": entity, "socket_addr": socket, "global_id": 4394}


def test_who_each_connected_client_is() -> None:
    """Every client has its session with one MON of the quorum."""
    runner = FakeRunner(
        {
            "ceph quorum_status --format json": {"quorum_names": ["h1", "h2"]},
            "ceph tell mon.h1 sessions --format json": [
                _session("client", "client.admin", "10.213.2.11:0/1"),
                _session("osd", "osd.0", "10.213.2.11:6800/7"),
            ],
            "ceph tell mon.h2 sessions --format json": [
                _session("client", "client.grampus.dev.shop", OLD_CLIENT),
                {"con_type": "mon", "entity_name": ""},
            ],
        }
    )
    assert CephCluster(runner).observe_client_entities() == {
        "10.213.2.11:0/1": "client.admin",
        OLD_CLIENT: "client.grampus.dev.shop",
    }


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (documents.HEALTHY, (33, 33)),
        (documents.ONE_OSD_DOWN, (33, 33)),  # degraded, undersized and scrubbing ones serve too
        ({"pgmap": {"num_pgs": 0}}, (0, 0)),
        (
            {
                "pgmap": {
                    "num_pgs": 5,
                    "pgs_by_state": [
                        {"state_name": "active+undersized", "count": 2},
                        {"state_name": "peering", "count": 1},
                        {"state_name": "unknown", "count": 1},
                        {"state_name": "undersized+degraded+peered", "count": 1},
                    ],
                }
            },
            (2, 5),
        ),
    ],
)
def test_placement_groups_that_serve(document: dict[str, Any], expected: tuple[int, int]) -> None:
    runner = FakeRunner({f"ceph status{JSON}": document})
    assert CephCluster(runner).observe_serving_groups() == expected
