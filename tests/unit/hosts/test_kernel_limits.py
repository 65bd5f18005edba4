"""Limits of the kernel that a lab raises."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.hosts.machine_shared import ensure_aio_limit


@pytest.mark.parametrize(
    ("before", "after"),
    [("65536\n", "1048576\n"), ("1048576\n", "1048576\n"), ("2000000\n", "2000000\n"), ("?", "?")],
)
def test_it_is_only_ever_raised(tmp_path: Path, before: str, after: str) -> None:
    file = tmp_path / "aio-max-nr"
    file.write_text(before)
    ensure_aio_limit(file)
    assert file.read_text() == after


def test_a_kernel_without_it_is_let_be(tmp_path: Path) -> None:
    ensure_aio_limit(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []
