from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """Where backups go; it is not there yet."""
    return tmp_path / "shelf"
