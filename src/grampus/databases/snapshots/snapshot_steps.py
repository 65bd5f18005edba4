"""Snapshots of a database as operations: taken, removed, protected, rolled back to, scheduled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath

from pydantic import ConfigDict

from grampus.core.intervals import format_interval
from grampus.core.models import Model
from grampus.databases.database_work import DatabaseWork, discard
from grampus.databases.kinds import DatabaseOperation
from grampus.databases.layout import plan_instance
from grampus.databases.lifecycle import bring_up
from grampus.databases.model import DatabaseSpec
from grampus.databases.snapshots.decide_retention import SnapshotSchedule
from grampus.databases.step_ports import StepPorts
from grampus.state.operations import Step

# What the image's metadata says of the schedule; rbd takes no empty value.
SCHEDULE_KEY = "snapshot-schedule"
NO_SCHEDULE = "none"


class SnapshotOrder(Model):
    """A snapshot to take or remove."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database: str
    snapshot: str


class SnapshotProtection(Model):
    """Whether a snapshot is to be protected."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database: str
    snapshot: str
    protected: bool


class RollbackChange(Model):
    """A rollback, with all that its steps need."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str  # no other rollback of the database has it
    spec: DatabaseSpec
    snapshot: str
    safety_snapshot: str | None  # taken first, to go back to; None: not wanted
    restarts: bool  # it shall run


class ScheduleChange(Model):
    """Another schedule, or none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database: str
    schedule: SnapshotSchedule | None


def _create_steps(ports: StepPorts, order: SnapshotOrder) -> list[Step]:
    name, snapshot = order.database, order.snapshot
    return [
        Step(
            "snapshot",
            f"Take the snapshot '{snapshot}' of {name}",
            lambda: ports.volumes.ensure_snapshot(name, snapshot),
            lambda: ports.volumes.ensure_snapshot_absent(name, snapshot),
        )
    ]


def _delete_steps(ports: StepPorts, order: SnapshotOrder) -> list[Step]:
    name, snapshot = order.database, order.snapshot
    return [
        Step(
            "snapshot",
            f"Remove the snapshot '{snapshot}' of {name}",
            lambda: ports.volumes.ensure_snapshot_absent(name, snapshot),
        )
    ]


def _protect_steps(ports: StepPorts, order: SnapshotProtection) -> list[Step]:
    name, snapshot = order.database, order.snapshot
    word = "Protect" if order.protected else "Unprotect"

    def change(protected: bool) -> None:
        ports.volumes.ensure_snapshot_protected(name, snapshot, protected=protected)

    return [
        Step(
            "protect",
            f"{word} the snapshot '{snapshot}' of {name}",
            lambda: change(order.protected),
        )
    ]


def _schedule_steps(ports: StepPorts, change: ScheduleChange) -> list[Step]:
    name, schedule = change.database, change.schedule
    said = NO_SCHEDULE if schedule is None else schedule.model_dump_json()
    title = (
        f"Remove the snapshot schedule of {name}"
        if schedule is None
        else f"Set the snapshot schedule of {name}: every {format_interval(schedule.every_s)}"
    )
    return [
        Step("record", title, lambda: ports.records.change(name, snapshot_schedule=schedule)),
        Step(
            "metadata",
            "Record it in the metadata of the image",
            lambda: ports.volumes.set_metadata(name, {SCHEDULE_KEY: said}),
        ),
    ]


def _rollback_steps(ports: StepPorts, change: RollbackChange) -> list[Step]:
    """The rollback. With a safety snapshot it can be undone to the last byte; else never.

    The server starts as one whose data directory was copied: accounts have the passwords that
    they have now, whatever the snapshot's were, and it gets another UUID, because transactions
    that follow would have the GTIDs of those which the rollback took away.
    """
    spec, name, safety = change.spec, change.spec.name, change.safety_snapshot
    work = DatabaseWork(ports, spec)

    def run_again() -> None:
        if change.restarts:
            bring_up(ports, spec)

    def roll_back() -> None:
        record = ports.records.get(name)
        if record.last_rollback == change.id:
            return  # the server may have served since: what was written to it stays
        ports.volumes.ensure_rolled_back(name, change.snapshot)
        ports.records.change(name, last_rollback=change.id)

    def go_back() -> None:
        work.kill_server()
        detach()
        if safety is not None and any(s.name == safety for s in ports.volumes.snapshots(name)):
            ports.volumes.ensure_rolled_back(name, safety)

    def forget_passwords() -> None:
        work.kill_server()
        host = work.host()
        plan = plan_instance(spec, host.data_dir, PurePosixPath("/nonexistent"))
        host.run(["rm", "-f", str(plan.accounts_file)])

    def detach() -> None:
        ports.volumes.ensure_detached(name)

    steps = [
        Step("server", "Stop the server", work.stop_server, run_again),
        Step("detach", "Detach the volume, with its journal applied", detach),
    ]
    if safety is not None:
        steps.append(
            Step(
                "safety",
                f"Take the safety snapshot '{safety}'",
                lambda: ports.volumes.ensure_snapshot(name, safety),
            )
        )
    steps += [
        Step(
            "rollback",
            f"Roll the volume back to the snapshot '{change.snapshot}'",
            roll_back,
            go_back,
        ),
        Step(
            "attach",
            f"Attach the volume to {spec.host}",
            lambda: discard(ports.volumes.ensure_attached(name, spec.host)),
        ),
        Step("files", "Write configuration", work.files),
        Step(
            "address",
            work.giving,
            work.give_address,
            None if change.restarts else work.take_address,
        ),
        Step(
            "serve",
            f"Start the {spec.flavour} server with the current passwords",
            lambda: work.begin_serving_as_new(makes_accounts=False, is_new=False),
            forget_passwords,
        ),
        Step("answer", "Wait until it answers", work.finish_serving_as_new),
    ]
    if change.restarts:
        return steps
    return [
        *steps,
        Step("stop", "Stop the server, as before", work.stop_server),
        Step("address-away", work.taking, work.take_address),
        Step("detach-again", "Detach the volume", detach),
    ]


TAKE_SNAPSHOT = DatabaseOperation(
    kind="db.snapshot",
    # Finished later, it would hold another moment than the one that it was asked for.
    when_cut_off="undo",
    what="snapshot of the database",
    document=SnapshotOrder,
    build=_create_steps,
    subject=lambda order: order.database,
)
DELETE_SNAPSHOT = replace(
    TAKE_SNAPSHOT,
    kind="db.snapshot-delete",
    when_cut_off="finish",
    what="removal of a snapshot of the database",
    build=_delete_steps,
)
PROTECT_SNAPSHOT = DatabaseOperation(
    kind="db.snapshot-protect",
    when_cut_off="finish",
    what="change of protection of a snapshot of the database",
    document=SnapshotProtection,
    build=_protect_steps,
    subject=lambda order: order.database,
)
SCHEDULE_SNAPSHOTS = DatabaseOperation(
    kind="db.snapshot-schedule",
    when_cut_off="finish",
    what="change of the snapshot schedule of the database",
    document=ScheduleChange,
    build=_schedule_steps,
    subject=lambda change: change.database,
)
ROLLBACK = DatabaseOperation(
    kind="db.rollback",
    when_cut_off="finish-or-undo",
    what="rollback of the database",
    document=RollbackChange,
    build=_rollback_steps,
    subject=lambda change: change.spec.name,
    address=lambda change: change.spec.held_address,
    opens_volume=True,
    closes_image=True,
)
# Half of it cannot be undone: what was there before is nowhere.
ROLLBACK_FOR_GOOD = replace(ROLLBACK, kind="db.rollback-for-good", when_cut_off="finish")
