"""What a run records of versions, configuration and limits."""

from __future__ import annotations

from typing import Any

import pytest

from grampus.bench.environments.manifest import (
    decide_media,
    describe_components,
    describe_conf,
    describe_configuration,
    describe_copies,
    describe_medium,
    describe_osds,
    describe_program,
    without_defaults,
)
from grampus.bench.matrix.dimensions import Point
from grampus.hosts.media import DeviceMediaName
from grampus.state.runs import Setting


def test_only_what_there_is_has_a_version():
    found = describe_components({"ceph": ("20.2.4",), "mysql": ("9.7.4", "8.4"), "percona": ()})
    assert [(one.group, one.name, one.value) for one in found] == [
        ("versions", "ceph", "20.2.4"),
        ("versions", "mysql", "9.7.4, 8.4"),
    ]


def test_the_configuration_that_was_set():
    dump = [
        {"section": "osd", "name": "osd_memory_target", "value": "1073741824", "mask": ""},
        {"section": "osd", "name": "osd_op_num_shards", "value": "2", "mask": "class:hdd"},
        {"name": "mon_lease", "value": "2"},
        {"section": "osd", "name": "odd"},
    ]
    assert [(one.name, one.value) for one in describe_configuration(dump)] == [
        ("osd: osd_memory_target", "1073741824"),
        ("osd of class:hdd: osd_op_num_shards", "2"),
        ("global: mon_lease", "2"),
    ]


@pytest.mark.parametrize(
    "name",
    ["mgr/dashboard/PASSWORD", "rgw_keystone_token", "mgr/x/ssl_cert", "a_secret", "mgr/y/API_KEY"],
)
def test_what_may_be_a_secret_is_left_out(name: str):
    assert describe_configuration([{"section": "mgr", "name": name, "value": "x"}]) == []


def test_what_ceph_conf_sets_is_recorded_without_places_and_secrets():
    text = (
        "[global]\nfsid = 1\nmon host = [v2:10.0.0.1]\npublic network = 10.0.0.0/16\n"
        "osd class dir = /usr/lib\nosd heartbeat grace = 10\nmon lease = 2\n"
        "[client]\nkeyring = /etc/x\nrbd cache = false\n"
    )
    assert [(one.group, one.name, one.value) for one in describe_conf(text)] == [
        ("Ceph configuration", "ceph.conf: global: osd heartbeat grace", "10"),
        ("Ceph configuration", "ceph.conf: global: mon lease", "2"),
        ("Ceph configuration", "ceph.conf: client: rbd cache", "false"),
    ]


@pytest.mark.parametrize("text", ["", "no section", "[global", "[global]\n= 1"])
def test_of_a_ceph_conf_that_is_none_nothing_is_known(text: str):
    assert describe_conf(text) == []


@pytest.mark.parametrize(
    ("media", "words"),
    [
        ("nvme", "500,000 reads/s, 150,000 writes/s"),
        (
            "ssd",
            "75,000 reads/s, 25,000 writes/s, 530 MiB/s read, 480 MiB/s written",
        ),
        (
            "hdd",
            "one request at a time: 6.65 ms, or 0.10 ms behind the one before, and its bytes at "
            "200 MiB/s; OSDs that a benchmark adds do not wait for this machine's disk at a flush",
        ),
    ],
)
def test_how_fast_a_medium_is(media: DeviceMediaName, words: str):
    found = describe_medium(media)
    assert (found.group, found.name, found.value) == ("limits", f"an OSD's device ({media})", words)


@pytest.mark.parametrize(
    ("kinds", "words", "media"),
    [
        ([{}], "BlueStore on nvme", ["nvme"]),
        ([{"media": "hdd"}, {"media": "hdd", "threads": 1}], "BlueStore on hdd", ["hdd"]),
        (
            [
                {"media": "hdd", "wal_db_device": "nvme"},
                {"media": "hdd", "wal_db_device": "nvme", "objectstore": "filestore"},
                {"wal_db_device": "optane"},
            ],
            "BlueStore on hdd, WAL and DB on nvme; FileStore on hdd, journal on nvme; "
            "BlueStore on nvme, WAL and DB on optane",
            ["hdd", "nvme", "optane"],
        ),
        (
            [{"media": "own", "objectstore": "own", "wal_db_device": "own"}, {"media": "hdd"}],
            "those that the place has; BlueStore on hdd",
            ["hdd"],
        ),
        ([], "none", []),
    ],
)
def test_what_cells_stand_on(kinds: list[dict[str, Any]], words: str, media: list[str]):
    points = [Point(workload="update-index", **kind) for kind in kinds]
    found = describe_osds(points)
    assert (found.group, found.name, found.value) == ("Ceph", "OSDs of the cells", words)
    assert decide_media(points) == media


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        ([{}], "3, min_size 2"),
        ([{"copies": 2}, {"copies": 1}, {"copies": 2}], "2, min_size 1; 1, min_size 1"),
        ([{"erasure_code": "k2m1"}], "erasure code k2m1; of metadata 3"),
        ([], "none"),
    ],
)
def test_copies_are_those_of_the_cells(kinds: list[dict[str, Any]], words: str) -> None:
    found = describe_copies([Point(workload="update-index", **kind) for kind in kinds])
    assert (found.group, found.name, found.value) == ("Ceph", "copies of the cells", words)


@pytest.mark.parametrize(
    ("media", "kept"),
    [
        (["hdd"], ["version", "OSDs", "host image"]),
        (["hdd", "own"], ["version", "media", "OSDs", "host image"]),
    ],
)
def test_a_page_names_no_condition_that_its_cells_do_not_have(
    media: list[str], kept: list[str]
) -> None:
    points = [Point.model_validate({"workload": "update-index", "media": one}) for one in media]
    place = [
        Setting(group="Ceph", name=name, value="x")
        for name in ("version", "media", "OSDs", "pool", "copies", "host image")
    ]
    assert [one.name for one in without_defaults(place, points)] == kept


def test_what_runs_is_told_to_the_commit() -> None:
    found = describe_program("2c84125", is_cgroup_v2=False)
    assert [(one.name, one.value) for one in found] == [
        ("grampus commit", "2c84125"),
        ("control groups", "version 1"),
    ]
    assert describe_program(None, is_cgroup_v2=True)[0].value == "not from a checkout"
