"""`grampus operation`: operations at work, and those that have ended."""

from __future__ import annotations

from textwrap import shorten
from typing import Annotated, Any

import typer

from grampus.cli.app import EXIT_FAILED, command, make_noun
from grampus.cli.composition.lab import LabSession
from grampus.cli.nouns import app
from grampus.cli.options import FORMAT_DEFAULT, LAB_DEFAULT, FormatOption, LabOption, YesOption
from grampus.cli.output import OutputFormat, make_output
from grampus.core.clock import format_duration, format_moment
from grampus.core.errors import UsageError
from grampus.core.intervals import parse_timeout_s
from grampus.operations.watching import AT_WORK, OperationView, OperationWatch

operation_app = make_noun(
    "operation", "Operations: running, interrupted and ended ones.", under=app
)
NumberArgument = Annotated[int, typer.Argument(help="The operation's number.")]
_LAST = 10
_DOING_WIDTH = 60
# An undo may take as long as what it undoes; the command can be repeated.
_CANCEL_TIMEOUT_S = 600.0


@command(operation_app, "list", "grampus operation list")
def operation_list(
    last: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Show the last N ended operations, in addition to those that have not ended.",
        ),
    ] = _LAST,
    lab: LabOption = LAB_DEFAULT,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """List running and interrupted operations, and the last ended ones; oldest first."""
    if last < 0:
        raise UsageError(f"{last} is not a number of operations.", "Write 0 or more.")
    watch = _watch(LabSession(lab))
    views = {view.operation.id: view for view in (*watch.last(last), *watch.unfinished())}
    ordered = [views[number] for number in sorted(views)]
    make_output(output_format).table(
        {"operations": [operation_document(view) for view in ordered]},
        ["id", "operation", "subject", "state", "started", "took", "by", "doing"],
        [_row(view) for view in ordered],
        f"'{lab}' has no operations yet.",
    )


@command(operation_app, "show", "grampus operation show 42")
def operation_show(
    number: NumberArgument,
    lab: LabOption = LAB_DEFAULT,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Show one operation: who started it, its progress, and what it waits for."""
    _show(output_format, _watch(LabSession(lab)).get(number))


@command(operation_app, "wait", "grampus operation wait 42 --timeout 10m")
def operation_wait(
    number: NumberArgument,
    timeout: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Maximum time to wait, such as 10m (default: no limit)."),
    ] = None,
    lab: LabOption = LAB_DEFAULT,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Wait until an operation ends. The exit code is 1 unless the operation succeeded."""
    timeout_s = None if timeout is None else parse_timeout_s(timeout)
    session = LabSession(lab)
    with session.progress:
        view = _watch(session).wait(number, session.progress, timeout_s=timeout_s)
    _show(output_format, view)
    if view.state != "done":
        raise typer.Exit(EXIT_FAILED)


@command(operation_app, "cancel", "grampus operation cancel 42 --yes")
def operation_cancel(
    number: NumberArgument,
    lab: LabOption = LAB_DEFAULT,
    yes: YesOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """End an operation's command, as Ctrl-C does. The operation is undone, or the next command
    finishes it.
    """
    session = LabSession(lab)
    watch = _watch(session)
    view = watch.require_cancellable(number)
    session.confirm(f"Cancel {view.what} of '{view.operation.subject}'?", yes=yes)
    with session.progress:
        view = watch.cancel(number, session.progress, timeout_s=_CANCEL_TIMEOUT_S)
    _show(output_format, view)


def operation_document(view: OperationView) -> dict[str, Any]:
    """The stable JSON form of an operation."""
    operation, process = view.operation, view.process
    return {
        "id": operation.id,
        "kind": operation.kind,
        "subject": operation.subject,
        "state": view.state,
        "step": operation.step or None,
        "title": operation.title or None,
        "detail": operation.detail or None,
        "error": operation.error or None,
        "started_at": operation.started_at.isoformat(),
        "changed_at": operation.changed_at.isoformat(),
        "by": operation.actor or None,
        "command": process.command if process is not None else None,
        "pid": process.id.pid if process is not None and view.state in AT_WORK else None,
    }


def _watch(session: LabSession) -> OperationWatch:
    session.require_place()
    return OperationWatch(session.store, session.lab_name, session.clock)


def _row(view: OperationView) -> list[str]:
    operation = view.operation
    return [
        str(operation.id),
        view.what,
        operation.subject,
        view.state,
        format_moment(operation.started_at),
        format_duration(view.took_s),
        operation.actor or "-",
        shorten(view.doing, _DOING_WIDTH, placeholder=" ...") or "-",
    ]


def _show(output_format: OutputFormat, view: OperationView) -> None:
    operation, document = view.operation, operation_document(view)
    process = view.process
    at_work = f" (process {process.id.pid})" if process and view.state in AT_WORK else ""
    rest = {
        "step": operation.title,
        "detail": operation.detail,
        "error": operation.error,
        "started by": operation.actor,
        "command": f"grampus {process.command}{at_work}" if process else "",
        "next": "the next command finishes or undoes it" if view.state == "interrupted" else "",
    }
    make_output(output_format).details(
        document,
        {
            "id": str(operation.id),
            "operation": f"{view.what} of '{operation.subject}'",
            "state": view.state,
            "started": format_moment(operation.started_at),
            "took": format_duration(view.took_s),
            **{name: value for name, value in rest.items() if value},
        },
    )
