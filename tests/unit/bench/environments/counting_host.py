"""A host whose block devices count on between two looks at them."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath

from tests.fakes.clock import FakeClock
from tests.fakes.interruption import Fuse
from tests.fakes.sysbench_host import SysbenchHost

# A block device's counters, see Documentation/block/stat.rst.
STAT = "{reads} 0 8 5 2 0 16 9 0 11 14 0 0 0 0"


class CountingHost(SysbenchHost):
    """`busy`: files of counters, and how many reads there are between two looks."""

    def __init__(self, name: str, *, clock: FakeClock, fuse: Fuse | None = None) -> None:
        super().__init__(name, clock=clock, fuse=fuse)
        self.busy: dict[str, int] = {}
        self._looks: Counter[str] = Counter()

    def read_file(self, path: PurePosixPath) -> str | None:
        name = str(path)
        if name not in self.busy:
            return super().read_file(path)
        self._looks[name] += 1
        return STAT.format(reads=self.busy[name] * self._looks[name])
