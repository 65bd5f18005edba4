"""`grampus volume migrate` and `volume rotate`: images exchanged under their users."""

from __future__ import annotations

from typing import Annotated

import typer

from grampus.cli.app import command
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
)
from grampus.cli.output import make_output
from grampus.cli.volume import NameArgument, volume_app, volume_document
from grampus.cli.work import work_on_volumes
from grampus.core.errors import UsageError

PoolOption = Annotated[
    str | None, typer.Option("--pool", metavar="POOL", help="The pool to move to.")
]
AbortOption = Annotated[
    bool,
    typer.Option(
        "--abort",
        metavar="",
        help="Return to the former pool instead, with all later writes. Clients wait while "
        "the data is copied.",
    ),
]


def require_one(pool: str | None, *, abort: bool) -> None:
    """Raise UsageError unless exactly one of `--pool` and `--abort` is given."""
    if (pool is None) == (not abort):
        raise UsageError(
            "The command needs exactly one of --pool and --abort.",
            "Give --pool POOL to move the volume, or --abort to return.",
        )


@command(volume_app, "migrate", "grampus volume migrate scratch --pool archive", is_long=True)
def volume_migrate(
    name: NameArgument,
    pool: PoolOption = None,
    abort: AbortOption = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Move a volume to another pool while it is used: a pause of seconds, then a copy in the
    background.
    """
    require_one(pool, abort=abort)
    # What was interrupted would be finished otherwise, and that may be what is to be aborted.
    with work_on_volumes(lab, settles=not abort, dry_run=dry_run) as (_, volumes):
        migrations = volumes.migrations
        if pool is None:
            record = migrations.abort(name)
            sentence = f"The volume '{name}' is back in the pool '{record.spec.pool}'."
        else:
            order = migrations.plan(name, pool)
            record = migrations.migrate(name, pool)
            before = "already" if order is None else f"now; it was in '{order.from_pool}'"
            sentence = f"The volume '{name}' is in the pool '{pool}' {before}."
    make_output(output_format).text(volume_document(record), sentence)


@command(volume_app, "rotate", "grampus volume rotate scratch")
def volume_rotate(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Create a new cephx key for a volume while it is used. The former key becomes invalid."""
    with work_on_volumes(lab, dry_run=dry_run) as (_, volumes):
        volumes.key_rotation.rotate(name)
        record = volumes.get(name)
    sentence = f"The volume '{name}' has a new key. The former key is invalid."
    make_output(output_format).text(volume_document(record), sentence)
