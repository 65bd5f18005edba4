"""What each layer did during the trials of a cell: lanes under its throughput, warm-up shaded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grampus.report.drawing import Axis, axis_from_zero
from grampus.report.figures import MISSING, finite_values, format_number
from grampus.report.matrix.findings import FoundCell
from grampus.state.matrix_layers import LAYER_WORDS, LAYERS, LayerUse, Why
from grampus.state.matrix_runs import Trial

STRIP_WIDTH = 220.0
# Above the lanes: the throughput.
LINE_HEIGHT = 34.0
LANE_HEIGHT = 14.0
# Shares are drawn in so many shades; the figures stand beside the lanes.
SHADES = 5
# The evidence of each is told in full where there are few.
_FEW = 24

LAYER_TITLES: Mapping[str, str] = {
    layer: f"{word[0].upper()}{word[1:]}" for layer, word in LAYER_WORDS.items()
}


@dataclass(frozen=True)
class Lane:
    """A layer's title and the mean of its use; whether it is the bottleneck."""

    title: str
    share: str
    is_bottleneck: bool


@dataclass(frozen=True)
class Shade:
    """All parts of a strip of one shade (1 is the lightest), as an SVG path of lines."""

    number: int
    path: str


@dataclass(frozen=True)
class Strip:
    """One cell. `line` are the points of its throughput; measuring began at `warmup_width`."""

    name: str
    bottleneck: str
    is_client_bound: bool
    evidence: str
    lanes: tuple[Lane, ...]
    line: str
    shades: tuple[Shade, ...]
    warmup_width: float
    height: float
    caption: str
    alternative: str


@dataclass(frozen=True)
class _Course:
    """Means over the rounds of a cell, part by part."""

    throughput: tuple[float | None, ...]
    layers: Mapping[str, tuple[float | None, ...]]
    shares: Mapping[str, float]
    warmup_share: float
    lasts_s: float
    rounds: int


def draw_strips(
    cells: Sequence[FoundCell], trials: Sequence[Trial], max_parts: int
) -> tuple[Strip, ...]:
    """A strip for each cell of which some round was watched; of two trials of a round, the later.

    The rounds are laid over each other by how much of each had passed.
    """
    last = {(trial.cell_id, trial.round): trial for trial in trials}
    whys: dict[str, list[Why]] = {}
    for _, trial in sorted(last.items()):
        if trial.figures is not None and trial.figures.why is not None:
            whys.setdefault(trial.cell_id, []).append(trial.figures.why)
    drawn = [cell for cell in cells if cell.cell_id in whys]
    return tuple(
        _strip(cell, _course(whys[cell.cell_id], max_parts), in_full=len(drawn) <= _FEW)
        for cell in drawn
    )


def merge_parts(
    courses: Sequence[Sequence[float | None]], max_parts: int
) -> tuple[float | None, ...]:
    """The mean of several courses, in at most `max_parts` parts; None where none has a value."""
    length = max((len(course) for course in courses), default=0)
    width = max(1, math.ceil(length / max_parts))
    merged = []
    for at in range(0, length, width):
        known = finite_values(value for course in courses for value in course[at : at + width])
        merged.append(math.fsum(known) / len(known) if known else None)
    return tuple(merged)


def shade_of(share: float) -> int:
    """From 0 (as good as nothing, not drawn) to SHADES (from 90% on: at its limit)."""
    if share >= 0.9:
        return SHADES
    return 0 if share < 0.02 else min(int(share / 0.9 * (SHADES - 1)) + 1, SHADES - 1)


def _course(whys: Sequence[Why], max_parts: int) -> _Course:
    uses: dict[str, list[LayerUse]] = {layer: [] for layer in LAYERS}
    for why in whys:
        for use in why.layers:
            uses[use.layer].append(use)
    known = {layer: found for layer, found in uses.items() if found}
    shares = [
        (why.measured_from_s - why.from_s) / (why.to_s - why.from_s)
        for why in whys
        if why.to_s > why.from_s
    ]
    return _Course(
        throughput=merge_parts([why.throughput for why in whys], max_parts),
        layers={
            layer: merge_parts([use.over_time for use in found], max_parts)
            for layer, found in known.items()
        },
        shares={
            layer: math.fsum(use.share for use in found) / len(found)
            for layer, found in known.items()
        },
        warmup_share=min(max(math.fsum(shares) / len(shares), 0.0), 1.0) if shares else 0.0,
        lasts_s=max(why.to_s - why.from_s for why in whys),
        rounds=len(whys),
    )


def _strip(cell: FoundCell, course: _Course, *, in_full: bool) -> Strip:
    lanes = tuple(
        Lane(LAYER_TITLES[layer], f"{100 * share:.0f}%", layer == cell.bottleneck)
        for layer, share in course.shares.items()
    )
    evidence = cell.bottleneck_evidence if in_full else cell.bottleneck_evidence[:1]
    values = finite_values(course.throughput)
    highest = format_number(max(values)) if values else MISSING
    rounds = "1 round" if course.rounds == 1 else f"{course.rounds} rounds"
    used = ", ".join(f"{lane.title} {lane.share}" for lane in lanes)
    title = LAYER_TITLES.get(cell.bottleneck, cell.bottleneck)
    return Strip(
        name=cell.name,
        bottleneck=title,
        is_client_bound=cell.client_bound == "yes",
        evidence=" ".join(evidence),
        lanes=lanes,
        line=_line(course.throughput),
        shades=_shades(list(course.layers.values())),
        warmup_width=round(course.warmup_share * STRIP_WIDTH, 1),
        height=LINE_HEIGHT + LANE_HEIGHT * len(lanes),
        caption=f"up to {highest}/s, {course.lasts_s:.0f} s, {rounds}",
        alternative=f"{cell.name}, bottleneck {title}; used on average: {used or 'not known'}",
    )


def _line(throughput: Sequence[float | None]) -> str:
    values = finite_values(throughput)
    across = Axis(0.0, float(max(len(throughput), 1)), 0.0, STRIP_WIDTH)
    up = axis_from_zero(values, LINE_HEIGHT - 3, 1.0)
    return " ".join(
        f"{across.place(at + 0.5):.0f},{up.place(value):.0f}"
        for at, value in enumerate(throughput)
        if value is not None
    )


def _shades(lanes: Sequence[Sequence[float | None]]) -> tuple[Shade, ...]:
    """Neighbours of one shade in a lane are one line."""
    paths: dict[int, list[str]] = {}
    for number, lane in enumerate(lanes):
        middle = LINE_HEIGHT + LANE_HEIGHT * (number + 0.5)
        width = STRIP_WIDTH / max(len(lane), 1)
        began = 0
        shades = [0 if share is None else shade_of(share) for share in lane]
        for at, shade in enumerate(shades):
            if at + 1 < len(shades) and shades[at + 1] == shade:
                continue
            if shade:
                start, end = began * width, (at + 1) * width
                paths.setdefault(shade, []).append(f"M{start:g} {middle:g}H{end:g}")
            began = at + 1
    return tuple(Shade(shade, "".join(paths[shade])) for shade in sorted(paths))
