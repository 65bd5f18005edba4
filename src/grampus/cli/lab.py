"""`grampus lab`: the embedded cluster, as it is."""

from __future__ import annotations

from typing import Any

from grampus.cli.app import command, make_noun
from grampus.cli.composition.lab import LabSession
from grampus.cli.nouns import app
from grampus.cli.options import FORMAT_DEFAULT, LAB_DEFAULT, FormatOption, LabOption
from grampus.cli.output import make_output
from grampus.core.units import format_bytes
from grampus.hosts.port import DaemonStatus
from grampus.lab.labs import HostView, LabView
from grampus.lab.osd_set import describe_osd_set

lab_app = make_noun(
    "lab",
    "A real Ceph cluster on this one machine.",
    under=app,
    modules={
        "up": "grampus.cli.lab_up",
        "down": "grampus.cli.lab_up",
        "status": "grampus.cli.lab",
        "list": "grampus.cli.lab",
        "fault": "grampus.cli.lab_fault",
        "gateway": "grampus.cli.lab_gateway",
        "monitoring": "grampus.cli.lab_monitoring",
        "osd-set": "grampus.cli.lab_osd_set",
    },
)


@command(lab_app, "status", "grampus lab status --format json")
def lab_status(lab: LabOption = LAB_DEFAULT, output_format: FormatOption = FORMAT_DEFAULT) -> None:
    """Show the hosts, daemons, health and capacity of a lab."""
    session, output = LabSession(lab), make_output(output_format)
    view = session.lab().observe(session.require_lab_or_rest())
    rows = [[host.name, host.address, _state(host), _daemons(host.daemons)] for host in view.hosts]
    output.table(lab_document(view), ["host", "address", "state", "daemons"], rows, "No hosts.")
    if output_format is FORMAT_DEFAULT:
        output.text(None, "")
        output.details(None, status_pairs(view))


@command(lab_app, "list", "grampus lab list")
def lab_list(output_format: FormatOption = FORMAT_DEFAULT) -> None:
    """List all labs of this GRAMPUS_HOME."""
    service = LabSession(LAB_DEFAULT).lab()
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
        "There is no lab yet. `grampus lab up` creates one.",
    )


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
                "cut_off_from": "all" if host.state == "cut-off" else host.partition,
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
        "osd_sets": [osd_set.model_dump(mode="json") for osd_set in view.osd_sets],
    }


def _state(host: HostView) -> str:
    return host.state if host.partition is None else f"cut off from {host.partition}"


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
    for osd_set in view.osd_sets:
        leaving = " (leaving)" if osd_set.is_leaving else ""
        pairs[f"osd set {osd_set.name}"] = f"{describe_osd_set(osd_set)} on each host{leaving}"
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
