"""Adopting, checking and forgetting sites.

Failure and recovery: these commands have no journal, because each can be repeated. `adopt` writes
the site's record last (`adoption`). `forget` removes it last: an interrupted one leaves a site that
can be forgotten again.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from grampus.ceph.cluster import CephCluster
from grampus.ceph.epoch_objects import EpochObjects, epoch_prefix
from grampus.ceph.state_note import ensure_state_note_absent, generation_key
from grampus.core.checks import Check
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError
from grampus.core.progress import Progress
from grampus.sites.access_files import has_access
from grampus.sites.adoption import (
    Adopted,
    Adoption,
    AdoptOrder,
    ClusterRunner,
    Connect,
    SiteImages,
)
from grampus.sites.cluster_access import SiteClusterRunner
from grampus.sites.cluster_checks import SiteAccess, observe_checks, observe_fsid
from grampus.sites.controller_epoch import SiteController
from grampus.sites.model import SiteSpec, connection_directory, site_directory
from grampus.sites.site_records import SiteRecords
from grampus.state.home import Home
from grampus.state.locks import hold_lock
from grampus.state.store import Store

_LOCK_TIMEOUT_S = 15.0


class SiteService:
    """The sites of one home; `in_use` as in `SiteRecords`, `is_lab` as in `Adoption`."""

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
        connect: Connect = SiteClusterRunner,
    ) -> None:
        self._home = home
        self._images = images
        self._clock = clock
        self._progress = progress
        self._connect = connect
        self._records = SiteRecords(store, in_use)
        self._store = store
        self._adoption = Adoption(
            *(home, self._records, images, progress),
            is_lab=is_lab,
            connect=connect,
            control=self._control,
        )

    def all(self) -> list[SiteSpec]:
        """All sites, by name."""
        return self._records.all()

    def get(self, name: str) -> SiteSpec:
        """The site of that name. Raises NotFoundError."""
        return self._records.get(name)

    def require_unused(self, name: str) -> SiteSpec:
        """As `SiteRecords.require_unused`."""
        return self._records.require_unused(name)

    def examine(self, order: AdoptOrder) -> list[Check]:
        """As `Adoption.examine`."""
        return self._adoption.examine(order)

    def adopt(self, order: AdoptOrder) -> Adopted:
        """As `Adoption.adopt`, while nobody else works on the site."""
        order = self._adoption.require_order(order)
        with self._alone(order.name):
            return self._adoption.adopt(order)

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
        root = self._home.images_dir / spec.image_id / "root"
        if not root.is_dir():
            root = self._images.ensure(spec.image_name, self._progress).root
        return self._connect(root, directory, spec.user)

    def check(self, name: str) -> list[Check]:
        """The same checks again. Raises NotFoundError, and what the cluster says."""
        spec = self.get(name)
        runner = self.runner(spec)
        try:
            cluster = CephCluster(runner, image_pools=(spec.pool,))
            observe_fsid(cluster, spec.user)
            checks = observe_checks(cluster, SiteAccess(spec.name, spec.user, spec.pool))
            if all(one.verdict != "refused" for one in checks):
                checks.append(self._control(spec.name, spec.pool, cluster).check())
            return checks
        finally:
            runner.close()

    def forget(self, name: str) -> None:
        """Remove the site's notes in the cluster, its key here and its record; no data.

        The notes stay if another home controls the site.

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
            self._records.remove(name)
            # Gone with the last site.
            with contextlib.suppress(OSError):
                directory.parent.rmdir()
            with contextlib.suppress(OSError):
                connection_directory(spec).rmdir()

    def _control(self, name: str, pool: str, cluster: CephCluster) -> SiteController:
        return SiteController(
            self._store, name, lambda: EpochObjects(cluster, pool, name), self._clock
        )

    def _remove_note(self, spec: SiteSpec) -> None:
        try:
            runner = self.runner(spec)
            try:
                cluster = CephCluster(runner)
                controller = self._control(spec.name, spec.pool, cluster)
                if controller.is_other():
                    self._progress.note(
                        "Another GRAMPUS_HOME controls the site: its notes in the cluster stay."
                    )
                    return
                ensure_state_note_absent(cluster, spec.name)
                controller.forget()
            finally:
                runner.close()
        except GrampusError as error:
            key, objects = generation_key(spec.name), epoch_prefix(spec.name)
            self._progress.note(
                f"The cluster may keep notes of Grampus: {error.problem} "
                f"`ceph config-key rm {key}` and `rados -p {spec.pool} rm {objects}NUMBER` remove "
                "them."
            )

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        # The lock of a lab of this name: work in the site shares it.
        with hold_lock(self._home, f"lab.{name}", self._clock, timeout_s=_LOCK_TIMEOUT_S):
            yield
