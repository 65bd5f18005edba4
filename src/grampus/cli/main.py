"""`grampus`: the command line."""

from __future__ import annotations

import os
import signal
from importlib.metadata import version
from typing import Annotated

import typer

from grampus.cli import db_backup_schedule as db_backup_schedule
from grampus.cli import db_backup_test as db_backup_test
from grampus.cli import db_clone as db_clone
from grampus.cli import db_events as db_events
from grampus.cli import db_migrate as db_migrate
from grampus.cli import db_move  # noqa: F401 - adds its verb to `db`
from grampus.cli import db_restore as db_restore
from grampus.cli import db_upgrade as db_upgrade
from grampus.cli import db_verify as db_verify
from grampus.cli import lab_bit_rot as lab_bit_rot
from grampus.cli import volume_migrate as volume_migrate
from grampus.cli import volume_verify as volume_verify
from grampus.cli.app import DEBUG_VARIABLE, make_noun
from grampus.cli.bench import bench_app, report_app
from grampus.cli.db import db_app
from grampus.cli.db_backup import backup_app
from grampus.cli.db_growth import growth_app
from grampus.cli.db_replica import replica_app
from grampus.cli.db_resources import parameter_app
from grampus.cli.db_snapshot import db_snapshot_app
from grampus.cli.db_trash import trash_app
from grampus.cli.db_user import user_app
from grampus.cli.lab import lab_app
from grampus.cli.lab_gateway import gateway_app
from grampus.cli.serve import add_serve
from grampus.cli.state import state_app
from grampus.cli.volume import volume_app
from grampus.cli.volume_key import volume_key_app
from grampus.cli.volume_snapshot import snapshot_app

lab_app.add_typer(gateway_app)
db_app.add_typer(parameter_app)
db_app.add_typer(growth_app)
db_app.add_typer(user_app)
db_app.add_typer(trash_app)
db_app.add_typer(replica_app)
db_app.add_typer(backup_app)
db_app.add_typer(db_snapshot_app)
volume_app.add_typer(snapshot_app)
volume_app.add_typer(volume_key_app)

app = make_noun(
    "grampus",
    "MySQL databases on Ceph block storage: deployed, operated, proven and planned.\n\n"
    "Start with [bold]grampus lab up[/bold], then "
    "[bold]grampus db create demo --size 4G[/bold].",
)
for noun in (lab_app, db_app, volume_app, bench_app, report_app, state_app):
    app.add_typer(noun)
add_serve(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"grampus {version('grampus')}")
        raise typer.Exit


@app.callback()
def start(
    debug: Annotated[
        bool, typer.Option("--debug", metavar="", help="Show a traceback when something fails.")
    ] = False,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            metavar="",
            callback=_show_version,
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    """Runs before every command."""
    del show_version
    os.umask(0o022)
    if debug:
        os.environ[DEBUG_VARIABLE] = "1"


def main() -> None:
    """The entry point of the `grampus` program."""
    # Ended by `kill` or by a closed terminal, a command tidies up as it does at Ctrl-C.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    app(prog_name="grampus")
