from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError
from grampus.report.build import (
    DETAILS,
    MAX_REPORT_BYTES,
    build_matrix_report,
    render_matrix_run,
)
from grampus.report.figures import MISSING
from grampus.report.matrix.findings import FoundConclusion
from grampus.report.matrix.page import (
    MatrixPage,
    cell_badges,
    cell_remarks,
    cell_rows,
    describe_cells,
    describe_conclusions,
    describe_matrix_page,
)
from grampus.report.render import render_code
from grampus.state.matrix_layers import LAYERS, LayerUse
from grampus.state.matrix_runs import Spent
from grampus.state.runs import Setting
from tests.unit.bench.findings.made_matrix import made_text
from tests.unit.bench.layers.made_why import made_why

from .made_findings import (
    Made,
    figures_of,
    found_in,
    made_cell,
    made_cell_latency,
    made_findings,
    made_seconds,
    made_spread,
)

HOSTILE = "</style><img src=x onerror=alert(1)>\"'&{{ 7*7 }}"
MANY = {
    "workload": ["update-index", "point-select"],
    "media": ["hdd", "nvme"],
    "threads": [1, 2, 4, 8, 16, 24, 32],
    "copies": [1, 2, 3],
    "trx_commit": [0, 1, 2],
    "databases": [1, 2],
}

# Every layer, of another shade in each part.
BUSY_LAYERS = tuple(
    LayerUse(layer=layer, share=0.5, peak=1.0, over_time=(0.1, 0.3, 0.5, 0.7, 0.95) * 8)
    for layer in LAYERS
)


def page_of(made: Made) -> MatrixPage:
    return describe_matrix_page(made[0], made[1], found_in(made), DETAILS[0])


def test_a_report_is_written(tmp_path: Path) -> None:
    output = tmp_path / "new" / "report.html"
    assert build_matrix_report(*made_findings(), output) == output
    html = output.read_text(encoding="utf-8")
    assert html.lower().startswith("<!doctype html>")
    for words in (
        "Does it expand?",
        "lab default",
        "12 of 12",
        "its figures tell shapes and ratios, not what the hardware can do",
        "Flash is faster.",
        "client-bound",
        "An OSD was down.",
        "It used all of its cores.",
        "Second by second",
        "Use by layer",
        "The device of osd-0@h1 was busy 95 % of the time.",
        '<th scope="col">Bottleneck</th>',
        "series/CELL/ROUND.jsonl",
        "visits.jsonl",
    ):
        assert words in html, words
    assert "/runs/made" not in html
    assert str(tmp_path) not in html


def test_a_file_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GrampusError, match="cannot be written"):
        build_matrix_report(*made_findings(), tmp_path / "file" / "report.html")


def test_it_loads_nothing_and_runs_nothing() -> None:
    html = render_matrix_run(*made_findings())
    assert re.findall(r"<(?:script|img|link|iframe|object|embed)\b[^>]*>", html) == [
        '<link rel="icon" href="data:,">'
    ]
    assert "script-src" not in html
    assert "default-src &#39;none&#39;" in html
    assert "url(" not in html


def test_hostile_words_stay_text() -> None:
    run, trials, document = made_findings()
    run = run.model_copy(
        update={
            "suite": HOSTILE,
            "place": HOSTILE,
            "environment": (Setting(group=HOSTILE, name=HOSTILE, value=HOSTILE),),
        }
    )
    for cell in document["cells"]:
        cell.update(name=HOSTILE, no_figure=cell["no_figure"] and HOSTILE, notes=(HOSTILE,))
        cell["point"]["media"] += HOSTILE
    for one in (*document["comparisons"], *document["conclusions"]):
        one.update(name=HOSTILE, arm=HOSTILE, says=HOSTILE, sentence=HOSTILE, reason=HOSTILE)
    document.update(title=HOSTILE, question=HOSTILE, remarks=[HOSTILE])
    html = render_matrix_run(run, trials, document)
    assert "<img" not in html
    assert html.count("</style>") == 1
    assert "49" not in re.findall(r"&amp;(\S+)", html)
    assert "&lt;img src=x onerror=alert(1)&gt;" in html


def test_tables_and_drawings_can_be_read_without_seeing_them() -> None:
    html = render_matrix_run(*made_findings())
    headers = re.findall(r"<th\b[^>]*>", html)
    assert headers
    assert not [header for header in headers if "scope=" not in header]
    drawings = re.findall(r"<svg\b[^>]*>", html)
    assert len(drawings) > 8
    assert all('role="img"' in one and 'aria-label="' in one for one in drawings)


def test_every_part_is_there_that_has_something_to_show() -> None:
    page = page_of(made_findings())
    assert [forest.rows[0].title for forest in page.forests] == ["nvme ÷ hdd"] * 2
    assert len(page.curves.drawn) == 1
    assert len(page.heat.drawn) == 1
    assert len(page.percentiles.drawn) == 1
    assert len(page.cells) == len(page.series) == 4
    assert [row.verdict for row in page.conclusions] == ["undecided", "undecided"]


def test_a_single_cell_has_a_page() -> None:
    run, trials, document = made_findings()
    document.update(cells=document["cells"][:1], comparisons=[], conclusions=[])
    made = (run, trials, document)
    page = page_of(made)
    assert (page.forests, page.curves.drawn, page.heat.drawn) == ((), (), ())
    assert len(page.cells) == len(page.series) == len(page.percentiles.drawn) == 1
    html = render_matrix_run(*made)
    for heading in ("differences", "curves", "heat", "source"):
        assert f'<h2 id="{heading}">' not in html
    assert "The suite has no conclusion to test." in html


def test_a_run_without_any_round_has_a_page() -> None:
    made = made_findings(lambda cell, number: None, ended_at_s=None)
    page = page_of(made)
    drawn = (page.curves.drawn, page.heat.drawn, page.percentiles.drawn, page.series)
    assert drawn == ((), (), (), ())
    assert page.cells_line == "4 cells; 4 without any figure."
    assert {badge.text for row in page.cells for badge in row.badges} == {
        "no figure: It was not measured yet."
    }
    html = render_matrix_run(*made)
    assert "The run is unfinished: 0 of 12 trials were made." in html
    assert "not compared: It was not measured yet." in html


def test_a_run_that_ended_since_enough_was_known_says_so_without_a_warning() -> None:
    page = page_of(made_findings(enough="Each conclusion had its answer."))
    assert page.warnings == ()
    assert ("Ended early", "Each conclusion had its answer.") in [
        (one.name, one.value) for one in page.facts
    ]


def test_the_overhead_of_trials_is_a_fact() -> None:
    page = page_of(made_findings())
    facts = {one.name: one.value for one in page.facts}
    assert facts["Overhead of a trial"] == "1.5 s (median), 1.5 s (longest)"


def test_the_overhead_of_trials_is_shown_by_its_causes() -> None:
    spent = Spent(load_s=5.5, change_s=1.25, calm_s=0.5)
    page = page_of(made_findings(lambda _cell, _number: figures_of(100, spent=spent)))
    facts = {one.name: one.value for one in page.facts}
    assert facts["Overhead of a trial, beside its load"] == (
        "4.0 s (median), 4.0 s (longest); in medians 1.2 s of it to set what the cell asks, "
        "0.5 s until the servers were calm"
    )


def test_a_run_that_was_cut_short_says_why() -> None:
    assert page_of(made_findings(cut_short="The budget was used up.")).warnings == (
        "The budget was used up.",
    )


def test_a_whole_place_has_no_statement() -> None:
    assert page_of(made_findings(shape_only=False)).statement is None


def test_five_hundred_cells_stay_small() -> None:
    text = made_text(dimensions=MANY, fixed={})
    made = made_findings(
        lambda cell, number: figures_of(
            97.3 * cell.point.threads,
            seconds=made_seconds(97.3 * cell.point.threads, 300),
            measured_s=290,
            notes=(f"{number} of {cell.cell_id} operations were outside of the window.",),
            why=made_why(layers=BUSY_LAYERS),
        ),
        text=text,
    )
    assert len(made[2]["cells"]) == 504
    html = render_matrix_run(*made)
    assert len(html.encode()) < MAX_REPORT_BYTES
    page = page_of(made)
    assert len(page.series) == len(page.cells) == len(page.strips) == 504
    assert len(page.percentiles.drawn) == DETAILS[0].charts
    assert page.percentiles.note == "360 more cells are not drawn; the table has their figures."
    assert len(page.forests[0].rows) == 252


def test_what_would_be_too_large_is_refused() -> None:
    run, trials, document = made_findings()
    document["remarks"] = ["x" * MAX_REPORT_BYTES]
    with pytest.raises(GrampusError, match="larger than 2,000,000 bytes"):
        render_matrix_run(run, trials, document)


def test_findings_that_are_none_are_explained() -> None:
    run, trials, document = made_findings()
    document["cells"][0].pop("point")
    with pytest.raises(GrampusError, match=r"cells\.0\.point") as raised:
        render_matrix_run(run, trials, document)
    assert raised.value.code == "findings-unreadable"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "The suite has no conclusion to test."),
        (["holds"], "1 of 1 conclusion holds."),
        (["holds", "holds"], "2 of 2 conclusions hold."),
        (
            ["holds", "does-not-hold", "undecided", "undecided", "not-tested"],
            "1 of 5 conclusions hold; 1 does not, 2 are undecided and 1 is not tested.",
        ),
        (["does-not-hold", "does-not-hold"], "0 of 2 conclusions hold; 2 do not."),
    ],
)
def test_headline(words: list[str], sentence: str) -> None:
    content = {
        "says": "",
        "test": "ratio",
        "quantity": "tps",
        "sentence": "",
        "why": "",
        "claims": (),
    }
    found = [FoundConclusion(name="one", word=word, published=None, **content) for word in words]
    assert describe_conclusions(found) == sentence
    again = [one.model_copy(update={"name": "two", "repeats": "one"}) for one in found]
    assert describe_conclusions([*found, *again]) == sentence, "one fact counts once"


def test_a_conclusion_has_our_ratio_its_interval_and_the_published_one() -> None:
    seen = {"hdd": (100, 100, 100), "nvme": (200, 210, 190)}
    run, trials, document = made_findings(
        lambda cell, number: figures_of(seen[cell.point.media][number - 1]),
        text=made_text(
            dimensions={"media": ["hdd", "nvme"]},
            fixed={"workload": "update-index", "threads": 2},
            conclusions=[
                {
                    "name": "faster",
                    "says": "Flash is faster.",
                    "test": "ratio",
                    "quantity": "tps",
                    "arm": "nvme",
                    "at_least": 1.5,
                    "published": 33.2,
                }
            ],
        ),
    )
    (row,) = page_of((run, trials, document)).conclusions
    assert (row.verdict, row.ours, row.published) == ("holds", "2", "33.2")
    assert row.interval == "1.76 to 2.26 (95%)"
    assert row.claims == ()


def test_many_claims_are_in_a_table_of_their_own() -> None:
    faster = page_of(made_findings()).conclusions[0]
    assert (faster.ours, faster.interval) == ("2 ratios", MISSING)
    assert [claim.what for claim in faster.claims] == [
        "threads 1: nvme over hdd",
        "threads 8: nvme over hdd",
    ]


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("Nothing special.", "Nothing special."),
        ("Only `full` & `tiny`.", "Only <code>full</code> &amp; <code>tiny</code>."),
        ("`<b>` is text", "<code>&lt;b&gt;</code> is text"),
        ("One ` <alone>", "One ` &lt;alone&gt;"),
    ],
)
def test_what_stands_between_backticks_is_code(text: str, html: str) -> None:
    assert str(render_code(text)) == html


def test_columns_are_those_that_some_cell_has() -> None:
    cell = made_cell({"threads": 1}, 1234.0, latency=made_cell_latency(**{"p99.99": None}))
    columns, (row,) = cell_rows([cell])
    assert columns == (
        "Rounds",
        "TPS",
        "Lowest to highest",
        "Queries/s",
        "Average ms",
        "p50 ms",
        "p99 ms",
        "Highest percentile, ms",
    )
    assert row.figures == (
        "3 of 3",
        "1,234",
        "1,111 to 1,357",
        "1,234",
        "1.20",
        "1.00",
        "5.00",
        "p99.99: 0.600 to 56.0",
    )
    volume = made_cell({"threads": 1}, queries_per_s=None, mb_per_s=made_spread(12.5))
    assert cell_rows([volume])[0][1:4] == ("Operations/s", "Lowest to highest", "MB/s")
    assert cell_rows([])[1] == ()


@pytest.mark.parametrize(
    ("rate", "changed", "badges"),
    [
        (None, {}, [("bad", "marked: An OSD was down.")]),
        (None, {"marked": 0}, [("bad", "no figure: An OSD was down.")]),
        (9.0, {}, []),
        (9.0, {"marked": 1, "missing": 2}, [("bad", "1 marked"), ("warn", "2 missing")]),
        (9.0, {"client_bound": "yes"}, [("warn", "client-bound")]),
        (9.0, {"steady": True, "loop": "open"}, [("calm", "open loop"), ("calm", "steady")]),
        (
            9.0,
            {"steady": False, "errors": 1200.0},
            [("warn", "unsteady"), ("warn", "1,200 errors")],
        ),
    ],
)
def test_what_limits_the_trust_in_a_cell(
    rate: float | None, changed: dict[str, object], badges: list[tuple[str, str]]
) -> None:
    cell = made_cell({"threads": 1}, rate, **changed)
    assert [(one.kind, one.text) for one in cell_badges(cell)] == badges


def test_cells_are_counted_by_what_is_to_know_of_them() -> None:
    cells = [
        made_cell({"threads": 1}),
        made_cell({"threads": 2}, None),
        made_cell({"threads": 4}, client_bound="yes"),
    ]
    said = "3 cells; 1 without any figure, 1 with marked rounds and 1 client-bound."
    assert describe_cells(cells) == said
    assert describe_cells(cells[:1]) == "1 cell."
    assert describe_cells([]) == "The run has no cell."


def test_what_is_said_of_several_cells_is_there_once() -> None:
    cells = [
        made_cell({"threads": at}, notes=("The same.",), reasons=[{"text": "Down.", "rounds": [2]}])
        for at in range(10)
    ]
    marked, note = cell_remarks([*cells, made_cell({"threads": 10})])
    assert (marked.kind, marked.text) == ("Marked", "Down.")
    assert marked.cells.startswith("threads 0 (round 2); threads 1 (round 2); ")
    assert note.cells.endswith("threads 7; and 2 more cells")
    # Where it is said of all of them; the rounds are named in any case.
    marked, note = cell_remarks(cells)
    assert marked.cells.endswith("threads 7 (round 2); and 2 more cells")
    assert note.cells == "all 10 cells"


@pytest.mark.parametrize(
    ("source", "experiment", "published", "ours"),
    [
        ("intel-optane", "throughput-overview", "504,000 qps", "Queries a second"),
        ("redhat-2016", "parallel-doublewrite", "about 2 times", "Operations a second"),
    ],
)
def test_the_sources_figures_stand_beside_ours(
    source: str, experiment: str, published: str, ours: str
) -> None:
    made = made_findings(
        text=made_text(name=f"{source}-{experiment}", source=source, experiment=experiment)
    )
    section = page_of(made).source
    assert section is not None
    assert published in [row.value for row in section.figures]
    assert section.ours[0].title == ours
    first, second, *_ = section.ours[0].rows
    assert (first.of_first, second.of_first) == (MISSING, "8")
    html = unescape(render_matrix_run(*made))
    assert "compare their ratios and shapes with ours" in html
    assert "It found: " in html
