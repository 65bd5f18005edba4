"""`grampus db failover`: a database whose host is lost, run on another host."""

from __future__ import annotations

from typing import Annotated

import typer

from grampus.cli.app import command
from grampus.cli.composition.copies import database_replicas
from grampus.cli.composition.failover import database_failovers
from grampus.cli.db import NameArgument, database_document, db_app
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
)
from grampus.cli.output import make_output
from grampus.cli.work import work_on_databases
from grampus.core.clock import format_duration
from grampus.databases.failover.decide_failover import describe_phases
from grampus.databases.failover.failovers import FailedOver


@command(db_app, "failover", "grampus db failover shop")
def db_failover(
    name: NameArgument,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="HOST", help="The host to run on (default: the one with the fewest databases)."
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            metavar="",
            help="Fail over even if the host answers, or the database still answers clients.",
        ),
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            metavar="",
            help="With the write path cache: accept the loss of commits of the last "
            "--max-lag that only the lost host has.",
        ),
    ] = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Run a database of a lost host on another host, with the same passwords and certificates.

    A floating address stays the same.

    Grampus first cuts the lost host off from the database's volume, so that the host can never
    write to the volume again. Grampus removes the remains on the lost host once the host is back.
    """
    with work_on_databases(lab, dry_run=dry_run) as (session, databases):
        failovers = database_failovers(session)
        done = failovers.fail_over(name, to=to, force=force, accepts_loss=accept_loss)
        # A read-only endpoint may have been served by the lost host.
        replicas = database_replicas(session)
        replicas.follow_endpoint(done.record.spec.replica_of or name)
        view = databases.show(name)
    document = {
        **database_document(view),
        "former_host": done.former_host,
        "phases_ms": done.phases_ms,
        "may_lose_ms": done.may_lose_ms,
        "keeps_certificates": done.keeps_certificates,
    }
    make_output(output_format).text(document, "\n".join(_sentences(done, view.status)))


def _sentences(done: FailedOver, status: str) -> list[str]:
    spec, former = done.record.spec, done.former_host
    lines = [
        f"The database '{spec.name}' is on {spec.host} at {spec.address}:{spec.port}; it is "
        f"{status}. It was on {former}."
    ]
    if done.phases_ms:
        lines.append(f"Phases: {describe_phases(done.phases_ms)}.")
    if done.may_lose_ms is not None:
        lines.append(
            f"Commits of the last {format_duration(done.may_lose_ms / 1000)} before the loss of "
            f"{former} can be missing."
        )
    if not done.keeps_certificates:
        lines.append(
            "There were no copies of the certificates, so the server has new ones. Give the "
            "new authority to the clients (`ssl-ca` in the option file)."
        )
    remains = (
        f"The remains on {former} were removed."
        if done.is_cleared
        else f"Grampus removes the remains on {former} once {former} is back."
    )
    lines.append(f"{former} cannot write to the database any more. {remains}")
    return lines
