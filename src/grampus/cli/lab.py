"""`grampus lab`: the embedded cluster."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from grampus.cli.app import command, confirm, make_noun
from grampus.cli.composition import Session
from grampus.cli.lab_settle import start_databases, stop_databases
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
    YesOption,
)
from grampus.cli.output import make_output, show_plan
from grampus.core.errors import UsageError
from grampus.core.units import format_bytes, parse_bytes
from grampus.hosts.port import DaemonStatus
from grampus.lab.bit_rot import BitRot
from grampus.lab.model import MediaName
from grampus.lab.service import LabRequest, LabView

lab_app = make_noun("lab", "A real Ceph cluster on this one machine.")
fault_app = make_noun("fault", "Break the lab on purpose, and heal it.")
lab_app.add_typer(fault_app)

ForceOption = Annotated[
    bool, typer.Option("--force", metavar="", help="Even if databases then cannot write any more.")
]
MEDIA: tuple[MediaName, ...] = ("nvme", "ssd", "hdd")


def require_media(text: str | None) -> MediaName | None:
    """The media named, or None. Raises UsageError."""
    if text is None:
        return None
    for media in MEDIA:
        if text == media:
            return media
    raise UsageError(f"There is no media called '{text}'.", f"Choose one of {', '.join(MEDIA)}.")


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
        typer.Option(metavar="MEDIA", help="What OSDs stand on: nvme, ssd or hdd (default nvme)."),
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
            metavar="IMAGE", help="Host image: sid or trixie (default: the first that can be had)."
        ),
    ] = None,
    secure: Annotated[
        bool | None,
        typer.Option(
            "--secure/--no-secure",
            metavar="",
            help="Encrypt all that daemons and clients of the cluster send (msgr2 secure mode). "
            "It costs CPU (default: no).",
        ),
    ] = None,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Bring the lab up: new, after `lab down --keep`, after a crash or after a reboot."""
    session, output = Session(lab, makes_lab=True), make_output(output_format)
    request = LabRequest(
        name=lab,
        hosts=hosts,
        osds_per_host=osds_per_host,
        media=require_media(media),
        osd_size_bytes=None if osd_size is None else parse_bytes(osd_size, what="OSD size"),
        image=image,
        is_secure=secure,
    )
    with session.alone_in_lab(), session.progress:
        service = session.lab()
        spec = service.unfinished_spec() if service.find_spec() is None else None
        spec = spec or service.plan_up(request, build_image=not dry_run)
        if dry_run:
            show_plan(output_format, service.up_titles(spec))
            return
        service.up(spec)
        start_databases(session)
    view = session.lab().observe(spec)
    document = lab_document(view)
    cluster = view.cluster
    health = cluster.health if cluster else "unknown"
    output.text(
        document,
        f"The lab '{lab}' is up: {spec.host_count} hosts, {spec.osd_count} OSDs, {health}.\n"
        f"Next: grampus db create demo --size 4G",
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
    """Take the lab off this machine with all its databases; --keep leaves their data on disk."""
    session, output = Session(lab), make_output(output_format)
    service, spec = session.lab(), session.require_lab_or_rest()
    if dry_run:
        show_plan(output_format, service.down_titles(spec, keep=keep))
        return
    databases = (
        []
        if keep or service.find_spec() is None
        else [view.record.spec.name for view in session.databases().list()]
    )
    if databases:
        confirm(
            f"This deletes the lab '{lab}' and its databases: {', '.join(databases)}. Go on?",
            yes=yes,
        )
    with session.alone_in_lab(), session.progress:
        if keep and service.find_spec() is not None:
            stop_databases(session)
        service.down(spec, keep=keep)
    kept = "its data are kept" if keep else "nothing of it is left"
    output.text({"lab": lab, "kept": keep}, f"The lab '{lab}' is down; {kept}.")


@command(lab_app, "status", "grampus lab status --format json")
def lab_status(lab: LabOption = LAB_DEFAULT, output_format: FormatOption = FORMAT_DEFAULT) -> None:
    """Hosts, daemons, health and capacity."""
    session, output = Session(lab), make_output(output_format)
    view = session.lab().observe(session.require_lab_or_rest())
    rows = [[host.name, host.address, host.state, _daemons(host.daemons)] for host in view.hosts]
    output.table(lab_document(view), ["host", "address", "state", "daemons"], rows, "No hosts.")
    if output_format is FORMAT_DEFAULT:
        output.text(None, "")
        output.details(None, status_pairs(view))


@command(lab_app, "list", "grampus lab list")
def lab_list(output_format: FormatOption = FORMAT_DEFAULT) -> None:
    """All labs of this GRAMPUS_HOME."""
    service = Session(LAB_DEFAULT).lab()
    specs = service.labs()
    make_output(output_format).table(
        {"labs": [spec.model_dump(mode="json") for spec in specs]},
        ["name", "hosts", "osds", "media", "image", "network"],
        [
            [
                spec.name,
                str(spec.host_count),
                str(spec.osd_count),
                spec.media,
                spec.image_id,
                spec.subnet,
            ]
            for spec in specs
        ],
        "There is no lab yet. `grampus lab up` makes one.",
    )


@command(fault_app, "kill-daemon", "grampus lab fault kill-daemon osd-1")
def kill_daemon(
    daemon: Annotated[str, typer.Argument(help="A daemon, such as osd-1 (see lab status).")],
    lab: LabOption = LAB_DEFAULT,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """End a daemon with SIGKILL."""
    session = Session(lab)
    with session.breaking_lab():
        spec, service = session.require_lab(), session.lab()
        if not force:
            service.require_safe_to_lose(spec, host=None, daemon=daemon)
        if dry_run:
            show_plan(output_format, [f"Kill {daemon}"])
            return
        host = service.kill_daemon(spec, daemon)
    _report(output_format, "kill-daemon", daemon, f"Killed {daemon} on {host}.")


@command(fault_app, "kill-host", "grampus lab fault kill-host h3")
def kill_host(
    host: Annotated[str, typer.Argument(help="A host, such as h3.")],
    lab: LabOption = LAB_DEFAULT,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Cut a host's link and end all its processes, as a power cut would."""
    session = Session(lab)
    with session.breaking_lab():
        spec, service = session.require_lab(), session.lab()
        if not force:
            service.require_safe_to_lose(spec, host=host, daemon=None)
        if dry_run:
            show_plan(output_format, [f"Cut the link of {host}", f"Kill all that runs on {host}"])
            return
        service.kill_host(spec, host)
    _report(output_format, "kill-host", host, f"Killed the host {host}.")


@command(fault_app, "partition", "grampus lab fault partition h2")
def partition(
    host: Annotated[str, typer.Argument(help="A host, such as h2.")],
    lab: LabOption = LAB_DEFAULT,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Cut a host off the network; its daemons go on running."""
    session = Session(lab)
    with session.breaking_lab():
        spec, service = session.require_lab(), session.lab()
        if not force:
            service.require_safe_to_lose(spec, host=host, daemon=None)
        if dry_run:
            show_plan(output_format, [f"Cut the link of {host}"])
            return
        service.partition(spec, host)
    _report(output_format, "partition", host, f"Cut {host} off the network.")


@command(fault_app, "heal", "grampus lab fault heal")
def heal(
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Connect and start everything again, and wait for HEALTH_OK."""
    session = Session(lab)
    with session.breaking_lab(), session.progress:
        spec = session.require_lab()
        if dry_run:
            show_plan(output_format, session.lab().up_titles(spec))
            return
        for sentence in BitRot(spec, session.fleet(), session.clock, session.progress).take_back():
            session.progress.note(sentence)
        session.lab().up(spec)
        start_databases(session)
    _report(output_format, "heal", lab, f"The lab '{lab}' is healed.")


def lab_document(view: LabView) -> dict[str, Any]:
    """The JSON document of a lab."""
    return {
        "name": view.spec.name,
        "state": view.state,
        "unfinished": list(view.unfinished),
        "hosts": [
            {
                "name": host.name,
                "address": host.address,
                "state": host.state,
                "daemons": [
                    {"name": daemon.name, "state": daemon.state, "pid": daemon.pid}
                    for daemon in host.daemons
                ],
            }
            for host in view.hosts
        ],
        "health": view.cluster.health if view.cluster else None,
        "cluster": view.cluster.model_dump(mode="json") if view.cluster else None,
        "cluster_problem": view.cluster_problem,
        "spec": view.spec.model_dump(mode="json"),
    }


def status_pairs(view: LabView) -> dict[str, str]:
    """What `lab status` shows below its table."""
    pairs = {"lab": f"{view.spec.name} ({view.state})", "image": view.spec.image_id}
    cluster = view.cluster
    if cluster is not None:
        used_bytes = cluster.raw_total_bytes - cluster.raw_available_bytes
        pairs |= {
            "health": "; ".join([cluster.health, *cluster.checks]),
            "mons": f"{len(cluster.mons_in_quorum)} of {len(cluster.mons)} in quorum",
            "osds": f"{cluster.osds_up} of {cluster.osds} up, {cluster.osds_in} in",
            "placement": (
                f"{cluster.placement_groups_clean} of {cluster.placement_groups} "
                "placement groups clean"
            ),
            "capacity": (
                f"{format_bytes(used_bytes)} of {format_bytes(cluster.raw_total_bytes)} used "
                f"(raw, {view.spec.copies} copies)"
            ),
            "messages": "encrypted" if view.spec.is_secure else "checksummed, not encrypted",
        }
    elif view.cluster_problem:
        pairs["health"] = view.cluster_problem
    if view.unfinished:
        pairs["unfinished"] = (
            f"{'; '.join(view.unfinished)}; `grampus lab up` finishes it, "
            "`grampus lab down` undoes it"
        )
    return pairs


def _daemons(statuses: tuple[DaemonStatus, ...]) -> str:
    return ", ".join(
        status.name if status.state == "running" else f"{status.name} ({status.state})"
        for status in statuses
    )


def _report(
    output_format: FormatOption,
    fault: Literal["kill-daemon", "kill-host", "partition", "heal"],
    subject: str,
    sentence: str,
) -> None:
    make_output(output_format).text({"fault": fault, "subject": subject}, sentence)
