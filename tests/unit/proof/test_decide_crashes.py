"""Which crash comes when."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.proof.decide_crashes import (
    KINDS,
    MAX_DELAY_MS,
    WRITE_PATHS,
    decide_crash,
    decide_remaining,
    decide_victim,
    parse_write_paths,
)


def test_every_kind_of_every_write_path_has_its_share() -> None:
    counts = Counter(
        (crash.write_path, crash.kind) for crash in decide_remaining(7, 200, (), WRITE_PATHS)
    )
    assert set(counts) == {(path, kind) for path in WRITE_PATHS for kind in KINDS[path]}
    for path in WRITE_PATHS:
        shares = [counts[path, kind] for kind in KINDS[path]]
        assert max(shares) - min(shares) <= 1
        assert sum(shares) == 100


def test_a_longer_proof_begins_with_the_shorter_one_and_a_seed_repeats_it() -> None:
    short = decide_remaining(7, 20, (), WRITE_PATHS)
    assert decide_remaining(7, 200, (), WRITE_PATHS)[:20] == short
    assert decide_remaining(8, 20, (), WRITE_PATHS) != short


def test_what_has_a_result_is_left_out() -> None:
    left = decide_remaining(7, 10, {1, 2, 5}, WRITE_PATHS)
    assert [crash.number for crash in left] == [3, 4, 6, 7, 8, 9, 10]
    assert left[0] == decide_crash(7, 3, WRITE_PATHS)


def test_delays_reach_over_their_whole_range() -> None:
    delays = [crash.delay_ms for crash in decide_remaining(7, 200, (), WRITE_PATHS)]
    assert min(delays) < 2.0
    assert MAX_DELAY_MS - 2.0 < max(delays) <= MAX_DELAY_MS


@pytest.mark.parametrize(("draw", "victim"), [(0.0, "a"), (0.34, "b"), (0.999, "c"), (1.0, "c")])
def test_a_draw_chooses_one_of_the_names(draw: float, victim: str) -> None:
    assert decide_victim(["a", "b", "c"], draw) == victim


def test_write_paths_are_parsed() -> None:
    assert parse_write_paths("cache, journal") == ("journal", "cache")
    assert parse_write_paths("journal") == ("journal",)
    for text in ("", "direct", "journal,cahce"):
        with pytest.raises(ValueError, match="journal or cache"):
            parse_write_paths(text)
