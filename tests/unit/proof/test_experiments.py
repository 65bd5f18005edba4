"""Pages of `make experiments`."""

from __future__ import annotations

import pytest

from grampus.bench.matrix.loading import load_matrix_suites
from tests.proof.experiments.labs import FILESTORE, LAYOUTS, PLAIN, decide_lab
from tests.proof.experiments.pages import (
    Line,
    decide_line,
    render_index,
    render_measured,
    render_unmeasured,
)
from tests.system.command_line import CHECKOUT

SHOWN = {
    "conclusions": [
        {"name": "faster", "word": "does-not-hold"},
        {"name": "cheaper", "word": "holds"},
    ],
    "cells": [{"measured": 5}, {"measured": 0}, {"measured": 1}],
    "scale": "tiny",
}
VERDICTS = {"faster": "does not hold", "cheaper": "holds"}


@pytest.mark.parametrize(
    ("shown", "line", "row"),
    [
        (None, Line("a", {}, 0, 3, ""), "| [a](a.md) | not measured here | 0 of 3 | - |"),
        (
            SHOWN,
            Line("a", VERDICTS, 2, 3, "now"),
            "| [a](a.md) | faster: **does not hold**; cheaper: **holds** | 2 of 3 | now |",
        ),
    ],
)
def test_the_index_says_what_was_found(shown: dict[str, object], line: Line, row: str) -> None:
    assert decide_line("a", shown, 3, "now") == line
    assert render_index(["a"], {"a": line}).splitlines()[-1] == row


def test_remarks_stand_before_the_conclusions() -> None:
    page = "# Disks\n\nWhat?\n\n## Conclusions\n\n| a |\n"
    assert render_measured(page, ()) == page
    assert render_measured(page, ("It is so.", "So it is.")) == (
        "# Disks\n\nWhat?\n\n## To know before reading\n\n- It is so.\n- So it is.\n"
        "\n## Conclusions\n\n| a |\n"
    )


def test_the_index_leads_to_what_is_to_be_known_before() -> None:
    line = decide_line("a", SHOWN, 3, "now", has_remarks=True)
    row = render_index(["a"], {"a": line}).splitlines()[-1]
    assert "**holds** ([to know before reading](a.md#to-know-before-reading)) |" in row


@pytest.mark.parametrize(
    ("when", "cell"),
    [("2026-11-29 23:59", "2026-11-29 23:59*"), ("2026-11-30 00:00", "2026-11-30 00:00")],
)
def test_what_former_rules_concluded_is_marked(when: str, cell: str) -> None:
    page = render_index(["a"], {"a": decide_line("a", SHOWN, 3, when)})
    assert page.splitlines()[-1].endswith(f"| {cell} |")
    assert ("Marked with a star" in page) == cell.endswith("*")


def test_the_index_counts_verdicts() -> None:
    lines = {
        "a": Line("a", {"x": "holds", "y": "does not hold", "z": "not tested"}, 1, 1, "now"),
        "b": Line("b", {"x": "undecided", "z": "not tested"}, 1, 1, "now"),
    }
    assert (
        "Of 5 conclusions 1 hold, 1 do not hold, 1 are undecided and 2 are not tested, 1 of them "
        "because no lab can test them.\n"
    ) in render_index(["a", "b"], lines, {("a", "z"), ("b", "x")})


def test_another_scale_than_the_usual_one_is_named() -> None:
    line = decide_line("a", {**SHOWN, "scale": "small"}, 3, "2026-12-01 00:00")
    assert line.scale == "small"
    assert render_index(["a"], {"a": line}).endswith("| 2026-12-01 00:00, `small` |\n")


def test_what_cannot_be_measured_says_each_reason_once() -> None:
    cells = [{"not_runnable": reason} for reason in ("No disk.", "No flash.", "No disk.")]
    page = render_unmeasured("Disks", {"place": "lab x", "cells": cells})
    assert page.splitlines() == [
        "# Disks",
        "",
        "Not measured: lab x can run none of its 3 cells.",
        "",
        "- No disk.",
        "- No flash.",
    ]


def test_what_is_not_measured_yet_is_in_the_index() -> None:
    assert render_index(["b"], {}).splitlines()[-1] == "| b | not measured yet | - | - |"


@pytest.mark.parametrize(
    ("suite", "kind"),
    [
        ("redhat-2016-batch-flushing", PLAIN),
        ("redhat-hci-2-write-media", LAYOUTS),
        ("redhat-hci-2-write-objectstore", FILESTORE),
        ("redhat-hci-2-write-layout", FILESTORE),
    ],
)
def test_each_suite_has_a_lab_that_can_run_it(suite: str, kind: object) -> None:
    suites = {one.name: one for one in load_matrix_suites(CHECKOUT / "suites" / "sources")}
    assert decide_lab(suites[suite]) == kind
