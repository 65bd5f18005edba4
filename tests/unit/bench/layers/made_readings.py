"""Lines of a probe and readings, made up to be read and subtracted."""

from __future__ import annotations

import json
from typing import Any

STAT = (
    "cpu  {busy} 0 0 {idle} {waiting} 0 0 {stolen} 0 0\n"
    "cpu0 1 0 0 1 0 0 0 0\ncpu1 1 0 0 1 0 0 0 0\n"
)
MEMORY = "MemTotal:       4194304 kB\nMemFree:        1048576 kB\nMemAvailable:   3145728 kB\n"
NET = (
    "Inter-|   Receive                                                |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n"
    "    lo: 5 0 0 0 0 0 0 0 5 0 0 0 0 0 0 0\n"
    "  eth0: {received} 0 0 0 0 0 0 0 {sent} 0 0 0 0 0 0 0\n"
)


def block_stat(
    *,
    reads: int = 0,
    writes: int = 0,
    waited_ms: int = 0,
    busy_ms: int = 0,
    flushes: int = 0,
    flush_ms: int = 0,
) -> str:
    """A device's `stat`, of requests of 8 sectors."""
    fields = [reads, 0, 8 * reads, 0, writes, 0, 8 * writes, waited_ms, 0, busy_ms, 0]
    return " ".join(map(str, [*fields, 0, 0, 0, 0, flushes, flush_ms]))


def probe_line(at_s: float, **changed: Any) -> str:
    """A line of the probe; all counters are 0 unless changed."""
    content: dict[str, Any] = {
        "at_s": at_s,
        "own_cpu_s": 0.0,
        "client_ticks": 0,
        "client_waited_ns": 0,
        "ticks_per_s": 100,
        "devices": {},
        "network": NET.format(received=0, sent=0),
        "link_speeds": {},
        "stat": STAT.format(busy=0, idle=0, waiting=0, stolen=0),
        "memory": MEMORY,
        "osds": {},
        "volumes": {},
        "disks": {},
        **changed,
    }
    return json.dumps(content)
