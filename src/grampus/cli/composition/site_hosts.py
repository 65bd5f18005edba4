"""The composition root, of sites: their hosts, and Ceph's commands."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from grampus.cli.composition.session import Session
from grampus.core.checks import Check
from grampus.core.errors import GrampusError
from grampus.core.progress import Progress
from grampus.databases.failover.probing import (
    PROBE_PATIENCE_S,
    hears_most,
    parse_probe,
    probe_argv,
)
from grampus.hosts.remote.epoch_guard import HostEpoch
from grampus.hosts.remote.remote_fleet import RemoteFleet
from grampus.hosts.remote.remote_host import RemoteHost, RemoteHostPlace
from grampus.hosts.remote.ssh import SshPlace
from grampus.lab.images.cache import HostImages
from grampus.sites.cluster_access import SiteClusterRunner
from grampus.sites.model import (
    ControllerEpoch,
    SiteHostSpec,
    SiteSpec,
    connection_directory,
    site_directory,
)
from grampus.sites.site_hosts import SiteHosts
from grampus.state.home import Home

_NEVER = datetime.fromtimestamp(0, UTC)


def site_hosts(session: Session, site: SiteSpec) -> SiteHosts:
    """The hosts of a site, to be added, checked and removed."""

    def connect(host: SiteHostSpec) -> tuple[SshPlace, RemoteHost]:
        return ssh_place(session.home, site, host), remote_host(session.home, site, host)

    epoch = session.own_epoch()
    image = require_image_root(session.home, session.images, site, session.progress)
    return SiteHosts(
        *(session.home, session.store, site, image),
        *(connect, session.clock, session.progress),
        epoch=None if epoch is None else host_epoch(site, epoch),
    )


def require_image_root(home: Home, images: HostImages, site: SiteSpec, progress: Progress) -> Path:
    """The root of the site's host image on this machine, built if need be.

    Raises GrampusError with code `other-image` when the definition has changed since.
    """
    root = home.images_dir / site.image_id / "root"
    if not root.is_dir():
        built = images.ensure(site.image_name, progress)
        if built.id != site.image_id:
            raise GrampusError(
                f"The site '{site.name}' uses the host image {site.image_id}, which is not here; "
                f"the present one is {built.id}.",
                "Copy the image's directory from the machine that adopted the site.",
                code="other-image",
            )
    return root


def site_runner(
    home: Home, images: HostImages, site: SiteSpec, progress: Progress
) -> SiteClusterRunner:
    """Ceph's commands for the site's cluster, run on this machine."""
    root = require_image_root(home, images, site, progress)
    return SiteClusterRunner(root, site_directory(home, site.name), site.user)


def reach_from(home: Home, site: SiteSpec, host: SiteHostSpec, mons: Sequence[str]) -> Check:
    """Whether a host reaches the MONs (`ADDRESS:PORT`), whoever controls the site."""
    with closing(remote_host(home, site, host)) as reached:
        found = reached.run(probe_argv(mons, PROBE_PATIENCE_S), check=False)
    answers = parse_probe(found.stdout)
    silent = [mon for mon in mons if answers.get(mon) not in ("greets", "listens")]
    if not silent:
        return Check("mons", "ok", f"It reaches all {len(mons)} MONs of the cluster.")
    return Check(
        "mons",
        "warning" if hears_most(answers, mons) else "refused",
        f"It does not reach {', '.join(silent)}.",
        "Open the ports of the MONs (3300, 6789) and OSDs (6800 to 7568) for the host.",
    )


def ssh_place(home: Home, site: SiteSpec, host: SiteHostSpec) -> SshPlace:
    """Where a host is reached."""
    return SshPlace(
        host=host.name,
        user=host.ssh_user,
        address=host.ssh_address,
        port=host.ssh_port,
        identity=host.identity,
        known_hosts=site_directory(home, site.name) / "known_hosts",
        control_path=connection_directory(site) / host.name,
    )


def remote_host(
    home: Home, site: SiteSpec, host: SiteHostSpec, epoch: ControllerEpoch | None = None
) -> RemoteHost:
    """One host of a site; without an `epoch` it obeys commands whoever controls the site."""
    connection_directory(site).mkdir(mode=0o700, parents=True, exist_ok=True)
    return RemoteHost(
        RemoteHostPlace(
            name=host.name,
            address=host.address,
            ssh=ssh_place(home, site, host),
            directory=site.host_directory,
            tag=site.tag,
            image_id=site.image_id,
            interface=site.interface,
            epoch=None if epoch is None else host_epoch(site, epoch),
        )
    )


def host_epoch(site: SiteSpec, epoch: ControllerEpoch) -> HostEpoch:
    """The epoch as hosts know it."""
    return HostEpoch(site.tag, epoch.number, epoch.id)


def site_fleet(
    home: Home, site: SiteSpec, hosts: Sequence[SiteHostSpec], epoch: ControllerEpoch | None
) -> RemoteFleet:
    """The hosts that Grampus may use, given commands in this epoch.

    Who has never controlled the site has none: hosts that obey a controller refuse it.
    """
    none = ControllerEpoch(number=0, id="none", machine="", machine_id="", since=_NEVER)
    made = [remote_host(home, site, one, epoch or none) for one in hosts]
    return RemoteFleet(made, site.database_addresses())
