from __future__ import annotations

import pytest

from grampus.lab.decide_loss import decide_copies_left, decide_keeps_quorum


@pytest.mark.parametrize(
    ("acting_sets", "alive", "lost", "left"),
    [
        ([(0, 1, 2)], {0, 1, 2}, set(), 3),
        ([(0, 1, 2)], {0, 1, 2}, {1}, 2),
        ([(0, 1, 2)], {0, 2}, {2}, 1),  # osd.1 is dead and still reported
        ([(0, 1, 2), (3, 4, 5)], {0, 1, 2, 3, 4, 5}, {3, 4}, 1),
        ([(0, 2)], {0, 1, 2}, {1}, 2),
        ([], {0, 1}, {1}, 1),
    ],
)
def test_the_worst_placement_group_counts(
    acting_sets: list[tuple[int, ...]], alive: set[int], lost: set[int], left: int
) -> None:
    assert decide_copies_left(acting_sets, alive, lost) == left


@pytest.mark.parametrize(
    ("mons", "alive", "lost", "keeps"),
    [
        (3, {"a", "b", "c"}, {"a"}, True),
        (3, {"a", "b", "c"}, {"a", "b"}, False),
        (3, {"a", "b"}, {"b"}, False),
        (3, {"a", "b"}, {"c"}, True),
        (1, {"a"}, {"a"}, False),
        (5, {"a", "b", "c"}, set(), True),
    ],
)
def test_a_majority_of_all_is_needed(
    mons: int, alive: set[str], lost: set[str], keeps: bool
) -> None:
    assert decide_keeps_quorum(mons, alive, lost) is keeps
