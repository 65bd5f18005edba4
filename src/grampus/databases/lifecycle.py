"""Deleting, starting and stopping a database, as lists of steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from grampus.databases.database_work import DatabaseWork
from grampus.databases.kinds import DatabaseOperation
from grampus.databases.left_instances import unless_lost
from grampus.databases.model import DatabaseRecord, DatabaseSpec, StartOrder
from grampus.databases.step_ports import StepPorts
from grampus.operations.operation_type import WhenCutOff
from grampus.state.operations import Step


def _delete_steps(ports: StepPorts, spec: DatabaseSpec) -> list[Step]:
    name = spec.name
    work = DatabaseWork(ports, spec)

    return [
        Step("mark", f"Mark {name} as deleting", work.mark_deleting),
        Step("server", "Stop the server", unless_lost(work.remove_daemons)),
        Step("scratch", "Remove its scratch instance, if any", unless_lost(work.remove_scratch)),
        Step("address", work.taking, unless_lost(work.take_address)),
        Step("volume", "Remove the volume", work.remove_volume),
        Step("files", f"Remove its files on {spec.host}", unless_lost(work.remove_files)),
        Step("secrets", "Delete its passwords", lambda: ports.credentials.ensure_absent(name)),
        Step("record", f"Delete the record of {name}", work.forget),
    ]


def make_start_order(record: DatabaseRecord) -> StartOrder:
    """A start of the database as it is recorded."""
    return StartOrder(**dict(record.spec), former_desired=record.desired)


def _start_steps(ports: StepPorts, order: StartOrder) -> list[Step]:
    """The database runs, from now on and after every restart of its host.

    Undone, the user wants of it what they wanted before: one that was to run when it failed is
    brought up again by the next `lab up` and by the controller (INV-71).
    """
    former = order.former_desired
    want = Step(
        "want",
        f"Record that {order.name} must run",
        lambda: DatabaseWork(ports, order).desire("running"),
        # Unknown: the user has asked for it to run.
        lambda: None if former is None else DatabaseWork(ports, order).desire(former),
    )
    return [want, *bring_up_steps(ports, order)]


def bring_up_steps(ports: StepPorts, spec: DatabaseSpec) -> list[Step]:
    """As a start, but for what the user wants of the database."""
    work = DatabaseWork(ports, spec)
    return [
        Step(
            "attach",
            f"Attach the volume to {spec.host}",
            work.attach_again,
            work.detach_own,
        ),
        Step("files", "Write configuration", work.files),
        Step("address", work.giving, work.give_address, work.take_address),
        Step("serve", f"Start the {spec.flavour} server", work.serve, work.end_server),
        Step("finish", "Record its version", work.finish),
    ]


def _stop_steps(ports: StepPorts, spec: DatabaseSpec) -> list[Step]:
    work = DatabaseWork(ports, spec)
    return [
        Step("want", f"Record that {spec.name} must not run", lambda: work.desire("stopped")),
        Step("server", "Stop the server", work.stop_server),
        Step("address", work.taking, work.take_address),
        Step("detach", "Detach the volume", work.detach_own),
    ]


def bring_up(ports: StepPorts, spec: DatabaseSpec) -> None:
    """As a start, but for what the user wants of the database."""
    for step in bring_up_steps(ports, spec):
        step.apply()


def take_down(ports: StepPorts, spec: DatabaseSpec) -> None:
    """As a stop, but for what the user wants of the database."""
    for step in _stop_steps(ports, spec)[1:]:
        step.apply()


def _type(
    kind: str,
    what: str,
    build: Callable[[StepPorts, DatabaseSpec], list[Step]],
    when_cut_off: WhenCutOff,
) -> DatabaseOperation[DatabaseSpec]:
    return DatabaseOperation(
        kind=kind,
        what=what,
        document=DatabaseSpec,
        build=build,
        subject=lambda spec: spec.name,
        when_cut_off=when_cut_off,
        address=lambda spec: spec.held_address,
    )


DELETE = replace(
    _type("db.delete", "deletion of the database", _delete_steps, "finish"), takes_volume=True
)
START = DatabaseOperation(
    kind="db.start",
    what="start of the database",
    document=StartOrder,
    build=_start_steps,
    subject=lambda order: order.name,
    when_cut_off="finish-or-undo",
    address=lambda order: order.held_address,
    closes_image=True,
    opens_volume=True,
)
STOP = replace(_type("db.stop", "stop of the database", _stop_steps, "finish"), closes_image=True)
