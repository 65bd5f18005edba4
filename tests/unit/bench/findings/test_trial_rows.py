"""Trials as rows, and rows as CSV."""

from __future__ import annotations

import csv
import io

from grampus.bench.findings.trial_rows import render_csv, trial_rows
from grampus.bench.matrix.cells import Cell
from grampus.state.matrix_layers import LAYERS
from tests.unit.bench.findings.made_matrix import (
    Seen,
    made_figures,
    made_latency,
    made_matrix_run,
)
from tests.unit.bench.layers.made_why import made_timed_why


def _seen(cell: Cell, number: int) -> Seen:
    if cell.point.media == "hdd" and number == 2:
        return 'The client, sysbench, was "killed",\nand that\'s it.'
    return made_figures(100 + number, latency=made_latency(*[1000] * 980, *[90_000] * 20))


def test_each_trial_is_a_row_with_its_dimensions_and_figures() -> None:
    _, run, trials = made_matrix_run(_seen)
    rows = trial_rows(run, trials)
    assert len(rows) == len(trials)
    assert len({tuple(row) for row in rows}) == 1
    assert {(row["media"], row["threads"]) for row in rows} == {
        (cell.point["media"], cell.point["threads"]) for cell in run.cells
    }
    measured = [row for row in rows if row["marked"] is None]
    for row in measured:
        assert row["operations_per_s"] == 100 + int(str(row["round"]))
        low, high = row["latency_p99_low_us"], row["latency_p99_high_us"]
        assert isinstance(low, float)
        assert isinstance(high, float)
        assert low <= 90_000 <= high
    marked = [row for row in rows if row["marked"] is not None]
    assert len(marked) == len([one for one in trials if one.figures is None]) > 0
    for row in marked:
        assert (row["operations_per_s"], row["latency_p99_low_us"]) == (None, None)


def test_csv_gives_back_what_was_written() -> None:
    _, run, trials = made_matrix_run(_seen)
    rows = trial_rows(run, trials)
    read = list(csv.DictReader(io.StringIO(render_csv(rows), newline="")))
    assert [
        {name: "" if value is None else str(value) for name, value in row.items()} for row in rows
    ] == read
    assert render_csv([]) == ""


def test_a_row_has_its_bottleneck_and_the_use_of_every_layer() -> None:
    _, run, trials = made_matrix_run(
        lambda _, number: made_figures(100, why=made_timed_why() if number == 1 else None)
    )
    for row in trial_rows(run, trials):
        assert len([name for name in row if name.endswith("_time_share")]) == len(LAYERS)
        assert len([name for name in row if name.endswith("_share")]) == 2 * len(LAYERS) + 1
        if row["round"] == 1:
            assert (row["bottleneck"], row["osd_device_share"]) == ("osd-device", 0.95)
            assert (row["bottleneck_confidence"], row["osd_device_time_share"]) == ("high", 0.7)
            assert (row["network_share"], row["network_time_share"]) == (None, None)
        else:
            assert (row["bottleneck"], row["osd_device_share"]) == (None, None)
            assert (row["bottleneck_confidence"], row["osd_device_time_share"]) == (None, None)
