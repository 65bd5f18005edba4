"""The composition root, of the lab: what needs neither volumes nor databases."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from grampus.ceph.cluster import CephCluster
from grampus.ceph.ports import CommandRunner
from grampus.ceph.state_note import StateWatch
from grampus.cli.app import confirm, ensure_log, running_command
from grampus.cli.progress_bar import PlainProgress, TerminalProgress, make_progress
from grampus.core.clock import SystemClock
from grampus.core.errors import GrampusError, UsageError, not_found
from grampus.core.installation import INSTALLATION
from grampus.core.names import require_name
from grampus.core.processes import OperationProcess, observe_actor, observe_own_process
from grampus.hosts.any_host import AnyReachableHost
from grampus.hosts.lab_host import LabFleet
from grampus.hosts.port import Fleet
from grampus.lab.images.cache import HostImages
from grampus.lab.labs import LabService
from grampus.lab.model import LabSpec
from grampus.operations.runner import OperationRunner
from grampus.sites.model import (
    SITE_HOST_RECORD,
    SITE_RECORD,
    ControllerEpoch,
    SiteHostSpec,
    SiteSpec,
    site_directory,
)
from grampus.state.generation import StateGeneration
from grampus.state.home import Home
from grampus.state.home_space import HomeSpace
from grampus.state.locks import hold_lock
from grampus.state.operations import Operation, OperationJournal
from grampus.state.store import Store
from grampus.state.stored import copy_of_lab, copy_of_store
from grampus.state.unsettled import UnsettledWork

if TYPE_CHECKING:
    from grampus.ceph.state_log import StateLog
    from grampus.hosts.command_server.client import CommandServers
    from grampus.sites.epochs import SiteEpochs
    from grampus.sites.shared_state import SharedState

IMAGE_DEFINITIONS = INSTALLATION.data / "images"
# How long a command waits for another one that is changing the same lab.
LAB_LOCK_TIMEOUT_S = 15.0

# Of a command in the background: what its starter knows it by (`cli/background.py`).
BACKGROUND_VARIABLE = "GRAMPUS_BACKGROUND"


class KeepingFleet(Fleet, Protocol):
    """A fleet that keeps processes for further commands."""

    def close(self) -> None:
        """End them; the fleet can still be used."""


class SiteRunner(CommandRunner, Protocol):
    """Ceph's commands of a site, run on this machine."""

    def answering(self, program: Sequence[str]) -> CommandServers: ...

    def prepare(self) -> None:
        """Start what the next command runs in."""

    def close(self) -> None:
        """End what waits for the next command."""


# What a fleet is made of: one made of the same is the same.
FleetKey = tuple[LabSpec | SiteSpec, tuple[SiteHostSpec, ...]]


class KeptFleet:
    """The hosts of a lab for who makes many sessions, one after the other or beside one another.

    What waits on a host for the next command is kept from one session to the next: to start it
    takes more of a CPU than most commands.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fleet: tuple[FleetKey, KeepingFleet] | None = None
        # Of a site: what runs Ceph's commands, and the log of its state.
        self._runner: SiteRunner | None = None
        self._log: StateLog | None = None

    def of(self, key: FleetKey, make: Callable[[FleetKey], KeepingFleet]) -> KeepingFleet:
        """The hosts of the lab; `make` is called when it is another one than before."""
        with self._lock:
            if self._fleet is None or self._fleet[0] != key:
                former, self._fleet = self._fleet, (key, make(key))
                if former is not None:
                    former[1].close()
            return self._fleet[1]

    def site_runner(self, make: Callable[[], SiteRunner]) -> SiteRunner:
        """What runs Ceph's commands of the site."""
        with self._lock:
            self._runner = self._runner or make()
            return self._runner

    def state_log(self, make: Callable[[], StateLog]) -> StateLog:
        """The log of the site's state."""
        with self._lock:
            self._log = self._log or make()
            return self._log

    def close(self) -> None:
        """End what waits on the hosts, and on this machine."""
        with self._lock:
            for kept in (self._fleet and self._fleet[1], self._log, self._runner):
                if kept is not None:
                    kept.close()


class LabSession:
    """What one command needs of the lab, made when first asked for.

    Only a command that `makes_lab` creates GRAMPUS_HOME: the others find nothing in an absent
    one, and leave it absent. With `on_copy` the state is a copy in memory, whatever is written to
    it. `kept_fleet` is not closed with it. Raises UsageError when `lab` is no name.
    """

    def __init__(
        self,
        lab: str,
        *,
        makes_lab: bool = False,
        on_copy: bool = False,
        progress: TerminalProgress | PlainProgress | None = None,
        kept_fleet: KeptFleet | None = None,
    ) -> None:
        self._kept_fleet = kept_fleet
        self.lab_name = require_name("lab", lab)
        self._makes_lab = makes_lab
        self._on_copy = on_copy
        self.home = Home.from_environment()
        self.clock = SystemClock()
        self.progress = progress or make_progress()
        self._home_store: Store | None = None
        self._store: Store | None = None
        self._shared: SharedState | None = None
        self._fleet: tuple[FleetKey, KeepingFleet] | None = None
        self._own_runner: SiteRunner | None = None
        self._watch: StateWatch | None = None
        self._journal: OperationJournal | None = None
        self._runner: OperationRunner | None = None
        self._lab: LabService | None = None
        self._space_warning = ""

    @property
    def home_store(self) -> Store:
        """The state of the home: its labs, and which sites it knows."""
        if self._home_store is None:
            file = self.home.store_file
            # A full file system does not let the state be opened.
            self.space.release_if_full()
            try:
                if self._on_copy:
                    self._home_store = copy_of_lab(file, self.lab_name)
                else:
                    self._home_store = Store(file if self._makes_lab or file.exists() else None)
            except OSError as error:
                raise self.home.unusable(error) from error
            if self._home_store.is_file:
                self._space_warning = self.space.keep()
        return self._home_store

    @property
    def store(self) -> Store:
        """The state of the lab, or that of the site, which other machines share."""
        if self._store is None:
            site = self._known_site()
            if site is None:
                self._store = self.home_store
            else:
                self._shared = self._open_shared(site)
                self.home = self._shared.home
                self._store = self._shared.store
                if self._on_copy:
                    self._store = copy_of_store(self._shared.store, self.lab_name)
        return self._store

    def _known_site(self) -> SiteSpec | None:
        """The site by the record of this home."""
        return self.home_store.get(SITE_RECORD, self.lab_name, self.lab_name, SiteSpec)

    def _open_shared(self, site: SiteSpec) -> SharedState:
        # Imported for sites alone.
        state = import_module("grampus.sites.shared_state")

        def make_log() -> StateLog:
            made: StateLog = state.state_log(site.name, site.pool, self._site_runner)
            return made

        kept = self._kept_fleet
        log = make_log() if kept is None else kept.state_log(make_log)
        opened: SharedState = state.open_state(
            *(self.home, site.name, log, self.clock),
            command=running_command(),
            on_silence=self._note_silence,
            tell=lambda text: self.progress.note(text),
        )
        return opened

    def _note_silence(self, error: GrampusError) -> None:
        self.progress.note(
            f"{error.problem} Grampus shows what it knew last. {error.remedy}".strip()
        )

    @property
    def space(self) -> HomeSpace:
        """The room under GRAMPUS_HOME."""
        return HomeSpace(self.home)

    def warn_of_space(self) -> None:
        """Say, once for each session, that GRAMPUS_HOME has little room left."""
        if self._space_warning:
            self.progress.note(self._space_warning)
            self._space_warning = ""

    def forget_space_warning(self) -> None:
        """An error has said it."""
        self._space_warning = ""

    def close(self) -> None:
        """Release the store and what waits on the hosts, for whoever makes many sessions."""
        self._close_hosts()
        shared = None if self._shared is None else self._shared.store
        for store in (self._store, shared, self._home_store):
            if store is not None:
                store.close()
        if self._shared is not None and self._kept_fleet is None:
            self._shared.log.close()
        if self._own_runner is not None:
            self._own_runner.close()
            self._own_runner = None
        self._store = self._home_store = self._shared = None
        self._watch = self._journal = self._runner = self._lab = None

    def _close_hosts(self) -> None:
        if self._fleet is not None:
            self._fleet[1].close()
            self._fleet = None

    @property
    def journal(self) -> OperationJournal:
        """The same one for as long as the state is open: it knows what this command began."""
        if self._journal is None:
            ensure_log()
            self._journal = OperationJournal(
                self.store,
                self.clock,
                actor=observe_actor(),
                process=_own_process().render(),
                require_current=self._require_current,
                require_controller=self.require_controller,
                room=self.space,
            )
            self.progress.report = self._journal.detail
        return self._journal

    @property
    def runner(self) -> OperationRunner:
        """The same one for as long as the state is open: a dry run is one of all services."""
        if self._runner is None:
            unsettled = UnsettledWork(self.store, self.lab_name, self.clock)
            self._runner = OperationRunner(self.lab_name, self.journal, unsettled, self.progress)
        return self._runner

    def planning(self, *, dry_run: bool) -> AbstractContextManager[None]:
        """In a dry run, as `OperationRunner.planning`; otherwise nothing."""
        return self.runner.planning() if dry_run else nullcontext()

    def confirm(self, question: str, *, yes: bool) -> None:
        """As `app.confirm`, with the progress bar out of the way; a dry run asks nothing."""
        self.progress.close()
        confirm(question, yes=yes or self.runner.is_planning)

    def state_generation(self) -> StateGeneration:
        """The generation of the state of the lab or site."""
        store = self.store
        is_own = store is self._home_store
        beside = self.home.root if is_own else site_directory(self.home, self.lab_name)
        return StateGeneration(store, beside)

    def state_watch(self) -> StateWatch:
        """Tells whether the state is the newest that the lab's cluster has seen."""
        if self._watch is None:
            generation = self.state_generation()
            # The state of a site is in its cluster: a copy of it becomes the newest, or is refused.
            is_shared = self.shared() is not None
            self._watch = StateWatch(
                generation, self.lab_name, self.cluster, is_always_current=is_shared
            )
        return self._watch

    def own_epoch(self) -> ControllerEpoch | None:
        """The controller epoch of the site that this session works in; a lab has none."""
        return None if self.shared() is None else self._shared_epochs().own()

    def shared(self) -> SharedState | None:
        """The state of a site; None: this is a lab."""
        self.store  # noqa: B018 - opens it
        return self._shared

    def require_controller(self, seen_within_s: float = 0.0) -> None:
        """Raise SupersededError when the site has a later epoch than this session; a lab has
        none. Errors as `SiteEpochs.require`."""
        if self.shared() is not None:
            self._shared_epochs().require(seen_within_s)

    def renew_epoch(self) -> None:
        """Work in the last epoch from here on: this process has done nothing in the former one."""
        if self.shared() is not None:
            self._shared_epochs().renew()

    def take_over(self, why: str) -> None:
        """Begin a later epoch of the site: nothing else that runs changes it. A lab has one home.
        Raises GrampusError."""
        if self.shared() is not None:
            self._shared_epochs().begin(why)

    def _shared_epochs(self) -> SiteEpochs:
        assert self._shared is not None  # noqa: S101 - the caller has asked
        return self._shared.epochs

    def _require_current(self, operation: Operation) -> None:
        # What becomes of a lab that was half made needs no cluster.
        if operation.kind.startswith(("db.", "volume.")):
            self.state_watch().require_current()

    @property
    def images(self) -> HostImages:
        return HostImages(self.home, IMAGE_DEFINITIONS, self.clock)

    def lab(self) -> LabService:
        """The lab by name, whether it exists or not."""
        if self._lab is None:
            self._lab = LabService(
                self.lab_name,
                self.home,
                self.store,
                self.runner,
                self.images,
                self.clock,
                self.progress,
            )
        return self._lab

    def require_lab(self) -> LabSpec:
        """The lab's spec. Raises NotFoundError when there is none, UsageError for a site."""
        self.require_no_site()
        return self.lab().spec()

    def require_no_site(self) -> None:
        """Raise UsageError with code `not-a-lab` when a site has the name."""
        if self.find_site() is not None:
            raise UsageError(
                f"'{self.lab_name}' is a site, and this command works on labs only.",
                "Choose a lab with --lab; `grampus lab list` shows the labs.",
                code="not-a-lab",
            )

    def find_site(self) -> SiteSpec | None:
        """The site's spec; None: there is no site of that name."""
        return self.store.get(SITE_RECORD, self.lab_name, self.lab_name, SiteSpec)

    def require_place(self) -> LabSpec | SiteSpec:
        """The lab's or the site's spec. Raises NotFoundError when there is neither."""
        site = self.find_site()
        if site is None and self.lab().find_spec() is None:
            sites = self.home_store.all(SITE_RECORD, None, SiteSpec)
            if sites:
                labs = [spec.name for spec in self.lab().labs()]
                known = [*labs, *(spec.name for spec in sites.values())]
                raise not_found(
                    "lab or site", self.lab_name, known, list_command="grampus site list"
                )
        return site or self.lab().spec()

    def require_lab_or_rest(self) -> LabSpec:
        """The lab's spec, also that of an interrupted `up` or `down`. Raises NotFoundError."""
        service = self.lab()
        return service.find_spec() or service.unfinished_spec() or service.spec()

    def fleet(self) -> KeepingFleet:
        """The hosts: always the same ones, which keep processes for further commands."""
        place = self.require_place()
        hosts: tuple[SiteHostSpec, ...] = ()
        if isinstance(place, SiteSpec):
            hosts = tuple(host for host in self.site_hosts() if host.is_ready)
        key = (place, hosts)
        if self._kept_fleet is not None:
            return self._kept_fleet.of(key, self._make_fleet)
        if self._fleet is None or self._fleet[0] != key:
            self._fleet = (key, self._make_fleet(key))
        return self._fleet[1]

    def leave_hosts(self) -> None:
        """End what waits on the hosts for the next command, which starts it again."""
        self._close_hosts()

    def unready_hosts(self) -> list[SiteHostSpec]:
        """Hosts of a site whose `add` or `remove` was interrupted; a lab has none."""
        return [host for host in self.site_hosts() if not host.is_ready]

    def site_hosts(self) -> Collection[SiteHostSpec]:
        """The hosts of a site, also those that are not ready; a lab has none."""
        return self.store.all(SITE_HOST_RECORD, self.lab_name, SiteHostSpec).values()

    def _make_fleet(self, key: FleetKey) -> KeepingFleet:
        place, hosts = key
        if isinstance(place, LabSpec):
            return self.lab().fleet(place)
        # Imported for sites alone.
        fleet: KeepingFleet = import_module("grampus.cli.composition.site_hosts").site_fleet(
            self.home, place, hosts, self._shared_epochs().own, self.progress
        )
        return fleet

    def lab_fleet(self) -> LabFleet:
        """The lab's hosts, with what only a lab host has. Errors as `require_lab`."""
        self.require_lab()
        fleet = self.fleet()
        assert isinstance(fleet, LabFleet)  # noqa: S101 - `require_lab` has refused a site
        return fleet

    def cluster(self) -> CephCluster:
        site = self.find_site()
        # The key of a site opens its own pools; a lab's opens all.
        return CephCluster(self._cluster_runner(), image_pools=None if site is None else site.pools)

    def _cluster_runner(self) -> CommandRunner:
        """Ceph's commands run on a lab's hosts, and for a site on this machine: its hosts get no
        key of Grampus."""
        if self._known_site() is None:
            return AnyReachableHost(self.fleet())
        return self._site_runner()

    def prepare_cluster(self) -> None:
        """Start what Ceph's commands of a site run in, beside all that comes before them."""
        if self._known_site() is not None:
            self._site_runner().prepare()

    def _site_runner(self) -> SiteRunner:
        """Ceph's commands of the site. Those who make many sessions keep it for all of them."""

        def make() -> SiteRunner:
            runner: SiteRunner = import_module("grampus.cli.composition.site_cluster").site_runner(
                self.home, self.images, self._known_site(), self.progress
            )
            return runner

        if self._kept_fleet is not None:
            return self._kept_fleet.site_runner(make)
        if self._own_runner is None:
            self._own_runner = make()
        return self._own_runner

    @contextmanager
    def alone_in_lab(self) -> Iterator[None]:
        """Hold the lab against every other command (up, down, faults).

        Raises NotFoundError when there is none, unless this command makes it.
        """
        if not self._makes_lab and self.find_site() is None:
            self.require_lab_or_rest()
        with hold_lock(self.home, f"lab.{self.lab_name}", self.clock, timeout_s=LAB_LOCK_TIMEOUT_S):
            yield

    @contextmanager
    def sharing_lab(self) -> Iterator[None]:
        """Hold the lab against `up` and `down`, beside other commands that share it.

        Raises NotFoundError when there is none.
        """
        self.require_place()
        with hold_lock(
            self.home,
            f"lab.{self.lab_name}",
            self.clock,
            shared=True,
            timeout_s=LAB_LOCK_TIMEOUT_S,
        ):
            yield

    @contextmanager
    def breaking_lab(self) -> Iterator[None]:
        """Share the lab with running work, which faults are made for; one fault at a time."""
        with (
            self.sharing_lab(),
            hold_lock(
                self.home, f"fault.{self.lab_name}", self.clock, timeout_s=LAB_LOCK_TIMEOUT_S
            ),
        ):
            yield


def _own_process() -> OperationProcess:
    token = os.environ.get(BACKGROUND_VARIABLE, "")
    return OperationProcess(observe_own_process(), running_command(), token)
