from __future__ import annotations

from datetime import UTC, datetime

import pytest

from grampus.ceph.cluster import CephCluster
from grampus.ceph.rbd import RbdImages
from grampus.ceph.trash import RbdTrash
from grampus.core.errors import GrampusError
from tests.fakes.clock import FakeClock
from tests.fakes.commands import ENOENT, FakeRunner, Output

INFO = {"id": "180c", "size": 64, "object_size": 4194304, "features": []}
LIST = "rbd trash ls --all --format json databases"
CLOCK = FakeClock()


def trash(runner: FakeRunner) -> RbdTrash:
    cluster = CephCluster(runner)
    return RbdTrash(cluster, RbdImages(cluster, CLOCK))


def test_an_image_is_kept_until_its_moment_in_utc() -> None:
    move = "rbd trash mv --expires-at 2026-11-29T01:02:03Z databases/db-shop"
    runner = FakeRunner(
        {
            "rbd info --format json databases/db-shop": INFO,
            "rbd status --format json databases/db-shop": {"watchers": []},
            move: "",
        }
    )
    moment = datetime(2026, 11, 29, 1, 2, 3, tzinfo=UTC)
    trash(runner).ensure_trashed("databases", "db-shop", "180c", moment)
    assert move in runner.asked


@pytest.mark.parametrize("info", [{**INFO, "id": "9999"}, ENOENT])
def test_an_image_of_another_id_is_left_alone(info: object) -> None:
    runner = FakeRunner({"rbd info --format json databases/db-shop": info})  # type: ignore[dict-item]
    moment = datetime(2026, 11, 29, tzinfo=UTC)
    trash(runner).ensure_trashed("databases", "db-shop", "180c", moment)
    assert not [line for line in runner.asked if "trash" in line]


def test_an_image_comes_back_under_a_name() -> None:
    restore = "rbd trash restore --image db-new databases/180c"
    runner = FakeRunner({LIST: '[{"id": "180c", "name": "db-shop"}]', restore: ""})
    trash(runner).ensure_restored("databases", "180c", "db-new")
    assert restore in runner.asked


def test_an_image_that_is_back_already_stays() -> None:
    runner = FakeRunner({LIST: "[]", "rbd info --format json databases/db-new": INFO})
    trash(runner).ensure_restored("databases", "180c", "db-new")
    assert not [line for line in runner.asked if "restore" in line]


def test_an_image_that_is_gone_is_an_error() -> None:
    runner = FakeRunner({LIST: "[]", "rbd info --format json databases/db-new": ENOENT})
    with pytest.raises(GrampusError) as error:
        trash(runner).ensure_restored("databases", "180c", "db-new")
    assert error.value.code == "not-in-trash"


def test_an_image_comes_back_in_its_namespace() -> None:
    restore = "rbd trash restore --image db-new databases/shop.1/180c"
    listed = "rbd trash ls --all --format json databases/shop.1"
    runner = FakeRunner({listed: '[{"id": "180c", "name": "db-shop"}]', restore: ""})
    trash(runner).ensure_restored("databases", "180c", "shop.1/db-new")
    assert restore in runner.asked


def test_in_a_namespace_that_is_gone_there_is_no_trash() -> None:
    listed = "rbd trash ls --all --format json databases/shop.1"
    assert not trash(FakeRunner({listed: ENOENT})).contains("databases/shop.1", "180c")
    failure = Output(110, "", "the cluster is not there")
    with pytest.raises(GrampusError, match="not there"):
        trash(FakeRunner({listed: failure})).contains("databases/shop.1", "180c")


@pytest.mark.parametrize(("said", "expected"), [("[]", False), ('[{"image": "c"}]', True)])
def test_clones_of_a_trashed_image_are_seen(said: str, expected: bool) -> None:
    line = "rbd children --all --format json --pool databases --image-id 180c"
    assert trash(FakeRunner({line: said})).has_children("databases", "180c") is expected
    assert not trash(FakeRunner({line: ENOENT})).has_children("databases", "180c")
    line = line.replace("--pool databases", "--pool databases --namespace shop.1")
    assert trash(FakeRunner({line: said})).has_children("databases/shop.1", "180c") is expected
