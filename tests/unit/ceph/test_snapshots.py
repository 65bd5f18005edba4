from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import pytest

from grampus.ceph.cluster import CephCluster
from grampus.ceph.image_snapshots import (
    CLONE_IMAGE,
    HAS_PARENTS,
    SWEEP_SNAPSHOTS,
    ChildImage,
    ParentImage,
    RbdSnapshot,
    RbdSnapshots,
)
from grampus.core.errors import GrampusError
from tests.fakes.commands import ENOENT, FakeRunner, Output, Reply

LIST = "env TZ=UTC rbd snap ls --format json databases/shop"
CREATE = "rbd snap create --no-progress databases/shop@before"
REMOVE = "rbd snap rm --no-progress databases/shop@before"
PROTECT = "rbd snap protect databases/shop@before"
UNPROTECT = "rbd snap unprotect databases/shop@before"
CLONE = f"python3 -c {CLONE_IMAGE} databases shop before databases copy null"
ROLL_BACK = "rbd snap rollback databases/shop@before"
INFO = "rbd info --format json databases/copy"
CHILDREN = "rbd children --all --format json databases/shop"
# As Ceph 20.2.4 prints them.
BEFORE = {
    "id": 3,
    "name": "before",
    "size": 1073741824,
    "protected": "true",
    "timestamp": "Sun Nov 22 00:56:44 2026",
}
AFTER = {**BEFORE, "id": 14, "name": "after", "protected": "false"}
PARENT_DOCUMENT = {
    "pool": "databases",
    "pool_namespace": "",
    "image": "shop",
    "id": "124081ee429c",
    "snapshot": "before",
    "trash": False,
    "overlap": 1073741824,
}
PARENT = ParentImage(pool="databases", image="shop", snapshot="before", is_in_trash=False)


def make_snapshots(
    table: Mapping[str, Reply | Callable[[], Reply]],
) -> tuple[RbdSnapshots, FakeRunner]:
    runner = FakeRunner(table)
    return RbdSnapshots(CephCluster(runner)), runner


def test_oldest_first_whatever_the_order_and_in_utc() -> None:
    snapshots, _ = make_snapshots({LIST: [AFTER, BEFORE]})
    assert snapshots.all("databases", "shop") == [
        RbdSnapshot(
            name="before",
            size_bytes=1073741824,
            created_at=datetime(2026, 11, 22, 0, 56, 44, tzinfo=UTC),
            is_protected=True,
        ),
        RbdSnapshot(
            name="after",
            size_bytes=1073741824,
            created_at=datetime(2026, 11, 22, 0, 56, 44, tzinfo=UTC),
            is_protected=False,
        ),
    ]


def test_of_no_image_there_are_none() -> None:
    snapshots, _ = make_snapshots({LIST: ENOENT, CHILDREN: ENOENT, INFO: ENOENT})
    assert snapshots.all("databases", "shop") == []
    assert snapshots.children("databases", "shop") == []
    assert snapshots.parent("databases", "copy") is None


def test_a_failure_is_no_absence() -> None:
    failure = Output(110, "", "the cluster is not there")
    snapshots, _ = make_snapshots({LIST: failure, CHILDREN: failure, INFO: failure})
    for ask in (
        lambda: snapshots.all("databases", "shop"),
        lambda: snapshots.children("databases", "shop"),
        lambda: snapshots.parent("databases", "copy"),
    ):
        with pytest.raises(GrampusError, match="not there"):
            ask()


def test_what_each_snapshot_added() -> None:
    document = {
        "images": [
            {"name": "shop", "snapshot": "before", "snapshot_id": 3, "used_size": 67108864},
            {"name": "shop", "used_size": 4194304, "provisioned_size": 1073741824},
        ]
    }
    snapshots, _ = make_snapshots({"rbd du --format json databases/shop": document})
    assert snapshots.used_bytes("databases", "shop") == {"before": 67108864, None: 4194304}


@pytest.mark.parametrize("snapshots_before", [[], [{"snapshot": "before", "used_size": 67108864}]])
def test_what_the_image_itself_takes_to_the_byte(snapshots_before: list[dict[str, object]]) -> None:
    document = {"images": [*snapshots_before, {"name": "shop", "used_size": 12288}]}
    snapshots, _ = make_snapshots({"rbd du --exact --format json databases/shop": document})
    assert snapshots.occupied_bytes("databases", "shop") == 12288


@pytest.mark.parametrize(
    ("line", "method", "harmless"),
    [
        (CREATE, "ensure", 17),  # it exists
        (REMOVE, "ensure_absent", 2),  # there is none
        (PROTECT, "ensure_protected", 16),  # it is so already
        (UNPROTECT, "ensure_unprotected", 22),  # it is so already
    ],
)
def test_changes_may_be_repeated_and_other_failures_are_errors(
    line: str, method: str, harmless: int
) -> None:
    for reply in (Output(), Output(harmless, "", "as it is")):
        snapshots, runner = make_snapshots({line: reply})
        getattr(snapshots, method)("databases", "shop", "before")
        assert runner.asked == [line]
    snapshots, _ = make_snapshots({line: Output(110, "", "no time left")})
    with pytest.raises(GrampusError, match="no time left"):
        getattr(snapshots, method)("databases", "shop", "before")


def test_all_are_removed_protected_ones_too() -> None:
    remove_after = "rbd snap rm --no-progress databases/shop@after"
    table: dict[str, Reply] = {LIST: [BEFORE, AFTER], UNPROTECT: "", REMOVE: "", remove_after: ""}
    snapshots, runner = make_snapshots(table)
    snapshots.ensure_all_absent("databases", "shop")
    assert runner.asked == [LIST, UNPROTECT, REMOVE, remove_after]


def test_a_clone_is_made_once() -> None:
    exists = Output(17, "", "[errno 17] RBD image already exists (error creating clone)")
    for reply, asked in ((Output(), [CLONE]), (exists, [CLONE, INFO])):
        snapshots, runner = make_snapshots({CLONE: reply, INFO: {"parent": PARENT_DOCUMENT}})
        assert snapshots.ensure_clone(PARENT, "databases", "copy") == (asked == [CLONE])
        assert runner.asked == asked


@pytest.mark.parametrize(
    ("reply", "info"),
    [
        (
            Output(
                1, "", "rbd.ImageNotFound: [errno 2] RBD image not found (error creating clone)"
            ),
            {},
        ),
        (Output(17, "", "[errno 17] RBD image already exists (error creating clone)"), {}),
        (
            Output(17, "", "[errno 17] RBD image already exists (error creating clone)"),
            {"parent": {**PARENT_DOCUMENT, "image": "other"}},
        ),
    ],
)
def test_another_image_is_never_taken_for_the_clone(reply: Output, info: Reply) -> None:
    snapshots, _ = make_snapshots({CLONE: reply, INFO: info})
    with pytest.raises(GrampusError, match="error creating clone") as caught:
        snapshots.ensure_clone(PARENT, "databases", "copy")
    assert caught.value.code == "clone-failed"


def test_a_rollback_tells_how_far_it_is_and_what_went_wrong() -> None:
    said = "\rRolling back to snapshot: 50% complete...\rRolling back to snapshot: 100% complete"
    snapshots, _ = make_snapshots({ROLL_BACK: said})
    told: list[float] = []
    snapshots.roll_back("databases", "shop", "before", told.append)
    assert list(dict.fromkeys(told)) == [0.5, 1.0]
    failed = Output(5, "", "\rRolling back to snapshot: 3% complete...failed.\nrbd: (5) I/O error")
    snapshots, _ = make_snapshots({ROLL_BACK: failed})
    with pytest.raises(GrampusError, match=r"rbd: \(5\) I/O error") as caught:
        snapshots.roll_back("databases", "shop", "before")
    assert caught.value.code == "rollback-failed"


def test_parent_and_children() -> None:
    children = [
        {"pool": "databases", "pool_namespace": "", "image": "copy", "id": "1", "trash": False},
        {"pool": "archive", "pool_namespace": "", "image": "old", "id": "2", "trash": True},
    ]
    of_one = "rbd children --all --format json --snap before databases/shop"
    table: dict[str, Reply] = {
        INFO: {"parent": PARENT_DOCUMENT},
        CHILDREN: children,
        of_one: children[:1],
    }
    snapshots, _ = make_snapshots(table)
    copy = ChildImage(pool="databases", name="copy", is_in_trash=False)
    assert snapshots.parent("databases", "copy") == PARENT
    assert snapshots.children("databases", "shop") == [
        ChildImage(pool="archive", name="old", is_in_trash=True),
        copy,
    ]
    assert snapshots.children("databases", "shop", "before") == [copy]


def test_parents_and_children_in_namespaces() -> None:
    """As they are named everywhere, so that they can be asked for again."""
    parent = {**PARENT_DOCUMENT, "pool_namespace": "shop.1", "image": "db-shop"}
    child = {"pool": "databases", "pool_namespace": "copy.1", "image": "db-copy", "trash": False}
    snapshots, _ = make_snapshots(
        {
            "rbd info --format json databases/copy.1/db-copy": {"parent": parent},
            "rbd children --all --format json databases/shop.1/db-shop": [child],
        }
    )
    found = snapshots.parent("databases", "copy.1/db-copy")
    assert found is not None
    assert (found.pool, found.image) == ("databases", "shop.1/db-shop")
    assert [one.name for one in snapshots.children("databases", found.image)] == ["copy.1/db-copy"]


@pytest.mark.parametrize(("said", "expected"), [("true\n", True), ("false\n", False)])
def test_whether_anything_of_an_image_is_shared(said: str, expected: bool) -> None:
    snapshots, _ = make_snapshots({f"python3 -c {HAS_PARENTS} databases copy.1/db-copy": said})
    assert snapshots.has_parents("databases", "copy.1/db-copy") is expected


def test_what_clones_left_behind_is_swept() -> None:
    sweep = f"python3 -c {SWEEP_SNAPSHOTS} databases shop.1/db-shop"
    snapshots, runner = make_snapshots({sweep: ""})
    snapshots.ensure_swept("databases", "shop.1/db-shop")
    assert runner.asked == [sweep]
