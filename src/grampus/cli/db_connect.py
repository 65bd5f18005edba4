"""`grampus db connect`: a client of a database, in place of this program."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from grampus.cli.app import command
from grampus.cli.composition.copies import database_replicas
from grampus.cli.db import NameArgument, db_app
from grampus.cli.foreground import KILLED, run_in_foreground
from grampus.cli.options import LAB_DEFAULT, LabOption
from grampus.cli.work import work_on_databases
from grampus.core.errors import GrampusError

# A server of many GiB takes a moment to give its memory back.
ENDS_WITHIN_S = 5.0


@command(db_app, "connect", "grampus db connect shop -e 'select version()'")
def db_connect(
    name: NameArgument,
    execute: Annotated[
        str | None, typer.Option("--execute", "-e", metavar="SQL", help="SQL to run.")
    ] = None,
    read_only: Annotated[
        bool,
        typer.Option(
            "--read-only", metavar="", help="Connect to the replica with the smallest lag."
        ),
    ] = False,
    lab: LabOption = LAB_DEFAULT,
) -> None:
    """Open a client at this terminal, or run SQL (-e, or on stdin)."""
    with work_on_databases(lab) as (session, databases):
        at = database_replicas(session).choose_reader(name) if read_only else name
        is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
        draws_tables = is_terminal and execute is not None
        client = databases.client_argv(at, execute, draws_tables=draws_tables)
        host = session.fleet().host(client.host)
        spec = databases.get(at).spec
        if is_terminal and spec.shares_address:
            session.progress.note(
                f"{at} is at {spec.address}:{spec.port}, the address of its host. The address "
                "changes when the database moves."
            )
        tty = is_terminal and execute is None
        argv = host.terminal_argv(client.argv, daemon=client.daemon, tty=tty)
    sys.stdout.flush()
    code = run_in_foreground(argv, client.stdin)
    if code != 0:
        # The client runs in the server's container, and goes with it: most often it is killed
        # before it can say a word, sometimes it just says that the connection is lost.
        patience_s = ENDS_WITHIN_S if code == KILLED else 0.0
        with work_on_databases(lab) as (_, databases):
            databases.require_serving(at, patience_s=patience_s)
    if code == KILLED:
        raise GrampusError(
            f"The client of {at} was killed. The server is still running.",
            "Check with `grampus lab status` whether the host is short of memory, then try again.",
            code="client-killed",
        )
    raise typer.Exit(code)
