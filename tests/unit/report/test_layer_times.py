"""The table of the time that each layer adds."""

from __future__ import annotations

from typing import Any

from grampus.report.figures import MISSING
from grampus.report.matrix.findings import FoundTime
from grampus.report.matrix.layer_times import tabulate_times

from .made_findings import made_cell


def _times(*parts: tuple[str, float], whole_ms: float | None = 20.0) -> tuple[FoundTime, ...]:
    return tuple(
        FoundTime(
            layer=layer,
            share=share,
            queued_share=0.0,
            ms=None if whole_ms is None else whole_ms * share,
        )
        for layer, share in parts
    )


def _cell(threads: int, **changed: Any) -> Any:
    return made_cell({"threads": threads}, **changed)


def test_a_row_for_each_cell_and_a_column_for_each_layer():
    cells = [
        _cell(1, times=_times(("osd-cpu", 0.75), ("client", 0.25)), bottleneck="osd-cpu"),
        _cell(2, times=_times(("network", 1.0), whole_ms=None), bottleneck="network"),
        _cell(4),  # Nobody watched it.
    ]
    table = tabulate_times(cells)
    assert table is not None
    assert table.columns == ("Client", "OSD CPU", "Network")
    assert [row.name for row in table.rows] == [cell.name for cell in cells[:2]]
    first, second = table.rows
    assert (first.mean, second.mean) == ("20.0 ms", MISSING)
    assert [field.text for field in first.fields] == ["25%", "75%", MISSING]
    assert [field.percent for field in first.fields] == [25.0, 75.0, None]
    assert [field.is_bottleneck for field in first.fields] == [False, True, False]


def test_old_runs_have_no_times():
    assert tabulate_times([_cell(1)]) is None
    assert tabulate_times([]) is None
