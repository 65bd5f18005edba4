"""`grampus db set`, `restart` and `parameter`: what a database's server has, and how it behaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from grampus.cli.app import command, make_noun
from grampus.cli.composition.live import database_parameters, live_settings
from grampus.cli.db import NameArgument, database_document, db_app
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    BinlogRetentionOption,
    DryRunOption,
    FailoverModeOption,
    FormatOption,
    JournalMemoryOption,
    JournalPoolOption,
    LabOption,
    MaintenanceWindowOption,
    MaxLagOption,
    RecoveryGoalOption,
    WritePathOption,
)
from grampus.cli.output import make_output
from grampus.cli.work import work_on_databases
from grampus.core.errors import UsageError
from grampus.core.intervals import format_interval
from grampus.core.units import format_bytes, format_cpus, parse_bytes
from grampus.databases.binlog_keeping.expiry import parse_retention_s
from grampus.databases.live.decide_parameters import ParameterView, explain_risk, parse_assignment
from grampus.databases.live.decide_recovery_goal import describe_recovery_goal
from grampus.databases.live.live_changes import ParameterChange
from grampus.databases.model import DatabaseRecord
from grampus.databases.request import (
    parse_failover_mode,
    parse_maintenance_window,
    parse_recovery_goal_s,
)
from grampus.databases.service import DatabaseService
from grampus.databases.view import DatabaseView
from grampus.volumes.write_paths import describe_safety, is_asked_for, parse_write_options

parameter_app = make_noun("parameter", "Parameters of a database's server.", under=db_app)
ParameterArgument = Annotated[str, typer.Argument(help="The parameter's name.")]


@command(db_app, "set", "grampus db set shop --memory 1G --cpus 2")
def db_set(
    name: NameArgument,
    memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Memory limit. The buffer pool follows, without a stop."),
    ] = None,
    cpus: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="CPU limit, without a stop.")
    ] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A parameter of the server (see `db parameter`). Repeatable.",
        ),
    ] = None,
    write_path: WritePathOption = None,
    max_lag: MaxLagOption = None,
    journal_memory: JournalMemoryOption = None,
    journal_pool: JournalPoolOption = None,
    binlog_retention: BinlogRetentionOption = None,
    recovery_goal: RecoveryGoalOption = None,
    failover: FailoverModeOption = None,
    maintenance_window: MaintenanceWindowOption = None,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Change memory, CPUs or parameters while the database runs. A new write path needs a
    restart.
    """
    path, bounds = parse_write_options(write_path, max_lag, journal_memory, journal_pool)
    memory_bytes = None if memory is None else parse_bytes(memory, what="memory size")
    assignments = [parse_assignment(text) for text in parameter or []]
    sets_path = is_asked_for(path, bounds)
    retention_s = None if binlog_retention is None else parse_retention_s(binlog_retention)
    goal_s = None if recovery_goal is None else parse_recovery_goal_s(recovery_goal)
    mode = None if failover is None else parse_failover_mode(failover)
    window = None if maintenance_window is None else parse_maintenance_window(maintenance_window)
    asked = (memory_bytes, cpus, *assignments, retention_s, mode, maintenance_window, recovery_goal)
    if not sets_path and all(one is None for one in asked):
        raise UsageError(
            "There is nothing to set.",
            "Give --memory, --cpus, --parameter, --write-path, --max-lag, --journal-memory, "
            "--journal-pool, --binlog-retention, --recovery-goal, --failover or "
            "--maintenance-window.",
        )
    with work_on_databases(lab, dry_run=dry_run) as (session, databases):
        live, parameters = live_settings(session), database_parameters(session)
        part_of_plan = session.runner.part_of_plan
        # All is planned before anything is changed: what cannot be is refused as a whole.
        limits = live.plan_limits(name, memory_bytes=memory_bytes, cpus=cpus)
        for key, value in assignments:
            parameters.plan_set(name, key, value)
        if sets_path:
            databases.plan_write_path(name, path, **bounds)
        if recovery_goal is not None:
            live.plan_recovery_goal(name, goal_s)
        if retention_s is not None:
            with part_of_plan():
                databases.set_retention(name, retention_s)
        if recovery_goal is not None:
            with part_of_plan():
                live.set_recovery_goal(name, goal_s)
        if mode is not None:
            with part_of_plan():
                databases.set_failover(name, mode)
        if maintenance_window is not None:
            with part_of_plan():
                databases.set_maintenance_window(name, window)
        if limits is not None:
            with part_of_plan():
                live.set_limits(name, memory_bytes=memory_bytes, cpus=cpus)
        done: list[ParameterChange | None] = []
        for key, value in assignments:
            with part_of_plan():
                done.append(parameters.set(name, key, value))
        if sets_path:
            databases.set_write_path(name, path, **bounds)
        view = databases.show(name)
        # A write path was changed with a stop and a start: nothing waits for one any more.
        waiting = [] if sets_path else _waiting(done)
    sentences = [_describe_state(view)]
    if retention_s is not None:
        kept_for = format_interval(retention_s)
        sentences.append(f"The binary logs are kept for at least {kept_for}, if there is space.")
    if recovery_goal is not None:
        goal = describe_recovery_goal(view.record.spec)
        sentences.append(f"Its recovery goal is {goal}." if goal else "It has no recovery goal.")
    if mode is not None:
        sentences.append(f"Its failover is {mode}.")
    if maintenance_window is not None:
        said = "It has no maintenance window."
        sentences.append(said if window is None else f"Its maintenance window is {window} UTC.")
    if sets_path:
        sentences.append(f"Its write path is {describe_safety(view.record.spec)}.")
    sentences += _describe_parameters(view.record, done, waiting)
    make_output(output_format).text(
        {**database_document(view), "parameters": view.record.spec.parameters, "waiting": waiting},
        "\n".join(sentences),
    )


@command(db_app, "restart", "grampus db restart shop")
def db_restart(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Restart a database's server cleanly. Pending parameters take effect."""
    with work_on_databases(lab, dry_run=dry_run) as (session, databases):
        live_settings(session).restart(name)
        view = databases.show(name)
    make_output(output_format).text(
        database_document(view), f"The database '{name}' is {view.status}."
    )


@command(parameter_app, "list", "grampus db parameter list shop")
def parameter_list(
    name: NameArgument,
    everything: Annotated[
        bool, typer.Option("--all", metavar="", help="List every parameter of the server.")
    ] = False,
    lab: LabOption = LAB_DEFAULT,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """List the parameters that were set for a database, and those that need a restart."""
    with work_on_databases(lab) as (session, _):
        views = database_parameters(session).list(name, everything=everything)
    make_output(output_format).table(
        {"parameters": [_parameter_document(view) for view in views]},
        ["parameter", "set to", "running", "state"],
        [[view.name, view.wanted or "-", view.running or "-", view.state] for view in views],
        f"No parameter of '{name}' was set. `grampus db parameter set {name} NAME VALUE` sets one.",
    )


@command(parameter_app, "set", "grampus db parameter set shop innodb_io_capacity 1000")
def parameter_set(
    name: NameArgument,
    parameter: ParameterArgument,
    value: Annotated[str, typer.Argument(help="The value. A size can have a unit, such as 64M.")],
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Set a parameter: at once if the server can, otherwise at the next start."""
    with work_on_databases(lab, dry_run=dry_run) as (session, databases):
        change = database_parameters(session).set(name, parameter, value)
        waiting = _waiting([change])
        _show_parameters(output_format, databases, name, [change], waiting)


@command(parameter_app, "reset", "grampus db parameter reset shop innodb_io_capacity")
def parameter_reset(
    name: NameArgument,
    parameter: ParameterArgument,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Reset a parameter to Grampus's or the server's default, also if the server does not start."""
    with work_on_databases(lab, dry_run=dry_run) as (session, databases):
        change = database_parameters(session).reset(name, parameter)
        _show_parameters(output_format, databases, name, [change], _waiting([change]))


def _waiting(changes: Sequence[ParameterChange | None]) -> list[str]:
    return [change.parameter for change in changes if change and change.waits_for_restart]


def _show_parameters(
    output_format: FormatOption,
    databases: DatabaseService,
    name: str,
    changes: Sequence[ParameterChange | None],
    waiting: Sequence[str],
) -> None:
    record = databases.get(name)
    spec = record.spec
    document = {"database": name, "parameters": spec.parameters, "waiting": list(waiting)}
    sentences = _describe_parameters(record, changes, waiting)
    make_output(output_format).text(document, "\n".join(sentences))


def _describe_state(view: DatabaseView) -> str:
    spec = view.record.spec
    return (
        f"The database '{spec.name}' is {view.status}: {format_cpus(spec.cpus)}, "
        f"{format_bytes(spec.memory_bytes)} of memory, "
        f"{format_bytes(view.record.buffer_pool_bytes)} of it buffer pool."
    )


def _describe_parameters(
    record: DatabaseRecord, changes: Sequence[ParameterChange | None], waiting: Sequence[str]
) -> list[str]:
    spec, sentences = record.spec, []
    for change in changes:
        if change is None:
            sentences.append("The parameter already has this value.")
            continue
        value = change.changed.parameters.get(change.parameter)
        what = f"{change.parameter} is {value if value is not None else 'reset'}"
        when = "from the next start" if change.parameter in waiting else "now"
        sentences.append(f"{what} {when}.")
        if value is not None:
            risk = explain_risk(change.parameter, value, spec.flavour, record.buffer_pool_bytes)
            sentences += [risk] if risk else []
    if waiting:
        sentences.append(f"`grampus db restart {spec.name}` restarts the server.")
        if spec.maintenance_window is not None:
            window = f"{spec.maintenance_window} UTC"
            sentences.append(f"`grampus serve` does so in the maintenance window ({window}).")
    return sentences


def _parameter_document(view: ParameterView) -> dict[str, Any]:
    return {
        "name": view.name,
        "value": view.wanted,
        "running": view.running,
        "state": view.state,
    }
