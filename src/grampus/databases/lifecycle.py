"""Deleting, starting and stopping a database, as lists of steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from grampus.databases.database_work import DatabaseWork
from grampus.databases.kinds import OperationType, WhenCutOff
from grampus.databases.model import DatabaseSpec
from grampus.databases.step_ports import StepPorts
from grampus.state.operations import Step


def _delete_steps(ports: StepPorts, spec: DatabaseSpec) -> list[Step]:
    name = spec.name
    work = DatabaseWork(ports, spec)
    return [
        Step("mark", f"Mark {name} as deleting", work.mark_deleting),
        Step("server", "Stop the server", work.remove_daemons),
        Step("scratch", "Remove its scratch instance, if any", work.remove_scratch),
        Step("address", f"Take the address {spec.address} away", work.address_changes()[1]),
        Step("volume", "Remove the volume", work.remove_volume),
        Step("files", f"Remove its files on {spec.host}", work.remove_files),
        Step("secrets", "Forget passwords", lambda: ports.credentials.ensure_absent(name)),
        Step("record", f"Forget {name}", lambda: ports.records.remove(name)),
    ]


def start_steps(ports: StepPorts, spec: DatabaseSpec) -> list[Step]:
    """The database runs, from now on and after every restart of its host."""
    work = DatabaseWork(ports, spec)
    return [
        Step("want", f"Note that {spec.name} shall run", *work.desire_changes("running")),
        Step(
            "attach",
            f"Attach the volume to {spec.host}",
            work.attach_again,
            work.detach_own,
        ),
        Step("files", "Write configuration", work.files),
        Step("address", f"Give {spec.host} the address {spec.address}", *work.address_changes()),
        Step("serve", f"Start the {spec.flavour} server", work.serve, work.stop_server),
        Step("finish", "Note its version", work.finish),
    ]


def _stop_steps(ports: StepPorts, spec: DatabaseSpec) -> list[Step]:
    work = DatabaseWork(ports, spec)
    return [
        Step("want", f"Note that {spec.name} shall not run", work.desire_changes("stopped")[0]),
        Step("server", "Stop the server", work.stop_server),
        Step("address", f"Take the address {spec.address} away", work.address_changes()[1]),
        Step("detach", "Detach the volume", work.detach_own),
    ]


def bring_up(ports: StepPorts, spec: DatabaseSpec) -> None:
    """As a start, but for what the user wants of the database."""
    for step in start_steps(ports, spec)[1:]:
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
) -> OperationType[DatabaseSpec]:
    return OperationType(
        kind=kind,
        what=what,
        document=DatabaseSpec,
        build=build,
        subject=lambda spec: spec.name,
        when_cut_off=when_cut_off,
        address=lambda spec: spec.address,
    )


DELETE = replace(
    _type("db.delete", "deletion of the database", _delete_steps, "finish"), takes_volume=True
)
START = replace(
    _type("db.start", "start of the database", start_steps, "finish-or-undo"),
    closes_image=True,
    opens_volume=True,
)
STOP = replace(_type("db.stop", "stop of the database", _stop_steps, "finish"), closes_image=True)
