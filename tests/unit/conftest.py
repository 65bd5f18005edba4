"""What every unit test has, whatever the machine has."""

from __future__ import annotations

import gc
import shutil
from collections import namedtuple
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from grampus.core import meanwhile
from grampus.core.units import GIB

# By default Python looks for unreachable cycles at each 700 new objects, and each time through some
# of what 11,000 collected tests are. Rarer looks save 5 to 12% of the CPU time (two measurements).
gc.set_threshold(100_000, 20, 50)
Usage = namedtuple("Usage", "total used free")  # as shutil returns it; bytes


def pytest_collection_finish() -> None:
    """What was imported and collected stays until the end: nothing looks through it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def disk_with_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test fails because the machine's disk, or its memory file system, is nearly full."""
    usage = Usage(total=400 * GIB, used=100 * GIB, free=300 * GIB)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)


class _NoThread:
    """An executor whose work is done as it is handed over, and stops there what stops it."""

    def __init__(self, max_workers: int) -> None:
        assert max_workers == 1

    def __enter__(self) -> _NoThread:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, work: Callable[[], object]) -> Future[None]:
        work()
        done: Future[None] = Future()
        done.set_result(None)
        return done


@pytest.fixture(autouse=True)
def one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done at a time is done in turn, so that a test stops it where it means to."""
    monkeypatch.setattr(meanwhile, "ThreadPoolExecutor", _NoThread)
