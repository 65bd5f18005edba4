from __future__ import annotations

import re
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, NotFoundError
from grampus.report.build import MAX_REPORT_BYTES, build_report, render_run
from grampus.state.runs import RunArchive, Setting

from .made_runs import Shape, made_run

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&{{ 7*7 }}"


def test_a_report_is_written_and_small(tmp_path: Path):
    archive = made_run().archive_in(tmp_path / "runs")
    output = tmp_path / "new" / "report.html"
    assert build_report(archive, "latest", output) == output
    html = output.read_text(encoding="utf-8")
    assert html.startswith("<!doctype html>")
    assert "Ceph delivers 20% of the local disk&#39;s transactions" in html
    assert len(html.encode()) < 600_000
    assert str(tmp_path) not in html
    assert output.stat().st_mode & 0o777 == 0o644


def test_a_report_loads_nothing(tmp_path: Path):
    made = made_run()
    html = render_run(made.run, made.samples, made.resources)
    assert re.findall(r"<(?:script|img|link|iframe|object|embed)\b[^>]*>", html) == [
        '<link rel="icon" href="data:,">',
        '<script type="application/json" id="report-data">',
        "<script>",
        "<script>",
    ]
    assert "@import" not in html
    assert "url(" not in html
    assert "default-src &#39;none&#39;" in html


def test_hostile_names_stay_text(tmp_path: Path):
    shape = Shape(f"w{HOSTILE}", HOSTILE, 1, 2, 1, 3, 4, 0.5)
    made = made_run(shapes=[shape], daemons=[f"osd-0{HOSTILE}", HOSTILE], warnings=[HOSTILE])
    run = made.run.model_copy(
        update={
            "suite": HOSTILE,
            "database": HOSTILE,
            "environment": (Setting(group=HOSTILE, name=HOSTILE, value=HOSTILE),),
        }
    )
    html = render_run(run, made.samples, made.resources)
    assert "<img" not in html
    assert html.count("</script>") == 3
    assert "49" not in re.findall(r"&amp;(\S+)", html)
    assert "&lt;img src=x onerror=alert(1)&gt;" in html


def test_tables_say_what_their_headers_head():
    made = made_run()
    html = render_run(made.run, made.samples, made.resources)
    headers = re.findall(r"<th\b[^>]*>", html)
    assert headers
    assert not [header for header in headers if "scope=" not in header]
    plots = re.findall(r'<div class="plot"[^>]*>', html)
    assert len(plots) == 12
    assert not [plot for plot in plots if 'role="img" aria-label="' not in plot]


def test_long_runs_of_many_daemons_stay_small():
    made = made_run(measure_s=100, daemons=[f"osd-{number}@h{number}" for number in range(24)])
    assert len(render_run(made.run, made.samples, made.resources).encode()) < 600_000


def test_lines_get_coarser_until_the_report_fits():
    made = made_run(shapes=[Shape("w", "W", 4711.5, 23845.5, 1, 3.4, 0.62, 0.0)], measure_s=595)
    (workload,) = made.run.workloads
    many = tuple(workload.model_copy(update={"name": f"w-{number}"}) for number in range(120))
    run = made.run.model_copy(update={"workloads": many})
    samples = {one.name: made.samples["w"] for one in many}
    html = render_run(run, samples, [])
    assert 600_000 < len(html.encode()) < MAX_REPORT_BYTES
    assert "One point is the mean of up to" in html


def test_a_report_that_cannot_fit_is_refused():
    made = made_run()
    endless = (Setting(group="Machine", name="CPU", value="x" * MAX_REPORT_BYTES),)
    run = made.run.model_copy(update={"environment": endless})
    with pytest.raises(GrampusError, match="larger than 2,000,000 bytes") as refused:
        render_run(run, made.samples, made.resources)
    assert refused.value.code == "report-too-large"


def test_a_run_without_samples_has_a_report(tmp_path: Path):
    archive = RunArchive(tmp_path / "runs")
    archive.save(made_run().run)
    html = build_report(archive, "latest", tmp_path / "report.html").read_text()
    assert html.count("No samples were kept.") == 6
    assert "No samples of resource use were kept." in html


def test_an_unknown_run_is_not_found(tmp_path: Path):
    archive = made_run().archive_in(tmp_path / "runs")
    with pytest.raises(NotFoundError, match="There is no run named 'nope'"):
        build_report(archive, "nope", tmp_path / "report.html")
    with pytest.raises(NotFoundError):
        build_report(RunArchive(tmp_path / "empty"), "latest", tmp_path / "report.html")


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("run.json", b"{", "The file run.json of run .* cannot be read: "),
        ("run.json", b'{"run_id": 5}', "The file run.json of run .* cannot be read: "),
        ("samples/read-write.local.jsonl", b'{"at_s": 1', "The file samples/read-write.local"),
        ("samples/read-write.local.jsonl", b"\xff\xfe\n", "cannot be read: it is not UTF-8 text"),
        ("resources.jsonl", b'{"at_s": 1.0}\n', "resources.jsonl of run .* cannot be read: kind"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, file: str, content: bytes, sentence: str):
    made = made_run()
    archive = made.archive_in(tmp_path / "runs")
    (archive.run_dir(made.run.run_id) / file).write_bytes(content)
    with pytest.raises(GrampusError, match=sentence) as failed:
        build_report(archive, "latest", tmp_path / "report.html")
    assert failed.value.code == "run-unreadable"
    assert failed.value.remedy
    assert not (tmp_path / "report.html").exists()


def test_a_run_of_another_schema_is_refused(tmp_path: Path):
    archive = RunArchive(tmp_path / "runs")
    archive.save(made_run().run.model_copy(update={"schema_version": 99}))
    with pytest.raises(GrampusError, match="archived with schema 99"):
        build_report(archive, "latest", tmp_path / "report.html")


def test_a_run_in_another_runs_directory_is_refused(tmp_path: Path):
    archive = made_run(run_id="first").archive_in(tmp_path / "runs")
    archive.run_dir("first").rename(archive.run_dir("second"))
    with pytest.raises(GrampusError, match="The directory second holds the run first"):
        build_report(archive, "second", tmp_path / "report.html")


def test_an_output_that_cannot_be_written_is_named(tmp_path: Path):
    archive = made_run().archive_in(tmp_path / "runs")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(GrampusError, match="cannot be written to") as failed:
        build_report(archive, "latest", tmp_path / "file" / "report.html")
    assert failed.value.code == "report-unwritable"
    with pytest.raises(GrampusError, match="cannot be written to"):
        build_report(archive, "latest", tmp_path)
