"""Runs of suites that are matrices: what is asked for, planned and carried out."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from grampus.bench.findings.enough import decide_enough
from grampus.bench.findings.looks import ROUNDS_BETWEEN_LOOKS
from grampus.bench.findings.rounds import distinct
from grampus.bench.matrix.expansion import environments
from grampus.bench.matrix.loading import parse_matrix_suite, read_matrix_suite
from grampus.bench.trials.budget import decide_all_s, describe_time
from grampus.bench.trials.matrix_runner import MatrixRunner, RunPorts
from grampus.bench.trials.place import CellPlace
from grampus.bench.trials.plan import cells_of, missing_trials, plan_run
from grampus.cli.bench_matrix import MatrixOptions, parse_scale, show_matrix, write_matrix_page
from grampus.cli.bench_own_options import OwnClusterOptions
from grampus.cli.composition.bench_files import matrix_archive
from grampus.cli.composition.matrix import LabPlace
from grampus.cli.composition.own_cluster import own_cluster_place
from grampus.cli.composition.session import Session
from grampus.cli.options import FORMAT_DEFAULT, FormatOption
from grampus.cli.output import make_output
from grampus.core.clock import Clock
from grampus.core.errors import NotFoundError, UsageError
from grampus.core.progress import Progress
from grampus.state.home import Home
from grampus.state.locks import hold_lock
from grampus.state.matrix_archive import MatrixArchive
from grampus.state.matrix_runs import MatrixRun


def run_matrix_suite(
    session: Session,
    file: Path,
    options: MatrixOptions,
    own: OwnClusterOptions | None,
    *,
    dry_run: bool,
    output_format: FormatOption,
) -> None:
    """Run the suite of the file in the lab or on an external cluster, and show it."""
    archive = matrix_archive(session.home)
    held = session.sharing_lab() if own is None else nullcontext()
    with held, session.progress:
        place = LabPlace(session) if own is None else own_cluster_place(session, own)
        if dry_run:
            plan = plan_matrix(place, archive, session.clock, session.progress, file, options)
            show_matrix_plan(plan, archive, output_format)
            return
        run = run_matrix(
            session.home, place, archive, session.clock, session.progress, file, options
        )
        session.progress.phase("Write the report")
        write_matrix_page(run, archive)
    show_matrix(run, archive, output_format)


def plan_matrix(
    place: CellPlace,
    archive: MatrixArchive,
    clock: Clock,
    progress: Progress,
    file: Path,
    options: MatrixOptions,
) -> MatrixRun:
    """The run that shall be carried out: a new one, or with `resume` the unfinished one.

    Changes nothing. Raises NotFoundError when there is nothing to go on with, UsageError for
    a file that is no suite and for options that the unfinished run has already.
    """
    # A suite has its file's name, and a run the file's text: to go on, no file need be there.
    unfinished = archive.latest_unfinished(file.stem, options.scale)
    if options.resume:
        return _resumed(unfinished, file.stem, options)
    suite, text = read_matrix_suite(file)
    if unfinished is not None:
        done = len(archive.trials(unfinished.run_id))
        progress.note(
            f"The run {unfinished.run_id} is unfinished ({done} of {len(unfinished.visits)} "
            "trials). This command begins a new run. With --resume, it resumes the unfinished one."
        )
    started = clock.now()
    return plan_run(
        suite,
        text,
        options.scale,
        place,
        run_id=f"{started:%Y%m%d-%H%M%S}-{suite.name}-{options.scale}",
        seed=int(started.timestamp()) if options.seed is None else options.seed,
        rounds=options.rounds,
        budget_s=options.budget_s,
        started_at_s=started.timestamp(),
    )


def run_matrix(
    home: Home,
    place: CellPlace,
    archive: MatrixArchive,
    clock: Clock,
    progress: Progress,
    file: Path,
    options: MatrixOptions,
) -> MatrixRun:
    """Carry the suite in `file` out at `place`, or go on with its unfinished run.

    Raises RefusedError (`busy`) while another benchmark runs: they would measure each other; and
    UsageError (`not-runnable`) when the place can measure none of the cells.
    """
    with hold_lock(home, "bench", clock, timeout_s=0):
        plan = plan_matrix(place, archive, clock, progress, file, options)
        if not plan.visits:
            raise UsageError(
                f"{plan.place[0].upper()}{plan.place[1:]} can measure none of the "
                f"{len(plan.cells)} cells of {plan.suite}. {plan.cells[0].not_runnable}",
                "--dry-run says of each cell what it lacks; choose another suite, or a place made "
                "for it.",
                code="not-runnable",
            )
        runner = MatrixRunner(RunPorts(place, archive, clock, progress, decide_enough))
        return runner.run(plan, keep=options.keep_data)


def show_matrix_plan(run: MatrixRun, archive: MatrixArchive, output_format: FormatOption) -> None:
    """What --dry-run prints: the cells, which of them cannot run and why, and the time."""
    suite = parse_matrix_suite(run.suite_text, source=f"the suite of the run {run.run_id}")
    begun = run.run_id in archive.run_ids()
    trials = archive.trials(run.run_id) if begun else []
    missing = missing_trials(run, trials)
    wanted = {one.cell_id for one in missing}
    cells = [cell for cell_id, cell in cells_of(run).items() if cell_id in wanted]
    making_s = len(environments(cells)) * suite.scales[parse_scale(run.scale)].environment_s
    if run.environments == "each-round":
        making_s *= len({one.round for one in missing})
    estimated_s = decide_all_s(run, missing, trials) + making_s
    refused = [cell for cell in run.cells if cell.not_runnable is not None]
    steps = [f"{cell.label}: {cell.not_runnable or 'can run'}" for cell in run.cells]
    document = {
        "plan": steps,
        "suite": run.suite,
        "scale": run.scale,
        "place": run.place,
        "resumes": run.run_id if begun else None,
        "rounds": run.rounds,
        "first_look": run.first_look,
        "visits": len(missing),
        "estimated_s": estimated_s,
        "budget_s": run.budget_s,
        "cells": [
            {
                "cell_id": cell.cell_id,
                "label": cell.label,
                "arm": cell.arm,
                "point": dict(cell.point),
                "not_runnable": cell.not_runnable,
            }
            for cell in run.cells
        ],
    }
    # Many cells lack the same: each reason is told once, under the table.
    reasons = distinct(cell.not_runnable for cell in refused if cell.not_runnable is not None)
    here = {
        cell.cell_id: "can run"
        if cell.not_runnable is None
        else f"cannot ({reasons.index(cell.not_runnable) + 1})"
        for cell in run.cells
    }
    output = make_output(output_format)
    output.table(
        document,
        ["cell", "arm", "here"],
        [[cell.label, cell.arm or "-", here[cell.cell_id]] for cell in run.cells],
        "The suite has no cell at this scale.",
    )
    if output_format is not FORMAT_DEFAULT:
        return
    lines = [
        "",
        *(f"({number}) {reason}" for number, reason in enumerate(reasons, start=1)),
        f"{len(run.cells) - len(refused)} of {len(run.cells)} cells can run here, in "
        f"{'' if run.first_look is None else 'up to '}{run.rounds} "
        f"round{'' if run.rounds == 1 else 's'}: {len(missing)} trials, about "
        f"{describe_time(estimated_s)} with their environments.",
    ]
    if run.first_look is not None:
        lines.append(
            f"After {run.first_look} rounds, and every {ROUNDS_BETWEEN_LOOKS} from then on, it "
            "ends if each conclusion that can be tested has its answer."
        )
    if begun:
        lines.append(f"This resumes the run {run.run_id}.")
    if run.budget_s is not None and estimated_s > run.budget_s:
        lines.append(
            f"The budget of {describe_time(run.budget_s)} will end it before that: what is not "
            "measured then is marked."
        )
    output.text(None, "\n".join(lines))


def _resumed(unfinished: MatrixRun | None, suite: str, options: MatrixOptions) -> MatrixRun:
    asked = {"--rounds": options.rounds, "--budget": options.budget_s, "--seed": options.seed}
    for name, value in asked.items():
        if value is not None:
            raise UsageError(
                f"{name} has no meaning with --resume: the run has its own.", "Leave it out."
            )
    if unfinished is None:
        raise NotFoundError(
            f"There is no unfinished run of {suite} at the scale {options.scale}.",
            "Leave --resume out to begin one.",
        )
    return unfinished
