from __future__ import annotations

import re
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError
from grampus.report.build import build_report
from grampus.report.figures import MISSING
from grampus.report.paths_page import (
    DRAWING_MARGIN,
    DRAWING_WIDTH,
    decide_axis,
    describe_paths_page,
    describe_targets,
    draw_interval,
    format_throughput,
)
from grampus.report.render import render_paths_page
from grampus.state.runs import PathsArm, PathsTarget, RunArchive, Setting

from .made_paths import (
    READ,
    made_comparison,
    made_paths_run,
    made_target,
    made_write_paths_run,
)

HOSTILE = "</style><img src=x onerror=alert(1)>\"'&{{ 7*7 }}"


def test_a_report_of_paths_is_written(tmp_path: Path) -> None:
    archive = RunArchive(tmp_path / "runs")
    archive.save(made_paths_run())
    html = build_report(archive, "latest", tmp_path / "report.html").read_text(encoding="utf-8")
    assert "1 of 2 targets that were measured were reached, 1 missed." in html
    assert "volumed, io_uring ÷ fio&#39;s rbd engine" in html
    assert "3,186/s" in html
    assert "415 MiB/s" in html
    assert str(tmp_path) not in html


def test_it_loads_nothing_and_runs_nothing() -> None:
    html = render_paths_page(describe_paths_page(made_paths_run()))
    assert re.findall(r"<(?:script|img|link|iframe|object|embed)\b[^>]*>", html) == [
        '<link rel="icon" href="data:,">'
    ]
    assert "script-src" not in html
    assert "default-src &#39;none&#39;" in html
    assert "url(" not in html


def test_hostile_names_stay_text() -> None:
    run = made_paths_run(
        suite=HOSTILE,
        host=HOSTILE,
        warnings=(HOSTILE,),
        environment=(Setting(group=HOSTILE, name=HOSTILE, value=HOSTILE),),
        arms=(PathsArm(name="rbd", title=HOSTILE, detail=HOSTILE),),
    )
    html = render_paths_page(describe_paths_page(run))
    assert "<img" not in html
    assert html.count("</style>") == 1
    assert "49" not in re.findall(r"&amp;(\S+)", html)


def test_tables_and_drawings_can_be_read_without_seeing_them() -> None:
    html = render_paths_page(describe_paths_page(made_paths_run()))
    headers = re.findall(r"<th\b[^>]*>", html)
    assert headers
    assert not [header for header in headers if "scope=" not in header]
    drawings = re.findall(r"<svg\b[^>]*>", html)
    assert len(drawings) == 4
    assert all('role="img"' in one and 'aria-label="' in one for one in drawings)


def test_a_measure_shows_its_arms_in_the_runs_order() -> None:
    section = describe_paths_page(made_paths_run()).measures[0]
    assert [row.name for row in section.rows] == ["rbd", "volumed-uring-raw", "qsd-raw"]
    assert section.rows[0].cells == ("3,186/s", "312", "300", "900", "4,100", "86.2", "5")
    assert section.rows[2].cells[5] == MISSING
    assert [row.side for row in section.throughput] == ["either", "better", "worse"]
    # A longer latency is worse though its ratio is above 1.
    assert [(row.ratio, row.side) for row in section.latency] == [("1.03", "worse")]


def test_a_cost_is_better_when_it_is_less() -> None:
    page = describe_paths_page(made_write_paths_run())
    throughput, cost = page.measures
    assert (throughput.throughput_heading, cost.throughput_heading) == (
        "Throughput, more is better",
        "Cost, less is better",
    )
    assert [row.side for row in (*throughput.throughput, *cost.throughput)] == ["better"] * 2
    assert cost.rows[1].cells[:2] == ("200 µs", MISSING)
    (target,) = page.targets
    assert (target.limit, target.value, target.verdict) == ("at most 0.3", "0.25", "reached")
    assert "Cost, less is better" in render_paths_page(page)


def test_a_flush_has_a_table_of_its_own() -> None:
    sections = describe_paths_page(made_paths_run()).measures
    assert [bool(section.flush_rows) for section in sections] == [False, False, True]
    assert sections[2].flush_rows[0].cells == ("2.50", "4.00", "9.00")


def test_targets_say_what_they_ask_and_what_was_found() -> None:
    rows = describe_paths_page(made_paths_run()).targets
    assert [(row.limit, row.value, row.interval, row.verdict) for row in rows] == [
        ("at least 0.9", "0.97", "0.91 to 1.02", "reached"),
        ("at most 40 µs", "51.2 µs", "20.0 to 88.0 µs", "missed"),
    ]


def test_what_was_not_measured_has_one_line_below() -> None:
    run = made_paths_run()
    again = run.targets[2].model_copy(update={"measure": READ})
    page = describe_paths_page(run.model_copy(update={"targets": (*run.targets, again)}))
    assert [(target.title, target.measures) for target in page.unmeasured] == [
        ("sysbench update-index", ("update-index", "16K random reads at queue depth 1"))
    ]
    assert len(page.targets) == 2
    html = render_paths_page(page)
    assert "Targets that were not measured (1)" in html
    assert "sysbench update-index: update-index, 16K random reads at queue depth 1" in html


def test_a_run_that_measured_all_targets_lists_none_as_missing() -> None:
    assert "not measured" not in render_paths_page(describe_paths_page(made_write_paths_run()))


@pytest.mark.parametrize(
    ("reached", "sentence"),
    [
        ([], "This suite has no targets."),
        ([True, True], "2 of 2 targets were reached."),
        ([True, False], "1 of 2 targets were reached, 1 missed."),
        ([None], "0 of 1 targets were reached; of 1 it is not known."),
    ],
)
def test_headline(reached: list[bool | None], sentence: str) -> None:
    assert describe_targets([made_target(reached=one) for one in reached]) == sentence


@pytest.mark.parametrize(
    ("measured", "sentence"),
    [
        ([made_target()], "1 of 1 targets that were measured were reached."),
        ([], "None of the suite's targets was measured."),
    ],
)
def test_the_headline_counts_what_was_measured(measured: list[PathsTarget], sentence: str) -> None:
    left_out = made_target(value=None, reached=None)
    assert describe_targets([*measured, left_out]) == sentence


def test_the_axis_is_logarithmic_and_holds_one() -> None:
    one = made_comparison(READ, "a", "b", 1.0, 0.25, 4.0)
    assert decide_axis([one]) == (0.25, 4.0)
    drawing = draw_interval(one, 0.25, 4.0)
    assert drawing.low == DRAWING_MARGIN
    assert drawing.high == DRAWING_WIDTH - DRAWING_MARGIN
    assert drawing.middle == drawing.one == DRAWING_WIDTH / 2
    half = draw_interval(made_comparison(READ, "a", "b", 0.5, 0.5, 2.0), 0.25, 4.0)
    assert half.one - half.low == pytest.approx(half.high - half.one)


@pytest.mark.parametrize("ratios", [(1.0, 1.0, 1.0), (3.0, 2.9, 3.1), (0.2, 0.1, 0.3)])
def test_one_is_always_on_the_axis(ratios: tuple[float, float, float]) -> None:
    one = made_comparison(READ, "a", "b", *ratios)
    lowest, highest = decide_axis([one])
    assert lowest < 1 < highest
    drawing = draw_interval(one, lowest, highest)
    places = (drawing.low, drawing.middle, drawing.high, drawing.one)
    assert all(0 < place < DRAWING_WIDTH for place in places)


def test_a_ratio_of_zero_stays_on_the_page() -> None:
    one = made_comparison(READ, "a", "b", 0.5, 0.0, 0.9)
    lowest, highest = decide_axis([one])
    assert draw_interval(one, lowest, highest).low == DRAWING_MARGIN


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3186.4, "iops", "3,186/s"),
        (415 * 1024**2, "bytes-per-s", "415 MiB/s"),
        (57.3, "tps", "57.3 TPS"),
        (2.31, "writes-per-operation", "2.31 writes"),
        (31.4, "us-per-operation", "31.4 µs"),
    ],
)
def test_throughput_has_its_unit(value: float, unit: str, text: str) -> None:
    assert format_throughput(value, unit) == text


def test_a_run_of_another_schema_is_refused(tmp_path: Path) -> None:
    archive = RunArchive(tmp_path / "runs")
    archive.save(made_paths_run(schema_version=99))
    with pytest.raises(GrampusError, match="archived with schema 99"):
        build_report(archive, "latest", tmp_path / "report.html")


def test_an_empty_run_has_a_report() -> None:
    run = made_paths_run(measures=(), results=(), comparisons=(), targets=(), environment=())
    html = render_paths_page(describe_paths_page(run))
    assert "This run holds no measure." in html
    assert "No facts of the environment were recorded." in html
