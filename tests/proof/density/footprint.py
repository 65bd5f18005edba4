"""What one volumed takes of its host, as the kernel counts it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

KIB = 1024


@dataclass(frozen=True)
class Footprint:
    """Memory in bytes, and threads.

    `rss_bytes` counts each page that the process uses, also those of libraries that every volumed
    on the host shares; `pss_bytes` counts a shared page once for all its users together;
    `private_bytes` is what no file holds: heap, stacks and buffers. `journal_bytes` is the journal
    data in it that waits to be applied.
    """

    rss_bytes: int
    pss_bytes: int
    private_bytes: int
    threads: int
    journal_bytes: int = 0

    @property
    def own_rss_bytes(self) -> int:
        """Without the journal's data."""
        return self.rss_bytes - self.journal_bytes


def parse_footprint(rollup: str, status: str, journal_bytes: int = 0) -> Footprint:
    """Of the texts of `smaps_rollup` and `status` in a process's directory (proc(5))."""
    kibibytes = {
        name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+) kB$", rollup, re.MULTILINE)
    }
    threads = re.search(r"^Threads:\s+(\d+)$", status, re.MULTILINE)
    assert threads is not None
    return Footprint(
        rss_bytes=kibibytes["Rss"] * KIB,
        pss_bytes=kibibytes["Pss"] * KIB,
        private_bytes=kibibytes["Anonymous"] * KIB,
        threads=int(threads[1]),
        journal_bytes=journal_bytes,
    )


def observe_footprint(pid: int, journal_bytes: int = 0) -> Footprint:
    """Of a process of this machine."""
    directory = Path("/proc") / str(pid)
    rollup, status = (directory / "smaps_rollup").read_text(), (directory / "status").read_text()
    return parse_footprint(rollup, status, journal_bytes)
