"""`grampus host entry`: hosts at which clients reach databases of a site wherever they run."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from grampus.cli.app import command
from grampus.cli.host import HostArgument, host_app
from grampus.cli.options import FORMAT_DEFAULT, LAB_DEFAULT, DryRunOption, FormatOption, LabOption
from grampus.cli.output import make_output
from grampus.cli.work import work_on_databases
from grampus.core.errors import UsageError
from grampus.databases.entries.entries import Entries
from grampus.sites.model import parse_port_range


@command(host_app, "entry", "grampus host entry db1 on --ports 14300-14399")
def host_entry(
    host: HostArgument,
    mode: Annotated[
        Literal["on", "off"], typer.Argument(help="on: serve the entry there; off: end it.")
    ],
    ports: Annotated[
        str | None,
        typer.Option(
            metavar="FIRST-LAST",
            help="With the first host: ports of the entry, one for each database.",
        ),
    ] = None,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Give clients addresses that stay the same when databases move.

    For sites whose databases have the addresses of their hosts (`site adopt --ports`). HAProxy on
    the host listens at a port for each database, and leads to where that runs. Use two hosts, and
    tell clients both addresses.
    """
    if mode == "off" and ports is not None:
        raise UsageError("--ports is for `on`.", "Leave it out.")
    asked = None if ports is None else parse_port_range(ports)
    unnamed: list[str] = []
    with work_on_databases(lab, dry_run=dry_run) as (session, databases):
        operations = databases.operations
        entries = Entries(operations)
        if mode == "on":
            session.progress.phase(f"Serve the entry on {host}")
            entry = entries.turn_on(host, asked)
            session.progress.phase("Name all hosts in certificates")
            unnamed = entries.name_certificates()
            address = operations.fleet.host(host).address
            sentence = (
                f"The entry is served at {address}, ports {entry.first_port}-{entry.last_port}."
            )
        elif entries.turn_off(host):
            sentence = f"The entry is no longer served by {host}."
            if host in entries.left():
                sentence = f"{host} cannot be reached: the entry ends there when it returns."
        else:
            sentence = f"The host {host} does not serve the entry."
        places = entries.all_places()
        for name in unnamed:
            session.progress.note(
                f"warning: The certificate of {name} does not name all hosts yet. Clients that "
                "check the name are refused at a host that is not named, until the next start of "
                "the server."
            )
    lines = [f"{name}: {', '.join(found)}" for name, found in sorted(places.items())]
    make_output(output_format).text(
        {"host": host, "entry": mode == "on", "databases": places, "unnamed": unnamed},
        "\n".join([sentence, *lines]),
    )
