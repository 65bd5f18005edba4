"""The composition root, of upgrades of a site's hosts."""

from __future__ import annotations

from contextlib import closing

from grampus.cli.composition.session import Session
from grampus.cli.composition.site_hosts import (
    image_copies,
    own_parts,
    reach_from,
    remote_host,
    site_hosts,
    ssh_place,
)
from grampus.core.checks import Check
from grampus.core.errors import GrampusError
from grampus.core.installation import find_volumed
from grampus.databases.model import DatabaseRecord
from grampus.databases.operating import DatabaseOperations
from grampus.lab.images.server_series import has_other_servers
from grampus.sites.host_images import HostImageCopies, ImageCopy
from grampus.sites.host_upgrades import HostUpgrades, UpgradePorts
from grampus.sites.model import SiteHostSpec, SiteSpec
from grampus.sites.site_host_records import SiteHostRecords
from grampus.volumes.drivers.volumed import VolumedProgram


def host_upgrades(session: Session, site: SiteSpec) -> HostUpgrades:
    """Upgrades of the hosts of a site."""
    copies = image_copies(session.home, site, session.progress)
    hosts = site_hosts(session, site)

    def reach(host: SiteHostSpec) -> Check:
        return reach_from(session.home, site, host, session.volumes().takeovers.mon_places())

    def put_programs(host: SiteHostSpec) -> None:
        program = VolumedProgram(find_volumed())
        if program.is_built():
            with closing(remote_host(session.home, site, host, session.own_epoch)) as reached:
                program.ensure_on(reached)

    def outdated(host: SiteHostSpec) -> list[str]:
        with closing(remote_host(session.home, site, host)) as reached:
            return [one.name for one in reached.observe_daemons() if one.is_outdated]

    return HostUpgrades(
        SiteHostRecords(session.store, site.name),
        UpgradePorts(
            images=copies,
            databases=DatabaseImages(session.databases().operations),
            place=lambda host: ssh_place(session.home, site, host),
            look=hosts.look,
            reach=reach,
            put_programs=put_programs,
            outdated=outdated,
            leave=session.leave_hosts,
        ),
        session.runner,
        session.clock,
        session.progress,
        own=own_parts(session.images, site),
        original=lambda: _original(session, site, copies),
        keeps_servers=lambda former, new: _keeps_servers(session, former, new),
    )


class DatabaseImages:
    """The databases of a site, as far as host images matter to them; a `SiteDatabases`."""

    def __init__(self, operations: DatabaseOperations) -> None:
        self._operations = operations

    def named_images(self) -> set[str]:
        return self._operations.records.named_images()

    def keep_servers(self, images: dict[str, str]) -> None:
        for name, host in self._operations.records.hosts().items():
            if host in images:
                self._name(name, None, images[host])

    def follow_hosts(self, image_id: str) -> None:
        for name in self._operations.records.names():
            try:
                self._name(name, image_id, None)
            except GrampusError:
                continue  # a command works on it: it names the image until the next upgrade

    def _name(self, name: str, former: str | None, image_id: str | None) -> None:
        records = self._operations.records

        def find() -> DatabaseRecord | None:
            record = records.find(name)
            return record if record is not None and record.spec.image_id == former else None

        if find() is None:
            return
        with self._operations.locked(name):
            record = find()
            if record is not None:
                changed = record.spec.model_copy(update={"image_id": image_id})
                records.change(name, spec=changed)


def _original(session: Session, site: SiteSpec, copies: HostImageCopies) -> ImageCopy:
    """The image that hosts are to have, built if need be."""
    own = own_parts(session.images, site)
    if not (session.home.images_dir / own.image_id / "root").is_dir():
        session.images.ensure(site.image_name, session.progress)
    session.progress.phase("Compute the digest of the host image")
    return copies.original(own.image_id)


def _keeps_servers(session: Session, former: str, new: str) -> bool:
    versions = {image.id: image.versions for image in session.images.list()}
    # One that is not built yet: a dry run.
    return new in versions and has_other_servers(versions.get(former), versions[new])
