from __future__ import annotations

from pathlib import Path

from grampus.hosts.machine_shared import ensure_shared_memory_clear, shared_memory_name


def test_what_a_lab_left_is_removed_and_nothing_of_others(tmp_path: Path) -> None:
    names = [shared_memory_name("1a2b3", "h1-demo.key"), shared_memory_name("1a2b3", "x.new")]
    others = [shared_memory_name("1a2b4", "h1-demo.key"), "pulse-shm-1"]
    for name in (*names, *others):
        (tmp_path / name).write_text("x")
    ensure_shared_memory_clear("1a2b3", tmp_path)
    ensure_shared_memory_clear("1a2b3", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)
