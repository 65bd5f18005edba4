"""`bench` with suites that are matrices: what is listed, run, shown and refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from grampus.cli.bench_matrix import (
    MatrixOptions,
    parse_scale,
    show_matrix,
    write_matrix_page,
)
from grampus.cli.bench_matrix_run import plan_matrix, run_matrix, show_matrix_plan
from grampus.cli.main import app
from grampus.cli.output import OutputFormat
from grampus.core.errors import NotFoundError, RefusedError, UsageError
from grampus.state.home import Home
from grampus.state.locks import hold_lock
from grampus.state.matrix_archive import MatrixArchive
from grampus.state.matrix_runs import MatrixRun
from grampus.state.runs import RunArchive
from tests.unit.bench.findings.made_matrix import (
    RUN_ID,
    Seen,
    made_figures,
    made_latency,
    made_matrix_run,
    made_text,
)
from tests.unit.bench.matrix.made_suites import made_content
from tests.unit.bench.trials.made_place import World
from tests.unit.report.made_paths import made_paths_run

CATALOGUED = "redhat-2016-batch-flushing"
Captured = pytest.CaptureFixture[str]


def invoke(line: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, line.split())
    return result.exit_code, result.stdout, result.stderr


def lines_of(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def keep(
    home: Path, run_id: str = RUN_ID, *, seen: object = None, **changed: object
) -> tuple[MatrixArchive, MatrixRun]:
    """A run in the archive: nvme twice as fast as hdd, a marked trial and a client-bound cell."""

    def by_default(cell: object, number: int) -> Seen:
        point = cell.point  # type: ignore[attr-defined]
        if point.threads == 1 and point.media == "nvme":
            return "An OSD was down." if number == 2 else _figures(200, number)
        if point.threads == 8 and point.media == "nvme":
            return made_figures(900, client_bound="yes", evidence=("It used all of its cores.",))
        return _figures(100 * point.threads, number)

    chosen = seen if callable(seen) else by_default
    _, run, trials = made_matrix_run(chosen, run_id=run_id, **changed)
    archive = MatrixArchive(home / "runs")
    archive.begin(run)
    for trial in trials:
        archive.append(run_id, trial)
    return archive, run


def _figures(operations_per_s: float, number: int) -> object:
    latency = made_latency(*[1000.0 + number] * 980, *[5000.0] * 10, *[9000.0] * 10)
    return made_figures(operations_per_s * (1 + 0.01 * number), latency=latency)


def test_suites_of_all_kinds_are_listed_with_what_they_vary(home: Path) -> None:
    code, shown, _ = invoke("bench list --format json")
    assert code == 0
    suites = json.loads(shown)["suites"]
    assert len(suites) == 38
    assert all(suite.keys() == suites[0].keys() for suite in suites)
    (one,) = [suite for suite in suites if suite["name"] == CATALOGUED]
    assert (one["source"], one["experiment"]) == ("redhat-2016", "batch-flushing")
    assert one["title"] == "Redo log flushed at each commit or once a second"
    assert one["dimensions"] == {"trx_commit": [1, 2, 0]}
    tiny = {"cells": 3, "rounds": 8, "first_look": 4, "estimated_s": 477}
    assert one["scales"]["tiny"] == tiny
    (quick,) = [suite for suite in suites if suite["name"] == "quick"]
    assert (quick["source"], quick["dimensions"], quick["scales"]) == (None, None, None)
    assert not home.exists()


def test_the_list_of_suites_is_lined_up() -> None:
    code, shown, _ = invoke("bench list")
    assert code == 0
    lines = shown.splitlines()
    assert lines_of(shown)[0] == "SUITE SOURCE TITLE TINY (MIN)"
    (line,) = [line for line in lines if line.startswith(CATALOGUED)]
    assert line.index("redhat-2016 ") == lines[0].index("SOURCE")
    assert line.index("Redo log") == lines[0].index("TITLE")
    assert line.rstrip().endswith(" 8")
    assert len(line.rstrip()) == len(lines[0].rstrip())


def test_runs_of_all_kinds_are_listed(home: Path) -> None:
    keep(home, ended_at_s=None)
    RunArchive(home / "runs").save(made_paths_run("20260302-140509-paths-tiny"))
    code, shown, _ = invoke("bench list --format json")
    assert code == 0
    assert [
        (one["run_id"], one["kind"], one["scale"], one["finished"])
        for one in json.loads(shown)["runs"]
    ] == [
        (RUN_ID, "matrix", "tiny", False),
        ("20260302-140509-paths-tiny", "paths", "tiny", True),
    ]
    assert "(scale tiny, unfinished)" in invoke("bench list")[1]


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("redhat-2016-batch-flush", "Did you mean 'redhat-2016-batch-flushing'?"),
        ("qick", "Did you mean 'quick'?"),
        ("xyz", "`grampus bench list` shows the available ones."),
    ],
)
def test_a_wrong_name_gets_a_suggestion_among_all_suites(name: str, suggested: str) -> None:
    code, _, errors = invoke(f"bench run {name}")
    assert code == 3
    assert f"There is no suite named '{name}'." in errors
    assert suggested in errors


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--db x", "--db has no meaning for the suite"),
        ("--threads 4", "--threads has no meaning"),
        ("--warmup-s 4", "--warmup-s has no meaning"),
        ("--measure-s 4", "--measure-s has no meaning"),
        ("--fresh-data", "--fresh-data has no meaning"),
        ("--host h1", "--host has no meaning"),
        ("--measures *", "--measures has no meaning"),
        ("--arms direct", "--arms has no meaning"),
        ("--scale sustained", "There is no scale 'sustained' of a suite of this kind."),
        ("--scale smal", "Did you mean 'small'?"),
        ("--budget soon", "'soon' is not an interval."),
    ],
)
def test_options_that_a_matrix_does_not_have_are_refused(
    home: Path, options: str, sentence: str
) -> None:
    code, _, errors = invoke(f"bench run {CATALOGUED} {options}")
    assert code == 2
    assert sentence in errors
    assert not home.exists()


def test_without_a_lab_there_is_no_place_to_measure(home: Path) -> None:
    for options in ("", " --dry-run"):
        code, _, errors = invoke(f"bench run {CATALOGUED}{options}")
        assert code == 3
        assert "There is no lab named 'default'." in errors
    assert not home.exists()


@pytest.mark.parametrize("scale", [None, "tiny"])
def test_the_scale_is_tiny_unless_told(scale: str | None) -> None:
    assert parse_scale(scale) == "tiny"


class Ready:
    """A made suite in a file of the user's own, a place, and an archive that starts empty."""

    def __init__(self, directory: Path) -> None:
        self.home = Home(directory / "home")
        self.world = World(self.home.runs_dir)
        self.file = directory / "made-layers.yaml"
        self.file.write_text(yaml.safe_dump(made_content(), sort_keys=False))

    def plan(self, options: MatrixOptions) -> MatrixRun:
        world = self.world
        return plan_matrix(
            world.place, world.archive, world.clock, world.progress, self.file, options
        )

    def run(self, options: MatrixOptions) -> MatrixRun:
        world = self.world
        return run_matrix(
            self.home, world.place, world.archive, world.clock, world.progress, self.file, options
        )


@pytest.fixture
def ready(tmp_path: Path) -> Ready:
    return Ready(tmp_path)


def test_a_run_is_carried_out_and_shown(ready: Ready, capsys: Captured) -> None:
    run = ready.run(MatrixOptions(seed=7, rounds=2))
    assert run.run_id == "20260101-000000-made-layers-tiny"
    assert (run.seed, run.rounds) == (7, 2)
    assert run.ended_at_s is not None
    assert len(ready.world.place.measured) == len(run.visits) == 8
    show_matrix(run, ready.world.archive, OutputFormat.HUMAN)
    shown = lines_of(capsys.readouterr().out)
    assert f"{run.run_id} on lab made: 8 of 8 trials, 6 s each." in shown
    assert not ready.world.place.made


def test_what_was_made_can_be_kept(ready: Ready) -> None:
    ready.run(MatrixOptions(rounds=1, keep_data=True))
    assert ready.world.place.made


def test_two_benchmarks_at_once_would_measure_each_other(ready: Ready) -> None:
    with (
        hold_lock(ready.home, "bench", ready.world.clock, timeout_s=0),
        pytest.raises(RefusedError),
    ):
        ready.run(MatrixOptions())
    assert ready.world.archive.run_ids() == []


def test_a_suite_of_which_nothing_can_run_is_no_run(ready: Ready) -> None:
    ready.world.place.offers = {}
    with pytest.raises(UsageError, match="Lab made can measure none of the 4 cells") as raised:
        ready.run(MatrixOptions())
    assert raised.value.code == "not-runnable"
    assert "cannot do" in raised.value.problem
    assert ready.world.archive.run_ids() == []


def _interrupt(ready: Ready, *, after: int) -> MatrixRun:
    """A run that Ctrl-C ends after so many trials."""
    done = []

    def series(second: int) -> float:
        if second == 0:
            done.append(second)
        if len(done) > after:
            raise KeyboardInterrupt
        return 100.0

    ready.world.place.series = series
    with pytest.raises(KeyboardInterrupt):
        ready.run(MatrixOptions())
    ready.world.place.series = lambda _: 100.0
    return ready.world.archive.load("latest")


def test_an_interrupted_run_is_gone_on_with(ready: Ready) -> None:
    begun = _interrupt(ready, after=4)
    assert any("--scale tiny --resume` resumes it." in one for one in ready.world.progress.notes)
    assert len(ready.world.archive.trials(begun.run_id)) == 4
    run = ready.run(MatrixOptions(resume=True))
    assert run.run_id == begun.run_id
    assert run.ended_at_s is not None
    assert len(ready.world.archive.trials(run.run_id)) == len(run.visits) == 12
    with pytest.raises(NotFoundError, match="no unfinished run of made-layers at the scale tiny"):
        ready.run(MatrixOptions(resume=True))


def test_a_run_is_gone_on_with_as_it_began_wherever_its_file_is(ready: Ready) -> None:
    begun = _interrupt(ready, after=4)
    ready.file.unlink()
    run = ready.run(MatrixOptions(resume=True))
    assert (run.run_id, run.suite_text) == (begun.run_id, begun.suite_text)
    assert len(ready.world.archive.trials(run.run_id)) == 12


def test_the_name_of_an_unfinished_suite_is_enough_to_go_on(home: Path) -> None:
    keep(home, ended_at_s=None)
    code, _, errors = invoke("bench run made-layers --resume")
    # It is known, so what is said is what it needs.
    assert (code, "There is no lab named 'default'." in errors) == (3, True)
    code, _, errors = invoke("bench run made-layers --resume --scale small")
    assert (code, "There is no suite named 'made-layers'." in errors) == (3, True)


def test_a_new_run_beside_an_unfinished_one_says_so(ready: Ready) -> None:
    begun = _interrupt(ready, after=1)
    ready.world.clock.sleep(60)
    run = ready.run(MatrixOptions())
    assert run.run_id != begun.run_id
    assert any(
        f"The run {begun.run_id} is unfinished (1 of 12 trials)." in one
        for one in ready.world.progress.notes
    )


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (MatrixOptions(resume=True, rounds=3), "--rounds"),
        (MatrixOptions(resume=True, budget_s=60), "--budget"),
        (MatrixOptions(resume=True, seed=0), "--seed"),
    ],
)
def test_what_an_unfinished_run_has_cannot_be_asked_for(
    ready: Ready, options: MatrixOptions, name: str
) -> None:
    with pytest.raises(UsageError, match=f"{name} has no meaning with --resume"):
        ready.plan(options)


def test_a_dry_run_names_what_cannot_run_and_changes_nothing(
    ready: Ready, capsys: Captured
) -> None:
    ready.file.write_text(
        yaml.safe_dump(
            made_content(
                dimensions={"media": ["hdd", "nvme"], "threads": [8, 64]},
            ),
            sort_keys=False,
        )
    )
    run = ready.plan(MatrixOptions())
    show_matrix_plan(run, ready.world.archive, OutputFormat.HUMAN)
    shown = lines_of(capsys.readouterr().out)
    assert "update-index nvme can run" in shown
    assert "update-index, threads 64 nvme cannot (1)" in shown
    assert "update-index, threads 64, media hdd hdd cannot (1)" in shown
    assert shown[-2].startswith("(1) This place cannot do threads 64 (only")
    # 2 cells, 3 rounds, 2 + 6 + 10 s each, and two environments of 30 s.
    assert shown[-1] == (
        "2 of 4 cells can run here, in 3 rounds: 6 trials, about 3 min with their environments."
    )
    show_matrix_plan(run, ready.world.archive, OutputFormat.JSON)
    document = json.loads(capsys.readouterr().out)
    assert (document["visits"], document["estimated_s"], document["resumes"]) == (6, 168, None)
    assert [one["not_runnable"] is None for one in document["cells"]] == [True, False] * 2
    assert not ready.home.runs_dir.exists()
    assert not ready.world.place.prepared


def test_a_dry_run_of_what_is_left_counts_only_that(ready: Ready, capsys: Captured) -> None:
    begun = _interrupt(ready, after=4)
    run = ready.plan(MatrixOptions(resume=True))
    show_matrix_plan(run, ready.world.archive, OutputFormat.JSON)
    document = json.loads(capsys.readouterr().out)
    assert (document["resumes"], document["visits"]) == (begun.run_id, 8)


def test_a_run_is_shown_with_cells_comparisons_and_conclusions(home: Path) -> None:
    archive, run = keep(home)
    code, shown, _ = invoke("bench show latest")
    assert code == 0
    lines = lines_of(shown)
    assert "lab default: 12 of 12 trials, 6 s each." in " ".join(lines)
    assert any("its figures tell shapes and ratios" in line for line in lines)
    assert "CELL ROUNDS TPS LOWEST TO HIGHEST QUERIES/S P50 P99 HIGHEST PERCENTILE REMARK" in lines
    (row,) = [line for line in lines if line.startswith("threads 1, media hdd")]
    assert re.search(r"3/3 102 101 to 103 102 1 ms 5.01 ms p99 5.01 ms \(5 to 9\) steady$", row), (
        row
    )
    (row,) = [line for line in lines if line.startswith("threads 1, media nvme 2/3")]
    assert row.startswith("threads 1, media nvme 2/3 204 ")
    assert row.endswith(" 1 marked, steady")
    assert "Marked, threads 1, media nvme, round 2: An OSD was down." in lines
    assert "Client-bound, threads 8, media nvme: It used all of its cores." in lines
    assert any(
        line.startswith("nvme / hdd threads 8 qps - - - not compared: The load generator was")
        for line in lines
    )
    assert any(line.startswith("faster Flash is faster.") for line in lines)
    assert lines[-1] == f"Raw data: {archive.run_dir(run.run_id)}"


def test_a_conclusion_that_repeats_another_is_shown_as_its_fact(home: Path) -> None:
    first = {"name": "faster", "says": "It is faster.", "test": "ratio", "quantity": "tps"}
    first |= {"arm": "nvme", "at_least": 1.5}
    again = {**first, "name": "more", "quantity": "qps", "repeats": "faster"}
    keep(home, text=made_text(conclusions=[first, again]))
    lines = lines_of(invoke("bench show latest")[1])
    assert any(
        re.match(r"more It is faster\. \S+ \(the same fact as faster\)$", one) for one in lines
    )
    code, page, _ = invoke("bench export latest")
    assert code == 0
    assert re.search(r"\| It is faster\. \| \*\*[a-z ]+\*\* \(the same fact as `faster`\) \|", page)


def test_a_cell_without_any_figure_shows_its_reason(home: Path) -> None:
    keep(
        home,
        seen=lambda cell, number: made_figures(100) if cell.point.media == "hdd" else None,
        not_runnable={"update-index": "There is no flash.", "update-index, threads 1": "Nor here."},
    )
    code, shown, _ = invoke("bench show")
    assert code == 0
    assert any(
        line.startswith("threads 8, media nvme 0/0 - -") and line.endswith("There is no flash.")
        for line in lines_of(shown)
    )
    document = json.loads(invoke("bench show --format json")[1])
    assert [one["word"] for one in document["conclusions"]] == ["not-tested", "undecided"]
    assert "There is no flash." in document["conclusions"][0]["sentence"]


def test_a_run_is_shown_for_programs(home: Path) -> None:
    archive, run = keep(home)
    code, shown, _ = invoke(f"bench show {run.run_id} --format json")
    assert code == 0
    document = json.loads(shown)
    assert (document["kind"], document["run_id"]) == ("matrix", run.run_id)
    assert document["dir"] == str(archive.run_dir(run.run_id))
    assert (document["visits_planned"], document["visits_done"]) == (12, 12)
    cell = document["cells"][0]
    assert cell["point"]["media"] == "hdd"
    percents = [one["percent"] for one in cell["latency"]["percentiles"]]
    assert percents == [50, 90, 95, 99]
    assert cell["operations_per_s"]["rounds"] == 3
    assert {one["word"] for one in document["comparisons"]} >= {"not-compared"}
    assert document["conclusions"][0]["claims"][0]["truth"] in ("yes", "no", "unknown", "untested")
    assert document["visits"][0]["figures"]["operations_per_s"] > 0
    assert "latency" not in document["visits"][0]["figures"]
    assert document["source"] is None
    assert document["report"] is None


def test_an_unfinished_run_says_how_to_go_on(home: Path) -> None:
    keep(home, ended_at_s=None)
    shown = lines_of(invoke("bench show")[1])
    assert "Unfinished: `grampus bench run made-layers --scale tiny --resume` resumes it." in shown


@pytest.mark.parametrize(
    ("source", "experiment", "heading", "line"),
    [
        (
            "intel-optane",
            "throughput-overview",
            "PUBLISHED OF FIGURE OF THE FIRST X",
            "qps pattern 100% write 504,000 qps 0.213",
        ),
        (
            "redhat-hci-2",
            "mix-media",
            "PUBLISHED OF FIGURE",
            "latency-avg media hdd over nvme up to 46 times",
        ),
    ],
)
def test_the_source_s_figures_stand_beside_ours(
    home: Path, source: str, experiment: str, heading: str, line: str
) -> None:
    keep(
        home,
        text=made_text(name=f"{source}-{experiment}", source=source, experiment=experiment),
    )
    shown = lines_of(invoke("bench show")[1])
    assert any("compare their ratios and shapes with ours" in one for one in shown)
    assert heading in shown
    assert line in shown
    document = json.loads(invoke("bench show --format json")[1])["source"]
    assert (document["name"], document["experiment"]) == (source, experiment)


def test_two_runs_are_compared_cell_by_cell(home: Path) -> None:
    keep(home)
    keep(home, "20260302-140509-made-layers-tiny", seen=lambda cell, number: _figures(150, number))
    code, shown, _ = invoke(f"bench compare {RUN_ID} latest --format json")
    assert code == 0
    document = json.loads(shown)
    first = document["results"][0]
    assert first["ratio"] == pytest.approx(1.5)
    assert first["ratio_low"] < 1.5 < first["ratio_high"]
    (bound,) = [row for row in document["results"] if row["ratio"] is None]
    assert bound["reason"] == "In the first run the load generator was the limit."
    code, shown, _ = invoke(f"bench compare {RUN_ID} latest")
    assert code == 0
    assert "threads 1, media hdd 102 153 1.50 1.47 to 1.53" in " ".join(lines_of(shown))
    assert "not interleaved" in shown


@pytest.mark.parametrize("other", ["20260302-140509-paths-tiny", "20260302-140509-made-other-tiny"])
def test_runs_of_different_suites_are_not_compared(home: Path, other: str) -> None:
    keep(home)
    RunArchive(home / "runs").save(made_paths_run("20260302-140509-paths-tiny"))
    keep(home, "20260302-140509-made-other-tiny", text=made_text(name="made-other"))
    code, _, errors = invoke(f"bench compare {RUN_ID} {other}")
    assert code == 2
    assert "they have nothing in common" in errors


def test_a_page_of_such_a_run_is_made(home: Path) -> None:
    archive, run = keep(home)
    code, shown, _ = invoke("report build latest --format json")
    assert code == 0
    document = json.loads(shown)
    page = archive.run_dir(run.run_id) / "report.html"
    assert (document["run_id"], document["report"]) == (run.run_id, str(page))
    html = page.read_text(encoding="utf-8")
    assert document["size_bytes"] == len(html.encode())
    assert "Flash is faster." in html
    assert "An OSD was down." in html
    assert "It used all of its cores." in html
    assert lines_of(invoke("bench show")[1])[-1] == f"Report: {page}"


def test_a_page_of_an_unfinished_run_says_so(home: Path, tmp_path: Path) -> None:
    keep(home, seen=lambda cell, number: None, ended_at_s=None)
    file = tmp_path / "page.html"
    code, shown, _ = invoke(f"report build latest --output {file}")
    assert (code, shown) == (0, f"The report is at {file}.\n")
    assert "The run is unfinished: 0 of 12 trials were made." in file.read_text(encoding="utf-8")


def test_a_broken_run_is_explained(home: Path) -> None:
    archive, run = keep(home)
    file = archive.run_dir(run.run_id) / "run.json"
    file.write_text(file.read_text().replace('"seed": 1', '"seed": "x"'))
    code, _, errors = invoke("bench show")
    assert code == 1
    assert "cannot be read: seed" in errors


def test_the_latest_run_is_the_newest_of_all_kinds(home: Path) -> None:
    keep(home)
    RunArchive(home / "runs").save(made_paths_run("20260302-140509-paths-tiny"))
    assert json.loads(invoke("bench show --format json")[1])["kind"] == "paths"
    assert json.loads(invoke(f"bench show {RUN_ID} --format json")[1])["kind"] == "matrix"
    code, _, errors = invoke("bench show 20260301-140509-made-layers-tyni")
    assert code == 3
    assert f"Did you mean '{RUN_ID}'?" in errors


def test_a_run_that_ended_says_where_its_page_is(home: Path, capsys: Captured) -> None:
    archive, run = keep(home)
    write_matrix_page(run, archive)
    show_matrix(run, archive, OutputFormat.HUMAN)
    page = archive.run_dir(run.run_id) / "report.html"
    assert f"Report:   {page}" in capsys.readouterr().out
    assert "<html" in page.read_text(encoding="utf-8")
