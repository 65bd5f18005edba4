from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .live_world import LiveWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LiveWorld]:
    """A lab in which the database `demo` runs."""
    made = LiveWorld(tmp_path)
    made.create()
    yield made
    made.close()
