from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from grampus.ceph.cluster import CephCluster
from grampus.ceph.image_objects import LIST_OBJECTS
from grampus.ceph.placement_groups import PoolPlacement, decide_group
from grampus.ceph.scrubs import REQUEST_SCRUBS, DamagedCopy, DamagedObject, ScrubbedGroup
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.progress import SilentProgress
from grampus.operations.runner import OperationRunner
from grampus.state.operations import OperationJournal
from grampus.state.store import Store
from grampus.volumes.decide_scrub import (
    MOST_PER_OSD,
    REPEAT_AFTER_S,
    ScrubReport,
    WrongMap,
    decide_deadline_s,
    decide_requests,
    decide_unfinished,
    describe_damage,
    is_repairable,
)
from grampus.volumes.model import VolumeRecord, VolumeSpec
from grampus.volumes.scrubbing import VolumeScrubs
from tests.fakes.clock import FakeClock
from tests.fakes.commands import PlayedCommands, Reply
from tests.fakes.mon_commands import as_ceph_command
from tests.unit.operation_runner import make_runner, planned

PLACEMENT = PoolPlacement(pool_id=1, placement_groups=8)
VOLUME = VolumeRecord(
    spec=VolumeSpec(name="shop", pool="databases", image="shop.1/db-shop", size_bytes=1 << 30),
    ceph_user="grampus.t.shop",
)
LAYERS = [
    {
        "pool": "databases",
        "image": "shop.1/db-shop",
        "prefix": "rbd_data.aa",
        "numbers": [0, 5],
        "others": ["rbd_header.aa", "rbd_object_map.aa"],
    },
    {
        "pool": "databases",
        "image": "golden.1/golden",
        "prefix": "rbd_data.bb",
        "numbers": [1],
        "others": ["rbd_header.bb"],
    },
]
SIZES = {"size": 1, "object_size": 4 << 20}
SNAPSHOT = {"size": 1, "protected": "false", "timestamp": "Sun Nov 22 00:56:44 2026"}
OURS = "rbd_data.aa.0000000000000005"
PARENTS = "rbd_data.bb.0000000000000001"


def namespace_of(name: str) -> str:
    """Where an object is: the parent's in another namespace than all others."""
    return "golden.1" if ".bb" in name else "shop.1"


def group_of(name: str, namespace: str | None = None) -> str:
    return decide_group(PLACEMENT, name, namespace=namespace or namespace_of(name))


OURS_GROUP = group_of(OURS)


@dataclass
class ScrubbedCluster(PlayedCommands):
    """Placement groups that are scrubbed and repaired some looks after they are asked to."""

    clock: FakeClock
    layers: Sequence[dict[str, Any]] = field(default_factory=lambda: LAYERS)
    # Errors by object and OSD; None: its copies contradict one another.
    damage: dict[str, dict[int, str] | None] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    stuck: set[str] = field(default_factory=set)  # groups that never come to it
    takes_s: float = 0.0  # how long each scrub lasts
    states: dict[str, str] = field(default_factory=dict)
    requests: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    # By snapshot: what `rbd object-map check` says of it, and whether its map is known to be wrong.
    maps: dict[str, str] = field(default_factory=dict)
    invalid: set[str] = field(default_factory=set)
    parents: dict[str, str] = field(default_factory=dict)  # POOL/IMAGE@SNAPSHOT of an image
    most_at_once: int = 0  # groups that were asked and not done, at the worst
    _stamps: dict[str, int] = field(default_factory=dict)
    _ends_s: dict[str, float] = field(default_factory=dict)  # of scrubs that go on
    _known: set[str] = field(default_factory=set)  # objects that a scrub has found damaged
    _forgets: int = 0

    def play(self, argv: list[str], stdin: str | None) -> Reply:
        found: Reply = self._answer(argv)
        return found

    @contextmanager
    def reading(self, argv: Sequence[str]) -> Iterator[io.BytesIO]:
        assert argv[4:6] == ["object-map", "rebuild"], argv
        self.invalid.remove(argv[-1])
        self.maps[argv[-1]] = ""
        yield io.BytesIO(b"\rObject Map Rebuild: 100% complete...done.")

    def forget_requests(self, times: int) -> None:
        """Lose what is asked for next, as when a group's OSDs change."""
        self._forgets = times

    def _answer(self, argv: list[str]) -> Any:
        match as_ceph_command(argv):
            case ["python3", "-c", script, "databases", "shop.1/db-shop"] if script == LIST_OBJECTS:
                return self.layers
            case ["python3", "-c", script, kind, *groups] if script == REQUEST_SCRUBS:
                return self._scrub(kind, groups)
            case ["env", "TZ=UTC", "rbd", "snap", "ls", "--format", "json", place]:
                own = [one.rpartition("@")[2] for one in self.maps if one.startswith(f"{place}@")]
                return [{**SNAPSHOT, "id": n, "name": name} for n, name in enumerate(own)]
            case ["rbd", "info", "--format", "json", place]:
                flags = ["object map invalid"] if place in self.invalid else []
                found: dict[str, Any] = {
                    **SIZES,
                    "features": ["object-map"],
                    "flags": flags,
                }
                if place in self.parents:
                    pool, rest = self.parents[place].split("/", 1)
                    image, snapshot = rest.split("@")
                    found["parent"] = {"pool": pool, "image": image, "snapshot": snapshot}
                return found
            case ["rbd", "object-map", "check", *_, place]:
                if said := self.maps[place]:
                    self.invalid.add(place)
                return said
            case ["ceph", _, _, "osd", "pool", "get", "databases", "all", *_]:
                return {"pool_id": 1, "pg_num": PLACEMENT.placement_groups}
            case ["ceph", _, _, "osd", "dump", *_]:
                pool = {"pool_name": "databases", "flags_names": "hashpspool"}
                return {"flags_set": self.flags, "pools": [pool]}
            case ["ceph", _, _, "df", *_]:
                return {"stats": {"total_used_raw_bytes": 1_000_000}}
            case ["ceph", _, _, "pg", "dump", "pgs", *_]:
                return [self._stats(f"1.{number:x}") for number in range(8)]
            case ["rados", "list-inconsistent-obj", group, *_]:
                return {"inconsistents": [self._entry(name) for name in self._found_in(group)]}
        raise AssertionError(f"nobody asks that: {argv}")

    def _scrub(self, kind: str, groups: list[str]) -> str:
        self.requests.append((kind, tuple(groups)))
        if self._forgets:
            self._forgets -= 1
            return ""
        for group in groups:
            if group in self.stuck:
                continue
            self._ends_s[group] = self.clock.monotonic_s() + self.takes_s
            here = {name for name in self.damage if group_of(name) == group}
            if kind == "repair":
                for name in here:
                    if self.damage[name] is not None:
                        del self.damage[name]
                        self._known.discard(name)
            else:
                self._known |= here
        self._end_scrubs()
        self.most_at_once = max(self.most_at_once, len(self._ends_s))
        return ""

    def _end_scrubs(self) -> None:
        for group, end_s in list(self._ends_s.items()):
            if self.clock.monotonic_s() >= end_s:
                del self._ends_s[group]
                self._stamps[group] = self._stamps.get(group, 0) + 1

    def _found_in(self, group: str) -> list[str]:
        return [n for n in sorted(self._known) if group_of(n) == group]

    def _stats(self, group: str) -> dict[str, Any]:
        self._end_scrubs()
        state = self.states.get(group, "active+clean")
        if group in self._ends_s:
            state += "+scrubbing+deep"
        return {
            "pgid": group,
            "state": f"{state}+inconsistent" if self._found_in(group) else state,
            "acting": [0, 1, 2],
            "last_deep_scrub_stamp": str(self._stamps.get(group, 0)),
        }

    def _entry(self, name: str) -> dict[str, Any]:
        blamed = self.damage[name]
        return {
            "object": {"name": name, "nspace": namespace_of(name), "snap": "head"},
            "errors": ["data_digest_mismatch"] if blamed is None else [],
            "shards": [
                {"osd": osd, "errors": [blamed[osd]] if blamed and osd in blamed else []}
                for osd in (0, 1, 2)
            ],
        }


@pytest.fixture
def cluster() -> ScrubbedCluster:
    return ScrubbedCluster(FakeClock())


def make_scrubs(cluster: ScrubbedCluster) -> tuple[VolumeScrubs, OperationRunner]:
    store, clock = Store(None), cluster.clock
    runner = make_runner("t", store, OperationJournal(store, clock), clock)
    return VolumeScrubs(CephCluster(cluster), runner, clock, SilentProgress()), runner


def scrub(cluster: ScrubbedCluster, *, repair: bool = False) -> ScrubReport:
    scrubs, _ = make_scrubs(cluster)
    return scrubs.scrub(VOLUME, repair=repair)


def test_a_dry_run_counts_and_asks_for_no_scrub(cluster: ScrubbedCluster) -> None:
    scrubs, runner = make_scrubs(cluster)
    steps = planned(runner, lambda: scrubs.scrub(VOLUME, repair=True))
    assert steps[0].endswith("6 objects of databases/shop.1/db-shop and databases/golden.1/golden")
    assert steps[1] == "Repair damaged objects, and scrub their placement groups again"
    assert cluster.requests == []


def test_exactly_the_groups_of_the_volume_and_its_parent_are_scrubbed(
    cluster: ScrubbedCluster,
) -> None:
    names = [
        *("rbd_data.aa.0000000000000000", OURS, "rbd_header.aa", "rbd_object_map.aa"),
        *(PARENTS, "rbd_header.bb"),
    ]
    report = scrub(cluster)
    groups = tuple(sorted({group_of(name) for name in names}))
    assert cluster.requests == [("deep-scrub", groups)]
    assert (report.groups, report.objects) == (len(groups), 6)
    assert report.is_sound
    assert report.damaged == ()


@pytest.mark.parametrize("name", [OURS, PARENTS, "rbd_header.aa"])
def test_damage_is_found_and_left_alone_without_repair(cluster: ScrubbedCluster, name: str) -> None:
    cluster.damage[name] = {2: "read_error"}
    report = scrub(cluster)
    assert [one.name for one in report.damaged] == [name]
    assert describe_damage(report.damaged[0]) == "osd.2: read error"
    assert not report.is_sound
    assert report.is_repaired is None
    assert [kind for kind, _ in cluster.requests] == ["deep-scrub"]


def test_a_repair_is_proven_by_a_second_scrub(cluster: ScrubbedCluster) -> None:
    cluster.damage[OURS] = {0: "read_error"}
    report = scrub(cluster, repair=True)
    assert report.is_sound
    assert [one.name for one in report.damaged] == [OURS]
    assert (report.is_repaired, report.still_damaged) == (True, ())
    assert cluster.requests[1:] == [("repair", (OURS_GROUP,)), ("deep-scrub", (OURS_GROUP,))]


@pytest.mark.parametrize(
    "damage",
    [None, {0: "read_error", 1: "read_error", 2: "read_error"}],
    ids=["contradiction", "no right copy"],
)
def test_what_the_cluster_cannot_judge_is_not_repaired(
    cluster: ScrubbedCluster, damage: dict[int, str] | None
) -> None:
    cluster.damage[OURS] = damage
    report = scrub(cluster, repair=True)
    assert "repair" not in [kind for kind, _ in cluster.requests]
    assert (report.is_sound, report.is_repaired) == (False, False)
    assert [one.name for one in report.still_damaged] == [OURS]


def test_damage_of_others_in_the_same_groups_is_told_apart(cluster: ScrubbedCluster) -> None:
    other = next(
        name
        for name in (f"rbd_data.cc.{number:016x}" for number in range(99))
        if group_of(name) == OURS_GROUP
    )
    cluster.damage[other] = {1: "read_error"}
    report = scrub(cluster, repair=True)
    assert report.is_sound
    assert [one.name for one in report.others_damaged] == [other]
    assert len(cluster.requests) == 1


def test_each_snapshot_is_read_by_a_map_that_has_all_that_is_there(
    cluster: ScrubbedCluster,
) -> None:
    image, parent = "databases/shop.1/db-shop", "databases/golden.1/golden"
    error = "librbd::ObjectMapIterateRequest: object map error: object rbd_data.aa marked as "
    cluster.parents = {image: f"{parent}@made"}
    cluster.maps = {
        f"{image}@right": "",
        f"{image}@lacking": f"{error}0, but should be 1\n{error}2, but should be 3\n",
        # It has too much: read rightly, and never left marked by the one who looked.
        f"{image}@plenty": f"{error}1, but should be 3\n{error}1, but should be 0\n",
        f"{parent}@made": f"{error}0, but should be 1\n",
    }
    report = scrub(cluster)
    assert report.wrong_maps == (
        WrongMap(snapshot="lacking", objects=2),
        WrongMap(snapshot=f"{parent}@made", objects=1),
    )
    assert not report.is_sound
    assert cluster.invalid == set()
    assert scrub(cluster).is_sound


def test_a_snapshot_without_a_valid_map_is_not_compared(cluster: ScrubbedCluster) -> None:
    place = "databases/shop.1/db-shop@being-made"
    cluster.maps, cluster.invalid = {place: "nobody asks for this"}, {place}
    assert scrub(cluster).is_sound
    assert cluster.invalid == set(), "it is made anew all the same"


def test_a_request_that_was_lost_is_made_again(cluster: ScrubbedCluster) -> None:
    cluster.forget_requests(1)
    assert scrub(cluster).is_sound
    assert len(cluster.requests) == 2


def test_a_group_that_is_being_scrubbed_is_not_asked_again(cluster: ScrubbedCluster) -> None:
    cluster.takes_s = 4 * REPEAT_AFTER_S
    assert scrub(cluster).is_sound
    assert len(cluster.requests) == 1


def test_not_all_groups_are_scrubbed_at_once(cluster: ScrubbedCluster) -> None:
    cluster.layers = [{**LAYERS[0], "numbers": list(range(64))}]
    cluster.takes_s = 5
    report = scrub(cluster)
    asked = [group for _, groups in cluster.requests for group in groups]
    assert (report.is_sound, report.groups) == (True, 8)
    assert sorted(asked) == [f"1.{number}" for number in range(8)]
    assert cluster.most_at_once == MOST_PER_OSD


def test_a_group_that_is_not_clean_is_asked_later(cluster: ScrubbedCluster) -> None:
    cluster.states[OURS_GROUP] = "active+undersized+degraded"
    with pytest.raises(GrampusError) as caught:
        scrub(cluster)
    assert caught.value.code == "timeout"
    assert all(OURS_GROUP not in groups for _, groups in cluster.requests)


def test_a_cluster_that_never_comes_to_it_is_given_up(cluster: ScrubbedCluster) -> None:
    cluster.stuck.add(OURS_GROUP)
    with pytest.raises(GrampusError, match=OURS_GROUP) as caught:
        scrub(cluster)
    assert caught.value.code == "timeout"


def test_a_flag_against_scrubs_is_respected(cluster: ScrubbedCluster) -> None:
    cluster.flags.append("nodeep-scrub")
    with pytest.raises(RefusedError) as caught:
        scrub(cluster)
    assert caught.value.code == "scrub-forbidden"
    assert cluster.requests == []


def group(stamp: str) -> ScrubbedGroup:
    return ScrubbedGroup(id="1.0", state="active+clean", acting=(0,), deep_scrub_stamp=stamp)


def groups_on(osds: tuple[int, ...], count: int, *, state: str = "") -> list[ScrubbedGroup]:
    """`count` groups on these OSDs."""
    return [
        ScrubbedGroup(
            id=f"{osds[0]}.{number}",
            state=f"active+clean{state}",
            acting=osds,
            deep_scrub_stamp="1",
        )
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("groups", "asked_at_s", "asked"),
    [
        (groups_on((0, 1), 2), {}, ["0.0", "0.1"]),
        (groups_on((0, 1), 2), {"0.0": 71.0}, ["0.1"]),
        (groups_on((0, 1), 2), {"0.0": 70.0}, ["0.0", "0.1"]),
        (groups_on((0, 1), 2, state="+scrubbing+deep"), {"0.0": 1.0}, []),
        (groups_on((0, 1), MOST_PER_OSD + 1), {"0.0": 99.0}, [f"0.{n}" for n in range(1, 6)]),
        (
            # What is full leaves the groups of others alone.
            [
                *groups_on((0, 1), MOST_PER_OSD, state="+scrubbing"),
                *groups_on((1, 2), 1),
                *groups_on((2, 3), 1),
            ],
            {},
            ["2.0"],
        ),
    ],
)
def test_what_is_asked_for_is_little_for_each_osd(
    groups: list[ScrubbedGroup], asked_at_s: dict[str, float], asked: list[str]
) -> None:
    now = {group.id: group for group in groups}
    assert decide_requests(now, now, asked_at_s, 70.0 + REPEAT_AFTER_S) == asked


@pytest.mark.parametrize(
    ("now", "unfinished"),
    [({"1.0": group("1")}, ["1.0"]), ({"1.0": group("2")}, []), ({}, [])],
)
def test_a_scrub_is_over_when_the_stamp_is_another(
    now: dict[str, ScrubbedGroup], unfinished: list[str]
) -> None:
    assert decide_unfinished({"1.0": group("1")}, now) == unfinished


def test_the_deadline_grows_with_groups_and_bytes() -> None:
    assert decide_deadline_s(2, 0) == 120
    assert decide_deadline_s(2, 20_000_000) == 121


@pytest.mark.parametrize(
    ("damaged", "good", "repairable"),
    [((0,), (1, 2), True), ((), (0, 1, 2), False), ((0, 1, 2), (), False)],
)
def test_a_repair_needs_one_copy_to_blame_and_one_to_trust(
    damaged: tuple[int, ...], good: tuple[int, ...], repairable: bool
) -> None:
    one = DamagedObject(
        group="1.0",
        name="a",
        snapshot="head",
        errors=(),
        damaged=tuple(DamagedCopy(osd=osd, errors=("read_error",)) for osd in damaged),
        good_osds=good,
    )
    assert is_repairable(one) == repairable
