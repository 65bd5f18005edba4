"""What is shown of runs of `paths`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grampus.bench.paths.documents import (
    compare_paths_document,
    paths_document,
)
from grampus.cli.bench_paths_tables import (
    TABLES,
    TARGET_HEADINGS,
    target_row,
    throughput_table,
    unmeasured_targets,
)
from grampus.cli.bench_tables import format_times, show_comparison
from grampus.cli.options import FORMAT_DEFAULT, FormatOption
from grampus.cli.output import Output
from grampus.state.runs import PathsRun, RunArchive


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
