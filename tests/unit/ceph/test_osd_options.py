"""Options of all OSDs, told from those of some, and set in one connection."""

from __future__ import annotations

import json

from grampus.ceph.cluster import CephCluster
from grampus.ceph.osd_options import SET_OPTIONS, observe_osd_options, set_osd_options
from tests.fakes.commands import FakeRunner


def _entry(section: str, name: str, value: str, mask: str = "") -> dict[str, str]:
    return {"section": section, "name": name, "value": value, "mask": mask}


def test_only_what_all_osds_have_is_observed() -> None:
    dump = [
        _entry("global", "mon_allow_pool_size_one", "true"),
        _entry("osd", "osd_op_num_shards", "5"),
        _entry("osd", "osd_memory_target", "1", mask="host:h1"),
        _entry("osd.2", "osd_max_backfills", "3"),
    ]
    cluster = CephCluster(FakeRunner({"ceph config dump --format json": dump}))
    assert observe_osd_options(cluster) == {"osd_op_num_shards": "5"}


def test_all_are_set_or_removed_in_one_connection() -> None:
    commands = [
        {"prefix": "config set", "who": "osd", "name": "osd_op_num_shards", "value": "5"},
        {"prefix": "config rm", "who": "osd", "name": "osd_client_message_cap"},
    ]
    line = " ".join(["python3", "-c", SET_OPTIONS, json.dumps(commands)])
    runner = FakeRunner({line: ""})
    set_osd_options(CephCluster(runner), {"osd_op_num_shards": "5", "osd_client_message_cap": None})
    assert runner.asked == [line]
