"""`grampus bench run paths`, and what is shown of its runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grampus.bench.paths.costs import OsdWrites, parse_osd_writes
from grampus.bench.paths.documents import (
    compare_paths_document,
    paths_document,
)
from grampus.bench.paths.plan import PathsOptions, describe_steps
from grampus.bench.paths.ports import PathsPorts
from grampus.bench.paths.runner import PathsRunner
from grampus.bench.paths.suite import PathsSuite
from grampus.cli.bench_paths_tables import (
    TABLES,
    TARGET_HEADINGS,
    target_row,
    throughput_table,
    unmeasured_targets,
)
from grampus.cli.bench_tables import format_times, show_comparison
from grampus.cli.composition.bench import describe_lab, run_archive
from grampus.cli.composition.session import LabImages, Session, volumed_program
from grampus.cli.options import FORMAT_DEFAULT, FormatOption
from grampus.cli.output import Output, make_output, show_plan
from grampus.core.errors import GrampusError
from grampus.lab.model import DATABASE_POOL
from grampus.report.build import build_report
from grampus.state.runs import PathsRun, RunArchive, Setting
from grampus.volumes.drivers.volumed import VolumedProgram


class LabPathsCluster:
    """The lab's cluster; a `ClusterPort` of the suite."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def volume_pool(self) -> str:
        return DATABASE_POOL

    def client_keyring(self, user: str) -> str:
        return self._session.cluster().ceph("auth", "get", f"client.{user}").stdout

    def facts(self) -> list[Setting]:
        return describe_lab(self._session, DATABASE_POOL, {})

    def observe_writes(self) -> OsdWrites:
        cluster = self._session.cluster()
        found: dict[int, int] = {}
        try:
            for osd in cluster.query("osd", "ls"):
                answer = cluster.query("tell", f"osd.{osd}", "perf", "dump", "osd")
                writes = parse_osd_writes(answer)
                if writes is not None:
                    found[int(osd)] = writes
        except GrampusError:
            # An OSD that is down now: a sum without it would be no count.
            return {}
        return found


def run_paths(
    session: Session,
    suite: PathsSuite,
    options: PathsOptions,
    *,
    dry_run: bool,
    output_format: FormatOption,
) -> None:
    """Run the suite, write its report, and show it."""
    spec = session.require_lab()
    runner = PathsRunner(
        PathsPorts(
            home=session.home,
            lab=session.lab_name,
            tag=spec.tag,
            store=session.store,
            fleet=session.fleet(),
            volumes=session.volumes(),
            cluster=LabPathsCluster(session),
            images=LabImages(session.images, spec, session.progress),
            program=VolumedProgram(volumed_program()),
            clock=session.clock,
            progress=session.progress,
        )
    )
    if dry_run:
        show_plan(output_format, describe_steps(runner.plan(suite, options)))
        return
    run = runner.run(suite, options)
    session.progress.phase("Write the report")
    file = run_archive(session).run_dir(run.run_id) / "report.html"
    build_report(run_archive(session), run.run_id, file)
    session.progress.close()
    show_paths(make_output(output_format), output_format, run, run_archive(session), file)


def show_paths(
    output: Output,
    output_format: FormatOption,
    run: PathsRun,
    archive: RunArchive,
    report: Path,
) -> None:
    """One run: throughput of every way, and the targets."""
    document = paths_document(run, archive)
    document["report"] = str(report) if report.exists() else None
    if output_format is not FORMAT_DEFAULT:
        output.text(document, "")
        return
    for title, columns in TABLES:
        show_table(output, run, title, columns)
    output.table(
        None,
        TARGET_HEADINGS,
        [target_row(target) for target in run.targets if target.value is not None],
        "No target was measured.",
    )
    unmeasured = len(unmeasured_targets(run))
    lines = ["", *(f"Note: {warning}" for warning in run.warnings)]
    if unmeasured:
        lines.append(f"Note: {unmeasured} targets were not measured; --format json names them.")
    lines.append(f"Raw data: {archive.run_dir(run.run_id)}")
    if report.exists():
        lines.append(f"Report:   {report}")
    output.text(None, "\n".join(lines))


def show_table(output: Output, run: PathsRun, title: str, columns: dict[str, str]) -> None:
    """The throughput of the arms in `columns`, a line a measure; nothing when there is none."""
    headings, rows = throughput_table(run, title, columns)
    if rows:
        output.table(None, headings, rows, "")
        output.text(None, "")


def compare_paths(
    output: Output, output_format: FormatOption, first: PathsRun, second: PathsRun
) -> None:
    """Two runs side by side: the second over the first."""
    document: dict[str, Any] = compare_paths_document(first, second)
    show_comparison(
        output,
        output_format,
        document,
        ["measure", "way", "first", "second", "throughput x", "latency x"],
        [
            [
                row["measure"],
                row["arm"],
                f"{row['first']['throughput']:,.0f}",
                f"{row['second']['throughput']:,.0f}",
                format_times(row["throughput_ratio"]),
                format_times(row["latency_avg_ratio"]),
            ]
            for row in document["results"]
        ],
        "The two runs have no point in common.",
    )
