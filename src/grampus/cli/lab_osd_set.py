"""`grampus lab osd-set`: further OSDs beside the lab's first ones, on media of their own."""

from __future__ import annotations

import os
import shutil
from typing import Annotated, Any, TypeVar

import typer

from grampus.cli.app import command, confirm, make_noun
from grampus.cli.composition.lab import LabSession
from grampus.cli.composition.osd_sets import lab_osd_sets
from grampus.cli.lab import lab_app
from grampus.cli.lab_up import require_media
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
from grampus.core.errors import UsageError, closest_name
from grampus.core.units import parse_bytes
from grampus.hosts.media import WAL_DB_MEDIA
from grampus.lab.model import MIN_OSD_SIZE_BYTES
from grampus.lab.object_stores import OBJECT_STORES
from grampus.lab.osd_set import ObjectStoreName, OsdSet, describe_osd_set
from grampus.lab.osd_set_service import OsdSetView, decide_osd_bytes, require_possible

STORES: tuple[ObjectStoreName, ...] = tuple(OBJECT_STORES)
WordT = TypeVar("WordT", bound=str)

osd_set_app = make_noun(
    "osd-set", "Additional OSDs beside the first ones, on other media.", under=lab_app
)


@command(osd_set_app, "add", "grampus lab osd-set add disks --media hdd --wal-db nvme")
def osd_set_add(
    name: Annotated[str, typer.Argument(help="Name of the set. Its pool is databases-NAME.")],
    media: Annotated[
        str, typer.Option(metavar="MEDIA", help="Media of the OSDs: nvme, ssd or hdd.")
    ],
    devices_per_host: Annotated[int, typer.Option(metavar="N", help="Devices on each host.")] = 1,
    osds_per_device: Annotated[
        int,
        typer.Option(metavar="N", help="OSDs on each device. They share its limits evenly."),
    ] = 1,
    wal_db: Annotated[
        str | None,
        typer.Option(
            metavar="MEDIA",
            help="A separate device for WAL and DB, beside each data device: ssd, nvme or "
            "optane (default: with the data).",
        ),
    ] = None,
    objectstore: Annotated[
        str,
        typer.Option(
            metavar="STORE",
            help="Object store of the OSDs: bluestore, or filestore up to Ceph 17.",
        ),
    ] = "bluestore",
    thread_cache_mib: Annotated[
        int | None,
        typer.Option(
            metavar="MIB", help="TCMalloc's cache for all threads of an OSD (default 128)."
        ),
    ] = None,
    memory_target_mib: Annotated[
        int | None,
        typer.Option(metavar="MIB", help="osd_memory_target of an OSD (default 1024)."),
    ] = None,
    cores_per_host: Annotated[
        float | None,
        typer.Option(
            metavar="CORES",
            help="Cores that the set's OSDs on a host share evenly (default: two for each OSD).",
        ),
    ] = None,
    hosts: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Only on the first N hosts that have OSDs (default: on all)."
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Size of each OSD, a sparse file (default: as the first ones)."
        ),
    ] = None,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Add OSDs to every host, and a pool on these OSDs only. `lab up` starts them again."""
    session = LabSession(lab)
    with session.breaking_lab(), session.progress, session.planning(dry_run=dry_run):
        service, spec = lab_osd_sets(session), session.require_lab()
        asked_bytes = None if size is None else parse_bytes(size, what="OSD size")
        if asked_bytes is not None and asked_bytes < MIN_OSD_SIZE_BYTES:
            raise UsageError(f"An OSD of {size} is too small.", "Choose at least 4G (--size).")
        found = service.find(name)
        wal_db_media = None if wal_db is None else _word(wal_db, WAL_DB_MEDIA, "WAL/DB media")
        osds = max(len(spec.osd_hosts[:hosts]), 1) * max(devices_per_host * osds_per_device, 1)
        free_bytes = shutil.disk_usage(session.home.root).free
        osd_set = OsdSet(
            name=name,
            media=require_media(media) or spec.media,
            # The same command again means the same set, whatever the disk has room for now.
            size_bytes=found.size_bytes
            if found is not None and asked_bytes is None
            else decide_osd_bytes(asked_bytes, spec, osds, free_bytes, wal_db_media),
            devices_per_host=devices_per_host,
            osds_per_device=osds_per_device,
            wal_db_media=wal_db_media,
            objectstore=_word(objectstore, STORES, "object store"),
            thread_cache_mib=thread_cache_mib,
            memory_target_mib=memory_target_mib,
            hosts=hosts,
            cores_per_host=cores_per_host,
        )
        require_possible(osd_set, spec, machine_cores=os.cpu_count() or 1)
        service.require_addable(osd_set)
        service.require_room(osd_set)
        service.add(osd_set)
        (view,) = [one for one in service.observe() if one.osd_set.name == name]
    make_output(output_format).details(
        osd_set_document(view),
        {
            "osd set": f"{name} ({view.state})",
            "on each host": describe_osd_set(osd_set),
            "osds": _osds(view),
            "pool": osd_set.pool,
            "use": in_lab(f"grampus volume create NAME --size 4G --pool {osd_set.pool}", lab),
        },
    )


@command(osd_set_app, "list", "grampus lab osd-set list")
def osd_set_list(
    lab: LabOption = LAB_DEFAULT, output_format: FormatOption = FORMAT_DEFAULT
) -> None:
    """List the OSD sets of a lab, with their OSDs and pools."""
    session = LabSession(lab)
    views = lab_osd_sets(session).observe()
    make_output(output_format).table(
        {"osd_sets": [osd_set_document(view) for view in views]},
        ["name", "state", "on each host", "osds", "pools"],
        [
            [
                view.osd_set.name,
                view.state,
                describe_osd_set(view.osd_set),
                _osds(view),
                ", ".join(view.pools) or "-",
            ]
            for view in views
        ],
        "The lab has only its first OSDs. `grampus lab osd-set add` adds a set.",
    )


@command(osd_set_app, "remove", "grampus lab osd-set remove disks")
def osd_set_remove(
    name: Annotated[str, typer.Argument(help="Name of the set.")],
    lab: LabOption = LAB_DEFAULT,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Remove the OSDs of a set and its pool. The pool must have no images."""
    session = LabSession(lab)
    lab_osd_sets(session).get(name)
    confirm(f"This removes the OSD set '{name}' and its pool. Continue?", yes=yes or dry_run)
    with session.breaking_lab(), session.progress, session.planning(dry_run=dry_run):
        lab_osd_sets(session).remove(name)
    make_output(output_format).text(
        {"lab": lab, "osd_set": name}, (f"The OSD set '{name}' is removed.")
    )


def osd_set_document(view: OsdSetView) -> dict[str, Any]:
    """The JSON document of a set."""
    return {
        **view.osd_set.model_dump(mode="json"),
        "state": view.state,
        "osds": [{"id": osd, "up": is_up} for osd, is_up in view.osds.items()],
        "pool": view.osd_set.pool,
        "pools": list(view.pools),
    }


def _osds(view: OsdSetView) -> str:
    named = [f"osd-{osd}" if is_up else f"osd-{osd} (down)" for osd, is_up in view.osds.items()]
    return ", ".join(named) or "-"


def _word(text: str, words: tuple[WordT, ...], noun: str) -> WordT:
    for word in words:
        if text == word:
            return word
    suggestion = closest_name(text, words)
    hint = f"Did you mean '{suggestion}'? " if suggestion else ""
    raise UsageError(f"There is no {noun} '{text}'.", f"{hint}Choose one of {', '.join(words)}.")
