"""`grampus bench export`: a run in a form to be taken elsewhere."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from grampus.bench.catalog import load_catalog
from grampus.bench.findings.documents import matrix_document
from grampus.bench.findings.trial_rows import render_csv, trial_rows
from grampus.bench.matrix.loading import parse_matrix_suite
from grampus.bench.paths.documents import sample_rows
from grampus.cli.app import command
from grampus.cli.bench import RunArgument, bench_app, load_run
from grampus.cli.bench_markdown import render_markdown
from grampus.cli.bench_paths_markdown import render_paths_markdown
from grampus.cli.composition.bench_files import CATALOG, matrix_archive
from grampus.cli.options import FORMAT_DEFAULT, FormatOption
from grampus.cli.output import make_output
from grampus.core.errors import UsageError
from grampus.state.home import Home
from grampus.state.matrix_archive import MatrixArchive
from grampus.state.matrix_runs import MatrixRun
from grampus.state.result_files import require_writable, write_result
from grampus.state.runs import PathsRun


class ExportForm(StrEnum):
    """--as."""

    MARKDOWN = "markdown"
    CSV = "csv"


@command(bench_app, "export", "grampus bench export latest --as csv --output trials.csv")
def bench_export(
    run_id: RunArgument = "latest",
    form: Annotated[
        ExportForm,
        typer.Option(
            "--as",
            help="markdown: a page of the findings; csv: a row for each trial, or each sample.",
        ),
    ] = ExportForm.MARKDOWN,
    output_file: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write it, instead of here."),
    ] = None,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """A run of a published experiment or of `paths` as a page of Markdown, or as CSV."""
    home = Home.from_environment()
    run = load_run(home, run_id)
    if not isinstance(run, MatrixRun | PathsRun):
        raise UsageError(
            f"{run.run_id} is a run of {run.suite}, which has neither cells nor ways to compare.",
            f"`grampus bench show {run.run_id} --format json` has everything of it.",
        )
    target = (
        None
        if output_file is None
        else require_writable(Path(output_file).absolute(), example="findings.md")
    )
    if isinstance(run, PathsRun):
        text = _render_paths(run, form)
    else:
        text = _render(run, matrix_archive(home), form)
    if target is None and output_format is FORMAT_DEFAULT:
        # As it is: a console would wrap lines, and take what is in brackets for its own.
        sys.stdout.write(text)
        return
    document = {"run_id": run.run_id, "form": form.value}
    if target is None:
        make_output(output_format).text({**document, "text": text}, "")
        return
    write_result(target, text)
    make_output(output_format).text({**document, "file": str(target)}, f"Written to {target}.")


def _render(run: MatrixRun, archive: MatrixArchive, form: ExportForm) -> str:
    trials = archive.trials(run.run_id)
    if form is ExportForm.CSV:
        return render_csv(trial_rows(run, trials))
    suite = parse_matrix_suite(run.suite_text, source=f"the suite of the run {run.run_id}")
    directory = str(archive.run_dir(run.run_id))
    return render_markdown(matrix_document(run, suite, trials, load_catalog(CATALOG), directory))


def _render_paths(run: PathsRun, form: ExportForm) -> str:
    if form is ExportForm.CSV:
        return render_csv(sample_rows(run))
    return render_paths_markdown(run)
