"""`grampus`: the command line."""

from __future__ import annotations

import gc
import os
import signal
from importlib.metadata import version
from typing import Annotated

import typer

from grampus.cli.app import DEBUG_VARIABLE, set_verbose
from grampus.cli.nouns import app


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"grampus {version('grampus')}")
        raise typer.Exit


@app.callback()
def start(
    debug: Annotated[
        bool, typer.Option("--debug", metavar="", help="Show a traceback when something fails.")
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", metavar="", help="Show log events on stderr, as they happen."),
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
    set_verbose(verbose)


def main() -> None:
    """The entry point of the `grampus` program."""
    # Ended by `kill` or by a closed terminal, a command tidies up as it does at Ctrl-C.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    # None of them is ours, and each start would look for them in all that is installed.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # What is imported stays: to search it for garbage over and over is a tenth of a start.
    gc.set_threshold(100_000)
    app(prog_name="grampus")
