"""`grampus bench` and `grampus report`: runs, and what they say."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from grampus.bench.quick_documents import compare_document, show_document
from grampus.bench.quick_suite import list_suites
from grampus.cli.app import command, make_noun
from grampus.cli.bench_matrix import (
    REPORT_FILE,
    build_matrix_page,
    compare_matrices,
    list_matrix_suites,
    show_matrix,
)
from grampus.cli.bench_paths import compare_paths, show_paths
from grampus.cli.bench_tables import format_times, show_comparison
from grampus.cli.composition.bench_files import SUITES, matrix_archive, run_archive
from grampus.cli.nouns import app
from grampus.cli.options import (
    FORMAT_DEFAULT,
    FormatOption,
)
from grampus.cli.output import Output, make_output
from grampus.core.errors import GrampusError, NotFoundError, UsageError, not_found
from grampus.report.build import build_report
from grampus.state.home import Home
from grampus.state.matrix_runs import MatrixRun
from grampus.state.result_files import require_writable
from grampus.state.runs import OltpResult, PathsRun, Run, RunArchive

bench_app = make_noun(
    "bench",
    "Benchmark databases and volumes, side by side with a baseline.",
    under=app,
    modules={
        "list": "grampus.cli.bench",
        "run": "grampus.cli.bench_run",
        "tidy": "grampus.cli.bench_own",
        "show": "grampus.cli.bench",
        "compare": "grampus.cli.bench",
        "export": "grampus.cli.bench_export",
    },
)
report_app = make_noun("report", "Build HTML reports of benchmark runs.", under=app)

NO_RUN = "There is no run yet."
MAKE_RUN = "`grampus bench run quick --db NAME` makes one."
# What a suite that is no matrix does not have.
_NO_MATRIX: Mapping[str, Any] = {
    "name": None,
    "title": None,
    "source": None,
    "experiment": None,
    "dimensions": None,
    "scales": None,
}
RunArgument = Annotated[str, typer.Argument(help="A run's id, or latest.")]


@command(bench_app, "list", "grampus bench list")
def bench_list(output_format: FormatOption = FORMAT_DEFAULT) -> None:
    """Suites that can be run, and runs that are kept."""
    home = Home.from_environment()
    suites = [
        {**_NO_MATRIX, "name": suite.name, "title": suite.title} for suite in list_suites(SUITES)
    ] + list_matrix_suites()
    runs = [load_run(home, run_id) for run_id in _run_ids(home)]
    output = make_output(output_format)
    document = {
        "suites": suites,
        "runs": [
            {
                "run_id": run.run_id,
                "suite": run.suite,
                "kind": run.kind,
                "database": run.database if isinstance(run, Run) else None,
                "scale": None if isinstance(run, Run) else run.scale,
                "started_at_s": run.started_at_s,
                "finished": not isinstance(run, MatrixRun) or run.ended_at_s is not None,
            }
            for run in runs
        ],
    }
    output.table(
        document,
        ["suite", "source", "title", "tiny (min)"],
        [
            [one["name"], one["source"] or "-", one["title"], _tiny_minutes(one["scales"])]
            for one in suites
        ],
        "No suite.",
    )
    if output_format is FORMAT_DEFAULT:
        output.text(None, "")
        output.table(
            None,
            ["run", "suite", "database", "started (UTC)"],
            [[run.run_id, run.suite, _subject(run), _utc(run.started_at_s)] for run in runs],
            f"{NO_RUN} {MAKE_RUN}",
        )


@command(bench_app, "show", "grampus bench show latest --format json")
def bench_show(
    run_id: RunArgument = "latest", output_format: FormatOption = FORMAT_DEFAULT
) -> None:
    """The result of a run."""
    home = Home.from_environment()
    archive, run = run_archive(home), load_run(home, run_id)
    if isinstance(run, MatrixRun):
        show_matrix(run, matrix_archive(home), output_format)
        return
    report, output = report_file(archive, run), make_output(output_format)
    if isinstance(run, PathsRun):
        show_paths(output, output_format, run, archive, report)
    else:
        show_run(output, output_format, run, archive, report)


@command(bench_app, "compare", "grampus bench compare RUN1 latest")
def bench_compare(
    first: RunArgument,
    second: RunArgument = "latest",
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Two runs side by side: the second over the first."""
    home = Home.from_environment()
    before, after = load_run(home, first), load_run(home, second)
    output = make_output(output_format)
    if isinstance(before, MatrixRun) and isinstance(after, MatrixRun):
        compare_matrices(before, after, matrix_archive(home), output_format)
        return
    if isinstance(before, PathsRun) and isinstance(after, PathsRun):
        compare_paths(output, output_format, before, after)
        return
    if not isinstance(before, Run) or not isinstance(after, Run):
        raise UsageError(
            f"{before.run_id} is a run of {before.suite}, and {after.run_id} one of "
            f"{after.suite}: they have nothing in common.",
            "Compare two runs of the same suite; `grampus bench list` shows them.",
        )
    document = compare_document(before, after)
    show_comparison(
        output,
        output_format,
        document,
        ["workload", "arm", "first tps", "second tps", "tps x", "p99 x"],
        [
            [
                row["workload"],
                row["arm"],
                f"{row['first']['tps']:,.0f}",
                f"{row['second']['tps']:,.0f}",
                format_times(row["tps_ratio"]),
                format_times(row["latency_p99_ratio"]),
            ]
            for row in document["results"]
        ],
        "The two runs have no workload in common.",
    )


@command(report_app, "build", "grampus report build latest --output report.html")
def report_build(
    run_id: RunArgument = "latest",
    output_file: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write the page.")
    ] = None,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """One HTML file that opens offline."""
    home = Home.from_environment()
    archive, run = run_archive(home), load_run(home, run_id)
    target = Path(output_file).absolute() if output_file else report_file(archive, run)
    require_writable(target, example="report.html")
    if isinstance(run, MatrixRun):
        build_matrix_page(run, matrix_archive(home), target)
    else:
        build_report(archive, run.run_id, target)
    make_output(output_format).text(
        {"run_id": run.run_id, "report": str(target), "size_bytes": target.stat().st_size},
        f"The report is at {target}.",
    )


def _run_ids(home: Home) -> list[str]:
    """Runs of all kinds, oldest first."""
    return sorted([*run_archive(home).run_ids(), *matrix_archive(home).run_ids()])


def load_run(home: Home, run_id: str) -> Run | PathsRun | MatrixRun:
    """The run (of whatever kind), also `latest`.

    Raises NotFoundError, which says how to make the first one, and GrampusError with code
    `run-unreadable`.
    """
    known = _run_ids(home)
    if not known:
        raise NotFoundError(NO_RUN, MAKE_RUN)
    wanted = known[-1] if run_id == "latest" else run_id
    if wanted not in known:
        raise not_found("run", wanted, known, list_command="grampus bench list")
    archive, matrices = run_archive(home), matrix_archive(home)
    try:
        return matrices.load(wanted) if wanted in matrices.run_ids() else archive.load(wanted)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "its text"
        raise GrampusError(
            f"The run in {archive.run_dir(wanted)} cannot be read: {place}: {first['msg']}.",
            "Read it with the version of Grampus that wrote it, or move that directory away.",
            code="run-unreadable",
        ) from error


def show_run(
    output: Output, output_format: FormatOption, run: Run, archive: RunArchive, report: Path
) -> None:
    """A run of `quick`, for people or programs."""
    document = show_document(run, archive)
    document["report"] = str(report) if report.exists() else None
    rows = [
        row
        for workload in run.workloads
        for row in (
            [
                workload.title,
                "ceph",
                *_figures(workload.ceph),
                _share(workload.ceph, workload.local),
            ],
            ["", "local disk", *_figures(workload.local), ""],
        )
    ]
    output.table(
        document,
        ["workload", "on", "tps", "qps", "avg ms", "p99 ms", "ceph/local x"],
        rows,
        "The run holds no workload.",
    )
    if output_format is not FORMAT_DEFAULT:
        return
    lines = ["", *(f"Note: {warning}" for warning in run.warnings)]
    lines.append(f"Samples: {archive.run_dir(run.run_id)}")
    if report.exists():
        lines.append(f"Report:  {report}")
    output.text(None, "\n".join(lines))


def _figures(result: OltpResult) -> list[str]:
    return [
        f"{result.tps:,.0f}",
        f"{result.qps:,.0f}",
        f"{result.latency_avg_ms:,.2f}",
        "-" if result.shown_p99_ms is None else f"{result.shown_p99_ms:,.2f}",
    ]


def _share(ceph: OltpResult, local: OltpResult) -> str:
    return format_times(ceph.tps / local.tps if local.tps else None)


def report_file(archive: RunArchive, run: Run | PathsRun | MatrixRun) -> Path:
    """Where the page of a run is, once it is made."""
    return archive.run_dir(run.run_id) / REPORT_FILE


def _subject(run: Run | PathsRun | MatrixRun) -> str:
    if isinstance(run, Run):
        return run.database
    unfinished = isinstance(run, MatrixRun) and run.ended_at_s is None
    return f"(scale {run.scale}, unfinished)" if unfinished else f"(scale {run.scale})"


def _tiny_minutes(scales: Mapping[str, Any] | None) -> str:
    """What `tiny` takes, with the digits of all suites below each other."""
    return "" if scales is None else f"{scales['tiny']['estimated_s'] / 60:10.0f}"


def _utc(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(sep=" ", timespec="seconds")[:19]
