from __future__ import annotations

from typing import Any

import pytest

from tests.proof.scale.page import failures, ratios, render_page


def document(*, many_s: float = 1.1, list_s: float = 1.5, serve_s: float = 9.0) -> dict[str, Any]:
    """Three rounds, the second of which the machine was busy in."""
    samples = []
    for number, busy in enumerate((1.0, 3.0, 1.0)):
        for arm, seconds in (("few", 1.0), ("many", many_s)):
            for command in ("db show", "db list"):
                wall_s = list_s if (command, arm) == ("db list", "many") else seconds
                samples.append(
                    {
                        "command": command,
                        "arm": arm,
                        "round": number,
                        "cpu_s": busy * seconds,
                        "wall_s": busy * wall_s,
                    }
                )
    return {
        "at": "2026-01-01 00:00 UTC",
        "versions": {"Ceph": "20.2.4"},
        "few": 10,
        "many": 1000,
        "few_operations": 1000,
        "many_operations": 100_000,
        "rounds": 3,
        "samples": samples,
        "serve": {"cpu_s": serve_s, "wall_s": 300.0},
    }


def test_ratios_are_of_pairs_so_that_a_busy_round_counts_for_nothing() -> None:
    assert ratios(document()["samples"], "cpu_s") == {
        "db show": pytest.approx(1.1),
        "db list": pytest.approx(1.1),
    }


@pytest.mark.parametrize(
    ("found", "missed"),
    [
        ({}, []),
        ({"many_s": 1.3}, ["db show: 1.30 times the CPU time"]),
        ({"list_s": 2.5}, ["db list: 2.50 s"]),
        ({"serve_s": 16.5}, ["serve: 5.5 % of a core"]),
    ],
)
def test_missed_targets_are_told(found: dict[str, float], missed: list[str]) -> None:
    assert failures(document(**found)) == missed
    page = render_page(document(**found))
    assert ("**All targets are met.**" in page) == (not missed)
    assert all(text in page for text in missed)
    assert "| `db show` | 1.00 |" in page
