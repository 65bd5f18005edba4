"""The composition root, of sites: their hosts, and Ceph's commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from grampus.cli.composition.lab import LabSession
from grampus.cli.composition.session import Session
from grampus.cli.composition.site_cluster import require_image_root
from grampus.core.checks import Check, Verdict
from grampus.core.errors import NotFoundError
from grampus.core.progress import Progress, SilentProgress
from grampus.databases.records import DatabaseRecords
from grampus.hosts.probing import (
    PROBE_PATIENCE_S,
    hears_most,
    parse_probe,
    probe_argv,
)
from grampus.hosts.remote.epoch_guard import HostEpoch
from grampus.hosts.remote.host_parts import (
    HOST_FORMAT,
    HostParts,
    PartsState,
    classify_parts,
    explain_state,
)
from grampus.hosts.remote.remote_fleet import RemoteFleet
from grampus.hosts.remote.remote_host import RemoteHost, RemoteHostPlace
from grampus.hosts.remote.ssh import SshPlace
from grampus.lab.images.cache import HostImages
from grampus.sites.host_images import HostImageCopies
from grampus.sites.model import (
    ControllerEpoch,
    SiteHostSpec,
    SiteSpec,
    connection_directory,
)
from grampus.sites.shared_state import known_hosts_file
from grampus.sites.site_host_records import parts_of
from grampus.sites.site_hosts import SiteHosts
from grampus.state.home import Home

# The epoch that this process works in, which begins a later one when it fences others.
EpochNow = Callable[[], ControllerEpoch | None]
_NEVER = datetime.fromtimestamp(0, UTC)
_NO_EPOCH = ControllerEpoch(number=0, id="none", machine="", machine_id="", since=_NEVER)


@dataclass(frozen=True)
class HostCondition:
    """A host's parts compared with those of this Grampus, in words as well."""

    host: str
    parts: HostParts
    state: PartsState
    sentence: str
    remedy: str

    def check(self) -> Check:
        """The same as a check of the host."""
        verdict: Verdict = "warning"
        if self.state in ("too-new", "too-old"):
            verdict = "refused"
        elif self.state == "current":
            verdict = "ok"
        return Check("grampus", verdict, self.sentence, self.remedy)


def site_hosts(session: Session, site: SiteSpec) -> SiteHosts:
    """The hosts of a site, to be added, checked and removed."""

    def connect(host: SiteHostSpec) -> tuple[SshPlace, RemoteHost]:
        return ssh_place(session.home, site, host), remote_host(session.home, site, host)

    epoch = session.own_epoch()
    require_image_root(session.home, session.images, site, session.progress)
    return SiteHosts(
        *(session.home, session.store, site, image_copies(session.home, site, session.progress)),
        *(connect, session.clock, session.progress),
        epoch=None if epoch is None else host_epoch(site, epoch),
        version=version("grampus"),
        at_address_of=DatabaseRecords(session.store, site.name).at_address_of,
    )


def image_copies(home: Home, site: SiteSpec, progress: Progress) -> HostImageCopies:
    """Host images of this machine, copied to the site's hosts."""
    return HostImageCopies(site.host_directory, home.images_dir, progress)


def own_parts(images: HostImages, site: SiteSpec) -> HostParts:
    """What this Grampus puts on hosts of the site; the digest of an image that is not built yet is
    empty."""
    try:
        image_id = images.definition(site.image_name).image_id
    except NotFoundError:  # its administrator's own definition, which is gone
        image_id = site.image_id
    digest = site.image_digest if image_id == site.image_id else ""
    return HostParts(HOST_FORMAT, version("grampus"), image_id, digest)


def classify_hosts(session: Session | LabSession, site: SiteSpec) -> list[HostCondition]:
    """What is recorded of the parts of each host, compared with those of this Grampus."""
    own = own_parts(session.images, site)
    found = [(host.name, parts_of(host, site)) for host in session.site_hosts()]
    return [
        HostCondition(name, parts, classify_parts(parts, own), *explain_state(name, parts, own))
        for name, parts in found
    ]


def check_hosts(conditions: Sequence[HostCondition], site: str) -> Check:
    """Whether all hosts of the site have the parts of this Grampus, according to the records."""
    if not conditions:
        return Check("hosts", "warning", "The site has no hosts.", "Add one: `grampus host add`.")
    other = [one for one in conditions if one.state != "current"]
    if not other:
        return Check("hosts", "ok", "All hosts have the host image of this Grampus.")
    remedy = f"`grampus host upgrade --all --site {site}` upgrades them, one at a time."
    if any(one.state in ("newer", "too-new") for one in other):
        remedy = "Upgrade Grampus on this machine."
    cannot_work = any(one.state in ("too-new", "too-old") for one in other)
    return Check(
        "hosts",
        "refused" if cannot_work else "warning",
        " ".join(one.sentence for one in other),
        remedy,
    )


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
        # It is a file of the machine that added the host.
        identity=host.identity if host.identity and Path(host.identity).is_file() else None,
        known_hosts=known_hosts_file(home, site.name),
        control_path=connection_directory(site) / host.name,
    )


def remote_host(
    home: Home,
    site: SiteSpec,
    host: SiteHostSpec,
    epoch: EpochNow | None = None,
    progress: Progress | None = None,
) -> RemoteHost:
    """One host of a site; without an `epoch` it obeys commands of any.

    With a `progress`, host images that its daemons need are copied to it.
    """
    connection_directory(site).mkdir(mode=0o700, parents=True, exist_ok=True)
    ssh = ssh_place(home, site, host)

    def provide_image(image_id: str) -> None:
        copies = image_copies(home, site, progress or SilentProgress())
        copies.ensure(ssh, copies.original(image_id))

    return RemoteHost(
        RemoteHostPlace(
            name=host.name,
            address=host.address,
            ssh=ssh,
            directory=site.host_directory,
            tag=site.tag,
            image_id=parts_of(host, site).image_id,
            interface=site.interface,
            epoch=lambda: None if epoch is None else host_epoch(site, epoch() or _NO_EPOCH),
        ),
        provide_image=None if progress is None else provide_image,
    )


def host_epoch(site: SiteSpec, epoch: ControllerEpoch) -> HostEpoch:
    """The epoch as hosts know it."""
    return HostEpoch(site.tag, epoch.number, epoch.id)


def site_fleet(
    home: Home,
    site: SiteSpec,
    hosts: Sequence[SiteHostSpec],
    epoch: EpochNow,
    progress: Progress,
) -> RemoteFleet:
    """The hosts that Grampus may use, given commands in the present epoch; without one, hosts
    refuse commands."""
    made = [remote_host(home, site, one, epoch, progress) for one in hosts]
    return RemoteFleet(made, site.database_addresses(), site.database_ports())
