"""`grampus volume trim` and `grampus db trim`: deleted data's room given back to the pool."""

from __future__ import annotations

from grampus.cli.app import command
from grampus.cli.composition.trim import volume_trims
from grampus.cli.db import NameArgument as DatabaseArgument
from grampus.cli.db import db_app
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
)
from grampus.cli.output import OutputFormat, make_output
from grampus.cli.volume import NameArgument, volume_app
from grampus.cli.work import work_on_databases, work_on_volumes
from grampus.core.units import format_bytes
from grampus.volumes.trimming import LITTLE_HELD_BYTES, Trimmed, VolumeTrims


@command(volume_app, "trim", "grampus volume trim scratch")
def volume_trim(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Return the space of deleted files to the pool, while the volume is used.

    Without a trim, the pool keeps all blocks that the file system ever wrote, also those of deleted
    files.
    """
    with work_on_volumes(lab, dry_run=dry_run) as (session, volumes):
        _trim(volume_trims(session, volumes), "volume", name, output_format)


@command(db_app, "trim", "grampus db trim shop")
def db_trim(
    name: DatabaseArgument,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Return the space of dropped tables and purged logs to the pool, while the database runs."""
    with work_on_databases(lab, dry_run=dry_run) as (session, databases):
        databases.get(name)
        _trim(volume_trims(session, session.volumes()), "database", name, output_format)


def _trim(trims: VolumeTrims, kind: str, name: str, output_format: OutputFormat) -> None:
    trimmed = trims.trim(name)
    document = {
        kind: name,
        "used_before_bytes": trimmed.used_before_bytes,
        "used_after_bytes": trimmed.used_after_bytes,
        "journal_held_before_bytes": trimmed.held_before_bytes,
        "journal_held_after_bytes": trimmed.held_after_bytes,
    }
    make_output(output_format).text(document, conclusion(kind, name, trimmed))


def conclusion(kind: str, name: str, trimmed: Trimmed) -> str:
    """What it came to, for people."""
    now = f"uses {format_bytes(trimmed.used_after_bytes)} of its pool, before copies"
    if trimmed.used_after_bytes < trimmed.used_before_bytes:
        before = f"Before, it used {format_bytes(trimmed.used_before_bytes)}."
    else:
        before = "There was no space to return."
    return " ".join([f"The {kind} '{name}' {now}. {before}", *_not_counted(trimmed)])


def _not_counted(trimmed: Trimmed) -> list[str]:
    held = (trimmed.held_before_bytes, trimmed.held_after_bytes)
    known = [one for one in held if one is not None]
    if len(known) < len(held):
        return ["Its driver did not say how much its journal holds, which is not counted."]
    if max(known) > LITTLE_HELD_BYTES:
        return [
            f"Its journal held {format_bytes(known[0])} before and {format_bytes(known[1])} after "
            "the trim, which are not counted."
        ]
    return []
