"""Adopting a cluster: looked at with copies of the user's files, judged, and recorded last.

Failure and recovery: adopting has no journal, because it can be repeated. An interrupted command
leaves files and a state that the next one continues with, and no record.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from grampus.ceph.cluster import CephCluster
from grampus.ceph.ports import CommandRunner
from grampus.core.checks import Check
from grampus.core.errors import GrampusError, RefusedError, UsageError
from grampus.core.names import require_name
from grampus.core.progress import Progress
from grampus.hosts.command_server.client import CommandServers
from grampus.hosts.remote.image_scripts import observe_digest
from grampus.sites.access_files import read_access, write_access
from grampus.sites.cluster_checks import SiteAccess, observe_checks, observe_fsid
from grampus.sites.model import (
    SiteSpec,
    parse_address_range,
    parse_port_range,
    site_directory,
    site_tag,
)
from grampus.sites.required_caps import require_pools, require_user
from grampus.sites.site_records import SiteRecords
from grampus.state.home import Home


class SiteImage(Protocol):
    """A host image on this machine."""

    @property
    def id(self) -> str: ...

    @property
    def root(self) -> Path: ...


class SiteImages(Protocol):
    """Host images by the names of their definitions."""

    def find(self, name: str) -> SiteImage | None:
        """The image, if it is there."""
        ...

    def ensure(self, name: str, progress: Progress) -> SiteImage:
        """The image, built if need be."""
        ...


class ClusterRunner(CommandRunner, Protocol):
    """A CommandRunner that keeps something until it is closed."""

    def answering(self, program: Sequence[str]) -> CommandServers: ...

    def close(self) -> None: ...


# Makes what runs Ceph's commands: of an image's root, a directory with the files, and the user.
Connect = Callable[[Path, Path, str], ClusterRunner]
# Founds the state of a site, or opens that of this machine; which checks tell of it.
Found = Callable[[SiteSpec, ClusterRunner], Check]


@dataclass(frozen=True)
class AdoptOrder:
    """What the user asks for. `user` may begin with `client.`; the first of `pools` is the one of
    new databases."""

    name: str
    conf: Path
    keyring: Path
    user: str
    pools: tuple[str, ...]
    image: str
    addresses: str = ""
    interface: str = ""
    ports: str = ""
    address_hook: str = ""


@dataclass(frozen=True)
class Adopted:
    """A site, and what was found of its cluster."""

    spec: SiteSpec
    checks: tuple[Check, ...]


class SiteRefusedError(RefusedError):
    """The cluster is not fit for databases; the checks say why."""

    default_code = "site-refused"

    def __init__(self, name: str, checks: Sequence[Check]) -> None:
        refused = [one for one in checks if one.verdict == "refused"]
        super().__init__(
            f"The site '{name}' cannot be adopted. " + "\n".join(one.sentence for one in refused),
            "\n".join(one.remedy for one in refused if one.remedy),
        )
        self.checks = tuple(checks)


def require_places(order: AdoptOrder) -> None:
    """Raise UsageError when databases cannot have these addresses or ports, or this hook."""
    if order.ports and (order.addresses or order.interface):
        other = "--addresses" if order.addresses else "--interface"
        raise UsageError(
            f"--ports and {other} exclude each other.",
            "Databases have floating addresses on the network segment of their hosts "
            "(--addresses), or the address of their host and a port (--ports).",
            code="bad-ports",
        )
    if order.addresses:
        parse_address_range(order.addresses)
    if order.ports:
        parse_port_range(order.ports)
    hook = order.address_hook
    if hook and not (
        Path(hook).is_absolute() and Path(hook).is_file() and os.access(hook, os.X_OK)
    ):
        raise UsageError(
            f"--address-hook: {hook} is not the absolute path of an executable file.",
            "Give the path of the program on this machine, such as /usr/local/sbin/update-dns, "
            "and make it executable (`chmod +x`).",
            code="bad-hook",
        )


class Adoption:
    """Adopts clusters into one home. `is_lab` says whether a lab has a name.

    The caller of `adopt` holds the site alone.
    """

    def __init__(
        self,
        home: Home,
        records: SiteRecords,
        images: SiteImages,
        progress: Progress,
        *,
        is_lab: Callable[[str], bool],
        connect: Connect,
        found: Found,
    ) -> None:
        self._home = home
        self._records = records
        self._images = images
        self._progress = progress
        self._is_lab = is_lab
        self._connect = connect
        self._found = found

    def examine(self, order: AdoptOrder) -> list[Check]:
        """The checks of a cluster that is not adopted yet; nothing is changed.

        Raises UsageError for a wrong order, and GrampusError when the cluster cannot be asked.
        """
        order = self.require_order(order)
        image = self._images.find(order.image)
        if image is None:
            raise GrampusError(
                f"The host image '{order.image}' is not built yet, and Ceph's programs are in it.",
                f"Run `grampus site adopt {order.name}` without --dry-run: it builds the image. "
                "If a check is refused, nothing else changes.",
                code="no-image",
            )
        with (
            tempfile.TemporaryDirectory(prefix="grampus-site-") as directory,
            self._connected(order, image, Path(directory)) as (cluster, _),
        ):
            return self._look(cluster, order)[1]

    def adopt(self, order: AdoptOrder) -> Adopted:
        """Check the cluster and record the site. An adopted site may be adopted again.

        Raises UsageError for a wrong order, SiteRefusedError when a check is refused, RefusedError
        with code `site-exists` and what the cluster says.
        """
        order = self.require_order(order)
        image = self._images.ensure(order.image, self._progress)
        with (
            self._staging(order.name) as directory,
            self._connected(order, image, directory) as (cluster, runner),
        ):
            self._progress.phase("Check the cluster")
            fsid, checks = self._look(cluster, order)
            if any(one.verdict == "refused" for one in checks):
                raise SiteRefusedError(order.name, checks)
            self._progress.phase("Record the site")
            own = site_directory(self._home, order.name)
            write_access(own, order.conf, order.keyring, order.user)
            known = self._records.find(order.name)
            # Hosts have the image that the site began with, and servers run in it.
            keeps_image = known is not None and self._records.is_used(order.name)
            spec = SiteSpec(
                name=order.name,
                tag=site_tag(fsid, order.name),
                fsid=fsid,
                user=order.user,
                pool=order.pools[0],
                further_pools=order.pools[1:],
                image_name=known.image_name if known and keeps_image else order.image,
                image_id=known.image_id if known and keeps_image else image.id,
                image_digest=(
                    known.image_digest if known and keeps_image else observe_digest(image.root)
                ),
                addresses=order.addresses,
                interface=order.interface,
                ports=order.ports,
                address_hook=order.address_hook,
            )
            held = self._found(spec, runner)
            self._records.put(spec)
        return Adopted(spec, (*checks, held))

    @contextmanager
    def _staging(self, name: str) -> Iterator[Path]:
        """Where copies of the user's files are while the cluster is looked at."""
        # No site has such a name. An interrupted command may have left it.
        directory = site_directory(self._home, f".{name}")
        shutil.rmtree(directory, ignore_errors=True)
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    @contextmanager
    def _connected(
        self, order: AdoptOrder, image: SiteImage, directory: Path
    ) -> Iterator[tuple[CephCluster, ClusterRunner]]:
        """The cluster by copies of the user's files in `directory`."""
        write_access(directory, order.conf, order.keyring, order.user)
        runner = self._connect(image.root, directory, order.user)
        try:
            yield CephCluster(runner, image_pools=order.pools), runner
        finally:
            runner.close()

    def _look(self, cluster: CephCluster, order: AdoptOrder) -> tuple[str, list[Check]]:
        """The cluster's id and checks. Raises RefusedError with code `site-exists`."""
        fsid = observe_fsid(cluster, order.user)
        known = self._records.find(order.name)
        if known is not None:
            self._require_same(known, order, fsid)
        checks = observe_checks(cluster, SiteAccess(order.name, order.user, order.pools))
        return fsid, checks

    def require_order(self, order: AdoptOrder) -> AdoptOrder:
        """The order in our own words. Raises UsageError, and RefusedError with `name-taken`."""
        require_name("site", order.name)
        if self._is_lab(order.name):
            raise RefusedError(
                f"A lab is named '{order.name}'.", "Choose another name.", code="name-taken"
            )
        require_places(order)
        order = replace(order, user=require_user(order.user), pools=require_pools(order.pools))
        read_access(order.conf, order.keyring, order.user)  # building the image takes minutes
        return order

    def _require_same(self, known: SiteSpec, order: AdoptOrder, fsid: str) -> None:
        if known.fsid != fsid:
            raise RefusedError(
                f"The site '{order.name}' is the cluster {known.fsid}, not {fsid}.",
                "Choose another name for this cluster.",
                code="site-exists",
            )
        is_same = (order.pools[0], order.user) == (known.pool, known.user)
        is_same = is_same and order.image == known.image_name
        left = sorted(self._records.pools_in_use(order.name) - {*order.pools}) if is_same else []
        if left:
            raise RefusedError(
                f"Volumes of the site '{order.name}' are in the pool {', '.join(left)}.",
                f"Adopt it with {' '.join(f'--pool {pool}' for pool in known.pools)}.",
                code="site-exists",
            )
        if not is_same and self._records.is_used(order.name):
            raise RefusedError(
                f"The site '{order.name}' is in use with the pool '{known.pool}', the user "
                f"client.{known.user} and the host image '{known.image_name}'.",
                f"Adopt it with --pool {known.pool} --user {known.user} "
                f"--image {known.image_name}.",
                code="site-exists",
            )
