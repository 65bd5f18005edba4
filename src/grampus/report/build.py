"""An archived run becomes one HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from grampus.core.errors import GrampusError
from grampus.report.comparison import ARMS
from grampus.report.matrix.findings import parse_findings
from grampus.report.matrix.page import Detail, describe_matrix_page
from grampus.report.page import Samples, describe_page
from grampus.report.paths_page import describe_paths_page
from grampus.report.render import render_matrix_page, render_page, render_paths_page
from grampus.state.matrix_runs import MatrixRun, Trial
from grampus.state.result_files import write_result
from grampus.state.runs import (
    PATHS_SCHEMA_VERSION,
    RUN_SCHEMA_VERSION,
    PathsRun,
    ResourceSample,
    Run,
    RunArchive,
)

MAX_REPORT_BYTES = 2_000_000
# Points a line, tried in this order until the report fits: the charts are about 600 pixels wide.
POINTS_A_LINE = (600, 300, 150, 60)
# The same for runs of matrix suites, whose drawings are many and small.
DETAILS = (
    Detail(points_a_round=60, charts=24),
    Detail(points_a_round=30, charts=16),
    Detail(points_a_round=15, charts=8),
    Detail(points_a_round=6, charts=4),
)


def build_report(archive: RunArchive, run_id: str, output: Path) -> Path:
    """Write the report of the run `run_id` (or `latest`) to `output`, and return `output`.

    Raises NotFoundError when there is no such run, GrampusError when its files cannot be read
    or `output` cannot be written.
    """
    run = _load_run(archive, run_id)
    if isinstance(run, PathsRun):
        html = render_paths_page(describe_paths_page(run))
    else:
        html = render_run(run, _load_samples(archive, run), _load_resources(archive, run))
    return _write(html, output)


def build_matrix_report(
    run: MatrixRun, trials: Sequence[Trial], findings: Mapping[str, Any], output: Path
) -> Path:
    """Write the report of a run of a matrix suite to `output`, and return `output`.

    `findings` is the document of `grampus bench show`: what follows from `trials`. Raises
    GrampusError when it cannot be read, the report would be too large, or `output` cannot be
    written.
    """
    return _write(render_matrix_run(run, trials, findings), output)


def render_matrix_run(run: MatrixRun, trials: Sequence[Trial], findings: Mapping[str, Any]) -> str:
    """The HTML of `run`, below MAX_REPORT_BYTES bytes.

    Raises GrampusError with code `findings-unreadable` for findings that are none, and
    `report-too-large` when even coarse drawings do not fit.
    """
    found = parse_findings(findings)
    for detail in DETAILS:
        html = render_matrix_page(describe_matrix_page(run, trials, found, detail))
        if len(html.encode()) < MAX_REPORT_BYTES:
            return html
    raise GrampusError(
        f"The report of run {run.run_id} would be larger than {MAX_REPORT_BYTES:,} bytes.",
        "Make several suites of it; `grampus bench show --format json` has everything of this run.",
        code="report-too-large",
    )


def _write(html: str, output: Path) -> Path:
    write_result(output, html, code="report-unwritable")
    return output


def render_run(run: Run, samples: Samples, resources: list[ResourceSample]) -> str:
    """The HTML of `run`, below MAX_REPORT_BYTES bytes.

    Raises GrampusError with code `report-too-large` when even coarse lines do not fit.
    """
    for max_points in POINTS_A_LINE:
        html = render_page(describe_page(run, samples, resources, max_points=max_points))
        if len(html.encode()) < MAX_REPORT_BYTES:
            return html
    raise GrampusError(
        f"The report of run {run.run_id} would be larger than {MAX_REPORT_BYTES:,} bytes.",
        "Run fewer workloads in one suite, or record fewer settings of the environment.",
        code="report-too-large",
    )


def _load_run(archive: RunArchive, run_id: str) -> Run | PathsRun:
    known_id = archive.resolve(run_id)
    try:
        run = archive.load(known_id)
    except (OSError, ValueError) as error:
        raise _unreadable(known_id, "run.json", error) from error
    known = PATHS_SCHEMA_VERSION if isinstance(run, PathsRun) else RUN_SCHEMA_VERSION
    if run.schema_version != known:
        raise GrampusError(
            f"Run {known_id} was archived with schema {run.schema_version}, "
            f"and this version of Grampus reads schema {known}.",
            "Build the report with the version of Grampus that ran the benchmark.",
            code="run-unreadable",
        )
    if run.run_id != known_id:
        raise GrampusError(
            f"The directory {known_id} holds the run {run.run_id}.",
            "Give the directory the name of its run again.",
            code="run-unreadable",
        )
    return run


def _load_samples(archive: RunArchive, run: Run) -> Samples:
    loaded = {}
    for workload in run.workloads:
        arms = {}
        for arm in ARMS:
            try:
                arms[arm] = archive.load_samples(run.run_id, workload.name, arm)
            except (OSError, ValueError) as error:
                file = f"samples/{workload.name}.{arm}.jsonl"
                raise _unreadable(run.run_id, file, error) from error
        loaded[workload.name] = arms
    return loaded


def _load_resources(archive: RunArchive, run: Run) -> list[ResourceSample]:
    try:
        return archive.load_resources(run.run_id)
    except (OSError, ValueError) as error:
        raise _unreadable(run.run_id, "resources.jsonl", error) from error


def _unreadable(run_id: str, file: str, error: Exception) -> GrampusError:
    return GrampusError(
        f"The file {file} of run {run_id} cannot be read: {_reason(error)}.",
        "Restore it from a copy, or run the benchmark again.",
        code="run-unreadable",
    )


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return f"{where}: {first['msg']}" if where else first["msg"]
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return "it is not UTF-8 text"
