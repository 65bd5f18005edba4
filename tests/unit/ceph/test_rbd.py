from __future__ import annotations

from collections.abc import Iterable

import pytest

from grampus.ceph.cluster import CephCluster
from grampus.ceph.rbd import (
    CHANGE_METADATA,
    CREATE_IMAGE,
    LIST_CLIENTS,
    ImageInfo,
    ImageLock,
    RbdImages,
)
from grampus.core.errors import GrampusError, RefusedError
from tests.fakes.clock import FakeClock
from tests.fakes.commands import ENOENT, FakeRunner, Output, Reply

from .documents import IMAGE_INFO

INFO = "rbd info --format json databases/shop"
STATUS = "rbd status --format json databases/shop"
REMOVE = "rbd remove --no-progress databases/shop"
META_LIST = "rbd image-meta list --format json databases/shop"
WATCHED = {"watchers": [{"address": "10.213.0.11:0/3405691582", "client": 4123, "cookie": 1}]}
FREE: dict[str, object] = {"watchers": []}


def make_images(table: dict[str, object]) -> tuple[RbdImages, FakeRunner, FakeClock]:
    runner, clock = FakeRunner(table), FakeClock()  # type: ignore[arg-type]
    return RbdImages(CephCluster(runner), clock), runner, clock


def one_by_one(replies: Iterable[Reply]) -> object:
    iterator = iter(replies)
    return lambda: next(iterator)


def test_found() -> None:
    images, _, _ = make_images({INFO: IMAGE_INFO})
    assert images.find("databases", "shop") == ImageInfo(
        pool="databases",
        name="shop",
        size_bytes=4294967296,
        object_size_bytes=4194304,
        features=("layering", "exclusive-lock", "object-map", "fast-diff", "deep-flatten"),
    )


def test_no_such_image_or_pool_is_none() -> None:
    images, runner, _ = make_images({INFO: ENOENT})
    assert images.find("databases", "shop") is None
    assert runner.asked == [INFO]


@pytest.mark.parametrize("returncode", [1, 13, 110])
def test_any_other_failure_is_an_error_and_no_absence(returncode: int) -> None:
    images, _, _ = make_images({INFO: Output(returncode, "", "the cluster is not there")})
    with pytest.raises(GrampusError, match="not there"):
        images.find("databases", "shop")


def test_failure_that_passes_is_no_failure() -> None:
    images, _, _ = make_images({INFO: one_by_one([Output(110), IMAGE_INFO])})
    assert images.find("databases", "shop") is not None


def test_an_image_and_its_namespace_are_made_over_one_connection() -> None:
    arguments = "databases shop.1/db-shop 4294967296 grampus.identity a1b2"
    made = f"python3 -c {CREATE_IMAGE} {arguments}"
    images, runner, _ = make_images({made: ""})
    images.ensure_image("databases", "shop.1/db-shop", 4294967296, "a1b2")
    assert runner.asked == [made]


def test_an_image_that_bears_another_id_is_refused() -> None:
    arguments = "databases shop 4294967296 grampus.identity a1b2"
    images, _, _ = make_images({f"python3 -c {CREATE_IMAGE} {arguments}": Output(17, "", "")})
    with pytest.raises(RefusedError, match="did not create it") as refused:
        images.ensure_image("databases", "shop", 4294967296, "a1b2")
    assert refused.value.code == "image-exists"


@pytest.mark.parametrize(
    ("document", "addresses"),
    [
        (FREE, []),
        ({}, []),
        (WATCHED, ["10.213.0.11:0/3405691582"]),
        (
            {
                "watchers": [
                    {"address": "10.213.0.11:0/1", "client": 1, "cookie": 1},
                    {"address": "10.213.0.12:0/2", "client": 2, "cookie": 9},
                ],
                "migration": {"state": "prepared"},
            },
            ["10.213.0.11:0/1", "10.213.0.12:0/2"],
        ),
        (
            {"watchers": [{"address": "[2001:db8::1]:0/7", "client": 3, "cookie": 1}]},
            ["[2001:db8::1]:0/7"],
        ),
    ],
)
def test_watchers(document: dict[str, object], addresses: list[str]) -> None:
    images, _, _ = make_images({STATUS: document})
    assert images.watchers("databases", "shop") == addresses


def test_removing_an_image_that_is_not_there_does_nothing() -> None:
    images, runner, _ = make_images({INFO: ENOENT})
    images.ensure_absent("databases", "shop")
    assert runner.asked == [INFO]


def test_removal_waits_for_the_watch_of_a_client_that_has_gone() -> None:
    images, runner, clock = make_images(
        {INFO: IMAGE_INFO, STATUS: one_by_one([WATCHED, WATCHED, FREE]), REMOVE: ""}
    )
    images.ensure_absent("databases", "shop")
    assert runner.asked == [INFO, STATUS, STATUS, STATUS, REMOVE]
    assert clock.slept_s == 1.0


def test_an_image_that_is_opened_in_between_is_removed_after_that() -> None:
    busy = Output(16, "", "rbd: error: image still has watchers")
    images, runner, _ = make_images(
        {
            INFO: IMAGE_INFO,
            STATUS: one_by_one([FREE, WATCHED, FREE, FREE]),
            REMOVE: one_by_one([busy, busy, ""]),
        }
    )
    images.ensure_absent("databases", "shop")
    assert runner.asked == [INFO, STATUS, REMOVE, STATUS, STATUS, REMOVE, STATUS, REMOVE]


def test_an_image_that_is_always_busy_is_given_up() -> None:
    images, _, _ = make_images({INFO: IMAGE_INFO, STATUS: FREE, REMOVE: Output(16)})
    with pytest.raises(GrampusError) as caught:
        images.ensure_absent("databases", "shop")
    assert caught.value.code == "timeout"


def test_any_other_failure_to_remove_is_told_at_once() -> None:
    failure = Output(39, "", "image has snapshots")
    images, _, clock = make_images({INFO: IMAGE_INFO, STATUS: FREE, REMOVE: failure})
    with pytest.raises(GrampusError, match="image has snapshots"):
        images.ensure_absent("databases", "shop")
    assert clock.slept_s == 0


def test_image_in_use_is_not_removed() -> None:
    images, runner, clock = make_images({INFO: IMAGE_INFO, STATUS: WATCHED})
    with pytest.raises(GrampusError, match="the last client to close databases/shop") as caught:
        images.ensure_absent("databases", "shop")
    assert caught.value.code == "timeout"
    assert "rbd status databases/shop" in caught.value.remedy
    assert 30 < clock.slept_s <= 45  # a dead client's watch lasts 30 s
    assert REMOVE not in runner.asked


@pytest.mark.parametrize(
    ("document", "facts"),
    [
        ({}, {}),
        (
            {"grampus.flavour": "mysql", "grampus.note": "a=b", "other": "x", "grampus": "y"},
            {"flavour": "mysql", "note": "a=b"},
        ),
    ],
)
def test_only_our_own_metadata_is_read(document: object, facts: dict[str, str]) -> None:
    images, _, _ = make_images({META_LIST: document})
    assert images.metadata("databases", "shop") == facts


def test_metadata_is_written_under_our_prefix() -> None:
    changes = '{"set": {"grampus.flavour": "mysql", "grampus.epoch": "3"}, "remove": []}'
    together = f"python3 -c {CHANGE_METADATA} databases shop {changes}"
    images, runner, _ = make_images({together: ""})
    images.set_metadata("databases", "shop", {"flavour": "mysql", "epoch": "3"})
    assert runner.asked == [together]


def test_one_fact_is_not_left_to_rbd_which_would_take_the_lock() -> None:
    changes = '{"set": {"grampus.journal": "open"}, "remove": []}'
    line = f"python3 -c {CHANGE_METADATA} databases shop {changes}"
    images, runner, _ = make_images({line: ""})
    images.set_metadata("databases", "shop", {"journal": "open"})
    assert runner.asked == [line]


def test_metadata_is_removed_under_our_prefix() -> None:
    changes = '{"set": {}, "remove": ["grampus.flavour"]}'
    line = f"python3 -c {CHANGE_METADATA} databases shop {changes}"
    images, runner, _ = make_images({line: ""})
    images.ensure_metadata_absent("databases", "shop", ["flavour"])
    assert runner.asked == [line]


def test_no_metadata_is_no_command() -> None:
    images, runner, _ = make_images({})
    images.set_metadata("databases", "shop", {})
    images.ensure_metadata_absent("databases", "shop", [])
    assert runner.asked == []


@pytest.mark.parametrize("reply", [Output(), Output(17, "", "File exists")])
def test_a_namespace_is_made_once(reply: Output) -> None:
    images, runner, _ = make_images({"rbd namespace create databases/shop.1": reply})
    images.ensure_namespace("databases", "shop.1/db-shop")
    assert runner.asked == ["rbd namespace create databases/shop.1"]


@pytest.mark.parametrize(
    "reply", [Output(), ENOENT, Output(16, "", "namespace contains images")], ids=str
)
def test_a_namespace_goes_unless_something_is_in_it(reply: Output) -> None:
    images, runner, _ = make_images({"rbd namespace remove databases/shop.1": reply})
    images.ensure_namespace_absent("databases", "shop.1/db-shop")
    assert runner.asked == ["rbd namespace remove databases/shop.1"]


def test_any_other_failure_to_change_a_namespace_is_an_error() -> None:
    failure = Output(110, "", "the cluster is not there")
    images, _, _ = make_images(
        {
            "rbd namespace create databases/shop.1": failure,
            "rbd namespace remove databases/shop.1": failure,
        }
    )
    for change in (images.ensure_namespace, images.ensure_namespace_absent):
        with pytest.raises(GrampusError, match="not there"):
            change("databases", "shop.1/db-shop")


def test_the_default_namespace_is_neither_made_nor_removed() -> None:
    images, runner, _ = make_images({})
    images.ensure_namespace("databases", "db-shop")
    images.ensure_namespace_absent("databases", "db-shop")
    assert runner.asked == []


RESIZE = "rbd resize --no-progress --size 8589934592B databases/shop"
CLIENTS = f"python3 -c {LIST_CLIENTS} databases shop"
OPTION = "--rbd-blocklist-on-break-lock false"
BREAK = f"rbd {OPTION} lock remove databases/shop auto 140497842613120 client.4394"
OWNER = {"id": "auto 140497842613120", "locker": "client.4394", "address": "10.213.2.11:0/39648"}
LOCK = ImageLock(id="auto 140497842613120", locker="client.4394", address="10.213.2.11:0/39648")


def test_grows_once() -> None:
    images, runner, _ = make_images({INFO: IMAGE_INFO, RESIZE: ""})
    images.ensure_size("databases", "shop", 4294967296)
    assert runner.asked == [INFO]
    images.ensure_size("databases", "shop", 8589934592)
    assert runner.asked == [INFO, INFO, RESIZE]


def test_an_image_that_cannot_be_grown_is_an_error() -> None:
    shrink = Output(22, "", "rbd: shrinking an image is only allowed with the --allow-shrink flag")
    images, _, _ = make_images({INFO: IMAGE_INFO, RESIZE: shrink})
    with pytest.raises(GrampusError, match="shrinking"):
        images.ensure_size("databases", "shop", 8589934592)


@pytest.mark.parametrize(("owners", "locks"), [([OWNER], (LOCK,)), ([], ())])
def test_who_has_the_lock_and_who_has_it_open(
    owners: list[object], locks: tuple[ImageLock, ...]
) -> None:
    images, runner, _ = make_images({CLIENTS: {"locks": owners, "watchers": ["10.213.2.11:0/3"]}})
    found = images.clients("databases", "shop")
    assert (found.locks, found.watchers) == (locks, ("10.213.2.11:0/3",))
    assert runner.asked == [CLIENTS]


def test_an_image_that_is_gone_has_no_clients_but_an_error() -> None:
    images, _, _ = make_images({CLIENTS: Output(1, "", "rbd.ImageNotFound: [errno 2]")})
    with pytest.raises(GrampusError, match="ImageNotFound"):
        images.clients("databases", "shop")


@pytest.mark.parametrize("reply", ["", ENOENT])
def test_lock_is_broken_or_gone_already(reply: Reply) -> None:
    images, runner, _ = make_images({BREAK: reply})
    images.ensure_lock_absent("databases", "shop", LOCK)
    assert runner.asked == [BREAK]


def test_a_lock_that_stays_is_an_error() -> None:
    images, _, _ = make_images({BREAK: Output(16, "", "rbd: the lock is busy")})
    with pytest.raises(GrampusError, match="busy"):
        images.ensure_lock_absent("databases", "shop", LOCK)
