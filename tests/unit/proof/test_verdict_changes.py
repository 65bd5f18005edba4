"""The change log of verdicts."""

from __future__ import annotations

import json

import pytest

from tests.proof.experiments.__main__ import CHANGES, PAGES, read_changes, read_lines
from tests.proof.experiments.changes import (
    Change,
    find_changes,
    find_contradictions,
    render_changes,
)
from tests.proof.experiments.pages import Line


def line(**verdicts: str) -> Line:
    return Line("disks", verdicts, 1, 1, "2026-12-01 04:00")


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        (None, line(faster="holds"), []),
        (line(), line(faster="holds"), []),
        (line(faster="holds"), line(), []),
        (line(faster="holds"), line(faster="holds"), []),
        (
            line(faster="holds", cheaper="holds"),
            line(faster="undecided", cheaper="holds"),
            [("faster", "holds", "undecided")],
        ),
        (line(faster="holds"), line(cheaper="holds"), [
            ("faster", "holds", "no verdict"),
            ("cheaper", "no verdict", "holds"),
        ]),
    ],
)  # fmt: skip
def test_each_verdict_of_another_word_is_a_change(
    before: Line | None, after: Line, changed: list[tuple[str, str, str]]
) -> None:
    found = find_changes(before, after)
    assert [(one.conclusion, one.before, one.after) for one in found] == changed
    assert all(one.date == "2026-12-01" and not one.why for one in found)


def test_the_newest_change_comes_first() -> None:
    changes = [
        Change("2026-11-01", "disks", "faster", "holds", "undecided", "It was short."),
        Change("2026-12-01", "disks", "faster", "undecided", "holds", "It is long."),
    ]
    rows = render_changes(changes).splitlines()[-2:]
    assert [row.split(" | ")[0] for row in rows] == ["| 2026-12-01", "| 2026-11-01"]
    assert "**holds** | It is long. |" in rows[0]
    assert find_contradictions(changes, {"disks": line(faster="holds")}) == []
    assert find_contradictions(changes, {"disks": line(faster="undecided")}) == [
        "disks faster: changed to holds, but the index says undecided"
    ]


def test_what_is_published_agrees_with_the_index_and_has_reasons() -> None:
    changes = read_changes()
    assert find_contradictions(changes, read_lines()) == []
    assert [one for one in changes if not one.why] == []
    assert render_changes(changes) == (PAGES / "changes.md").read_text()
    assert json.loads(CHANGES.read_text())
