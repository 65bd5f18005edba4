"""Orders of arms: balanced, reproducible, extended without a change."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from grampus.bench.statistics.arm_order import decide_arm_orders, rounds_in_block
from grampus.core.errors import UsageError

ARMS = ("a", "b", "c", "d", "e", "f", "g")


@pytest.mark.parametrize("count", range(1, 8))
@pytest.mark.parametrize("seed", [0, 1, 42])
def test_each_block_is_balanced(count: int, seed: int) -> None:
    arms = ARMS[:count]
    block = rounds_in_block(count)
    orders = decide_arm_orders(arms, rounds=3 * block, seed=seed)
    assert all(sorted(order) == sorted(arms) for order in orders)
    for begin in range(0, 3 * block, block):
        rows = orders[begin : begin + block]
        places = Counter((arm, place) for order in rows for place, arm in enumerate(order))
        followers = Counter(pair for order in rows for pair in itertools.pairwise(order))
        assert set(places.values()) == {block // count}
        assert len(places) == count * count
        assert len(followers) == count * (count - 1)
        assert len(set(followers.values())) <= 1


def test_two_arms_go_in_abba_or_baab() -> None:
    orders = decide_arm_orders(("a", "b"), rounds=200, seed=3)
    blocks = Counter("".join(orders[i] + orders[i + 1]) for i in range(0, 200, 2))
    assert set(blocks) == {"abba", "baab"}
    # Of 100 fair coins fewer than 30 heads come once in 60,000 seeds.
    assert min(blocks.values()) >= 30


def test_a_seed_says_it_all_and_an_extension_begins_with_what_was() -> None:
    orders = decide_arm_orders(ARMS[:3], rounds=20, seed=7)
    assert orders == decide_arm_orders(ARMS[:3], rounds=20, seed=7)
    assert orders[:5] == decide_arm_orders(ARMS[:3], rounds=5, seed=7)
    assert orders != decide_arm_orders(ARMS[:3], rounds=20, seed=8)
    # What a manifest of today says must be the same order on every later Python.
    assert ["".join(order) for order in decide_arm_orders(ARMS[:3], rounds=3, seed=7)] == KNOWN


KNOWN = ["cba", "bac", "cab"]


@pytest.mark.parametrize("rounds", [0, 1])
def test_few_rounds(rounds: int) -> None:
    assert len(decide_arm_orders(("a", "b"), rounds=rounds, seed=1)) == rounds


@pytest.mark.parametrize(("arms", "rounds"), [((), 1), (("a", "a"), 1), (("a", "b"), -1)])
def test_what_cannot_be_ordered_is_refused(arms: tuple[str, ...], rounds: int) -> None:
    with pytest.raises(UsageError):
        decide_arm_orders(arms, rounds=rounds, seed=1)
