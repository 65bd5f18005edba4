"""Strips of layers: what is drawn of the trials of a cell."""

from __future__ import annotations

import pytest

from grampus.bench.layers.use import PARTS
from grampus.report.matrix.layer_strips import (
    LAYER_TITLES,
    SHADES,
    STRIP_WIDTH,
    draw_strips,
    merge_parts,
    shade_of,
)
from grampus.state.matrix_layers import LAYERS, Why
from grampus.state.matrix_runs import Trial
from tests.unit.bench.findings.made_matrix import made_figures
from tests.unit.bench.layers.made_why import made_why

from .made_findings import made_cell

CELL = made_cell(
    {"threads": 8},
    bottleneck="osd-device",
    bottleneck_rounds=(1, 2, 3),
    bottleneck_evidence=("It was busy.", "So."),
)


def _trial(number: int, why: Why | None, cell_id: str = CELL.cell_id) -> Trial:
    figures = made_figures(100, why=why)
    return Trial(cell_id=cell_id, round=number, started_at_s=1, ended_at_s=9, figures=figures)


def test_a_strip_has_its_lanes_and_its_warm_up():
    (strip,) = draw_strips([CELL], [_trial(1, made_why()), _trial(2, made_why(busy=0.89))], 60)
    assert [(lane.title, lane.share, lane.is_bottleneck) for lane in strip.lanes] == [
        ("Client", "10%", False),
        ("OSD device", "92%", True),
    ]
    assert strip.warmup_width == STRIP_WIDTH / 4
    assert strip.height == 34 + 2 * 14
    # One line for the client, one for the device, which begins where the warm-up ends.
    assert {shade.number: shade.path for shade in strip.shades} == {
        1: "M0 41H220",
        5: "M55 55H220",
    }
    assert len(strip.line.split()) == PARTS - 3
    assert strip.evidence == "It was busy. So."
    assert strip.caption == "up to 100/s, 8 s, 2 rounds"
    assert "bottleneck OSD device" in strip.alternative
    assert "Client 10%, OSD device 92%" in strip.alternative


def test_only_cells_that_were_watched_have_a_strip():
    other = made_cell({"threads": 1})
    trials = [_trial(1, None), _trial(1, made_why(), other.cell_id)]
    assert [strip.name for strip in draw_strips([CELL, other], trials, 60)] == [other.name]
    # A trial that was made again replaces the first.
    assert draw_strips([CELL], [_trial(1, made_why()), _trial(1, None)], 60) == ()


def test_of_many_cells_only_the_deciding_evidence_is_told():
    cells = [CELL.model_copy(update={"cell_id": f"c{number}"}) for number in range(25)]
    trials = [_trial(1, made_why(), cell.cell_id) for cell in cells]
    assert {strip.evidence for strip in draw_strips(cells, trials, 60)} == {"It was busy."}


def test_a_client_bound_cell_is_marked():
    cell = CELL.model_copy(update={"bottleneck": "client", "client_bound": "yes"})
    (strip,) = draw_strips([cell], [_trial(1, made_why("client"))], 60)
    assert strip.is_client_bound
    assert [lane.is_bottleneck for lane in strip.lanes] == [True, False]


def test_a_trial_of_which_nothing_was_seen():
    why = made_why("unknown", layers=(), throughput=(), evidence=())
    (strip,) = draw_strips([CELL], [_trial(1, why)], 60)
    assert (strip.lanes, strip.line, strip.shades) == ((), "", ())


@pytest.mark.parametrize(
    ("courses", "parts", "merged"),
    [
        ([(1.0, 3.0, None, 5.0)], 4, (1.0, 3.0, None, 5.0)),
        ([(1.0, 3.0, None, 5.0)], 2, (2.0, 5.0)),
        ([(1.0, None), (3.0, None)], 2, (2.0, None)),
        ([], 4, ()),
        ([(1.0, float("nan"))], 1, (1.0,)),
    ],
)
def test_merging(
    courses: list[tuple[float | None, ...]], parts: int, merged: tuple[float | None, ...]
):
    assert merge_parts(courses, parts) == merged


@pytest.mark.parametrize(
    ("share", "shade"), [(0.0, 0), (0.019, 0), (0.02, 1), (0.5, 3), (0.899, 4), (0.9, 5), (1.0, 5)]
)
def test_shades(share: float, shade: int):
    assert shade_of(share) == shade <= SHADES


def test_every_layer_has_a_title():
    assert set(LAYER_TITLES) == {*LAYERS, "none", "unknown"}
