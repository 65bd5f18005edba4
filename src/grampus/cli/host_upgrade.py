"""`grampus host upgrade`: hosts of a site get the host image of this Grampus, one at a time."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from grampus.cli.app import command
from grampus.cli.composition.host_upgrades import host_upgrades
from grampus.cli.composition.live import live_settings
from grampus.cli.composition.session import Session
from grampus.cli.composition.site_hosts import classify_hosts
from grampus.cli.host import host_app
from grampus.cli.host_site import require_site
from grampus.cli.options import FORMAT_DEFAULT, LAB_DEFAULT, DryRunOption, FormatOption, LabOption
from grampus.cli.output import make_output
from grampus.cli.work import work_on_databases
from grampus.core.errors import UsageError
from grampus.databases.live.window_restarts import runs_older_image
from grampus.databases.operating import DatabaseOperations
from grampus.sites.host_upgrades import HostUpgraded
from grampus.sites.model import SiteSpec
from grampus.state.locks import hold_lock

_LOCK_TIMEOUT_S = 15.0


@command(host_app, "upgrade", "grampus host upgrade db1 --site prod")
def host_upgrade(
    hosts: Annotated[
        list[str] | None, typer.Argument(metavar="HOST...", help="Hosts, in this order.")
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", metavar="", help="Upgrade all hosts, in the order of names.")
    ] = False,
    restart: Annotated[
        bool,
        typer.Option(
            "--restart",
            metavar="",
            help="Restart the databases of each host after its upgrade, one at a time.",
        ),
    ] = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Give hosts of a site the host image of this Grampus, one at a time.

    Databases keep running from the older image until they are restarted. A host that fails a
    check gets its former image again, and the hosts after it are not changed.
    """
    with work_on_databases(lab, dry_run=dry_run) as (session, databases):
        site = require_site(session)
        names = _choose(session, hosts or [], everything=all_)
        operations = databases.operations

        with hold_lock(
            session.home, f"hosts.{site.name}", session.clock, timeout_s=_LOCK_TIMEOUT_S
        ):
            upgrades = host_upgrades(session, site)
            found = upgrades.upgrade(names, partial(_restart, session) if restart else None)
        if restart and session.runner.is_planning:
            _plan_restarts(session, site, names)
        documents = [_document(one, operations) for one in found]
    make_output(output_format).table(
        {"hosts": documents},
        ["host", "image", "grampus", "older image still runs", "older images kept"],
        [
            [
                one["host"],
                one["image"],
                one["version"],
                ", ".join([*one["databases"], *one["daemons"]]) or "-",
                ", ".join(one["kept_images"]) or "-",
            ]
            for one in documents
        ],
        "No host was chosen.",
    )


def _choose(session: Session, hosts: list[str], *, everything: bool) -> list[str]:
    """The hosts to upgrade. Raises UsageError."""
    if bool(hosts) == everything:
        raise UsageError(
            "Name the hosts to upgrade, or use --all.",
            "`grampus host list` shows the hosts and their host images.",
        )
    if not everything:
        return list(dict.fromkeys(hosts))
    for host in session.unready_hosts():
        session.progress.note(f"{host.name} is not ready, and is not upgraded.")
    return [host.name for host in session.site_hosts() if host.is_ready]


def _running_on(host: str, operations: DatabaseOperations) -> list[str]:
    at = operations.records.hosts()
    records = {name: operations.records.find(name) for name, where in at.items() if where == host}
    return [
        name
        for name, record in records.items()
        if record is not None and record.phase == "ready" and record.desired == "running"
    ]


def _restart(session: Session, host: str) -> None:
    """Restart the databases of a host that run from an older image. Raises as a restart does."""
    operations = session.databases().operations
    for name in _running_on(host, operations):
        if runs_older_image(operations, operations.records.get(name)):
            live_settings(session).restart(name)


def _plan_restarts(session: Session, site: SiteSpec, names: list[str]) -> None:
    """Those of hosts that are to get another image; a plan has the others already."""
    operations = session.databases().operations
    others = [one.host for one in classify_hosts(session, site) if one.state != "current"]
    running = [name for host in names if host in others for name in _running_on(host, operations)]
    with session.runner.part_of_plan():
        session.runner.propose(lambda: [f"Restart {name}" for name in running])


def _document(done: HostUpgraded, operations: DatabaseOperations) -> dict[str, Any]:
    named = {daemon: daemon.partition("-")[2] for daemon in done.outdated}
    databases = set(named.values()) & set(operations.records.names())
    return {
        "host": done.host,
        "image": done.parts.image_id,
        "version": done.parts.version,
        "changed": done.is_changed,
        "databases": sorted(databases),
        "daemons": sorted(one for one, name in named.items() if name not in databases),
        "kept_images": list(done.kept),
    }
