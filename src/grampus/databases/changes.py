"""Changes of a database, as lists of steps: protection, size, write path, failover mode."""

from __future__ import annotations

from grampus.core.intervals import format_interval
from grampus.core.units import format_bytes
from grampus.databases.binlog_keeping.expiry import ensure_running_expiry
from grampus.databases.database_work import DatabaseWork
from grampus.databases.kinds import DatabaseOperation
from grampus.databases.lifecycle import bring_up, bring_up_steps
from grampus.databases.model import DatabaseRecord, DatabaseSpec, WritePathChange
from grampus.databases.step_ports import StepPorts
from grampus.state.operations import Step
from grampus.volumes.write_paths import bounds_of, describe_written


def record_step(ports: StepPorts, spec: DatabaseSpec, what: str) -> Step:
    """The step that records the changed spec; `what` ends the sentence "Record that"."""
    return Step("record", f"Record that {what}", lambda: ports.records.change(spec.name, spec=spec))


def _protect_steps(ports: StepPorts, spec: DatabaseSpec) -> list[Step]:
    word = "protected" if spec.protected else "not protected"
    return [
        record_step(ports, spec, f"{spec.name} is {word}"),
        Step(
            "metadata",
            "Record it in the metadata of the image",
            DatabaseWork(ports, spec).write_facts,
        ),
    ]


def _resize_steps(ports: StepPorts, spec: DatabaseSpec) -> list[Step]:
    size = format_bytes(spec.size_bytes)
    return [
        Step(
            "volume",
            f"Grow the volume to {size}",
            lambda: ports.volumes.ensure_size(spec.name, spec.size_bytes),
        ),
        record_step(ports, spec, f"{spec.name} has {size}"),
        Step(
            "metadata",
            "Record it in the metadata of the image",
            DatabaseWork(ports, spec).write_facts,
        ),
    ]


def write_path_change(record: DatabaseRecord, changed: DatabaseSpec) -> WritePathChange:
    """The change of a database's write path, with what its undo needs."""
    return WritePathChange(
        changed=changed,
        former=record.spec.write_path,
        former_max_lag_ms=record.spec.max_lag_ms,
        former_journal_memory_bytes=record.spec.journal_memory_bytes,
        former_journal_pool=record.spec.journal_pool,
        restarts=record.desired == "running",
    )


def _set_steps(ports: StepPorts, change: WritePathChange) -> list[Step]:
    """A change of the write path, which is settled while the volume is attached nowhere.

    It keeps what the user wants of the database: undone, it runs again as it did before.
    """
    spec = change.changed
    former = spec.model_copy(
        update={
            "write_path": change.former,
            "max_lag_ms": change.former_max_lag_ms,
            "journal_memory_bytes": change.former_journal_memory_bytes,
            "journal_pool": change.former_journal_pool,
        }
    )
    name, work, former_work = spec.name, DatabaseWork(ports, spec), DatabaseWork(ports, former)

    def detach() -> None:
        ports.volumes.ensure_detached(name)

    def write_by(path_of: DatabaseSpec) -> None:
        ports.volumes.ensure_write_path(name, path_of.write_path, **bounds_of(path_of))

    stop = Step("server", "Stop the server", work.stop_server, lambda: bring_up(ports, former))
    change_steps = [
        Step("detach", "Detach the volume", detach),
        Step(
            "volume",
            f"Set the write path of the volume to {describe_written(spec)}",
            lambda: write_by(spec),
            lambda: write_by(former),
        ),
        Step(
            "record",
            f"Record it with {name}",
            lambda: ports.records.change(name, spec=spec),
            lambda: ports.records.change(name, spec=former),
        ),
        Step(
            "metadata",
            "Record it in the metadata of the image",
            work.write_facts,
            former_work.write_facts,
        ),
    ]
    if not change.restarts:
        return change_steps
    return [stop, *change_steps, *bring_up_steps(ports, spec)]


def _retention_steps(ports: StepPorts, spec: DatabaseSpec) -> list[Step]:
    kept = spec.binlog_retention_s
    said = "for the default time" if kept is None else f"for {format_interval(kept)}"
    return [
        record_step(ports, spec, f"{spec.name} keeps binary logs {said}"),
        Step(
            "server",
            "Set the retention of binary logs in the server",
            lambda: ensure_running_expiry(ports, spec),
        ),
    ]


def _failover_mode_steps(ports: StepPorts, spec: DatabaseSpec) -> list[Step]:
    return [record_step(ports, spec, f"the failover of {spec.name} is {spec.failover}")]


def _window_steps(ports: StepPorts, spec: DatabaseSpec) -> list[Step]:
    window = spec.maintenance_window
    said = "no maintenance window" if window is None else f"the maintenance window {window} UTC"
    return [record_step(ports, spec, f"{spec.name} has {said}")]


PROTECT = DatabaseOperation(
    kind="db.protect",
    what="change of protection of the database",
    document=DatabaseSpec,
    build=_protect_steps,
    subject=lambda spec: spec.name,
    when_cut_off="finish",
)
SET_FAILOVER = DatabaseOperation(
    kind="db.failover-mode",
    what="change of the failover mode of the database",
    document=DatabaseSpec,
    build=_failover_mode_steps,
    subject=lambda spec: spec.name,
    when_cut_off="finish",
)
SET_WINDOW = DatabaseOperation(
    kind="db.maintenance-window",
    what="change of the maintenance window of the database",
    document=DatabaseSpec,
    build=_window_steps,
    subject=lambda spec: spec.name,
    when_cut_off="finish",
)
SET_RETENTION = DatabaseOperation(
    kind="db.binlog-retention",
    what="change of the retention of binary logs of the database",
    document=DatabaseSpec,
    build=_retention_steps,
    subject=lambda spec: spec.name,
    when_cut_off="finish",
    goes_with_database=True,
)
RESIZE = DatabaseOperation(
    kind="db.resize",
    what="resize of the database",
    document=DatabaseSpec,
    build=_resize_steps,
    subject=lambda spec: spec.name,
    when_cut_off="finish",
    opens_volume=True,
)
SET_WRITE_PATH = DatabaseOperation(
    kind="db.set",
    what="change of the write path of the database",
    document=WritePathChange,
    build=_set_steps,
    subject=lambda change: change.changed.name,
    when_cut_off="finish-or-undo",
    opens_volume=True,
    closes_image=True,
)
