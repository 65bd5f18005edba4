"""Adopting, joining, checking and forgetting sites.

Failure and recovery: these commands have no journal, because each can be repeated. `adopt` and
`join` write the site's record last. `forget` removes it last: an interrupted one leaves a site that
can be forgotten again.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from grampus.ceph.cluster import CephCluster
from grampus.ceph.state_log import state_object
from grampus.ceph.state_note import ensure_state_note_absent, generation_key
from grampus.core.checks import Check
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError, RefusedError
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
from grampus.sites.joining import Joining
from grampus.sites.model import (
    MACHINE_RECORD,
    SiteMachine,
    SiteSpec,
    connection_directory,
    site_directory,
)
from grampus.sites.shared_state import (
    OpenLog,
    SharedState,
    found_state,
    open_state,
    state_file,
    state_log,
)
from grampus.sites.site_key import JoinFile, find_site_key
from grampus.sites.site_records import SiteRecords
from grampus.state.home import Home
from grampus.state.keys import keep_keys_of_site
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
        open_log: OpenLog = state_log,
    ) -> None:
        self._open_log = open_log
        self._home = home
        self._images = images
        self._clock = clock
        self._progress = progress
        self._connect = connect
        self._records = SiteRecords(store, self._copy_of, in_use)
        self._store = store
        self._adoption = Adoption(
            *(home, self._records, images, progress),
            is_lab=is_lab,
            connect=connect,
            found=self._found,
        )
        self._joining = Joining(
            *(home, self._records, images, clock, progress),
            is_lab=is_lab,
            connect=connect,
            open_log=open_log,
        )

    def all(self) -> list[SiteSpec]:
        """All sites, by name."""
        return self._records.all()

    def get(self, name: str) -> SiteSpec:
        """The site of that name. Raises NotFoundError."""
        return self._records.get(name)

    def hosts(self, name: str) -> list[str]:
        """The names of the site's hosts, as this machine has last seen them."""
        return self._records.hosts(name)

    def machines(self, name: str) -> list[SiteMachine]:
        """The machines that work on the site, as this machine has last seen them."""
        return list(self._records.machines(name).values())

    def require_forgettable(self, name: str) -> SiteSpec:
        """The site, if it can be forgotten here: others work on it, or nothing is recorded in it.

        Raises as `SiteRecords.require_unused`.
        """
        return self.get(name) if self._others(name) else self._records.require_unused(name)

    def join_file(self, name: str) -> JoinFile:
        """What another machine needs to join the site. Raises as `Joining.describe`."""
        return self._joining.describe(self.get(name))

    def join(self, file: JoinFile) -> SiteSpec:
        """As `Joining.join`, while nobody else on this machine works on the site."""
        with self._alone(file.site):
            return self._joining.join(file)

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
            cluster = CephCluster(runner, image_pools=spec.pools)
            observe_fsid(cluster, spec.user)
            journals = self._records.journal_pools(name)
            access = SiteAccess(spec.name, spec.user, spec.pools, journals)
            checks = observe_checks(cluster, access)
            if all(one.verdict != "refused" for one in checks):
                checks.append(self._check_state(spec, runner))
            return checks
        finally:
            runner.close()

    def forget(self, name: str) -> None:
        """Remove the site's key here and its record; no data.

        The last machine that works on the site removes its state and its note in the cluster, too.
        A cluster that cannot be reached keeps them; the progress says how to remove them. This home
        keeps the keys of backups and of encrypted volumes, which outlive the site. Raises
        NotFoundError, and RefusedError as `require_forgettable`.
        """
        with self._alone(name):
            spec = self.require_forgettable(name)
            self._progress.phase("Remove the state in the cluster")
            self._leave(spec)
            self._progress.phase("Remove the key and the record")
            kept = keep_keys_of_site(self._home, name)
            if kept:
                files = ", ".join(str(file) for file in kept)
                self._progress.note(f"Keys of backups and encrypted volumes stay here: {files}")
            for directory in (site_directory(self._home, name), self._home.secrets_dir(name)):
                if directory.exists():
                    shutil.rmtree(directory)
            self._records.remove(name)
            # Gone with the last site.
            with contextlib.suppress(OSError):
                site_directory(self._home, name).parent.rmdir()
            with contextlib.suppress(OSError):
                connection_directory(spec).rmdir()

    # -- inside -------------------------------------------------------------------------------

    def _copy_of(self, name: str) -> Store | None:
        file = state_file(self._home, name)
        return Store(file) if file.exists() else None

    def _others(self, name: str) -> bool:
        return len(self._records.machines(name)) > 1

    def _found(self, spec: SiteSpec, runner: ClusterRunner) -> Check:
        log = self._open_log(spec.name, spec.pool, lambda: runner)
        with contextlib.closing(log):
            state = found_state(self._home, spec, log, self._clock, self._store)
            with contextlib.closing(state):
                return state.epochs.check()

    def _check_state(self, spec: SiteSpec, runner: ClusterRunner) -> Check:
        try:
            with contextlib.closing(self._open(spec, runner, "grampus site check")) as state:
                return state.epochs.check()
        except GrampusError as error:
            return Check("controller", "refused", error.problem, error.remedy)

    def _open(self, spec: SiteSpec, runner: ClusterRunner, command: str) -> SharedState:
        def refuse(error: GrampusError) -> None:
            raise error

        log = self._open_log(spec.name, spec.pool, lambda: runner)
        return open_state(
            self._home, spec.name, log, self._clock, command=command, on_silence=refuse
        )

    def _leave(self, spec: SiteSpec) -> None:
        try:
            runner = self.runner(spec)
            try:
                if find_site_key(site_directory(self._home, spec.name)) is not None:
                    with contextlib.closing(
                        self._open(spec, runner, "grampus site forget")
                    ) as state:
                        if self._others(spec.name):
                            member = state.store.member_id()
                            state.store.remove(MACHINE_RECORD, spec.name, member)
                            self._progress.note(
                                "Other machines work on the site: its state in the cluster stays."
                            )
                            return
                        # Others may have changed it since the first look.
                        self._records.require_unused(spec.name)
                        state.log.remove()
                ensure_state_note_absent(CephCluster(runner), spec.name)
            finally:
                runner.close()
        except RefusedError:
            raise
        except GrampusError as error:
            key, objects = generation_key(spec.name), state_object(spec.name)
            self._progress.note(
                f"The cluster may keep the state of the site: {error.problem} "
                f"`ceph config-key rm {key}` and, for each object of the pool whose name begins "
                f"with {objects}, `rados -p {spec.pool} rm OBJECT` remove it."
            )

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        # The lock of a lab of this name: work in the site shares it.
        with hold_lock(self._home, f"lab.{name}", self._clock, timeout_s=_LOCK_TIMEOUT_S):
            yield
