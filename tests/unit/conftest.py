"""What every unit test has, whatever the machine has."""

from __future__ import annotations

import shutil
from collections import namedtuple

import pytest

from grampus.core.units import GIB

Usage = namedtuple("Usage", "total used free")  # as shutil returns it; bytes


@pytest.fixture(autouse=True)
def disk_with_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test fails because the machine's disk, or its memory file system, is nearly full."""
    usage = Usage(total=400 * GIB, used=100 * GIB, free=300 * GIB)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
