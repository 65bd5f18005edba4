"""How long a planned stop waits for changed pages."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from grampus.databases.live.decide_page_writing import (
    DirtyPages,
    is_worth_waiting,
    keep_looked_back,
)

# A lab's three OSDs, in 0.3 s.
WRITTEN_EACH = 210


def waited_s(dirty: Iterator[int], written_each: int = WRITTEN_EACH) -> float:
    """Looked at every 0.3 s until it was not worth waiting, for half a minute at most."""
    seen: list[DirtyPages] = []
    for look, pages in zip(range(100), dirty, strict=False):
        seen = keep_looked_back([*seen, DirtyPages(look * 0.3, pages, look * written_each)])
        if not is_worth_waiting(seen):
            break
    return seen[-1].at_s


@pytest.mark.parametrize(
    ("dirty", "written_each", "expected_s"),
    [
        pytest.param(iter([64]), 0, 0.0, id="few, whatever the pace"),
        pytest.param(iter([65, 0]), 0, 0.3, id="not few, and no pace known yet"),
        pytest.param(itertools.count(2310, -210), 210, 3.0, id="until the rest takes 0.3 s"),
        pytest.param(itertools.count(400_000, -2000), 2100, 29.7, id="many that fall"),
        pytest.param(itertools.count(60_000, -500), 2100, 29.7, id="a load lets them fall slowly"),
        pytest.param(itertools.count(60_000, -210), 2100, 1.5, id="a load changes nearly as many"),
        pytest.param(itertools.count(900, 20), 210, 1.5, id="they rise"),
        pytest.param(
            iter([900, 900, 900, 900, 700, 490, 280, 70]), 210, 2.1, id="the cleaner slept a second"
        ),
        pytest.param(itertools.repeat(900), 0, 1.5, id="nothing is written"),
    ],
)
def test_waits_as_long_as_it_makes_the_stop_shorter(
    dirty: Iterator[int], written_each: int, expected_s: float
) -> None:
    assert waited_s(dirty, written_each) == pytest.approx(expected_s)


def test_pages_that_a_purge_brings_back_are_left_to_the_stop() -> None:
    # Seen after a load of index updates: with "a tenth fewer than ever" it took 8.5 s.
    purged = [2190, 1976, 1737, 1521, 1476, 1266, 1042, 813, 597, 421, 307, 573, 620, 468, 301]
    again = itertools.cycle([284, 365, 349, 479, 696, 592, 355])
    assert waited_s(itertools.chain(purged, again)) == pytest.approx(4.5)


def test_no_more_is_kept_than_is_looked_back_on() -> None:
    seen: list[DirtyPages] = []
    for look in range(1000):
        seen = keep_looked_back([*seen, DirtyPages(look * 0.2, 9000, look)])
    assert len(seen) <= 10
    assert seen[-1].at_s - seen[0].at_s >= 1.5
