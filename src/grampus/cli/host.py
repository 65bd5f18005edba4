"""`grampus host`: the hosts, and hosts that are worked on."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from grampus.cli.app import EXIT_FAILED, command, make_noun
from grampus.cli.composition.copies import database_replicas
from grampus.cli.composition.failover import host_maintenances
from grampus.cli.nouns import app
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
)
from grampus.cli.output import make_output
from grampus.cli.serve_endpoints import keep_endpoints
from grampus.cli.work import work_on_databases
from grampus.core.clock import format_duration, format_moment
from grampus.databases.failover.host_maintenance import Drained
from grampus.databases.failover.host_states import HostState, HostStateName
from grampus.databases.failover.host_watch import HostMemory, HostWatch, SeenHost
from grampus.databases.live.moving import Moved
from grampus.databases.model import Entry, HostMaintenance
from grampus.sites.model import SiteHostSpec

if TYPE_CHECKING:
    from grampus.cli.composition.session import Session
    from grampus.cli.composition.site_hosts import HostCondition

_SITE = "grampus.cli.host_site"
host_app = make_noun(
    "host",
    "Hosts: their state, maintenance and drain; hosts of a site: add, check, upgrade and remove.",
    under=app,
    modules={
        "list": __name__,
        "show": "grampus.cli.host_show",
        "maintenance": __name__,
        "drain": __name__,
        "entry": "grampus.cli.host_entry",
        "add": _SITE,
        "check": _SITE,
        "remove": _SITE,
        "upgrade": "grampus.cli.host_upgrade",
    },
)
HostArgument = Annotated[str, typer.Argument(help="A host, such as h1.")]
ReasonOption = Annotated[
    str, typer.Option(metavar="TEXT", help="Why, shown by `grampus host list`.")
]
# Of a site: its `host add` or `host remove` was interrupted.
_UNREADY = "unready"
# As a user says it.
_STATES: dict[HostStateName, str] = {
    "healthy": "up",
    "planned": "maintenance",
    "host-suspect": "silent",
    "host-dead": "down",
}


@command(host_app, "list", "grampus host list")
def host_list(lab: LabOption = LAB_DEFAULT, output_format: FormatOption = FORMAT_DEFAULT) -> None:
    """List the hosts: state, number of databases, and maintenance."""
    with work_on_databases(lab) as (session, databases):
        unready = session.unready_hosts()
        operations = databases.operations
        seen = HostWatch(operations, HostMemory()).look(every_host=True)
        planned = operations.records.all_maintenance()
        addresses = {host.name: host.address for host in operations.fleet.hosts()}
        reachable = {name: operations.fleet.is_reachable(name) for name in seen}
        entry_hosts = hosts_of_entry(operations.records.find_entry())
        parts = host_parts(session)
    make_output(output_format).table(
        {
            "hosts": [
                {
                    **_document(
                        found, planned.get(name), addresses[name], is_reachable=reachable[name]
                    ),
                    **parts_document(parts.get(name)),
                    "entry": name in entry_hosts,
                }
                for name, found in seen.items()
            ]
            + [_unready_document(host) for host in unready]
        },
        ["name", "state", "databases", "address", "detail"],
        [
            [
                name,
                state_word(found.state),
                str(len(found.databases)),
                addresses[name],
                _with_parts(
                    _with_entry(
                        _detail(found, planned.get(name), is_reachable=reachable[name]),
                        is_entry=name in entry_hosts,
                    ),
                    parts.get(name),
                ),
            ]
            for name, found in seen.items()
        ]
        + [
            [host.name, _UNREADY, "0", host.address or host.ssh_address, _unready_detail(host)]
            for host in unready
        ],
        f"'{lab}' has no hosts.",
    )


@command(host_app, "maintenance", "grampus host maintenance h1 on --reason 'new disk'")
def host_maintenance(
    host: HostArgument,
    mode: Annotated[
        Literal["on", "off"], typer.Argument(help="on: begin maintenance; off: end it.")
    ],
    reason: ReasonOption = "",
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Begin or end the maintenance of a host.

    A host in maintenance gets no new databases, and `grampus serve` does not fail over its
    databases. Its databases keep running: `grampus host drain` moves them away.
    """
    with work_on_databases(lab, dry_run=dry_run) as (session, databases):
        service = host_maintenances(session)
        names = [name for name, at in databases.operations.records.hosts().items() if at == host]
        if mode == "on":
            service.begin(host, reason)
            sentence = f"The host {host} is in maintenance."
            if names:
                sentence += f" It has {_count(len(names))}: `grampus host drain {host}` moves them."
        elif service.end(host):
            sentence = f"The maintenance of {host} has ended."
        else:
            sentence = f"The host {host} is not in maintenance."
    document = {"host": host, "maintenance": mode == "on", "databases": sorted(names)}
    make_output(output_format).text(document, sentence)


@command(host_app, "drain", "grampus host drain h1")
def host_drain(
    host: HostArgument,
    reason: ReasonOption = "",
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Move all databases of a host to other hosts, one by one, and put it in maintenance.

    A database pauses for seconds while it is moved. If a database cannot be moved, it stays, the
    others are moved, and the exit code is 1. Repeat the command to try again.
    """
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        drained = host_maintenances(session).drain(host, reason)
        for event in keep_endpoints(database_replicas(session)):
            session.progress.note(event.text)
    output = make_output(output_format)
    output.text(
        {"host": host, "databases": [_drained_document(one) for one in drained]},
        "\n".join([*map(_drained_sentence, drained), _summary(host, drained)]),
    )
    if any(_is_left(one) for one in drained):
        raise typer.Exit(EXIT_FAILED)


# -- what is shown -------------------------------------------------------------------------------


def _document(
    found: SeenHost, planned: HostMaintenance | None, address: str, *, is_reachable: bool
) -> dict[str, Any]:
    return {
        "name": found.host,
        "state": found.state.name,
        "evidence": found.state.evidence or None,
        "reachable": is_reachable,
        "address": address,
        "databases": sorted(found.databases),
        "maintenance_since": None if planned is None else planned.since,
        "maintenance_reason": None if planned is None else planned.reason or None,
    }


def state_word(state: HostState) -> str:
    """The state as a user says it."""
    return _STATES.get(state.name, state.name)


def _detail(found: SeenHost, planned: HostMaintenance | None, *, is_reachable: bool) -> str:
    if planned is None:
        return found.state.evidence
    detail = f"since {format_moment(planned.since)}"
    if planned.reason:
        detail += f": {planned.reason}"
    return detail if is_reachable else f"{detail}; it cannot be reached"


def host_parts(session: Session) -> dict[str, HostCondition]:
    """What is recorded of the parts of a site's hosts, by host."""
    site = session.find_site()
    if site is None:
        return {}
    # Imported for sites alone.
    module = import_module("grampus.cli.composition.site_hosts")
    found: list[HostCondition] = module.classify_hosts(session, site)
    return {one.host: one for one in found}


def parts_document(one: HostCondition | None) -> dict[str, Any]:
    """A site's host: its image, the Grampus that put it there, and how it compares with this."""
    return {
        "image": None if one is None else one.parts.image_id,
        "grampus": None if one is None else one.parts.version or None,
        "parts": None if one is None else one.state,
    }


def hosts_of_entry(entry: Entry | None) -> tuple[str, ...]:
    """The hosts that serve the entry of a site."""
    return () if entry is None else entry.hosts


def _with_entry(detail: str, *, is_entry: bool) -> str:
    return "; ".join(text for text in (detail, "serves the entry" if is_entry else "") if text)


def _with_parts(detail: str, one: HostCondition | None) -> str:
    if one is None or one.state == "current":
        return detail
    said = f"{one.sentence} {one.remedy}"
    return f"{detail}; {said}" if detail else said


def _is_left(one: Drained) -> bool:
    return one.outcome is not None and not isinstance(one.outcome, Moved)


def _drained_document(one: Drained) -> dict[str, Any]:
    moved = one.outcome if isinstance(one.outcome, Moved) else None
    problem = one.outcome if isinstance(one.outcome, Exception) else None
    return {
        "name": one.database,
        "host": None if moved is None else moved.record.spec.host,
        "pause_ms": None if moved is None else moved.pause_ms,
        "problem": None if problem is None else str(problem),
    }


def _drained_sentence(one: Drained) -> str:
    if one.outcome is None:
        return f"The database '{one.database}' had left the host."
    if not isinstance(one.outcome, Moved):
        return f"The database '{one.database}' was not moved: {one.outcome}"
    sentence = f"The database '{one.database}' is on {one.outcome.record.spec.host}."
    if one.outcome.pause_ms is not None:
        sentence += f" Writes were paused for {format_duration(one.outcome.pause_ms / 1000)}."
    return sentence


def _summary(host: str, drained: list[Drained]) -> str:
    left = sum(_is_left(one) for one in drained)
    if left:
        return f"The host {host} is in maintenance and has {_count(left)}."
    return (
        f"The host {host} is in maintenance and has no databases. "
        f"`grampus host maintenance {host} off` ends the maintenance."
    )


def _count(databases: int) -> str:
    return "1 database" if databases == 1 else f"{databases} databases"


def _unready_detail(host: SiteHostSpec) -> str:
    return (
        f"`grampus host add {host.name}` or `grampus host remove {host.name}` was interrupted: "
        "repeat it."
    )


def _unready_document(host: SiteHostSpec) -> dict[str, Any]:
    return {
        "name": host.name,
        "state": _UNREADY,
        "databases": [],
        "address": host.address,
        "detail": _unready_detail(host),
    }
