"""`grampus site`: existing Ceph clusters that databases run on."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from grampus.ceph.connecting import ADMINISTRATOR
from grampus.cli.app import command, make_noun
from grampus.cli.checks_output import show_checks
from grampus.cli.composition.lab import LabSession
from grampus.cli.composition.sites import site_service
from grampus.cli.nouns import app
from grampus.cli.options import FORMAT_DEFAULT, DryRunOption, FormatOption, YesOption
from grampus.cli.output import make_output
from grampus.core.names import require_name
from grampus.sites.adoption import AdoptOrder
from grampus.sites.model import DEFAULT_POOL, DEFAULT_USER, SITE_HOST_RECORD, SiteSpec
from grampus.sites.required_caps import (
    render_grant,
    render_update,
    require_pool,
    require_user,
    required_caps,
)

DEFAULT_IMAGE = "sid"
site_app = make_noun("site", "Existing Ceph clusters and hosts that databases run on.", under=app)
NameArgument = Annotated[str, typer.Argument(help="The site's name.")]
UserOption = Annotated[
    str, typer.Option(metavar="USER", help="The cephx user of Grampus, without `client.`.")
]
PoolOption = Annotated[str, typer.Option(metavar="POOL", help="The pool for databases.")]


@command(
    site_app,
    "adopt",
    "grampus site adopt prod --conf ceph.conf --keyring ceph.client.grampus.keyring",
)
def site_adopt(
    name: NameArgument,
    conf: Annotated[Path, typer.Option(metavar="FILE", help="The cluster's ceph.conf.")],
    keyring: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="The keyring of --user. `grampus site caps` says how to create it."
        ),
    ],
    user: UserOption = DEFAULT_USER,
    pool: PoolOption = DEFAULT_POOL,
    image: Annotated[
        str, typer.Option(metavar="NAME", help="The host image that servers run in.")
    ] = DEFAULT_IMAGE,
    addresses: Annotated[
        str,
        typer.Option(
            metavar="FIRST-LAST",
            help="Addresses for databases on the hosts' network segment, such as 10.0.5.100-199.",
        ),
    ] = "",
    interface: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="With --addresses: the hosts' network interface for them."
        ),
    ] = "",
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Use an existing Ceph cluster for databases.

    Grampus checks the cluster first, and records nothing if a check is refused. It copies both
    files to GRAMPUS_HOME. No host gets this key. Repeat the command to change the options.
    """
    order = AdoptOrder(name, conf, keyring, user, pool, image, addresses, interface)
    session, output = LabSession(name, makes_lab=not dry_run), make_output(output_format)
    with session.progress:
        service = site_service(session)
        if dry_run:
            show_checks({"site": name}, service.examine(order), output_format)
            return
        adopted = service.adopt(order)
    for check in adopted.checks:
        if check.verdict == "warning":
            session.progress.note(f"warning: {check.sentence} {check.remedy}".strip())
    document = {
        "site": _document(session, adopted.spec),
        "checks": [one.document() for one in adopted.checks],
    }
    output.text(
        document,
        f"The site '{name}' is adopted: pool {adopted.spec.pool} of the cluster "
        f"{adopted.spec.fsid}.\nNext: `grampus host add HOST --ssh USER@ADDRESS --site {name}`.",
    )


@command(site_app, "list", "grampus site list")
def site_list(output_format: FormatOption = FORMAT_DEFAULT) -> None:
    """List all sites of this GRAMPUS_HOME."""
    session = LabSession("sites")
    documents = [_document(session, spec) for spec in site_service(session).all()]
    make_output(output_format).table(
        {"sites": documents},
        ["name", "pool", "user", "hosts", "addresses", "cluster"],
        [
            [
                one["name"],
                one["pool"],
                f"client.{one['user']}",
                str(len(one["hosts"])),
                one["addresses"] or "none",
                one["fsid"],
            ]
            for one in documents
        ],
        "There is no site yet. `grampus site adopt` adopts a cluster.",
    )


@command(site_app, "show", "grampus site show prod")
def site_show(name: NameArgument, output_format: FormatOption = FORMAT_DEFAULT) -> None:
    """Show a site as it was adopted."""
    session = LabSession(name)
    document = _document(session, site_service(session).get(name))
    pairs = {
        "site": name,
        "cluster": document["fsid"],
        "pool": document["pool"],
        "user": f"client.{document['user']}",
        "image": document["image"],
        "addresses": document["addresses"] or "none",
        "interface": document["interface"] or "",
        "hosts": ", ".join(document["hosts"]) or "none",
    }
    make_output(output_format).details(document, {key: text for key, text in pairs.items() if text})


@command(site_app, "check", "grampus site check prod")
def site_check(name: NameArgument, output_format: FormatOption = FORMAT_DEFAULT) -> None:
    """Check the cluster of a site: capabilities, pool, release, health, clocks and space.

    The exit code is 1 if a check is refused.
    """
    session = LabSession(name)
    with session.progress:
        service = site_service(session)
        checks = service.check(name)
        # Imported for this command alone.
        hosts = import_module("grampus.cli.composition.site_hosts")
        checks.append(hosts.check_hosts(hosts.classify_hosts(session, service.get(name)), name))
    show_checks({"site": name}, checks, output_format)


@command(site_app, "caps", "grampus site caps prod --pool databases")
def site_caps(
    name: NameArgument,
    user: UserOption = DEFAULT_USER,
    pool: PoolOption = DEFAULT_POOL,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Print the command that creates the cephx user of Grampus for a site.

    Run it where the cluster's admin key is. The user may do what Grampus needs, and no more.
    """
    require_name("site", name)
    user, pool = require_user(user), require_pool(pool)
    document = {
        "site": name,
        "user": user,
        "pool": pool,
        "caps": required_caps(name, user, pool),
        "create": render_grant(name, user, pool),
        "change": render_update(name, user, pool),
    }
    make_output(output_format).text(document, str(document["create"]))


@command(site_app, "forget", "grampus site forget prod --yes")
def site_forget(
    name: NameArgument,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Forget a site that has no hosts, volumes and databases. Data is never removed.

    Grampus removes its note in the cluster, its copy of the key, and its record. The cephx user
    and the pool stay; the output says how to remove the user.
    """
    session = LabSession(name)
    service = site_service(session)
    spec = service.require_unused(name)
    with session.planning(dry_run=dry_run):
        session.runner.propose(
            lambda: [
                "Remove the note of Grampus in the cluster",
                "Remove the key and the record of the site",
            ]
        )
        session.confirm(f"Forget the site '{name}'?", yes=yes)
        with session.progress:
            service.forget(name)
    make_output(output_format).text(
        {"site": name, "forgotten": True, "user": spec.user},
        f"The site '{name}' is forgotten.{removal_of(spec.user)}",
    )


def removal_of(user: str) -> str:
    """How the user is removed from the cluster, which has to keep its administrator."""
    if f"client.{user}" == ADMINISTRATOR:
        return ""
    return (
        f" If no other machine uses it, `ceph auth rm client.{user}` removes its user from the "
        "cluster."
    )


# -- what is shown -------------------------------------------------------------------------------


def _document(session: LabSession, spec: SiteSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "fsid": spec.fsid,
        "user": spec.user,
        "pool": spec.pool,
        "image": spec.image_id,
        "addresses": spec.addresses or None,
        "interface": spec.interface or None,
        "hosts": session.store.names(SITE_HOST_RECORD, spec.name),
    }
