from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from grampus.ceph.cluster import CephCluster
from grampus.ceph.flattening import RbdFlattening
from grampus.ceph.image_snapshots import SUSPENDED_FACT, RbdSnapshots
from grampus.ceph.rbd import CHANGE_METADATA, RbdImages
from grampus.core.errors import GrampusError
from tests.fakes.clock import FakeClock
from tests.fakes.commands import ENOENT, FakeRunner, Output, Reply

INFO = "rbd info --format json databases/copy"
INFO_BEFORE = "rbd info --format json databases/copy@before"
INFO_GONE = "rbd info --format json databases/copy@gone"
STATUS = "rbd status --format json databases/copy"
META = "rbd image-meta list --format json databases/copy"
SNAPSHOTS = "env TZ=UTC rbd snap ls --format json databases/copy"
KEY = f"grampus.{SUSPENDED_FACT}"
NOTE = f"python3 -c {CHANGE_METADATA} databases copy " + json.dumps(
    {"set": {KEY: "object-map,fast-diff"}, "remove": []}
)
FORGET = f"python3 -c {CHANGE_METADATA} databases copy " + json.dumps({"set": {}, "remove": [KEY]})
DISABLE = "rbd feature disable databases/copy object-map fast-diff"
ENABLE = "rbd feature enable databases/copy object-map fast-diff"
FLATTEN = "rbd flatten --rbd-concurrent-management-ops 2 databases/copy"
REBUILD = "rbd object-map rebuild --rbd-concurrent-management-ops 2 databases/copy"
WITHOUT_MAP = ["layering", "exclusive-lock", "deep-flatten"]
WITH_MAP = [*WITHOUT_MAP, "object-map", "fast-diff"]
SIZES = {"size": 1 << 30, "object_size": 4 << 20}
BARE = {**SIZES, "features": WITHOUT_MAP}
WHOLE: dict[str, Any] = {**SIZES, "features": WITH_MAP, "flags": []}
PARENT = {"pool": "databases", "pool_namespace": "", "image": "shop", "snapshot": "before"}
CLONE: dict[str, Any] = {**SIZES, "features": WITH_MAP, "flags": [], "parent": PARENT}
OWN, KILLED = {"address": "10.0.0.1:0/1"}, {"address": "10.0.0.2:0/2"}
NOTED = {KEY: "object-map,fast-diff"}
INVALID = {**SIZES, "features": WITH_MAP, "flags": ["object map invalid", "fast diff invalid"]}
SNAPSHOT = {"id": 3, "size": 1, "protected": "false", "timestamp": "Sun Nov 22 00:56:44 2026"}
SAID = "\rImage flatten: 7% complete...\rImage flatten: 100% complete...done.\n"


def make(
    table: Mapping[str, Reply | Callable[[], Reply]],
) -> tuple[RbdFlattening, FakeRunner]:
    runner = FakeRunner({STATUS: {"watchers": [OWN]}, **table})
    cluster = CephCluster(runner)
    images = RbdImages(cluster, FakeClock())
    return RbdFlattening(cluster, images, RbdSnapshots(cluster)), runner


def in_turn(*replies: Reply) -> Callable[[], Reply]:
    """Those replies, one a call."""
    left = iter(replies)
    return lambda: next(left)


def test_the_object_map_is_away_while_it_is_flattened_and_made_anew_for_each_snapshot() -> None:
    before = {**SNAPSHOT, "name": "before"}
    # Taken while the image's own map was made: its map is a copy of one that was wrong yet.
    meanwhile = {**SNAPSHOT, "name": "meanwhile"}
    # Asked for its parent, its features before, and its features after.
    flattening, runner = make(
        {
            INFO: in_turn(CLONE, CLONE, BARE, INVALID),
            NOTE: "",
            DISABLE: "",
            FLATTEN: SAID,
            META: NOTED,
            ENABLE: "",
            SNAPSHOTS: in_turn([before], [before, meanwhile]),
            INFO_BEFORE: INVALID,
            f"{INFO_BEFORE[:-6]}meanwhile": INVALID,
            REBUILD: "\rObject Map Rebuild: 50% complete...",
            f"{REBUILD}@before": "\rObject Map Rebuild: 100% complete...done.",
            f"{REBUILD}@meanwhile": "",
            FORGET: "",
        }
    )
    copied: list[float] = []
    mapped: list[float] = []
    flattening.ensure_flattened("databases", "copy", copied.append, mapped.append)
    snapshots = [f"{REBUILD}@before", f"{REBUILD}@meanwhile"]
    changes = [NOTE, DISABLE, FLATTEN, ENABLE, REBUILD, *snapshots, FORGET]
    assert [line for line in runner.changes() if line in changes] == changes
    assert list(dict.fromkeys(copied)) == [0.07, 1.0]
    assert list(dict.fromkeys(mapped)) == [0.25, 1.0], "half its own, and the two known of"


@pytest.mark.parametrize(
    ("infos", "asked"),
    [
        ([CLONE, CLONE, BARE, INVALID], [NOTE, DISABLE, FLATTEN, ENABLE]),
        ([{**CLONE, "features": WITHOUT_MAP}] * 2 + [BARE, INVALID],
         [FLATTEN, ENABLE]),
        ([BARE, BARE, INVALID], [ENABLE]),
        ([INVALID, INVALID, INVALID], []),
    ],
    ids=["from-the-start", "flatten-cut-off", "flattened-by-its-client", "maps-half-made"],
)  # fmt: skip
def test_cut_off_it_goes_on_where_it_was(infos: list[Reply], asked: list[str]) -> None:
    flattening, runner = make(
        {
            INFO: in_turn(*infos),
            SNAPSHOTS: [{**SNAPSHOT, "name": name} for name in ("before", "gone")],
            INFO_BEFORE: WHOLE,  # made before it was cut off
            INFO_GONE: ENOENT,  # deleted a moment ago
            META: NOTED,
            **dict.fromkeys((NOTE, DISABLE, FLATTEN, ENABLE, REBUILD, FORGET), ""),
        }
    )
    flattening.ensure_flattened("databases", "copy")
    expected = [*asked, REBUILD, FORGET]
    known = (NOTE, DISABLE, FLATTEN, ENABLE, REBUILD, FORGET)
    assert [line for line in runner.changes() if line in known] == expected


@pytest.mark.parametrize(
    ("info", "noted", "is_due"),
    [
        (CLONE, {}, True),
        ({**SIZES, "features": WITH_MAP}, {}, False),
        ({**SIZES, "features": []}, NOTED, True),
    ],
    ids=["clone", "alone", "without-its-map"],
)
def test_due_is_what_shares_or_has_no_map_yet(info: Reply, noted: Reply, is_due: bool) -> None:
    flattening, runner = make({INFO: info, META: noted})
    assert flattening.is_due("databases", "copy") is is_due
    if not is_due:
        flattening.ensure_flattened("databases", "copy")
        assert {line.split()[1] for line in runner.asked} == {"info", "image-meta"}


def test_nothing_is_asked_of_an_images_client_while_a_killed_one_is_still_waited_for() -> None:
    flattening, runner = make(
        {
            STATUS: in_turn(*[{"watchers": [OWN, KILLED]}] * 3, {"watchers": [OWN]}),
            INFO: in_turn(BARE, BARE, INVALID),
            META: NOTED,
            SNAPSHOTS: [],
            **dict.fromkeys((ENABLE, REBUILD, FORGET), ""),
        }
    )
    flattening.ensure_flattened("databases", "copy")
    asked = [line for line in runner.asked if line in (STATUS, ENABLE, REBUILD)]
    assert asked == [*[STATUS] * 4, ENABLE, REBUILD]


def test_an_image_that_somebody_else_keeps_open_is_left_as_it_is() -> None:
    flattening, runner = make({STATUS: {"watchers": [OWN, KILLED]}, INFO: CLONE})
    with pytest.raises(GrampusError, match="other clients to close databases/copy") as caught:
        flattening.ensure_flattened("databases", "copy")
    assert caught.value.code == "timeout"
    assert set(runner.asked) == {INFO, STATUS}


def test_an_image_that_never_had_a_map_gets_none() -> None:
    bare = {**CLONE, "features": WITHOUT_MAP}
    flattening, runner = make({INFO: bare, META: {}, FLATTEN: SAID})
    flattening.ensure_flattened("databases", "copy")
    assert [line for line in runner.changes() if "meta" not in line] == [FLATTEN]


@pytest.mark.parametrize("is_done", [True, False], ids=["somebody-was-faster", "nobody-was"])
def test_what_still_has_a_parent_was_not_flattened(is_done: bool) -> None:
    bare = {**CLONE, "features": WITHOUT_MAP}
    infos = in_turn(bare, bare, BARE if is_done else bare)
    no_parent = Output(22, "", "rbd: flatten error: (22) Invalid argument")
    flattening, _ = make({FLATTEN: no_parent, INFO: infos, META: {}})
    if is_done:
        flattening.ensure_flattened("databases", "copy")
        return
    with pytest.raises(GrampusError, match="Invalid argument") as caught:
        flattening.ensure_flattened("databases", "copy")
    assert caught.value.code == "flatten-failed"


@pytest.mark.parametrize("is_there", [True, False], ids=["failed", "deleted-meanwhile"])
def test_a_map_that_cannot_be_made_is_told_of_unless_its_snapshot_went(is_there: bool) -> None:
    flattening, runner = make(
        {
            INFO: WHOLE,
            META: NOTED,
            SNAPSHOTS: [{**SNAPSHOT, "name": "before"}],
            INFO_BEFORE: in_turn(INVALID, INVALID if is_there else ENOENT),
            f"{REBUILD}@before": Output(5, "", "rbd: rebuilding failed: (5) I/O error"),
            FORGET: "",
        }
    )
    if not is_there:
        flattening.ensure_flattened("databases", "copy")
        assert runner.asked[-1] == FORGET
        return
    with pytest.raises(GrampusError, match="I/O error") as caught:
        flattening.ensure_flattened("databases", "copy")
    assert caught.value.code == "object-map-failed"
    assert FORGET not in runner.asked, "the next one makes it"
