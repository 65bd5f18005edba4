"""`grampus bench` and `grampus report`: runs, and what they say."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from grampus.bench.documents import compare_document, show_document
from grampus.bench.paths.plan import PathsOptions
from grampus.bench.paths.suite import PathsSuite
from grampus.bench.plan import BenchOptions
from grampus.bench.runner import BenchRunner
from grampus.bench.suite import Suite, list_suites, load_suite
from grampus.cli.app import command, make_noun
from grampus.cli.bench_paths import compare_paths, run_paths, show_paths
from grampus.cli.bench_tables import format_times, show_comparison
from grampus.cli.composition.bench import SUITES, LabDevices, LabFacts, run_archive
from grampus.cli.composition.lab import LabSession
from grampus.cli.composition.session import Session
from grampus.cli.nouns import app
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
)
from grampus.cli.output import Output, make_output
from grampus.core.errors import GrampusError, NotFoundError, UsageError
from grampus.report.build import build_report
from grampus.state.runs import OltpResult, PathsRun, Run, RunArchive

bench_app = make_noun(
    "bench", "Measure databases and volumes, with what to compare them to.", under=app
)
report_app = make_noun("report", "Runs as pages to read and to pass on.", under=app)

NO_RUN = "There is no run yet."
MAKE_RUN = "`grampus bench run quick --db NAME` makes one."
RunArgument = Annotated[str, typer.Argument(help="A run's id, or latest.")]


@command(bench_app, "list", "grampus bench list")
def bench_list(output_format: FormatOption = FORMAT_DEFAULT) -> None:
    """Suites that can be run, and runs that are kept."""
    archive = run_archive(LabSession(LAB_DEFAULT))
    suites = list_suites(SUITES)
    runs = [_load(archive, run_id) for run_id in archive.run_ids()]
    output = make_output(output_format)
    document = {
        "suites": [{"name": suite.name, "title": suite.title} for suite in suites],
        "runs": [
            {
                "run_id": run.run_id,
                "suite": run.suite,
                "database": run.database if isinstance(run, Run) else None,
                "started_at_s": run.started_at_s,
            }
            for run in runs
        ],
    }
    output.table(document, ["suite", "title"], [[s.name, s.title] for s in suites], "No suite.")
    if output_format is FORMAT_DEFAULT:
        output.text(None, "")
        output.table(
            None,
            ["run", "suite", "database", "started (UTC)"],
            [[run.run_id, run.suite, _subject(run), _utc(run.started_at_s)] for run in runs],
            f"{NO_RUN} {MAKE_RUN}",
        )


@command(bench_app, "run", "grampus bench run quick --db demo")
def bench_run(
    suite: Annotated[str, typer.Argument(help="A suite: quick or paths (see bench list).")],
    db: Annotated[
        str | None, typer.Option("--db", metavar="NAME", help="quick: the database to measure.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(metavar="N", help="quick: client threads (default: the suite's).")
    ] = None,
    warmup_s: Annotated[
        int | None,
        typer.Option(
            metavar="SECONDS", help="quick: warm-up of each point (default: the suite's)."
        ),
    ] = None,
    measure_s: Annotated[
        int | None,
        typer.Option(
            metavar="SECONDS", help="quick: measuring time of each point (default: the suite's)."
        ),
    ] = None,
    fresh_data: Annotated[
        bool, typer.Option("--fresh-data", metavar="", help="quick: load the data set anew.")
    ] = False,
    scale: Annotated[
        str | None,
        typer.Option(
            metavar="tiny|small|full|sustained",
            help="paths: 10 minutes, half an hour, 100 minutes, or 100 minutes of writes "
            "alone (default: tiny).",
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="paths: where to measure (default: the first host)."),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(metavar="N", help="paths: how often all is measured (default: the scale's)."),
    ] = None,
    measures: Annotated[
        str | None,
        typer.Option(metavar="PATTERNS", help="paths: only measures such as '16k-*,update-index'."),
    ] = None,
    arms: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERNS",
            help="paths: only ways such as 'direct,journal,cache,local', the write paths.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="paths: decides orders and offsets (default: the time)."),
    ] = None,
    keep_data: Annotated[
        bool,
        typer.Option("--keep-data", metavar="", help="paths: leave the volume until the next run."),
    ] = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Run a suite: a database against this machine's own disk, or the ways to a volume."""
    session = Session(lab)
    chosen = load_suite(SUITES, suite)
    if isinstance(chosen, PathsSuite):
        _require_unused(
            suite,
            {
                "--db": db,
                "--threads": threads,
                "--warmup-s": warmup_s,
                "--measure-s": measure_s,
                "--fresh-data": fresh_data or None,
            },
        )
        asked = PathsOptions(
            scale=scale or "tiny",
            host=host,
            rounds=rounds,
            measures=measures,
            arms=arms,
            seed=seed,
            keep_data=keep_data,
        )
        with session.sharing_lab(), session.progress:
            run_paths(session, chosen, asked, dry_run=dry_run, output_format=output_format)
        return
    _require_unused(
        suite,
        {
            "--scale": scale,
            "--host": host,
            "--rounds": rounds,
            "--measures": measures,
            "--arms": arms,
            "--seed": seed,
            "--keep-data": keep_data or None,
        },
    )
    if db is None:
        raise UsageError(
            f"The suite {suite} measures a database, and none is named.", "Add --db NAME."
        )
    options = BenchOptions(
        threads=threads, warmup_s=warmup_s, measure_s=measure_s, fresh_data=fresh_data
    )
    _run_oltp(session, chosen, db, options, dry_run=dry_run, output_format=output_format)


def _run_oltp(
    session: Session,
    suite: Suite,
    db: str,
    options: BenchOptions,
    *,
    dry_run: bool,
    output_format: FormatOption,
) -> None:
    output = make_output(output_format)
    with session.sharing_lab(), session.progress:
        session.require_lab()
        runner = BenchRunner(
            home=session.home,
            lab=session.lab_name,
            fleet=session.fleet(),
            databases=session.databases(),
            devices=LabDevices(session),
            facts=LabFacts(session, db),
            clock=session.clock,
            progress=session.progress,
        )
        if dry_run:
            plan = runner.plan(suite, db, options)
            titles = [f"{cell.workload.title} on {cell.arm}" for cell in plan.cells]
            output.text({"plan": titles}, "\n".join(titles))
            return
        run = runner.run(suite, db, options)
        session.progress.phase("Write the report")
        report = build_report(
            run_archive(session), run.run_id, _report_file(run_archive(session), run)
        )
    _show(output, output_format, run, run_archive(session), report)


def _require_unused(suite: str, options: dict[str, object]) -> None:
    for name, value in options.items():
        if value is not None:
            raise UsageError(
                f"{name} has no meaning for the suite {suite}.",
                "Leave it out; `grampus bench run --help` says which option is for which suite.",
            )


@command(bench_app, "show", "grampus bench show latest --format json")
def bench_show(
    run_id: RunArgument = "latest", output_format: FormatOption = FORMAT_DEFAULT
) -> None:
    """The result of a run."""
    archive = run_archive(LabSession(LAB_DEFAULT))
    run = _load(archive, run_id)
    report, output = _report_file(archive, run), make_output(output_format)
    if isinstance(run, PathsRun):
        show_paths(output, output_format, run, archive, report)
    else:
        _show(output, output_format, run, archive, report)


@command(bench_app, "compare", "grampus bench compare RUN1 latest")
def bench_compare(
    first: RunArgument,
    second: RunArgument = "latest",
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Two runs side by side: the second over the first."""
    archive = run_archive(LabSession(LAB_DEFAULT))
    before, after = _load(archive, first), _load(archive, second)
    output = make_output(output_format)
    if isinstance(before, PathsRun) and isinstance(after, PathsRun):
        compare_paths(output, output_format, before, after)
        return
    if isinstance(before, PathsRun) or isinstance(after, PathsRun):
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
    archive = run_archive(LabSession(LAB_DEFAULT))
    run = _load(archive, run_id)
    target = Path(output_file).absolute() if output_file else _report_file(archive, run)
    if target.is_dir():
        raise UsageError(f"{target} is a directory.", "Name a file, such as report.html.")
    if not os.access(target.parent, os.W_OK):
        raise UsageError(f"{target.parent} cannot be written to.", "Name another place.")
    build_report(archive, run.run_id, target)
    make_output(output_format).text(
        {"run_id": run.run_id, "report": str(target), "size_bytes": target.stat().st_size},
        f"The report is at {target}.",
    )


def _load(archive: RunArchive, run_id: str) -> Run | PathsRun:
    """The run.

    Raises NotFoundError, which says how to make the first one, and GrampusError with code
    `run-unreadable`.
    """
    if not archive.run_ids():
        raise NotFoundError(NO_RUN, MAKE_RUN)
    try:
        return archive.load(run_id)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "its text"
        raise GrampusError(
            f"The run in {archive.run_dir(archive.resolve(run_id))} cannot be read: "
            f"{place}: {first['msg']}.",
            "Read it with the version of Grampus that wrote it, or move that directory away.",
            code="run-unreadable",
        ) from error


def _show(
    output: Output, output_format: FormatOption, run: Run, archive: RunArchive, report: Path
) -> None:
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
        f"{result.latency_p99_ms:,.2f}",
    ]


def _share(ceph: OltpResult, local: OltpResult) -> str:
    return format_times(ceph.tps / local.tps if local.tps else None)


def _report_file(archive: RunArchive, run: Run | PathsRun) -> Path:
    return archive.run_dir(run.run_id) / "report.html"


def _subject(run: Run | PathsRun) -> str:
    return run.database if isinstance(run, Run) else f"(scale {run.scale})"


def _utc(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(sep=" ", timespec="seconds")[:19]
