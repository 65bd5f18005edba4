from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.proof.bottlenecks.judging import Judged, failures, judge, rate_of
from tests.proof.bottlenecks.page import render_page

RIGHT = Judged("osd-cpu", "index updates", 0.1, "osd-cpu", "high", 0.8)
WRONG = replace(RIGHT, named="volume", confidence="low", share=0.4)
WEAK = replace(RIGHT, of_uninjected=0.6, named="machine")


def cell(cell_id: str, rate: float | None, word: str = "volume") -> dict[str, Any]:
    return {
        "cell_id": cell_id,
        "name": f"cell {cell_id}",
        "operations_per_s": None if rate is None else {"mean": rate},
        "bottleneck": word,
        "bottleneck_confidence": "medium",
        "times": [{"layer": "volume", "share": 0.5}],
    }


def test_cells_are_judged_against_those_without_injection():
    uninjected = [cell("a", 100.0), cell("b", 50.0), cell("c", None)]
    judged = judge(
        "volume", [cell("a", 10.0), cell("b", None, "unknown"), cell("c", 5)], uninjected
    )
    assert [one.of_uninjected for one in judged] == [0.1, None, None]
    assert [one.counts for one in judged] == [True, False, False]
    assert judged[0] == Judged("volume", "cell a", 0.1, "volume", "medium", 0.5)
    assert judged[1].share is None


@pytest.mark.parametrize(
    ("one", "counts", "is_right"),
    [
        (RIGHT, True, True),
        (WRONG, True, False),
        (WEAK, False, False),
        (replace(RIGHT, of_uninjected=0.5), True, True),
        (replace(RIGHT, of_uninjected=None), False, True),
    ],
)
def test_only_an_injection_in_force_counts(one: Judged, counts: bool, is_right: bool):
    assert (one.counts, one.is_right) == (counts, is_right)


def test_the_targets():
    judged = [RIGHT] * 29 + [WRONG, *[WEAK] * 9]
    assert str(rate_of(judged)) == "29 of 30"
    assert failures(judged) == []
    assert failures([RIGHT] * 28 + [WRONG] * 2) == [
        "28 of 30 were named correctly; the target is 95 %."
    ]
    assert failures([RIGHT] * 29) == ["Only 29 trials count; the target is 30."]


def test_the_page_has_every_trial():
    page = render_page(
        {
            "at": "2026-01-01 00:00 UTC",
            "versions": {"Ceph": "20.2.4"},
            "injections": {"osd-cpu": "a CPU limit"},
            "uninjected": [Judged("none", "reads", 1.0, "server-cpu", None, None)],
            "judged": [RIGHT, WRONG, WEAK, replace(RIGHT, of_uninjected=None)],
        }
    )
    assert "**1 of 2 bottlenecks were named correctly. Missed:" in page
    assert "| OSD CPU | a CPU limit | 1 of 2 |" in page
    assert "| high | 1 of 1 |" in page
    assert "| OSD CPU | index updates | 10% | OSD CPU | high | 80% |" in page
    assert "| OSD CPU | index updates | 10% | volume (wrong) | low | 40% |" in page
    assert "| OSD CPU | index updates | 60% (does not count) | machine | high | 80% |" in page
    assert "| OSD CPU | index updates | - (does not count) |" in page
    assert "| reads | server CPU | - | - |" in page
