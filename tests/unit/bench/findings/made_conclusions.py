"""Runs made for one conclusion, and what comes of it."""

from __future__ import annotations

from typing import Any

from grampus.bench.findings.conclusions import ConclusionFinding, decide_conclusions
from grampus.bench.matrix.cells import Cell
from tests.unit.bench.findings.made_matrix import Seen, made_figures, made_matrix_run, made_text

NOISE = (1.0, 1.01, 0.99, 1.005, 0.995, 1.002)
RATIO = {"name": "x", "says": "x", "test": "ratio", "quantity": "tps", "arm": "nvme"}
BEST = {"name": "x", "says": "x", "test": "best", "quantity": "tps", "along": "threads"}
KNEE = {"name": "x", "says": "x", "test": "knee", "quantity": "tps", "along": "threads"}
BEST_OF_FOUR: dict[Any, Seen | float] = {1: 100, 2: 150, 4: 200, 8: 120}
TREND = {"name": "x", "says": "x", "test": "trend", "quantity": "tps", "along": "threads"}


def found_along(
    conclusion: dict[str, Any], tps: dict[Any, Seen | float], *, rounds: int = 6, along: str
) -> ConclusionFinding:
    """The conclusion where a cell's tps (a bit of noise aside) is that of its value of `along`."""
    threads = sorted(tps) if along == "threads" else [8]
    media = ["hdd", "nvme"] if along == "media" else ["nvme"]
    text = made_text(
        dimensions={"media": media, "threads": threads}
        if along == "media"
        else {"threads": threads},
        arms={"hdd": {"media": "hdd"}, "nvme": {"media": "nvme"}} if along == "media" else None,
        baseline="hdd" if along == "media" else None,
        conclusions=[conclusion],
    )

    def seen(cell: Cell, number: int) -> Seen:
        value = tps[cell.point.media if along == "media" else cell.point.threads]
        if isinstance(value, int | float):
            # Other noise in each cell, or the ratios would have none.
            return made_figures(value * NOISE[(number * (cell.point.threads % 5 + 1)) % 6])
        return value

    suite, run, trials = made_matrix_run(seen, text=text, rounds=rounds)
    (found,) = decide_conclusions(suite, run, trials)
    return found


def found_ratio(
    hdd: Seen | float, nvme: Seen | float, *, rounds: int = 6, **limits: float
) -> ConclusionFinding:
    tps: dict[Any, Seen | float] = {"hdd": hdd, "nvme": nvme}
    return found_along({**RATIO, **limits}, tps, rounds=rounds, along="media")
