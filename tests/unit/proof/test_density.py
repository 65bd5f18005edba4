"""How the memory of volumes is read, and held to its limits."""

from __future__ import annotations

from dataclasses import replace

from grampus.core.units import MIB
from tests.proof.density.footprint import Footprint, parse_footprint
from tests.proof.density.page import Found, decide_misses, render_page

ROLLUP = """55d0c0000000-7ffd0e5f1000 ---p 00000000 00:00 0    [rollup]
Rss:               49152 kB
Pss:               20480 kB
Pss_Anon:          14336 kB
Anonymous:         14336 kB
"""
STATUS = "Name:\tvolumed\nThreads:\t20\nVmLck:\t 1 kB\n"
IDLE = Footprint(47 * MIB, 19 * MIB, 13 * MIB, threads=20)
BUSY = Footprint(300 * MIB, 280 * MIB, 270 * MIB, threads=21, journal_bytes=210 * MIB)
FOUND = Found(
    idle={"v1": IDLE, "v2": replace(IDLE, rss_bytes=45 * MIB)},
    busy=[BUSY],
    after={"v1": IDLE},
    busy_volume="busy",
    transactions_per_s=123.4,
    facts={"Ceph": "20.2.4"},
)


def test_memory_and_threads_are_read_as_the_kernel_writes_them() -> None:
    assert parse_footprint(ROLLUP, STATUS, 7) == Footprint(
        48 * MIB, 20 * MIB, 14 * MIB, threads=20, journal_bytes=7
    )


def test_each_limit_that_is_missed_is_named() -> None:
    assert decide_misses(FOUND) == []
    much = replace(IDLE, rss_bytes=49 * MIB, threads=23)
    busier = replace(BUSY, journal_bytes=200 * MIB)
    missed = replace(FOUND, idle={"v1": much}, busy=[busier])
    assert decide_misses(missed) == [
        "An idle volumed took 49.0 MiB of 48.0 MiB.",
        "A busy volumed took 100.0 MiB of 96.0 MiB.",
        "A volumed had 23 threads of 20.",
    ]


def test_the_page_has_medians_and_extremes() -> None:
    page = render_page(FOUND)
    assert "**All limits are kept.**" in page
    assert "| idle (2): RSS | 46.0 MiB | 47.0 MiB | 48.0 MiB |" in page
    assert "| RSS without journal data | 90.0 MiB | 90.0 MiB | 96.0 MiB |" in page
    assert "| idle (2): threads | 20 | 20 | 20 |" in page
    assert "123 transactions/s" in page
    assert "38.0 MiB (sum of PSS)" in page
