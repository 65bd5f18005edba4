"""How commands run: errors become sentences and exit codes, Ctrl-C is no traceback."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec

import typer

from grampus.cli.output import OutputFormat, make_output
from grampus.core.errors import GrampusError, RefusedError, UsageError

P = ParamSpec("P")
INTERRUPTED = 130
DEBUG_VARIABLE = "GRAMPUS_DEBUG"


def make_noun(name: str, help_text: str) -> typer.Typer:
    """The command group of one noun."""
    return typer.Typer(
        name=name,
        help=help_text,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["--help", "-h"]},
    )


def command(
    noun: typer.Typer, name: str, example: str
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Register a verb. `example` is shown at the end of its --help."""

    def register(function: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            output_format = kwargs.get("output_format", OutputFormat.HUMAN)
            chosen = (
                output_format if isinstance(output_format, OutputFormat) else OutputFormat.HUMAN
            )
            with errors_shown(chosen):
                function(*args, **kwargs)

        noun.command(name, epilog=f"Example: [bold]{example}[/bold]")(run)
        return run

    return register


@contextmanager
def errors_shown(output_format: OutputFormat) -> Iterator[None]:
    """Show a GrampusError as its sentences and exit with its code."""
    try:
        yield
    except GrampusError as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        make_output(output_format).error(error)
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted.\n")
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        # The reader of our output has gone (`grampus ... | head`): that is no failure of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None


def confirm(question: str, *, yes: bool) -> None:
    """Ask, unless told not to. Raises RefusedError on a no, UsageError when nobody can answer."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            "This needs a confirmation, and there is no terminal to ask at.", "Add --yes."
        )
    if not typer.confirm(question, err=True):
        raise RefusedError("Nothing was changed.", code="not-confirmed")
