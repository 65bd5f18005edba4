"""`grampus host add|check|remove`: the hosts of a site."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from grampus.cli.app import command
from grampus.cli.checks_output import show_checks
from grampus.cli.composition.session import Session
from grampus.cli.composition.site_hosts import classify_hosts, reach_from, site_hosts
from grampus.cli.host import HostArgument, host_app
from grampus.cli.options import FORMAT_DEFAULT, LAB_DEFAULT, FormatOption, LabOption, YesOption
from grampus.cli.output import make_output
from grampus.core.errors import RefusedError, UsageError
from grampus.sites.model import SiteHostSpec, SiteSpec
from grampus.sites.site_hosts import HostRequest
from grampus.sites.upgrade_operation import KIND_PREFIX


@command(host_app, "add", "grampus host add db1 --ssh root@10.0.5.11 --site prod")
def host_add(
    host: Annotated[str, typer.Argument(help="The new host's name, such as db1.")],
    ssh: Annotated[
        str,
        typer.Option(
            metavar="USER@ADDRESS", help="Where SSH reaches it; the user is root or may use sudo."
        ),
    ],
    port: Annotated[int, typer.Option(metavar="PORT", help="The port of SSH.")] = 22,
    identity: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The private key (default: those of ssh itself)."),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A label, such as rack=a."),
    ] = None,
    new_host_key: Annotated[
        bool,
        typer.Option(
            "--new-host-key",
            metavar="",
            help="The machine was reinstalled: pin its present SSH host key.",
        ),
    ] = False,
    lab: LabOption = LAB_DEFAULT,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Add a machine to a site: check it, copy the host image, and pin its SSH host key.

    An interrupted command is repeated. The machine needs systemd, and no Python.
    """
    request = HostRequest(
        host,
        ssh,
        port,
        None if identity is None else str(identity),
        tuple(label or ()),
        has_new_key=new_host_key,
    )
    session = Session(lab)
    site = require_site(session)
    with session.alone_in_lab(), session.progress:
        mons = session.volumes().takeovers.mon_places()
        spec, checks = site_hosts(session, site).add(request, [_address(mon) for mon in mons])
        checks = [*checks, reach_from(session.home, site, spec, mons)]
    make_output(output_format).details(
        {**_document(spec), "checks": [check.document() for check in checks]},
        {
            "host": spec.name,
            "address": spec.address,
            "image": site.image_id,
            **{
                check.name: f"{check.sentence} {check.remedy}".strip()
                for check in checks
                if check.verdict != "ok"
            },
            "next": f"grampus db create demo --size 4G --host {spec.name} --site {site.name}",
        },
    )


@command(host_app, "check", "grampus host check db1 --site prod")
def host_check(
    host: HostArgument, lab: LabOption = LAB_DEFAULT, output_format: FormatOption = FORMAT_DEFAULT
) -> None:
    """Check whether a host of a site has what it needs. The exit code is 1 if it does not."""
    session = Session(lab)
    site = require_site(session)
    with session.sharing_lab(), session.progress:
        hosts = site_hosts(session, site)
        checks = hosts.check(host)
        checks += [one.check() for one in classify_hosts(session, site) if one.host == host]
        mons = session.volumes().takeovers.mon_places()
        checks.append(reach_from(session.home, site, hosts.get(host), mons))
    show_checks({"host": host}, checks, output_format)


@command(host_app, "remove", "grampus host remove db1 --site prod")
def host_remove(
    host: HostArgument,
    lost: Annotated[
        bool,
        typer.Option(
            "--lost",
            metavar="",
            help="The machine is gone or was reinstalled: remove it from the site only.",
        ),
    ] = False,
    lab: LabOption = LAB_DEFAULT,
    yes: YesOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Remove a host from a site, and all files of Grampus from the machine.

    A host with databases or attached volumes is refused. Data in the cluster stays.
    """
    session = Session(lab)
    site = require_site(session)
    with session.alone_in_lab(), session.progress:
        hosts = site_hosts(session, site)
        hosts.get(host)
        _require_unused(session, host, is_lost=lost)
        if not lost:
            session.require_controller()
        session.confirm(f"Remove the host {host} from the site '{site.name}'?", yes=yes)
        if lost:
            # Imported for this alone.
            module = import_module("grampus.databases.entries.entries")
            module.Entries(session.databases().operations).turn_off(host, is_lost=True)
        hosts.remove(host, is_lost=lost)
        for operation in session.runner.unfinished(KIND_PREFIX, host):
            session.runner.close(operation, "the host was removed")
    make_output(output_format).text({"removed": host}, f"The host {host} is removed.")


def require_site(session: Session) -> SiteSpec:
    """The site of the session. Raises UsageError with code `not-a-site` for a lab."""
    site = session.find_site()
    if site is None:
        session.require_place()
        raise UsageError(
            f"'{session.lab_name}' is a lab, which makes its own hosts.",
            "Choose a site with --site; `grampus site list` shows the sites.",
            code="not-a-site",
        )
    return site


def _require_unused(session: Session, host: str, *, is_lost: bool) -> None:
    records = session.databases().operations.records
    at, entry = records.hosts(), records.find_entry()
    if entry is not None and host in (*entry.hosts, *entry.left_hosts) and not is_lost:
        raise RefusedError(
            f"The host {host} serves the entry.",
            f"End it first: `grampus host entry {host} off`.",
            code="host-in-use",
        )
    databases = sorted(name for name, where in at.items() if where == host)
    volumes = sorted(one.spec.name for one in session.volumes().all() if one.host == host)
    if databases or volumes:
        what = ", ".join(databases or volumes)
        raise RefusedError(
            f"The host {host} is in use: {what}.",
            f"`grampus host drain {host}` moves its databases; `grampus volume detach VOLUME` "
            "detaches a volume.",
            code="host-in-use",
        )


def _address(place: str) -> str:
    return place.rpartition(":")[0]


def _document(spec: SiteHostSpec) -> dict[str, Any]:
    return {
        "host": spec.name,
        "address": spec.address,
        "ssh": f"{spec.ssh_user}@{spec.ssh_address}:{spec.ssh_port}",
        "labels": spec.labels,
        "ready": spec.is_ready,
    }
