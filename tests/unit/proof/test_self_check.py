"""The block that is put back to what it was must not make a moment of the past."""

from __future__ import annotations

import pytest

from tests.proof.self_check import decide_early


@pytest.mark.parametrize(
    ("changed", "versions", "early"),
    [
        ([0, 1, 2], [9, 7, 8], 1),
        ([0, 2], [9, 1, 8], 2),  # block 1 did not change
        ([3], [1, 1, 1, 5], 3),
    ],
)
def test_block_that_was_written_first_is_put_back(
    changed: list[int], versions: list[int | None], early: int
) -> None:
    assert decide_early(changed, versions) == early
