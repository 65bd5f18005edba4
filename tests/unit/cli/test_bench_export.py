"""`bench export`: Markdown and CSV of a run, here or in a file, and what is refused."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grampus.bench.matrix.cells import Cell
from grampus.cli.main import app
from grampus.state.matrix_archive import MatrixArchive
from grampus.state.runs import RunArchive
from tests.unit.bench.findings.made_matrix import Seen, made_figures, made_matrix_run
from tests.unit.bench.layers.made_why import made_timed_why
from tests.unit.report.made_paths import made_paths_run
from tests.unit.report.made_runs import made_run as made_quick_run


def _invoke(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["bench", "export", *words])
    return result.exit_code, result.stdout, result.stderr


def _seen(cell: Cell, number: int) -> Seen:
    if cell.point.media == "nvme" and number == 2:
        return "An <OSD> was | down: see [here](x)."
    return made_figures(100 * cell.point.threads + number)


@pytest.fixture
def run_id(home: Path) -> str:
    """A run in the archive, of which some trials are marked."""
    _, run, trials = made_matrix_run(_seen)
    archive = MatrixArchive(home / "runs")
    archive.begin(run)
    for trial in trials:
        archive.append(run.run_id, trial)
    return run.run_id


def test_markdown_has_all_sections_and_nothing_becomes_markup(run_id: str) -> None:
    code, page, _ = _invoke(run_id)
    assert code == 0
    headings = [line for line in page.splitlines() if line.startswith("#")]
    assert headings[1:] == ["## Conclusions", "## Arms", "## Cells", "## Where"]
    tables = [line for line in page.splitlines() if line.startswith("|")]
    assert {line.count(" | ") for line in tables} == {1, 6, 8, 2}
    assert "An &lt;OSD> was | down: see \\[here](x)." in page
    assert "its figures tell shapes and ratios" in page
    assert "6 s each after 2 s of warm-up, and 1.5 s more (median; the longest 1.5 s)." in page


def test_csv_is_a_row_for_each_trial(run_id: str, home: Path) -> None:
    file = home / "trials.csv"
    code, shown, _ = _invoke(run_id, "--as", "csv", "--output", str(file))
    assert (code, shown) == (0, f"Written to {file}.\n")
    rows = list(csv.DictReader(io.StringIO(file.read_text(), newline="")))
    archive = MatrixArchive(home / "runs")
    assert [(row["cell_id"], int(row["round"])) for row in rows] == [
        (trial.cell_id, trial.round) for trial in archive.trials(run_id)
    ]
    assert {row["marked"] for row in rows} == {"", "An <OSD> was | down: see [here](x)."}


def test_programs_get_the_text_or_the_file(run_id: str, home: Path) -> None:
    document = json.loads(_invoke("--as", "csv", "--format", "json")[1])
    assert (document["run_id"], document["form"]) == (run_id, "csv")
    assert document["text"].startswith("run_id,suite,")
    file = home / "page.md"
    document = json.loads(_invoke("--output", str(file), "--format", "json")[1])
    assert document == {"run_id": run_id, "form": "markdown", "file": str(file)}
    assert file.read_text().startswith("# ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--output", "."], "is a directory"),
        (["--output", "nowhere/page.md"], "cannot be written to"),
        (["20260302-140509-quick"], "neither cells nor ways"),
        (["--as", "pdf"], "'pdf' is not one of"),
    ],
)
def test_what_cannot_be_exported_is_said(
    run_id: str, home: Path, words: list[str], said: str
) -> None:
    made = made_quick_run()
    renamed = made.run.model_copy(update={"run_id": "20260302-140509-quick"})
    RunArchive(home / "runs").save(renamed)
    chosen = words if words[0].startswith("2026") else [run_id, *words]
    code, _, errors = _invoke(*chosen)
    assert code == 2
    assert said in " ".join(errors.split())


def test_the_ways_to_an_image_are_a_page_and_a_row_for_each_sample(home: Path) -> None:
    run = made_paths_run("20260302-140509-paths-tiny")
    RunArchive(home / "runs").save(run)
    code, page, _ = _invoke(run.run_id)
    assert code == 0
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert headings == ["## Targets", "## Throughput", "## Where"]
    judged = [one for one in run.targets if one.value is not None]
    assert judged
    for one in judged:
        assert f"| {one.name} | {one.measure} | {one.arm} / {one.against} |" in page
    assert all(warning in page for warning in run.warnings)
    code, text, _ = _invoke(run.run_id, "--as", "csv")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert code == 0
    assert [(row["round"], row["arm"], row["measure"]) for row in rows] == [
        (str(one.round), one.arm, one.measure) for one in run.samples
    ]
    units = {one.name: one.unit for one in run.measures}
    assert all(row["unit"] == units[row["measure"]] for row in rows)


def test_markdown_says_why(home: Path) -> None:
    _, run, trials = made_matrix_run(lambda *_: made_figures(100, why=made_timed_why()))
    archive = MatrixArchive(home / "runs")
    archive.begin(run)
    for trial in trials:
        archive.append(run.run_id, trial)
    page = _invoke(run.run_id)[1]
    assert "| highest percentile | bottleneck | remark |" in page
    assert "| OSD device (high confidence) |" in page
    assert "## Time by layer" in page
    assert "| time of an operation | mean | volume | OSD device |" in page
    assert "| 20 ms | 20% | 70% |" in page
    assert "## Layers" in page
    assert "| used of | client | OSD device |" in page
    assert "| 10% | 95% |" in page
    assert "Reading this took 0.020 of the machine's cores on average." in page
    assert "- Bottleneck OSD device, " in page
    assert "The device of osd-0@h1 was busy 95 % of the time. So." in page
