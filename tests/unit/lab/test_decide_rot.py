from __future__ import annotations

from typing import Any

import pytest

from grampus.ceph.scrubs import ScrubbedGroup
from grampus.core.errors import NotFoundError, RefusedError
from grampus.lab.decide_rot import (
    decide_device_offset_bytes,
    decide_objects,
    decide_osd,
    require_whole,
)

NOWHERE = 0xFFFF_FFFF_FFFF_FFFF


def extent(
    length: int,
    places: list[tuple[int, int]],
    *,
    blob_offset: int = 0,
    checked: bool = True,
    compressed: int = 0,
) -> dict[str, Any]:
    return {
        "logical_offset": 0,
        "length": length,
        "blob_offset": blob_offset,
        "blob": {
            "extents": [{"offset": offset, "length": size} for offset, size in places],
            "compressed_length": compressed,
            "csum_data": [1, 2] if checked else [],
        },
    }


@pytest.mark.parametrize(
    ("extents", "offset"),
    [
        ([extent(65536, [(40509440, 65536)])], 40509440),
        ([extent(4096, [(4096, 8192)], blob_offset=4096)], 8192),
        ([extent(4096, [(8192, 4096), (65536, 4096)], blob_offset=5000)], 65536 + 904),
        # The longest one, which nobody writes to in small pieces.
        ([extent(512, [(4096, 4096)]), extent(65536, [(131072, 65536)])], 131072),
        ([extent(65536, [(131072, 8192)], blob_offset=20000, compressed=8000)], 131072),
        ([extent(4096, [(4096, 4096)], checked=False), extent(512, [(8192, 4096)])], 8192),
        ([extent(4096, [(NOWHERE, 4096)])], None),
        ([extent(4096, [(4096, 4096)], checked=False)], None),
        ([], None),
    ],
)
def test_the_byte_that_is_spoilt_has_a_checksum_and_a_place(
    extents: list[dict[str, Any]], offset: int | None
) -> None:
    assert decide_device_offset_bytes({"extents": extents}) == offset


def test_by_default_a_copy_rots_that_no_client_reads() -> None:
    assert decide_osd(None, [(1, 2, 0), (2, 0, 1)]) == 0


def test_an_osd_that_holds_nothing_is_refused_with_those_that_do() -> None:
    assert decide_osd(2, [(0, 1), (1, 2)]) == 2
    with pytest.raises(NotFoundError) as caught:
        decide_osd(7, [(0, 1), (1, 2)])
    assert caught.value.remedy == "Choose one of 0, 1, 2."


@pytest.mark.parametrize(
    ("osd", "count", "chosen"),
    [(0, 1, ["c"]), (0, 2, ["c", "a"]), (0, 9, ["c", "a", "b"]), (2, 9, ["b"]), (3, 1, [])],
)
def test_what_was_written_longest_ago_rots_first(osd: int, count: int, chosen: list[str]) -> None:
    acting = {"a": (0, 1), "b": (1, 0, 2), "c": (0, 1)}
    written_at_s = {"a": 20.0, "b": 30.0, "c": 10.0}
    assert decide_objects(acting, written_at_s, osd, count, spares_readers=False) == chosen


def test_what_clients_read_rots_last_where_a_scrub_shall_find_it() -> None:
    acting = {"a": (0, 1), "b": (1, 0), "c": (0, 1), "d": (1, 0)}
    written_at_s = {"a": 10.0, "b": 30.0, "c": 20.0, "d": 40.0}
    assert decide_objects(acting, written_at_s, 0, 3, spares_readers=True) == ["b", "d", "a"]
    assert decide_objects(acting, written_at_s, 1, 3, spares_readers=True) == ["a", "c", "b"]


@pytest.mark.parametrize(
    ("state", "refused"),
    [
        ("active+clean", False),
        ("active+clean+scrubbing+deep", False),
        ("active+clean+inconsistent", True),
        ("active+undersized+degraded", True),
        ("peering", True),
    ],
)
def test_the_last_right_copy_is_never_spoilt(state: str, refused: bool) -> None:
    group = ScrubbedGroup(id="1.a", state=state, acting=(0, 1, 2), deep_scrub_stamp="")
    if not refused:
        require_whole([group])
        return
    with pytest.raises(RefusedError) as caught:
        require_whole([group])
    assert caught.value.code == "not-whole"
