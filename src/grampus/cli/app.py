"""How commands run: errors become sentences and exit codes, Ctrl-C is no traceback."""

from __future__ import annotations

import functools
import inspect
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, ParamSpec

import typer
from typer.models import CommandInfo

from grampus.cli.noun import Noun
from grampus.cli.output import OutputFormat, make_output, show_plan
from grampus.core.errors import GrampusError, Planned, RefusedError, UsageError

P = ParamSpec("P")
# Of a command that did all that it was to do, and found or left something that is not right.
EXIT_FAILED = GrampusError.exit_code
INTERRUPTED = 130
DEBUG_VARIABLE = "GRAMPUS_DEBUG"
_BACKGROUND = "in_background"
_log = logging.getLogger("grampus.cli")


@dataclass
class _Running:
    """One for the process, not one for each thread: `serve` works in many."""

    command: str = ""
    is_verbose: bool = False
    logs_as: str | None = None  # the command that the log was configured for


_running = _Running()


def running_command() -> str:
    """The words of the command that runs, such as `db backup create`; empty: none does."""
    return _running.command


def set_verbose(verbose: bool) -> None:
    """Whether what is logged is shown, too."""
    _running.is_verbose = verbose


def ensure_log() -> None:
    """From here on, what happens is logged under GRAMPUS_HOME."""
    if _running.logs_as != _running.command:
        _running.logs_as = _running.command
        # Commands that do nothing to be logged go without its modules.
        context = {"pid": os.getpid(), "command": _running.command}
        log_file = import_module("grampus.state.log_file")
        log_file.configure_log(context, verbose=_running.is_verbose)


def make_noun(
    name: str,
    help_text: str,
    *,
    under: Noun,
    modules: Mapping[str, str] | None = None,
    panels: Mapping[str, Mapping[str, str]] | None = None,
) -> Noun:
    """A noun below another one; `modules` and `panels` as `Noun` says."""
    noun = Noun(name, help_text, modules, panels=panels)
    under.add_noun(noun)
    return noun


def command(
    noun: Noun, name: str, example: str, *, is_long: bool = False
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Register a verb. `example` is shown at the end of its --help.

    One that `is_long` has an option `--async`: it runs in the background. It works in a lab
    (`lab`).
    """

    def register(function: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            output_format = kwargs.get("output_format", OutputFormat.HUMAN)
            chosen = (
                output_format if isinstance(output_format, OutputFormat) else OutputFormat.HUMAN
            )
            _running.command = f"{noun.path} {name}".strip()
            with errors_shown(chosen):
                _require_text(kwargs.values())
                if kwargs.pop(_BACKGROUND, False):
                    # Few commands run there: the others go without its modules.
                    background = import_module("grampus.cli.background")
                    background.start(sys.argv[1:], str(kwargs["lab"]), chosen)
                else:
                    function(*args, **kwargs)

        if is_long:
            _add_background_option(run)
        help_text = join_lines(inspect.getdoc(function) or "")
        epilog = f"Example: [bold]{example}[/bold]"
        noun.add_verb(CommandInfo(name, callback=run, help=help_text, epilog=epilog))
        return run

    return register


def _add_background_option(run: Callable[..., None]) -> None:
    """Typer reads the options of a command from the signature of its function."""
    annotation = Annotated[
        bool,
        typer.Option(
            "--async", metavar="", help="Run in the background: `grampus operation wait` waits."
        ),
    ]
    signature = inspect.signature(run, eval_str=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    added = inspect.Parameter(_BACKGROUND, keyword, default=False, annotation=annotation)
    parameters = [*signature.parameters.values(), added]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}


def join_lines(text: str) -> str:
    """Paragraphs as one line each: where a docstring's lines end is for us, not for a terminal."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


@contextmanager
def errors_shown(output_format: OutputFormat) -> Iterator[None]:
    """Show what went wrong as sentences and exit with the code that belongs to it.

    This is where every error ends that nobody further in could do anything about; with --debug
    it passes, for its traceback.
    """
    try:
        yield
    except typer.Abort:
        raise
    except typer.Exit as ending:
        if ending.exit_code:
            ensure_log()
            _log.info("command.ended", extra={"exit_code": ending.exit_code})
        raise
    except Planned as planned:
        show_plan(output_format, planned.titles)
    except KeyboardInterrupt:
        ensure_log()
        _log.info("command.interrupted")
        sys.stderr.write("\n")
        said = GrampusError(
            "Interrupted.",
            "Grampus undoes what the command began. What it cannot undo now, the next command "
            "finishes or undoes: `grampus operation list` shows it.",
            code="interrupted",
        )
        make_output(output_format).error(said)
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        # The reader of our output has gone (`grampus ... | head`): that is no failure of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        explained = explain_error(error)
        _log_failure(explained)
        make_output(output_format).error(explained)
        raise typer.Exit(explained.exit_code) from None


def _log_failure(error: GrampusError) -> None:
    """Here ends every error that nobody further in could do anything about."""
    ensure_log()
    fields = {"code": error.code, "problem": error.problem, "exit_code": error.exit_code}
    if error.exit_code == GrampusError.exit_code:
        _log.error("command.failed", extra=fields)
    else:
        _log.info("command.refused", extra=fields)


def explain_error(error: Exception) -> GrampusError:
    """`error` in sentences: as it is, or what the system said, or that it is our own defect."""
    if isinstance(error, GrampusError):
        return error
    if isinstance(error, OSError):
        what = f" ({error.filename})" if error.filename else ""
        return GrampusError(
            f"The system reported an error: {error.strerror or type(error).__name__}{what}.",
            "Check the permissions and the free space there, then try again.",
            code="system",
        )
    return GrampusError(
        f"Grampus has a defect: {type(error).__name__}: {error}.",
        "Run the same command as `grampus --debug ...` and report the output.",
        code="internal",
    )


def _require_text(values: Iterable[object]) -> None:
    # The shell may hand over any bytes; Python keeps those that are no UTF-8 as lone surrogates.
    for value in values:
        if isinstance(value, str) and _has_surrogate(value):
            raise UsageError(f"{value!r} is not valid UTF-8.", "Write the argument in UTF-8.")


def _has_surrogate(text: str) -> bool:
    return any(0xD800 <= ord(character) <= 0xDFFF for character in text)


def confirm(question: str, *, yes: bool) -> None:
    """Ask, unless told not to. Raises RefusedError on a no, UsageError when nobody can answer."""
    if yes:
        return
    # A program started with its stdin closed has none at all.
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            "This command needs a confirmation, but there is no terminal.", "Add --yes."
        )
    if not typer.confirm(question, err=True):
        raise RefusedError("Nothing was changed.", code="not-confirmed")
