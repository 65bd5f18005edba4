"""`grampus db time-zones`: time zones that a database's server knows by name."""

from __future__ import annotations

from grampus.cli.app import command
from grampus.cli.composition.live import time_zone_tables
from grampus.cli.db import NameArgument, db_app
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
)
from grampus.cli.output import make_output
from grampus.cli.work import work_on_databases


@command(db_app, "time-zones", "grampus db time-zones shop")
def db_time_zones(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Load the time zone tables, for names such as Europe/Berlin in CONVERT_TZ and SET time_zone.

    New databases have the tables, and `db upgrade` loads them. Use this command for a database of
    an older release, or for new time zone rules. The command also loads the tables into the
    replicas of the database, and writes nothing to the binary log. `db set NAME --parameter
    time_zone=Europe/Berlin` sets the time zone of the server.
    """
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        tables = time_zone_tables(session)
        servers = tables.plan(name)
        count = tables.load(name)
    sentences = [f"The server of '{name}' knows {count} time zones by name."]
    if len(servers) > 1:
        sentences.append(f"The replicas know them, too: {', '.join(servers[:-1])}.")
    make_output(output_format).text(
        {"database": name, "time_zones": count, "servers": servers}, "\n".join(sentences)
    )
