"""`grampus volume snapshot`, `volume clone` and `volume flatten`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from grampus.cli.app import command, make_noun
from grampus.cli.composition.session import Session
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    JournalMemoryOption,
    JournalPoolOption,
    LabOption,
    MaxLagOption,
    WritePathOption,
    YesOption,
)
from grampus.cli.output import OutputFormat, make_output
from grampus.cli.volume import (
    NameArgument,
    details_of_record,
    volume_app,
    volume_document,
)
from grampus.cli.work import work_on_volumes
from grampus.core.clock import format_moment
from grampus.core.errors import NotFoundError, RefusedError, UsageError
from grampus.core.units import format_bytes, parse_bytes
from grampus.volumes.decide_snapshot import require_snapshot
from grampus.volumes.model import CloneSource, MeasuredSnapshots, SnapshotInfo, VolumeSpec
from grampus.volumes.service import VolumeService
from grampus.volumes.write_paths import decide_written, parse_write_options

snapshot_app = make_noun("snapshot", "Snapshots of volumes.", under=volume_app)
SnapshotArgument = Annotated[str, typer.Argument(help="The snapshot's name.")]


@command(snapshot_app, "create", "grampus volume snapshot create scratch before")
def snapshot_create(
    name: NameArgument,
    snapshot: SnapshotArgument,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Take a snapshot with all flushed data, also while the volume is written to."""
    with work_on_volumes(lab, dry_run=dry_run) as (_, volumes):
        volumes.require_snapshot_new(name, snapshot)
        volumes.ensure_snapshot(name, snapshot)
        command = f"grampus volume snapshot list {name}"
        taken = volumes.snapshots(name)
        info = require_snapshot(name, taken, snapshot, list_command=command)
    make_output(output_format).details(snapshot_document(info), details_of_snapshot(name, info))


@command(snapshot_app, "list", "grampus volume snapshot list scratch")
def snapshot_list(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """List the snapshots of a volume, oldest first, with the data that each one added."""
    measured = Session(lab).volumes().measure_snapshots(name)
    show_snapshots(output_format, f"'{name}' has no snapshot yet.", measured)


@command(snapshot_app, "delete", "grampus volume snapshot delete scratch before --yes")
def snapshot_delete(
    name: NameArgument,
    snapshot: SnapshotArgument,
    lab: LabOption = LAB_DEFAULT,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Remove a snapshot that is not protected and has no clones."""
    with work_on_volumes(lab, dry_run=dry_run) as (session, volumes):
        _require_no_database(session, name, f"grampus db snapshot delete {name} {snapshot}")
        volumes.require_snapshot_removable(name, snapshot)
        session.confirm(f"Remove the snapshot '{snapshot}' of the volume '{name}'?", yes=yes)
        volumes.ensure_snapshot_absent(name, snapshot)
    make_output(output_format).text(
        {"deleted": snapshot, "volume": name},
        f"The snapshot '{snapshot}' of the volume '{name}' is removed.",
    )


@command(snapshot_app, "protect", "grampus volume snapshot protect scratch before")
def snapshot_protect(
    name: NameArgument,
    snapshot: SnapshotArgument,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Refuse to remove a snapshot."""
    _set_protection(name, snapshot, lab, output_format, protected=True, dry_run=dry_run)


@command(snapshot_app, "unprotect", "grampus volume snapshot unprotect scratch before")
def snapshot_unprotect(
    name: NameArgument,
    snapshot: SnapshotArgument,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Allow the removal of a snapshot again."""
    _set_protection(name, snapshot, lab, output_format, protected=False, dry_run=dry_run)


@command(snapshot_app, "rollback", "grampus volume snapshot rollback scratch before --yes")
def snapshot_rollback(
    name: NameArgument,
    snapshot: SnapshotArgument,
    lab: LabOption = LAB_DEFAULT,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Return a detached volume to a snapshot. All later writes are lost."""
    with work_on_volumes(lab, dry_run=dry_run) as (session, volumes):
        _require_no_database(session, name, f"grampus db snapshot rollback {name} {snapshot}")
        volumes.require_rollable(name, snapshot)
        question = f"Roll '{name}' back to '{snapshot}', and lose all later writes?"
        session.confirm(question, yes=yes)
        volumes.ensure_rolled_back(name, snapshot)
        record = volumes.get(name)
    make_output(output_format).text(
        {**volume_document(record), "rolled_back_to": snapshot},
        f"The volume '{name}' is back at '{snapshot}'.",
    )


@command(volume_app, "clone", "grampus volume clone scratch@before copy --size 4G")
def volume_clone(
    source: Annotated[
        str, typer.Argument(metavar="VOLUME@SNAPSHOT", help="The snapshot to clone.")
    ],
    name: Annotated[str, typer.Argument(help="The clone's name.")],
    size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Size of the clone (default: the snapshot's)."),
    ] = None,
    write_path: WritePathOption = None,
    max_lag: MaxLagOption = None,
    journal_memory: JournalMemoryOption = None,
    journal_pool: JournalPoolOption = None,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Create a volume that shares a snapshot's data until one of them is written to."""
    parent, snapshot = parse_source(source)
    size_bytes = None if size is None else parse_bytes(size)
    path, bounds = parse_write_options(write_path, max_lag, journal_memory, journal_pool)
    with work_on_volumes(lab, dry_run=dry_run) as (_, volumes):
        record = volumes.get(parent)
        spec = VolumeSpec(
            name=name,
            pool=record.spec.pool,
            image=name,
            size_bytes=size_bytes or _size_of(volumes, parent, snapshot),
            filesystem_bytes=record.spec.filesystem_bytes,
        )
        spec = decide_written(spec, path, **bounds)
        origin = CloneSource(pool=record.spec.pool, image=record.spec.image, snapshot=snapshot)
        clone = volumes.clone(volumes.plan_clone(spec, origin))
    make_output(output_format).details(
        {**volume_document(clone), "cloned_from": f"{parent}@{snapshot}"},
        {**details_of_record(clone), "cloned from": f"{parent}@{snapshot}"},
    )


@command(volume_app, "flatten", "grampus volume flatten copy")
def volume_flatten(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Copy the data that a clone still shares, so that the clone is independent, also while it is
    used.
    """
    with work_on_volumes(lab, dry_run=dry_run) as (session, volumes):
        parent = volumes.lineage(name).parent
        if parent is not None:
            step = f"Copy to '{name}' the data that it shares with {parent.image}@{parent.snapshot}"
        else:
            step = f"Finish an interrupted flattening of '{name}'"
        if volumes.needs_flattening(name):
            session.runner.propose(lambda: [step])
            session.progress.phase(step)
            volumes.ensure_flattened(name)
    make_output(output_format).text(
        {"name": name, "flattened": parent is not None},
        f"The volume '{name}' is independent."
        if parent is not None
        else f"The volume '{name}' is independent already.",
    )


def parse_source(text: str) -> tuple[str, str]:
    """The name and the snapshot in `NAME@SNAPSHOT`. Raises UsageError."""
    name, separator, snapshot = text.partition("@")
    if not separator or not name or not snapshot:
        raise UsageError(
            f"{text!r} is not a snapshot.", "Write NAME@SNAPSHOT, such as scratch@before."
        )
    return name, snapshot


def snapshot_document(info: SnapshotInfo) -> dict[str, Any]:
    """The JSON document of a snapshot."""
    return info.model_dump(mode="json")


def details_of_snapshot(name: str, info: SnapshotInfo) -> dict[str, str]:
    """A snapshot for people."""
    return {
        "snapshot": f"{name}@{info.name}",
        "taken": format_moment(info.created_at),
        "size": format_bytes(info.size_bytes),
        "protected": "yes" if info.protected else "no",
    }


def show_snapshots(output_format: OutputFormat, empty: str, measured: MeasuredSnapshots) -> None:
    """A table of snapshots, and what was written after the newest."""
    infos, since_bytes = measured.snapshots, measured.since_last_bytes
    rows = [
        [
            info.name,
            format_moment(info.created_at),
            format_bytes(info.size_bytes),
            "-" if info.used_bytes is None else format_bytes(info.used_bytes),
            "yes" if info.protected else "no",
        ]
        for info in infos
    ]
    if since_bytes is not None:
        rows.append(["(since the last)", "-", "-", format_bytes(since_bytes), "-"])
    make_output(output_format).table(
        {
            "snapshots": [snapshot_document(info) for info in infos],
            "since_last_bytes": since_bytes,
        },
        ["snapshot", "taken", "size", "new data", "protected"],
        rows,
        empty,
    )


def _set_protection(
    name: str,
    snapshot: str,
    lab: str,
    output_format: OutputFormat,
    *,
    protected: bool,
    dry_run: bool,
) -> None:
    with work_on_volumes(lab, dry_run=dry_run) as (_, volumes):
        volumes.ensure_snapshot_protected(name, snapshot, protected=protected)
    state = "protected" if protected else "no longer protected"
    make_output(output_format).text(
        {"volume": name, "snapshot": snapshot, "protected": protected},
        f"The snapshot '{snapshot}' of the volume '{name}' is {state}.",
    )


def _size_of(volumes: VolumeService, name: str, snapshot: str) -> int:
    """The snapshot's size; that of the volume when there is none: planning says so."""
    sizes = {info.name: info.size_bytes for info in volumes.snapshots(name)}
    return sizes.get(snapshot, volumes.get(name).spec.size_bytes)


def _require_no_database(session: Session, name: str, instead: str) -> None:
    """Raise RefusedError when the volume is a database's: that has a journal of its own."""
    try:
        session.databases().get(name)
    except NotFoundError:
        return
    raise RefusedError(
        f"The volume '{name}' belongs to the database '{name}'.", f"Use `{instead}`.", code="in-use"
    )
