"""`grampus host show`: one host, and the daemons that run there."""

from __future__ import annotations

from typing import Any

from grampus.cli.app import command
from grampus.cli.composition.session import Session
from grampus.cli.host import (
    HostArgument,
    host_app,
    host_parts,
    hosts_of_entry,
    parts_document,
    state_word,
)
from grampus.cli.options import FORMAT_DEFAULT, LAB_DEFAULT, FormatOption, LabOption
from grampus.cli.output import make_output
from grampus.cli.work import work_on_databases
from grampus.core.units import format_bytes
from grampus.databases.failover.host_watch import HostMemory, HostWatch
from grampus.hosts.port import Host
from grampus.sites.model import SiteHostSpec


@command(host_app, "show", "grampus host show h1")
def host_show(
    host: HostArgument, lab: LabOption = LAB_DEFAULT, output_format: FormatOption = FORMAT_DEFAULT
) -> None:
    """Show a host: state, address, databases, and its daemons with the memory they use."""
    with work_on_databases(lab) as (session, databases):
        operations = databases.operations
        found = operations.fleet.host(host)
        seen = HostWatch(operations, HostMemory()).look(every_host=True)[host]
        planned = operations.records.all_maintenance().get(host)
        spec = _site_host(session, host)
        parts = host_parts(session).get(host)
        is_entry = host in hosts_of_entry(operations.records.find_entry())
        daemons = _daemons(found) if operations.fleet.is_reachable(host) else []
    document: dict[str, Any] = {
        "host": host,
        "state": seen.state.name,
        "evidence": seen.state.evidence or None,
        "address": found.address,
        "databases": sorted(seen.databases),
        "maintenance_since": None if planned is None else planned.since,
        "ssh": None if spec is None else f"{spec.ssh_user}@{spec.ssh_address}:{spec.ssh_port}",
        "labels": {} if spec is None else spec.labels,
        **parts_document(parts),
        "entry": is_entry,
        "daemons": daemons,
    }
    details = {
        "host": host,
        "state": f"{state_word(seen.state)} {seen.state.evidence}".strip(),
        "address": found.address,
        "ssh": document["ssh"] or "",
        "labels": ", ".join(f"{key}={value}" for key, value in document["labels"].items()),
        "image": document["image"] or "",
        "grampus": document["grampus"] or "",
        "upgrade": "" if parts is None or not parts.remedy else f"{parts.sentence} {parts.remedy}",
        "databases": ", ".join(document["databases"]) or "none",
        "entry": "served here" if is_entry else "",
        **{f"daemon {one['name']}": _describe(one) for one in daemons},
    }
    shown = {name: str(text) for name, text in details.items() if text}
    make_output(output_format).details(document, shown)


def _site_host(session: Session, host: str) -> SiteHostSpec | None:
    return next((one for one in session.site_hosts() if one.name == host), None)


def _daemons(host: Host) -> list[dict[str, Any]]:
    usage = host.observe_usage()
    return [
        {
            "name": daemon.name,
            "state": daemon.state,
            "memory_bytes": usage[daemon.name].memory_bytes if daemon.name in usage else None,
            "outdated": daemon.is_outdated,
        }
        for daemon in host.observe_daemons()
    ]


def _describe(daemon: dict[str, Any]) -> str:
    memory_bytes = daemon["memory_bytes"]
    memory = f", {format_bytes(memory_bytes)} of memory" if memory_bytes else ""
    older = ", of an older host image or program" if daemon["outdated"] else ""
    return f"{daemon['state']}{memory}{older}"
