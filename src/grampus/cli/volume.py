"""`grampus volume`: RBD images attached to hosts."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from grampus.cli.app import command, confirm, make_noun
from grampus.cli.composition import Session
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
    YesOption,
)
from grampus.cli.output import make_output, show_plan
from grampus.core.errors import RefusedError
from grampus.core.names import require_name
from grampus.core.units import format_bytes, parse_bytes
from grampus.lab.model import DATABASE_POOL
from grampus.volumes.model import VolumeRecord

volume_app = make_noun("volume", "RBD images attached to hosts.")
NameArgument = Annotated[str, typer.Argument(help="The volume's name.")]


@command(volume_app, "create", "grampus volume create scratch --size 2G")
def volume_create(
    name: NameArgument,
    size: Annotated[str, typer.Option(metavar="SIZE", help="Size, such as 2G.")],
    pool: Annotated[
        str, typer.Option(metavar="POOL", help="The pool for the image.")
    ] = DATABASE_POOL,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Make a volume; attaching it the first time gives it an XFS file system."""
    session, output = Session(lab), make_output(output_format)
    require_name("volume", name)
    size_bytes = parse_bytes(size)
    with session.sharing_lab(), session.progress:
        volumes = session.volumes()
        _converge(session)
        spec = volumes.plan_create(name, pool, size_bytes)
        if dry_run:
            show_plan(
                output_format,
                [f"Make the image {spec.pool}/{spec.image} ({format_bytes(size_bytes)})"],
            )
            return
        record = volumes.create(spec)
    output.details(volume_document(record), _pairs(record))


@command(volume_app, "list", "grampus volume list")
def volume_list(lab: LabOption = LAB_DEFAULT, output_format: FormatOption = FORMAT_DEFAULT) -> None:
    """All volumes."""
    session = Session(lab)
    session.require_lab()
    records = session.volumes().all()
    make_output(output_format).table(
        {"volumes": [volume_document(record) for record in records]},
        ["name", "image", "size", "host", "driver", "device"],
        [
            [
                record.spec.name,
                f"{record.spec.pool}/{record.spec.image}",
                format_bytes(record.spec.size_bytes),
                record.host or "-",
                record.attachment.driver if record.attachment else "-",
                record.attachment.device if record.attachment else "-",
            ]
            for record in records
        ],
        "There is no volume yet.",
    )


@command(volume_app, "show", "grampus volume show demo --format json")
def volume_show(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """The image, where it is attached, and through which driver."""
    record = Session(lab).volumes().get(name)
    make_output(output_format).details(volume_document(record), _pairs(record))


@command(volume_app, "attach", "grampus volume attach scratch --host h1")
def volume_attach(
    name: NameArgument,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="The host to attach it to, such as h1.")
    ],
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Attach a volume to a host and mount it, or mend an attachment that died."""
    session = Session(lab)
    with session.sharing_lab():
        _converge(session)
        volumes = session.volumes()
        _require_free_of_database(session, name, to_host=host)
        if dry_run:
            show_plan(output_format, volumes.describe_attach(name, host))
            return
        volumes.ensure_attached(name, host)
        record = volumes.get(name)
    make_output(output_format).details(volume_document(record), _pairs(record))


@command(volume_app, "detach", "grampus volume detach scratch")
def volume_detach(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Flush, unmount and detach a volume."""
    session = Session(lab)
    with session.sharing_lab():
        _converge(session)
        volumes = session.volumes()
        volumes.get(name)
        _require_free_of_database(session, name, to_host=None)
        if dry_run:
            show_plan(output_format, volumes.describe_detach(name))
            return
        volumes.ensure_detached(name)
        record = volumes.get(name)
    make_output(output_format).details(volume_document(record), _pairs(record))


@command(volume_app, "delete", "grampus volume delete scratch --yes")
def volume_delete(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Delete a volume and all that is on it."""
    session, output = Session(lab), make_output(output_format)
    record = session.volumes().get(name)
    if name in [view.record.spec.name for view in session.databases().list()]:
        raise RefusedError(
            f"The volume '{name}' holds the database '{name}'.",
            f"Delete the database: `grampus db delete {name}`.",
            code="in-use",
        )
    if dry_run:
        show_plan(
            output_format, ["Detach", f"Remove the image {record.spec.pool}/{record.spec.image}"]
        )
        return
    confirm(f"Delete the volume '{name}' and all that is on it?", yes=yes)
    with session.sharing_lab(), session.progress:
        _converge(session)
        session.volumes().delete(name)
    output.text({"deleted": name}, f"The volume '{name}' is deleted.")


def volume_document(record: VolumeRecord) -> dict[str, Any]:
    """The JSON document of a volume."""
    attachment = record.attachment
    return {
        "name": record.spec.name,
        "pool": record.spec.pool,
        "image": record.spec.image,
        "size_bytes": record.spec.size_bytes,
        "filesystem": record.spec.filesystem,
        "ceph_user": record.ceph_user,
        "host": record.host,
        "driver": attachment.driver if attachment else None,
        "driver_reason": attachment.driver_reason if attachment else None,
        "device": attachment.device if attachment else None,
        "mount_path": attachment.mount_path if attachment else None,
        "client_address": attachment.client_address if attachment else None,
    }


def _pairs(record: VolumeRecord) -> dict[str, str]:
    document = volume_document(record)
    document["size"] = format_bytes(document.pop("size_bytes"))
    return {
        name.replace("_", " "): "-" if value is None else str(value)
        for name, value in document.items()
    }


def _converge(session: Session) -> None:
    for sentence in session.volumes().converge():
        session.progress.note(sentence)


def _require_free_of_database(session: Session, name: str, *, to_host: str | None) -> None:
    """A database's volume is moved and stopped through the database alone."""
    for view in session.databases().list():
        if view.record.spec.name != name:
            continue
        if view.status == "running" and to_host != view.record.spec.host:
            raise RefusedError(
                f"The database '{name}' is running on this volume.",
                f"Stop it first: `grampus db stop {name}`.",
                code="in-use",
            )
