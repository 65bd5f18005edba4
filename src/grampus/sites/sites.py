"""Adopting, checking and forgetting sites.

Failure and recovery: these commands have no journal, because each can be repeated. `adopt` looks
at the cluster from a temporary directory, and writes the site's record last: an interrupted one
leaves files that the next one writes again. `forget` removes the record last: an interrupted one
leaves a site that can be forgotten again.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from grampus.ceph.cluster import CephCluster
from grampus.ceph.ports import CommandRunner
from grampus.ceph.state_note import ensure_state_note_absent, generation_key
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError, RefusedError, not_found
from grampus.core.names import require_name
from grampus.core.progress import Progress
from grampus.sites.access_files import has_access, write_access
from grampus.sites.adoption_checks import Check
from grampus.sites.cluster_access import SiteClusterRunner
from grampus.sites.cluster_checks import SiteAccess, observe_checks, observe_fsid
from grampus.sites.model import (
    SITE_HOST_RECORD,
    SITE_RECORD,
    SiteSpec,
    parse_address_range,
    site_directory,
    site_tag,
)
from grampus.sites.required_caps import require_pool, require_user
from grampus.state.home import Home
from grampus.state.locks import hold_lock
from grampus.state.store import Store

_LOCK_TIMEOUT_S = 15.0


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

    def close(self) -> None: ...


@dataclass(frozen=True)
class AdoptOrder:
    """What the user asks for. `user` may begin with `client.`."""

    name: str
    conf: Path
    keyring: Path
    user: str
    pool: str
    image: str
    addresses: str = ""
    interface: str = ""


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


class SiteService:
    """The sites of one home.

    `in_use` names what may be recorded in a site, such as `database`, by the kind of its record.
    `is_lab` says whether a lab has a name.
    """

    def __init__(
        self,
        home: Home,
        store: Store,
        images: SiteImages,
        clock: Clock,
        progress: Progress,
        *,
        in_use: Mapping[str, str],
        is_lab: Callable[[str], bool],
        connect: Callable[[Path, Path, str], ClusterRunner] = SiteClusterRunner,
    ) -> None:
        self._home = home
        self._store = store
        self._images = images
        self._clock = clock
        self._progress = progress
        self._in_use = in_use
        self._is_lab = is_lab
        self._connect = connect

    def all(self) -> list[SiteSpec]:
        """All sites, by name."""
        return list(self._store.all(SITE_RECORD, None, SiteSpec).values())

    def find(self, name: str) -> SiteSpec | None:
        """The site of that name; None: there is none."""
        return self._store.get(SITE_RECORD, name, name, SiteSpec)

    def get(self, name: str) -> SiteSpec:
        """The site of that name. Raises NotFoundError."""
        spec = self.find(name)
        if spec is None:
            known = [one.name for one in self.all()]
            raise not_found("site", name, known, list_command="grampus site list")
        return spec

    def runner(self, spec: SiteSpec) -> ClusterRunner:
        """Runs Ceph's commands for the site's cluster; the caller closes it.

        Raises GrampusError with code `site-key-missing`, and what building the image raises.
        """
        directory = site_directory(self._home, spec.name)
        if not has_access(directory, spec.user):
            raise GrampusError(
                f"The key of the site '{spec.name}' is missing in {directory}.",
                f"Run `grampus site adopt {spec.name} --conf FILE --keyring FILE` again.",
                code="site-key-missing",
            )
        image = self._images.ensure(spec.image_name, self._progress)
        return self._connect(image.root, directory, spec.user)

    def examine(self, order: AdoptOrder) -> list[Check]:
        """The checks of a cluster that is not adopted yet; nothing is changed.

        Raises UsageError for a wrong order, and GrampusError when the cluster cannot be asked.
        """
        order = self._require_order(order)
        image = self._images.find(order.image)
        if image is None:
            raise GrampusError(
                f"The host image '{order.image}' is not built yet, and Ceph's programs are in it.",
                "Run `grampus site adopt` without --dry-run. It builds the image, and changes "
                "nothing if a check is refused.",
                code="no-image",
            )
        with self._connected(order, image) as cluster:
            fsid = observe_fsid(cluster, order.user)
            self._require_same_cluster(order, fsid)
            return observe_checks(cluster, _access(order))

    def adopt(self, order: AdoptOrder) -> Adopted:
        """Check the cluster and record the site. An adopted site may be adopted again.

        Raises UsageError for a wrong order, SiteRefusedError when a check is refused, RefusedError
        with code `site-exists` and what the cluster says.
        """
        order = self._require_order(order)
        image = self._images.ensure(order.image, self._progress)
        with self._alone(order.name), self._connected(order, image) as cluster:
            self._progress.phase("Check the cluster")
            fsid = observe_fsid(cluster, order.user)
            self._require_same_cluster(order, fsid)
            checks = observe_checks(cluster, _access(order))
            if any(one.verdict == "refused" for one in checks):
                raise SiteRefusedError(order.name, checks)
            self._progress.phase("Record the site")
            directory = site_directory(self._home, order.name)
            write_access(directory, order.conf, order.keyring, order.user)
            spec = SiteSpec(
                name=order.name,
                tag=site_tag(self._home, order.name),
                fsid=fsid,
                user=order.user,
                pool=order.pool,
                image_name=order.image,
                image_id=image.id,
                addresses=order.addresses,
                interface=order.interface,
            )
            self._store.put(SITE_RECORD, order.name, order.name, spec)
        return Adopted(spec, tuple(checks))

    def check(self, name: str) -> list[Check]:
        """The same checks again. Raises NotFoundError, and what the cluster says."""
        spec = self.get(name)
        runner = self.runner(spec)
        try:
            cluster = CephCluster(runner, image_pools=(spec.pool,))
            observe_fsid(cluster, spec.user)
            return observe_checks(cluster, SiteAccess(spec.name, spec.user, spec.pool))
        finally:
            runner.close()

    def require_unused(self, name: str) -> SiteSpec:
        """Raise RefusedError with code `site-in-use` while something is recorded in the site."""
        spec = self.get(name)
        for noun, kind in {"host": SITE_HOST_RECORD, **self._in_use}.items():
            names = self._store.names(kind, name)
            if names:
                shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
                raise RefusedError(
                    f"The site '{name}' has {len(names)} {noun}{'' if len(names) == 1 else 's'}: "
                    f"{shown}.",
                    "Remove databases, volumes and hosts first (`grampus db delete --now`, "
                    "`grampus db trash`, `grampus host remove`).",
                    code="site-in-use",
                )
        return spec

    def forget(self, name: str) -> None:
        """Remove the site's note in the cluster, its key here and its record; no data.

        A cluster that cannot be reached keeps its note; the progress says how to remove it.
        Raises NotFoundError, and RefusedError as `require_unused`.
        """
        with self._alone(name):
            spec = self.require_unused(name)
            self._progress.phase("Remove the note in the cluster")
            self._remove_note(spec)
            self._progress.phase("Remove the key and the record")
            directory = site_directory(self._home, name)
            if directory.exists():
                shutil.rmtree(directory)
            self._store.remove_lab(name)

    def _remove_note(self, spec: SiteSpec) -> None:
        try:
            runner = self.runner(spec)
            try:
                ensure_state_note_absent(CephCluster(runner), spec.name)
            finally:
                runner.close()
        except GrampusError as error:
            key = generation_key(spec.name)
            self._progress.note(
                f"The cluster may keep a note of Grampus: {error.problem} "
                f"`ceph config-key rm {key}` removes it."
            )

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        # The lock of a lab of this name: work in the site shares it.
        with hold_lock(self._home, f"lab.{name}", self._clock, timeout_s=_LOCK_TIMEOUT_S):
            yield

    @contextmanager
    def _connected(self, order: AdoptOrder, image: SiteImage) -> Iterator[CephCluster]:
        """The cluster by the user's files, of which copies are used and removed again."""
        with tempfile.TemporaryDirectory(prefix="grampus-site-") as name:
            directory = Path(name)
            write_access(directory, order.conf, order.keyring, order.user)
            runner = self._connect(image.root, directory, order.user)
            try:
                yield CephCluster(runner, image_pools=(order.pool,))
            finally:
                runner.close()

    def _require_order(self, order: AdoptOrder) -> AdoptOrder:
        """The order in our own words. Raises UsageError, and RefusedError with `name-taken`."""
        require_name("site", order.name)
        if self._is_lab(order.name):
            raise RefusedError(
                f"A lab is named '{order.name}'.", "Choose another name.", code="name-taken"
            )
        if order.addresses:
            parse_address_range(order.addresses)
        return AdoptOrder(
            name=order.name,
            conf=order.conf,
            keyring=order.keyring,
            user=require_user(order.user),
            pool=require_pool(order.pool),
            image=order.image,
            addresses=order.addresses,
            interface=order.interface,
        )

    def _require_same_cluster(self, order: AdoptOrder, fsid: str) -> None:
        known = self.find(order.name)
        if known is None:
            return
        if known.fsid != fsid:
            raise RefusedError(
                f"The site '{order.name}' is the cluster {known.fsid}, not {fsid}.",
                "Choose another name for this cluster.",
                code="site-exists",
            )
        changed = (known.pool, known.user) != (order.pool, order.user)
        used = any(self._store.names(kind, order.name) for kind in self._in_use.values())
        if changed and used:
            raise RefusedError(
                f"The site '{order.name}' has databases or volumes in the pool '{known.pool}' "
                f"with client.{known.user}.",
                f"Adopt it with --pool {known.pool} --user {known.user}.",
                code="site-exists",
            )


def _access(order: AdoptOrder) -> SiteAccess:
    return SiteAccess(order.name, order.user, order.pool)
