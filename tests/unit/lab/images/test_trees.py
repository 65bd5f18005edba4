"""Removing trees and ending abandoned builders without harming anything else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from grampus.core.clock import SystemClock
from grampus.lab.images.trees import (
    BUILDER_FILE,
    Builder,
    ensure_builder_ended,
    ensure_tree_absent,
    is_in_use,
    is_lower_of_overlay,
    observe_start_ticks,
    record_builder,
)

CLOCK = SystemClock()


def start_group() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "100"], start_new_session=True)


def test_recorded_builder_is_ended(tmp_path: Path) -> None:
    process = start_group()
    record_builder(tmp_path, process.pid)
    ensure_builder_ended(tmp_path, CLOCK)
    assert process.wait() == -9


def test_process_that_took_over_the_number_is_spared(tmp_path: Path) -> None:
    process = start_group()
    start_ticks = observe_start_ticks(process.pid)
    assert start_ticks is not None
    builder = Builder(pid=process.pid, start_ticks=start_ticks - 1)
    (tmp_path / BUILDER_FILE).write_text(builder.model_dump_json())
    ensure_builder_ended(tmp_path, CLOCK)
    assert process.poll() is None
    process.kill()
    process.wait()


@pytest.mark.parametrize("content", [None, "{", '{"pid": 1}'])
def test_no_usable_record_ends_nothing(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / BUILDER_FILE).write_text(content)
    ensure_builder_ended(tmp_path, CLOCK)


def test_start_of_a_dead_process() -> None:
    process = start_group()
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert observe_start_ticks(process.pid) is None  # a zombie has ended
    process.wait()
    assert observe_start_ticks(process.pid) is None


def test_tree_is_removed_but_not_what_it_links_to(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("")
    tree = tmp_path / "tree"
    (tree / "a/b").mkdir(parents=True)
    (tree / "link").symlink_to(outside)
    ensure_tree_absent(tree, CLOCK)
    ensure_tree_absent(tree, CLOCK)
    assert not tree.exists()
    assert (outside / "kept").exists()


def test_mounts_in_a_tree_are_undone_before_it_is_removed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("")
    inner = tmp_path / "tree/root/dev"
    inner.mkdir(parents=True)
    mounted = subprocess.run(["mount", "--bind", outside, inner], stderr=subprocess.DEVNULL)
    if mounted.returncode != 0:
        pytest.skip("mounting needs root; `make test` runs as root")
    ensure_tree_absent(tmp_path / "tree", CLOCK)
    assert not (tmp_path / "tree").exists()
    assert (outside / "kept").exists()


@pytest.mark.parametrize(
    ("line", "used"),
    [
        ("1 2 0:3 / /m rw - overlay overlay rw,lowerdir=/i/sid/root,upperdir=/u", True),
        ("1 2 0:3 / /m rw shared:1 - overlay x rw,lowerdir=/a:/i/sid/root", True),
        ("1 2 0:3 / /m rw - overlay x rw,lowerdir+=/i/sid/root,upperdir=/u", True),
        ("1 2 0:3 / /m rw - overlay x rw,lowerdir=/i/sid/root2", False),
        ("1 2 0:3 / /i/sid/root rw - ext4 /dev/sda rw", False),
        ("", False),
    ],
)
def test_overlay_on_an_image(line: str, used: bool) -> None:
    assert is_lower_of_overlay(line, Path("/i/sid/root")) is used


def test_nothing_stands_on_a_new_directory(tmp_path: Path) -> None:
    assert not is_in_use(tmp_path)
