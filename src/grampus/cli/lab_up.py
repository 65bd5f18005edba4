"""`grampus lab up` and `lab down`: with the lab, its databases come and go."""

from __future__ import annotations

from typing import Annotated

import typer

from grampus.cli.app import command, confirm
from grampus.cli.composition.session import Session
from grampus.cli.lab import lab_app, lab_document
from grampus.cli.lab_settle import silence_left_instances, start_databases, stop_databases
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
    YesOption,
    in_lab,
)
from grampus.cli.output import make_output
from grampus.core.errors import UsageError
from grampus.core.units import parse_bytes
from grampus.hosts.media import MEDIA, MediaName
from grampus.lab.labs import LabRequest


def require_media(text: str | None) -> MediaName | None:
    """The media named, or None. Raises UsageError."""
    if text is None:
        return None
    for media in MEDIA:
        if text == media:
            return media
    raise UsageError(f"'{text}' is not a media name.", f"Choose one of {', '.join(MEDIA)}.")


@command(lab_app, "up", "grampus lab up --hosts 3 --osds-per-host 1 --media nvme")
def lab_up(
    lab: LabOption = LAB_DEFAULT,
    hosts: Annotated[
        int | None, typer.Option(metavar="N", help="Hosts (3 to 9; default 3).")
    ] = None,
    osds_per_host: Annotated[
        int | None, typer.Option(metavar="N", help="OSDs on each host (1 to 8; default 1).")
    ] = None,
    media: Annotated[
        str | None,
        typer.Option(metavar="MEDIA", help="Media of the OSDs: nvme, ssd or hdd (default nvme)."),
    ] = None,
    osd_size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Size of each OSD, a sparse file (default 20G, less on a small disk).",
        ),
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE",
            help="Host image: sid, trixie, or bookworm with Ceph 16 (default: the first "
            "available of sid and trixie).",
        ),
    ] = None,
    secure: Annotated[
        bool | None,
        typer.Option(
            "--secure/--no-secure",
            metavar="",
            help="Encrypt all traffic of the cluster's daemons and clients (msgr2 secure "
            "mode). This costs CPU (default: no).",
        ),
    ] = None,
    osd_hosts: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Number of hosts with OSDs, the first ones. The others run only databases "
            "(default: all).",
        ),
    ] = None,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Start the lab: a new one, or again after `lab down --keep`, a crash or a reboot."""
    session, output = Session(lab, makes_lab=True), make_output(output_format)
    request = LabRequest(
        name=lab,
        hosts=hosts,
        osds_per_host=osds_per_host,
        media=require_media(media),
        osd_size_bytes=None if osd_size is None else parse_bytes(osd_size, what="OSD size"),
        image=image,
        is_secure=secure,
        osd_hosts=osd_hosts,
    )
    with session.alone_in_lab(), session.progress, session.planning(dry_run=dry_run):
        session.require_no_site()
        service = session.lab()
        spec = service.unfinished_spec() if service.find_spec() is None else None
        spec = spec or service.plan_up(request, build_image=not dry_run)
        if service.find_spec() is not None and not dry_run:
            silence_left_instances(session)
        service.up(spec)
        start_databases(session)
    view = session.lab().observe(spec)
    document = lab_document(view)
    cluster = view.cluster
    health = cluster.health if cluster else "unknown"
    output.text(
        document,
        f"The lab '{lab}' is up: {spec.host_count} hosts, {spec.osd_count} OSDs, {health}.\n"
        f"Next: {in_lab('grampus db create demo --size 4G', lab)}",
    )


@command(lab_app, "down", "grampus lab down --keep")
def lab_down(
    lab: LabOption = LAB_DEFAULT,
    keep: Annotated[
        bool, typer.Option("--keep", metavar="", help="Keep all data for the next `lab up`.")
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Remove the lab from this machine with all its databases. --keep keeps their data on disk."""
    session, output = Session(lab), make_output(output_format)
    service, spec = session.lab(), session.require_lab_or_rest()
    databases = (
        []
        if keep or service.find_spec() is None
        else [view.record.spec.name for view in session.databases().list()]
    )
    if databases:
        confirm(
            (f"This deletes the lab '{lab}' and its databases: {', '.join(databases)}. Continue?"),
            yes=yes or dry_run,
        )
    with session.alone_in_lab(), session.progress, session.planning(dry_run=dry_run):
        if keep and service.find_spec() is not None and not dry_run:
            stop_databases(session)
        service.down(spec, keep=keep)
    kept = "its data is kept" if keep else "all its data is removed"
    output.text({"lab": lab, "kept": keep}, f"The lab '{lab}' is down; {kept}.")
