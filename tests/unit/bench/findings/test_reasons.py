"""What is said of why a conclusion holds or not: what was seen of the cells, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from grampus.bench.findings.cells import decide_cells
from grampus.bench.findings.conclusions import decide_conclusions
from grampus.bench.findings.reasons import explain
from grampus.bench.matrix.cells import Cell
from grampus.state.matrix_layers import BottleneckWord
from tests.unit.bench.findings.made_matrix import Seen, made_figures, made_matrix_run, made_text
from tests.unit.bench.layers.made_why import made_why

NOISE = (1.0, 1.01, 0.99, 1.005, 0.995, 1.002)
WIDE = (1.0, 0.5, 1.5, 0.75, 1.25, 1.0)
RATIO = {
    "name": "x",
    "says": "x",
    "test": "ratio",
    "quantity": "tps",
    "arm": "nvme",
    "at_least": 1.5,
}
TREND = {"name": "x", "says": "x", "test": "trend", "quantity": "tps", "along": "threads"}


def _explained(text: str, seen: Callable[[Cell, int], Seen], rounds: int = 6) -> str:
    suite, run, trials = made_matrix_run(seen, text=text, rounds=rounds)
    (found,) = decide_conclusions(suite, run, trials)
    return explain(found, decide_cells(run, trials))


def _of_media(
    hdd: BottleneckWord, nvme: BottleneckWord, noise: tuple[float, ...] = NOISE, rounds: int = 6
) -> str:
    text = made_text(dimensions={"media": ["hdd", "nvme"]}, conclusions=[RATIO])

    def seen(cell: Cell, number: int) -> Seen:
        if cell.point.media == "hdd":
            return made_figures(100, why=made_why(hdd))
        return made_figures(200 * noise[number - 1], why=made_why(nvme))

    return _explained(text, seen, rounds)


@pytest.mark.parametrize(
    ("hdd", "nvme", "said"),
    [
        (
            "osd-cpu",
            "osd-cpu",
            "Both were held up by the CPU of the OSDs: what differs is how much of it an operation "
            "takes.",
        ),
        (
            "none",
            "none",
            "Both ran with no layer at its limit: what differs is the time that an operation "
            "takes.",
        ),
        (
            "osd-device",
            "osd-cpu",
            "media hdd was held up by the devices of the OSDs; media nvme was held up by the CPU "
            "of the OSDs.",
        ),
        (
            "osd-device",
            "none",
            "media hdd was held up by the devices of the OSDs; media nvme had no layer at its "
            "limit.",
        ),
        ("osd-device", "unknown", ""),
    ],
)
def test_what_held_two_cells_up(hdd: BottleneckWord, nvme: BottleneckWord, said: str) -> None:
    assert _of_media(hdd, nvme) == said


def test_an_interval_that_is_too_wide_has_its_noise_told() -> None:
    assert _of_media("unknown", "osd-cpu", WIDE) == (
        "The interval leaves it open: operations a second of media nvme differed from round to "
        "round by a factor of up to 3."
    )


def test_without_an_interval_nothing_is_said_of_one() -> None:
    assert "interval" not in _of_media("none", "none", WIDE, rounds=1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            {1: "none", 2: "innodb", 4: "innodb"},
            "Of 3 cells 1 had no layer at its limit and 2 were held up by waiting inside the "
            "server (row locks, the logs).",
        ),
        (
            {1: "volume", 2: "volume", 4: "volume"},
            "All 3 were held up by the volume's driver: what differs is how much of it an "
            "operation takes.",
        ),
    ],
)
def test_what_held_a_series_up(words: dict[int, BottleneckWord], said: str) -> None:
    conclusion: dict[str, Any] = {**TREND, "direction": "level", "tolerance": 0.1}
    text = made_text(
        dimensions={"threads": [1, 2, 4]}, arms=None, baseline=None, conclusions=[conclusion]
    )

    def seen(cell: Cell, number: int) -> Seen:
        # Other noise in each cell, or the ratios would have none.
        value = 100 * cell.point.threads * NOISE[(number * (cell.point.threads % 5 + 1)) % 6]
        return made_figures(value, why=made_why(words[cell.point.threads]))

    assert _explained(text, seen) == said


@pytest.mark.parametrize(
    ("full_iops", "apart", "said"),
    [
        (
            110.0,
            "iops alone 1.1, the provisioned space that it is divided by 6.21",
            "Both were held up by the CPU of the OSDs. The ratio is mostly that of the provisioned "
            "space: iops itself is 1.1 times, the provisioned space that it is divided by 6.21 "
            "times.",
        ),
        (
            10.0,
            "iops alone 0.1, the provisioned space that it is divided by 6.21",
            "Both were held up by the CPU of the OSDs: what differs is how much of it an operation "
            "takes.",
        ),
    ],
)
def test_a_ratio_that_is_mostly_its_divisors_is_told_as_such(
    full_iops: float, apart: str, said: str
) -> None:
    conclusion = {
        **TREND,
        "quantity": "iops-per-gb",
        "along": "fill_percent",
        "direction": "falls",
        "tolerance": 0.1,
    }
    text = made_text(
        dimensions={"fill_percent": [14, 87]}, arms=None, baseline=None, conclusions=[conclusion]
    )

    def seen(cell: Cell, number: int) -> Seen:
        filled = cell.point.fill_percent
        iops = (full_iops if filled == 87 else 100.0) * NOISE[number * (filled % 5) % 6]
        room_bytes = round(filled * 1e9)
        return made_figures(
            100, volume_iops=iops, provisioned_bytes=room_bytes, why=made_why("osd-cpu")
        )

    suite, run, trials = made_matrix_run(seen, text=text, rounds=6)
    (found,) = decide_conclusions(suite, run, trials)
    assert apart in found.sentence
    assert explain(found, decide_cells(run, trials)) == said


def test_of_what_was_not_compared_nothing_is_said() -> None:
    text = made_text(dimensions={"media": ["hdd", "nvme"]}, conclusions=[RATIO])
    assert _explained(text, lambda cell, _: "It was full." if cell.point.media else None) == ""
