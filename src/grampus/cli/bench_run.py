"""`grampus bench run`: suites of all kinds. What carries one out is imported when it is run."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from grampus.bench.matrix.suite import SCALES
from grampus.bench.paths.plan import PathsOptions
from grampus.bench.paths.suite import PathsSuite
from grampus.bench.quick_plan import BenchOptions
from grampus.bench.quick_suite import load_suite
from grampus.cli.app import command
from grampus.cli.bench import bench_app
from grampus.cli.bench_matrix import (
    SUITE_ENDING,
    MatrixOptions,
    find_matrix_file,
    matrix_suite_names,
    parse_scale,
)
from grampus.cli.bench_own_options import (
    CONF_HELP,
    KeyringOption,
    RuleOption,
    UserOption,
    parse_own_cluster,
)
from grampus.cli.composition.bench_files import SUITES, matrix_archive
from grampus.cli.composition.session import Session
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
)
from grampus.core.errors import UsageError
from grampus.core.intervals import parse_interval_s


@command(bench_app, "run", "grampus bench run quick --db demo")
def bench_run(
    suite: Annotated[
        str, typer.Argument(help="A suite's name (see bench list), or the file of one of your own.")
    ],
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
        bool, typer.Option("--fresh-data", metavar="", help="quick: load the data set again.")
    ] = False,
    scale: Annotated[
        str | None,
        typer.Option(
            metavar="tiny|small|full|sustained",
            help="paths: 10 minutes, half an hour, 110 minutes, or 100 minutes of writes "
            "alone; published experiments: up to 10 minutes, up to three hours, or as long as "
            "their source measured, and no sustained (default: tiny).",
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="paths: where to measure (default: the first host)."),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="All but quick: how often all is measured (default: the scale's)."
        ),
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
        typer.Option(
            metavar="N", help="All but quick: decides orders and offsets (default: the time)."
        ),
    ] = None,
    keep_data: Annotated[
        bool,
        typer.Option(
            "--keep-data",
            metavar="",
            help="All but quick: leave what was made for it until the next run.",
        ),
    ] = False,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Published experiments: end after 10m, 2h or so, with as many whole rounds as "
            "fit (default: no limit).",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            metavar="",
            help="Published experiments: resume the unfinished run of the suite and scale.",
        ),
    ] = False,
    conf: Annotated[
        Path | None,
        typer.Option(
            "--conf",
            metavar="FILE",
            help=f"Suites of pools and images: {CONF_HELP}, which is measured from this "
            "machine instead of a lab.",
        ),
    ] = None,
    keyring: KeyringOption = None,
    user: UserOption = None,
    crush_rule: RuleOption = None,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Run a suite: a database against its host's own disk, the ways to a volume, a published
    experiment, or a cluster of your own."""
    own = parse_own_cluster(conf, keyring, user, crush_rule, lab=lab)
    # A run on an external cluster needs no lab, so it may be the first command of a home.
    session = Session(lab, makes_lab=own is not None and not dry_run)
    of_quick = {
        "--db": db,
        "--threads": threads,
        "--warmup-s": warmup_s,
        "--measure-s": measure_s,
        "--fresh-data": fresh_data or None,
    }
    of_paths = {"--host": host, "--measures": measures, "--arms": arms}
    of_matrices = {"--budget": budget, "--resume": resume or None}
    file = find_matrix_file(suite)
    if file is None and resume and scale in (None, *SCALES):
        # One of the user's own, by its name: the run has its text.
        unfinished = matrix_archive(session.home).latest_unfinished(suite, parse_scale(scale))
        file = None if unfinished is None else Path(f"{suite}{SUITE_ENDING}")
    if file is not None:
        _require_unused(suite, {**of_quick, **of_paths})
        wanted = MatrixOptions(
            scale=parse_scale(scale),
            rounds=rounds,
            budget_s=None if budget is None else parse_interval_s(budget),
            seed=seed,
            resume=resume,
            keep_data=keep_data,
        )
        runs = import_module("grampus.cli.bench_matrix_run")
        runs.run_matrix_suite(
            session, file, wanted, own, dry_run=dry_run, output_format=output_format
        )
        return
    chosen = load_suite(SUITES, suite, also=matrix_suite_names())
    _require_unused(suite, {"--conf": conf})
    if isinstance(chosen, PathsSuite):
        _require_unused(suite, {**of_quick, **of_matrices})
        asked = PathsOptions(
            scale=scale or "tiny",
            host=host,
            rounds=rounds,
            measures=measures,
            arms=arms,
            seed=seed,
            keep_data=keep_data,
        )
        runs = import_module("grampus.cli.bench_paths_run")
        with session.sharing_lab(), session.progress:
            runs.run_paths(session, chosen, asked, dry_run=dry_run, output_format=output_format)
        return
    _require_unused(
        suite,
        {
            "--scale": scale,
            **of_paths,
            "--rounds": rounds,
            "--seed": seed,
            "--keep-data": keep_data or None,
            **of_matrices,
        },
    )
    if db is None:
        raise UsageError(
            f"The suite {suite} measures a database, and none is named.", "Add --db NAME."
        )
    options = BenchOptions(
        threads=threads, warmup_s=warmup_s, measure_s=measure_s, fresh_data=fresh_data
    )
    runs = import_module("grampus.cli.bench_quick_run")
    runs.run_quick(session, chosen, db, options, dry_run=dry_run, output_format=output_format)


def _require_unused(suite: str, options: Mapping[str, object]) -> None:
    for name, value in options.items():
        if value is not None:
            raise UsageError(
                f"{name} has no meaning for the suite {suite}.",
                "Leave it out; `grampus bench run ... --help` says which option is for which "
                "suite.",
            )
