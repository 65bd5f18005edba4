"""What is said below the table of cells, at a terminal and in Markdown."""

from __future__ import annotations

from typing import Any

import pytest

from grampus.cli.bench_matrix_tables import remarks

SHORT = "8 s are too short to judge."
BUSY = "The cores were busy."


def _cell(name: str, **said: Any) -> dict[str, Any]:
    return {
        "name": name,
        "no_figure": None,
        "reasons": [],
        "client_bound": "no",
        "evidence": [],
        "bottleneck": "machine",
        "bottleneck_evidence": [],
        "steady": None,
        "unsteady_reasons": [],
        "notes": [],
    } | said


@pytest.mark.parametrize(
    ("cells", "lines"),
    [
        ([], []),
        ([_cell("a", notes=["Odd."])], ["Note, a: Odd."]),
        # What all of them have names none.
        (
            [_cell(name, unsteady_reasons=[SHORT]) for name in "abc"],
            [f"Not known to be steady, all 3 cells: {SHORT}"],
        ),
        ([_cell(name, notes=["Odd."]) for name in "ab"], ["Note, both cells: Odd."]),
        (
            [_cell("a", notes=["Odd."]), _cell("b"), _cell("c", notes=["Odd.", "Even."])],
            ["Note, a; c: Odd.", "Note, c: Even."],
        ),
        (
            [
                _cell("a", unsteady_reasons=[SHORT]),
                _cell("b", steady=False, unsteady_reasons=["x"]),
            ],
            ["Unsteady, b: x", f"Not known to be steady, a: {SHORT}"],
        ),
        # Kinds in their order, whatever cell comes first.
        (
            [
                _cell("a", notes=["Odd."], bottleneck_evidence=[BUSY, "All."]),
                _cell("b", reasons=[{"rounds": [1, 3], "text": "An OSD was down."}]),
                _cell("c", client_bound="yes", evidence=["Its CPU.", "Else."]),
            ],
            [
                "Marked, b, round 1, 3: An OSD was down.",
                "Client-bound, c: Its CPU.",
                f"Bottleneck machine, a: {BUSY} All.",
                "Note, a: Odd.",
            ],
        ),
        # Said of both, and of each something more than its name.
        (
            [_cell(name, reasons=[{"rounds": [2], "text": "Down."}]) for name in "ab"],
            ["Marked, a, round 2; b, round 2: Down."],
        ),
        # Where a cell has no figure at all the table itself says why.
        ([_cell("a", no_figure="failed", reasons=[{"rounds": [1], "text": "x"}])], []),
        (
            [_cell(str(number), notes=["Odd."] if number else []) for number in range(11)],
            ["Note, 1; 2; 3; 4; 5; 6; 7; 8; and 2 more cells: Odd."],
        ),
    ],
)
def test_what_is_said_of_several_cells_is_there_once(
    cells: list[dict[str, Any]], lines: list[str]
) -> None:
    assert remarks(cells) == [*lines, ""]
