"""Which loop devices of this machine are ours: the lab's, or one host's."""

from __future__ import annotations

import struct

import pytest

from grampus.hosts.loop_devices import (
    AttachedLoop,
    belongs_to,
    is_below,
    order_loops,
    parse_loop_file_id,
    parse_loop_reference,
)

LAB = "/home/labs/default"
HOST = f"{LAB}/hosts/h1"


def _loop(
    file: str, reference: str | None, file_id: tuple[int, int] | None = (8, 1)
) -> AttachedLoop:
    return AttachedLoop("/dev/loop3", file, reference, file_id if reference is not None else None)


@pytest.mark.parametrize(
    ("loop", "ours"),
    [
        (_loop(f"{HOST}/data/osd/0.img", "grampus/1a2b3/osd-0"), True),
        (_loop("/osd/0.img", "grampus/1a2b3/osd-0"), True),
        (_loop(f"{HOST}/data/osd/0.img", "grampus/99999/osd-0"), False),
        (_loop("/var/lib/snapd/x.snap", ""), False),
        (_loop("/grampus/1a2b3/x", "/grampus/1a2b3/x"), False),
        (_loop(f"{HOST}/data/exports/demo/image", None), True),
        (_loop("/", None), True),
        (_loop("/ (deleted)", None), True),
        (_loop("/home/labs/default2/hosts/h1/data/exports/demo/image", None), False),
        (_loop("/mnt/sshfs/disk.img", None), False),
    ],
    ids=[
        *("osd", "osd-seen-from-outside", "other-lab", "snap", "path-as-reference"),
        *("dead-export", "unmounted-export", "deleted-export", "other-home", "other-fuse"),
    ],
)
def test_loop_devices_of_a_lab(loop: AttachedLoop, ours: bool) -> None:
    assert belongs_to(loop, reference_prefix="grampus/1a2b3/", directory=LAB) is ours


@pytest.mark.parametrize(
    ("loop", "ours"),
    [
        (_loop(f"{HOST}/data/osd/0.img", "grampus/1a2b3/osd-0"), True),
        (_loop("/osd/0.img", "grampus/1a2b3/osd-0", (8, 77)), True),
        (_loop("/osd/0.img", "grampus/1a2b3/osd-1", (8, 78)), False),
        (_loop(f"{LAB}/hosts/h2/data/osd/0.img", "grampus/1a2b3/osd-1"), False),
        (_loop(f"{LAB}/hosts/h10/data/osd/0.img", "grampus/1a2b3/osd-9"), False),
        (_loop(f"{HOST}/data/exports/demo/image", None), True),
        (_loop("/", None), False),
    ],
    ids=["own", "own-by-inode", "other-by-inode", "other", "like-prefix", "dead-export", "lost"],
)
def test_loop_devices_of_one_host(loop: AttachedLoop, ours: bool) -> None:
    assert is_below(loop, directory=HOST, file_ids={(8, 77)}) is ours


def test_what_stands_on_a_device_of_a_host_goes_before_it() -> None:
    medium = AttachedLoop("/dev/loop3", f"{HOST}/data/osd/0.img", "grampus/1a2b3/osd-0", (8, 1))
    queue = AttachedLoop("/dev/loop4", "/dev/loop3", "grampus/1a2b3/osd-0-queue", (6, 3))
    other = AttachedLoop("/dev/loop6", "/dev/loop5", "grampus/1a2b3/osd-1-queue", (6, 5))
    assert order_loops([medium, queue, other], {"/dev/loop3"}) == [queue, medium]


def test_file_and_reference_in_the_kernels_struct() -> None:
    info = struct.pack("=QQ40x64s", 2049, 1234567, b"grampus/1a2b3/osd-0").ljust(232, b"\0")
    assert parse_loop_file_id(info) == (2049, 1234567)
    assert parse_loop_reference(info) == "grampus/1a2b3/osd-0"
