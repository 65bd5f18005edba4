"""`grampus site`: existing Ceph clusters that databases run on."""

from __future__ import annotations

from collections.abc import Sequence
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
from grampus.core.errors import RefusedError, UsageError, suggest_file
from grampus.core.names import require_name
from grampus.sites.adoption import AdoptOrder
from grampus.sites.model import DEFAULT_POOL, DEFAULT_USER, SiteSpec
from grampus.sites.required_caps import (
    render_grant,
    render_update,
    require_pools,
    require_user,
    required_caps,
)
from grampus.sites.site_key import parse_join_file
from grampus.sites.sites import SiteService
from grampus.state.home import write_atomically

DEFAULT_IMAGE = "sid"
site_app = make_noun("site", "Existing Ceph clusters and hosts that databases run on.", under=app)
NameArgument = Annotated[str, typer.Argument(help="The site's name.")]
UserOption = Annotated[
    str, typer.Option(metavar="USER", help="The cephx user of Grampus, without `client.`.")
]
PoolsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--pool",
        metavar="POOL",
        help=f"A pool for databases, {DEFAULT_POOL} by default. Of several, new ones are in the "
        "first.",
    ),
]


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
    pools: PoolsOption = None,
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
    ports: Annotated[
        str,
        typer.Option(
            metavar="FIRST-LAST",
            help="Instead of --addresses: ports for databases at the addresses of their hosts, "
            "such as 13300-13399.",
        ),
    ] = "",
    address_hook: Annotated[
        str,
        typer.Option(
            metavar="PROGRAM",
            help="A program on this machine that gets the address of each database when that "
            "changes, such as to update DNS.",
        ),
    ] = "",
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Use an existing Ceph cluster for databases.

    Grampus checks the cluster first, and records nothing if a check is refused. It copies both
    files to GRAMPUS_HOME. No host gets this key. Repeat the command to change the options.
    """
    order = AdoptOrder(
        *(name, conf, keyring, user, tuple(pools or [DEFAULT_POOL]), image, addresses, interface),
        ports=ports,
        address_hook=address_hook,
    )
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
        "site": _document(service, adopted.spec),
        "checks": [one.document() for one in adopted.checks],
    }
    output.text(
        document,
        f"The site '{name}' is adopted: {describe_pools(adopted.spec.pools)} of the cluster "
        f"{adopted.spec.fsid}.\nNext: `grampus host add HOST --ssh USER@ADDRESS --site {name}`.",
    )


@command(site_app, "key", "grampus site key prod --to /root/prod.site")
def site_key(
    name: NameArgument,
    to: Annotated[Path, typer.Option(metavar="FILE", help="The file to write, with mode 0600.")],
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Write a file with which another machine joins the site.

    The file has the cluster's configuration, the key of Grampus, and the site key, which opens the
    passwords in the state of the site. Keep it as safe as a password.
    """
    session = LabSession(name)
    file = site_service(session).join_file(name)
    if to.exists():
        raise RefusedError(
            f"The file {to} exists already.", "Choose another name.", code="file-exists"
        )
    write_atomically(to, file.model_dump_json(indent=1).encode(), mode=0o600)
    make_output(output_format).text(
        {"site": name, "file": str(to.absolute())},
        f"The file {to.absolute()} lets a machine join the site '{name}'. Copy it there, run "
        "`grampus site join --from FILE`, then delete it.",
    )


@command(site_app, "join", "grampus site join --from /root/prod.site")
def site_join(
    source: Annotated[
        Path,
        typer.Option("--from", metavar="FILE", help="The file from `grampus site key`."),
    ],
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Work on a site from this machine, too.

    All machines of a site see the same databases and operations. They wait for each other where two
    change the same. Hosts must accept the SSH key of this machine.
    """
    try:
        file = parse_join_file(source.read_text())
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(
            f"--from: the file {source} does not exist.",
            suggest_file(source, "Give the file that `grampus site key NAME` wrote."),
            code="no-such-file",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise UsageError(
            f"--from: the file {source} cannot be read: {why}.",
            "Give the file that `grampus site key NAME` wrote.",
            code="unreadable-file",
        ) from None
    session, output = LabSession(file.site, makes_lab=True), make_output(output_format)
    with session.progress:
        service = site_service(session)
        spec = service.join(file)
    count = len(service.machines(spec.name))
    output.text(
        {"site": _document(service, spec)},
        f"This machine works on the site '{spec.name}', one of {count} machines.\n"
        f"Next: `grampus db list --site {spec.name}`.",
    )


@command(site_app, "list", "grampus site list")
def site_list(output_format: FormatOption = FORMAT_DEFAULT) -> None:
    """List all sites of this GRAMPUS_HOME."""
    session = LabSession("sites")
    service = site_service(session)
    documents = [_document(service, spec) for spec in service.all()]
    make_output(output_format).table(
        {"sites": documents},
        ["name", "pool", "user", "hosts", "addresses", "cluster"],
        [
            [
                one["name"],
                ", ".join([one["pool"], *one["further_pools"]]),
                f"client.{one['user']}",
                str(len(one["hosts"])),
                one["addresses"] or (f"ports {one['ports']}" if one["ports"] else "none"),
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
    service = site_service(session)
    document = _document(service, service.get(name))
    pairs = {
        "site": name,
        "cluster": document["fsid"],
        "pool": document["pool"],
        "further pools": ", ".join(document["further_pools"]),
        "user": f"client.{document['user']}",
        "image": document["image"],
        "addresses": document["addresses"] or ("" if document["ports"] else "none"),
        "interface": document["interface"] or "",
        "ports": f"{document['ports']} of the hosts" if document["ports"] else "",
        "address hook": document["address_hook"] or "",
        "hosts": ", ".join(document["hosts"]) or "none",
        "machines": ", ".join(f"{one['name']}:{one['home']}" for one in document["machines"]),
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
    pools: PoolsOption = None,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Print the command that creates the cephx user of Grampus for a site.

    Run it where the cluster's admin key is. The user may do what Grampus needs, and no more.
    """
    require_name("site", name)
    user, chosen = require_user(user), require_pools(pools or [DEFAULT_POOL])
    document = {
        "site": name,
        "user": user,
        "pool": chosen[0],
        "further_pools": list(chosen[1:]),
        "caps": required_caps(name, user, chosen),
        "create": render_grant(name, user, chosen),
        "change": render_update(name, user, chosen),
    }
    make_output(output_format).text(document, str(document["create"]))


@command(site_app, "forget", "grampus site forget prod --yes")
def site_forget(
    name: NameArgument,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Forget a site on this machine. Data is never removed.

    The last machine that works on a site forgets it only if it has no hosts, volumes and databases,
    and removes its state in the cluster. The cephx user and the pool stay; the output says how to
    remove the user.
    """
    session = LabSession(name)
    service = site_service(session)
    spec = service.require_forgettable(name)
    with session.planning(dry_run=dry_run):
        session.runner.propose(
            lambda: [
                "Remove the state of the site in the cluster, unless other machines use it",
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


def describe_pools(pools: Sequence[str]) -> str:
    """`pool databases`, or `pools databases, fast`."""
    return f"pool{'' if len(pools) == 1 else 's'} {', '.join(pools)}"


def _document(service: SiteService, spec: SiteSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "fsid": spec.fsid,
        "user": spec.user,
        "pool": spec.pool,
        "further_pools": list(spec.further_pools),
        "image": spec.image_id,
        "addresses": spec.addresses or None,
        "interface": spec.interface or None,
        "ports": spec.ports or None,
        "address_hook": spec.address_hook or None,
        "hosts": service.hosts(spec.name),
        "machines": [{"name": one.name, "home": one.home} for one in service.machines(spec.name)],
    }
