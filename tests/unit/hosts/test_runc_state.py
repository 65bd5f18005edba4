from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from grampus.hosts.runc_state import (
    FirstProcess,
    observe_first_process,
    observe_uid,
    runs_older_program,
)


def _stat(state: str, began: int) -> str:
    return f"7 (a ) b) {state} " + " ".join(["0"] * 18) + f" {began} 0 0\n"


@pytest.mark.parametrize(
    ("noted", "stat", "expected"),
    [
        ({"init_process_pid": 7, "init_process_start": 99}, _stat("S", 99), True),
        ({"init_process_pid": 7, "init_process_start": 99}, _stat("R", 99), True),
        # Another process has got its number.
        ({"init_process_pid": 7, "init_process_start": 98}, _stat("S", 99), False),
        ({"init_process_pid": 7, "init_process_start": 99}, _stat("Z", 99), False),
        ({"init_process_pid": 8, "init_process_start": 99}, _stat("S", 99), False),
        ({"init_process_pid": 7}, _stat("S", 99), None),
        ("half a fi", _stat("S", 99), None),
        (None, _stat("S", 99), None),
    ],
)
def test_it_runs_if_the_process_noted_is_alive(
    tmp_path: Path, noted: object, stat: str, expected: bool | None
) -> None:
    process = tmp_path / "proc" / "7"
    process.mkdir(parents=True)
    (process / "stat").write_text(stat)
    if noted is not None:
        text = noted if isinstance(noted, str) else json.dumps(noted)
        (tmp_path / "state.json").write_text(text)
    process_seen = observe_first_process(tmp_path, tmp_path / "proc")
    assert (process_seen.alive if process_seen is not None else None) is expected


def test_one_that_was_only_created_is_left_to_runc(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"init_process_pid": 1, "init_process_start": 0}')
    (tmp_path / "exec.fifo").touch()
    assert observe_first_process(tmp_path) is None


def test_our_own_process_is_alive(tmp_path: Path) -> None:
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    pid = Path("/proc/self").resolve().name
    noted = {"init_process_pid": int(pid), "init_process_start": int(fields[19])}
    (tmp_path / "state.json").write_text(json.dumps(noted))
    assert observe_first_process(tmp_path) == FirstProcess(int(pid), alive=True)


def test_the_user_of_a_process_is_its_effective_one(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_text("Name:\tmysqld\nUid:\t0\t2027225445\t0\t0\nGid:\t5\t5\n")
    assert observe_uid(7, tmp_path) == 2027225445
    assert observe_uid(8, tmp_path) is None  # it has ended
    assert observe_uid(os.getpid()) == os.geteuid()


@pytest.mark.parametrize(
    ("link", "expected"),
    [("/data/bin/volumed", False), ("/data/bin/volumed (deleted)", True), (None, False)],
)
def test_a_program_that_was_replaced_is_an_older_one(
    tmp_path: Path, link: str | None, expected: bool
) -> None:
    (tmp_path / "7").mkdir()
    if link is not None:
        (tmp_path / "7" / "exe").symlink_to(link)
    assert runs_older_program(7, tmp_path) is expected
