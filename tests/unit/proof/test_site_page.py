"""What a site costs is held to its targets, and told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.proof.site.page import CREATE, ONE_COMMAND, Compared, decide_misses, render_page

SECONDS = {
    CREATE: [(4.4, 4.0), (4.8, 4.0), (4.6, 4.0)],
    ONE_COMMAND: [(1.2, 1.0), (1.4, 1.0), (1.3, 1.0)],
    "db list": [(9.0, 1.0), (9.0, 1.0), (9.0, 1.0)],
}
FOUND = Compared(
    seconds=SECONDS,
    updates_per_s=[(99.0, 100.0), (97.0, 100.0), (101.0, 100.0)],
    seen_s=[0.7, 0.9, 1.4],
    first_database_s=95.0,
    facts={"Ceph": "20.2.4"},
)


def test_a_page_without_misses() -> None:
    assert decide_misses(FOUND) == []
    page = render_page(FOUND)
    assert "**All targets are met.**" in page
    assert "| `db create`, times the lab's | 1.15 (1.03 to 1.28) | at most 1.3 |" in page
    assert "| another machine has seen a change (p50, most) | 0.90 s, 1.40 s | 1 s |" in page
    assert "| 2 | 100 | 97 | 0.970 |" in page
    assert "| `db list` | 1.00 | 9.00 | 9.00 (9.00 to 9.00) |" in page


@pytest.mark.parametrize(
    ("changes", "miss"),
    [
        ({"seconds": {**SECONDS, CREATE: [(5.6, 4.0)] * 3}}, "`db create` takes 1.40 times"),
        ({"seconds": {**SECONDS, ONE_COMMAND: [(1.6, 1.0)] * 3}}, "`db connect -e` takes 1.60"),
        ({"updates_per_s": [(96.0, 100.0)] * 3}, "update-index reaches 0.960 of the lab"),
        ({"seen_s": [0.7, 1.1, 1.4]}, "has seen a change after 1.10 s"),
        ({"first_database_s": 601.0}, "The first database took 601 s"),
    ],
)
def test_each_target_that_is_missed_is_named(changes: dict[str, Any], miss: str) -> None:
    missed = replace(FOUND, **changes)
    (told,) = decide_misses(missed)
    assert miss in told
    assert f"**{told}**" in render_page(missed)
