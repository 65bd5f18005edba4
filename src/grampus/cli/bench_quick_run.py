"""`grampus bench run quick`."""

from __future__ import annotations

from grampus.bench.quick_plan import BenchOptions
from grampus.bench.quick_runner import BenchRunner
from grampus.bench.quick_suite import Suite
from grampus.cli.bench import report_file, show_run
from grampus.cli.composition.bench import DatabaseFacts, LabDevices
from grampus.cli.composition.bench_files import run_archive
from grampus.cli.composition.session import Session
from grampus.cli.options import FormatOption
from grampus.cli.output import make_output
from grampus.report.build import build_report


def run_quick(
    session: Session,
    suite: Suite,
    db: str,
    options: BenchOptions,
    *,
    dry_run: bool,
    output_format: FormatOption,
) -> None:
    """Run the suite on the database, write its report, and show it."""
    output = make_output(output_format)
    with session.sharing_lab(), session.progress:
        runner = BenchRunner(
            home=session.home,
            lab=session.lab_name,
            fleet=session.fleet(),
            databases=session.databases(),
            devices=LabDevices(session),
            facts=DatabaseFacts(session, db),
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
            run_archive(session.home), run.run_id, report_file(run_archive(session.home), run)
        )
    show_run(output, output_format, run, run_archive(session.home), report)
