from __future__ import annotations

import pytest

from grampus.core.errors import RefusedError
from grampus.core.names import require_name
from grampus.core.units import GIB, MIB
from grampus.databases.clones.decide_clone import (
    MAX_DEPTH,
    CloneRequest,
    decide_clone_request,
    decide_snapshot_name,
    describe_origin,
    require_depth,
)
from grampus.volumes.model import CloneSource, WritePath
from tests.fakes.specs import database_spec

SOURCE = database_spec(cpus=2, server_id=1, protected=True, write_path="cache", max_lag_ms=20)


def test_what_is_left_out_is_as_in_the_source() -> None:
    made = decide_clone_request(CloneRequest("shop", "copy"), SOURCE, snapshot_bytes=None)
    assert (made.name, made.size_bytes, made.memory_bytes, made.cpus) == ("copy", 10 * GIB, GIB, 2)
    assert (made.flavour, made.write_path, made.max_lag_ms) == ("mysql", "cache", 20)
    assert not made.protect
    assert made.host is None


@pytest.mark.parametrize(
    ("write_path", "asked_ms", "max_lag_ms"),
    [(None, None, 20), (None, 50, 50), ("cache", None, 20), ("journal", None, None)],
)
def test_the_lag_goes_with_the_write_path(
    write_path: WritePath | None, asked_ms: int | None, max_lag_ms: int | None
) -> None:
    request = CloneRequest("shop", "copy", write_path=write_path, max_lag_ms=asked_ms)
    assert decide_clone_request(request, SOURCE, snapshot_bytes=None).max_lag_ms == max_lag_ms


@pytest.mark.parametrize(
    ("asked_bytes", "snapshot_bytes", "expected"),
    [
        (None, None, 10 * GIB),
        (12 * GIB, None, 12 * GIB),
        (9 * GIB, None, None),
        # The source has grown since.
        (None, 8 * GIB, 10 * GIB),
        (8 * GIB, 8 * GIB, 8 * GIB),
        (7 * GIB, 8 * GIB, None),
    ],
)
def test_a_clone_holds_what_was_cloned(
    asked_bytes: int | None, snapshot_bytes: int | None, expected: int | None
) -> None:
    request = CloneRequest("shop", "copy", size_bytes=asked_bytes)
    if expected is not None:
        made = decide_clone_request(request, SOURCE, snapshot_bytes=snapshot_bytes)
        assert made.size_bytes == expected
        return
    with pytest.raises(RefusedError) as caught:
        decide_clone_request(request, SOURCE, snapshot_bytes=snapshot_bytes)
    assert caught.value.code == "shrink"


@pytest.mark.parametrize(
    ("depth", "allowed"), [(0, True), (MAX_DEPTH - 1, True), (MAX_DEPTH, False), (64, False)]
)
def test_a_chain_is_bounded(depth: int, allowed: bool) -> None:
    if allowed:
        require_depth("shop", depth)
        return
    with pytest.raises(RefusedError, match=f"a chain of {depth} parents") as caught:
        require_depth("shop", depth)
    assert "grampus db flatten shop" in caught.value.remedy


@pytest.mark.parametrize(
    ("clone", "taken", "expected"),
    [
        ("copy", set(), "for-copy"),
        ("copy", {"before"}, "for-copy"),
        ("copy", {"for-copy"}, "for-copy-2"),
        ("copy", {"for-copy", "for-copy-2"}, "for-copy-3"),
        ("a" * 32, set(), "for-" + "a" * 28),
        ("a" * 32, {"for-" + "a" * 28}, "for-" + "a" * 26 + "-2"),
        ("a" * 27 + "-bcd", set(), "for-" + "a" * 27),
    ],
)
def test_the_snapshot_of_one_clone_has_a_name_of_its_own(
    clone: str, taken: set[str], expected: str
) -> None:
    name = decide_snapshot_name(clone, taken)
    assert name == expected
    require_name("snapshot", name)


@pytest.mark.parametrize(
    ("image", "snapshot", "depth", "text"),
    [
        ("db-shop", "before", 1, "shop@before, depth 1"),
        ("db-shop", "for-copy", 2, "shop, depth 2"),
        ("db-shop", "before", 0, "shop@before, flattened since"),
        ("shop.1f00/db-store", "before", 1, "store@before, depth 1"),
        ("golden-x.1f00/golden-x", "golden", 1, "the golden volume golden-x, depth 1"),
        ("golden-mysql-4g-0", "golden", 1, "the golden volume golden-mysql-4g-0, depth 1"),
    ],
)
def test_where_it_comes_from_is_said(image: str, snapshot: str, depth: int, text: str) -> None:
    source = CloneSource(pool="databases", image=image, snapshot=snapshot)
    assert describe_origin(source, depth) == text


def test_small_memory_is_kept() -> None:
    request = CloneRequest("shop", "copy", memory_bytes=256 * MIB, cpus=0.5)
    made = decide_clone_request(request, SOURCE, snapshot_bytes=None)
    assert (made.memory_bytes, made.cpus) == (256 * MIB, 0.5)
