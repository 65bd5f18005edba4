"""`grampus db backup test`: whether a backup can be restored, found out by restoring it."""

from __future__ import annotations

from typing import Annotated

import typer

from grampus.cli.app import EXIT_FAILED, command
from grampus.cli.backup_documents import (
    CredentialsOption,
    EndpointOption,
    FromOption,
    place_of,
)
from grampus.cli.composition.backups import restore_tests
from grampus.cli.db_backup import backup_app
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
)
from grampus.cli.output import make_output
from grampus.cli.work import work_on_databases
from grampus.core.errors import UsageError


@command(backup_app, "test", "grampus db backup test shop --from /srv/backups")
def backup_test(
    from_: FromOption,
    endpoint: EndpointOption = None,
    credentials: CredentialsOption = None,
    name: Annotated[
        str | None, typer.Argument(help="The database. It need not exist any more.")
    ] = None,
    every: Annotated[
        bool,
        typer.Option("--all", metavar="", help="Test every database that has backups there."),
    ] = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Restore the latest backup temporarily, check its tables, and compare their checksums.

    The checksums are compared with those of the backup's snapshot, if the database still has the
    snapshot. If binary logs are archived, the latest restorable moment is restored and checked,
    too. Grampus deletes everything afterwards. `db backup list` shows the result.
    """
    if (name is None) != every:
        raise UsageError("The command needs a database to test.", "Name a database, or give --all.")
    place = place_of(from_, endpoint, credentials)
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        tests = restore_tests(session)
        names = [name] if name is not None else tests.names(place)
        session.runner.propose(lambda: [line for one in names for line in tests.plan(one, place)])
        tested = [tests.test(one, place) for one in names]
    make_output(output_format).table(
        {
            "tested": [
                {"backup": one.manifest.id, **one.test.model_dump(mode="json")} for one in tested
            ]
        },
        ["backup", "tables", "compared", "result"],
        [
            [
                one.manifest.id,
                str(one.test.tables),
                "yes" if one.test.compared else "no",
                one.test.problem or "good",
            ]
            for one in tested
        ],
        f"There is no backup in {place.url}.",
    )
    if any(one.test.problem is not None for one in tested):
        raise typer.Exit(EXIT_FAILED)
