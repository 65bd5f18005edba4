"""A change of a database's backup schedule, as an operation."""

from __future__ import annotations

from pydantic import ConfigDict

from grampus.core.intervals import format_interval
from grampus.core.models import Model
from grampus.databases.backup.decide_schedule import BackupSchedule
from grampus.databases.kinds import DatabaseOperation
from grampus.databases.step_ports import StepPorts
from grampus.state.operations import Step

# What the image's metadata says of the schedule; rbd takes no empty value.
BACKUP_SCHEDULE_KEY = "backup-schedule"
NO_SCHEDULE = "none"


class BackupScheduleChange(Model):
    """Another schedule, or none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database: str
    schedule: BackupSchedule | None


def _steps(ports: StepPorts, change: BackupScheduleChange) -> list[Step]:
    name, schedule = change.database, change.schedule
    said = NO_SCHEDULE if schedule is None else schedule.model_dump_json()
    title = (
        f"Remove the backup schedule of {name}"
        if schedule is None
        else f"Set the backup schedule of {name}: every {format_interval(schedule.every_s)} "
        f"to {schedule.place.url}"
    )
    return [
        Step("record", title, lambda: ports.records.change(name, backup_schedule=schedule)),
        Step(
            "metadata",
            "Record it in the metadata of the image",
            lambda: ports.volumes.set_metadata(name, {BACKUP_SCHEDULE_KEY: said}),
        ),
    ]


SCHEDULE_BACKUPS = DatabaseOperation(
    kind="db.backup-schedule",
    what="change of the backup schedule of the database",
    document=BackupScheduleChange,
    build=_steps,
    subject=lambda change: change.database,
    when_cut_off="finish",
)
