"""The lab: up, down, and what state it is in."""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from grampus.ceph.cluster import CephCluster, ClusterStatus
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError, NotFoundError, RefusedError, UsageError, not_found
from grampus.core.names import require_name
from grampus.core.progress import Progress
from grampus.core.units import GIB, MIB, format_bytes
from grampus.hosts.any_host import AnyReachableHost
from grampus.hosts.lab_host import LabFleet, LabHost, LabHostPlace, PartitionName
from grampus.hosts.machine_shared import ensure_aio_limit
from grampus.hosts.media import MediaName
from grampus.hosts.port import DaemonStatus
from grampus.lab.bootstrap import ClusterBootstrap
from grampus.lab.decide_loss import decide_copies_left, decide_keeps_quorum
from grampus.lab.images.cache import HostImages
from grampus.lab.model import (
    DEFAULT_LAB,
    LAB_RECORD,
    MAX_HOSTS,
    MAX_OSDS_PER_HOST,
    MIN_HOSTS,
    MIN_OSD_SIZE_BYTES,
    LabSpec,
    lab_tag,
    require_usable_home,
)
from grampus.lab.network import (
    NetworkLock,
    decide_subnet,
    ensure_network,
    ensure_partition,
    observe_used_networks,
    set_host_link,
)
from grampus.lab.operation_kinds import (
    LAB_DOWN,
    LAB_UP,
    LabDownOrder,
    LabUpOrder,
    decide_interrupted,
)
from grampus.lab.osd_set import OsdSet, find_osd_sets
from grampus.lab.osd_set_service import OsdSetService
from grampus.lab.parts import restart_steps
from grampus.lab.teardown import LabTeardown
from grampus.operations.runner import OperationRunner, Subject
from grampus.state.home import Home
from grampus.state.operations import Operation, Step
from grampus.state.store import Store

DEFAULT_HOSTS = 3
DEFAULT_OSDS_PER_HOST = 1
DEFAULT_MEDIA: MediaName = "nvme"
DEFAULT_OSD_SIZE_BYTES = 20 * GIB
# The newest, and the one that stands in when it cannot be had.
IMAGE_PREFERENCE = ("sid", "trixie")
# Never taken unasked: the last one with FileStore.
OLDER_CEPH_IMAGE = "bookworm"


@dataclass(frozen=True)
class LabRequest:
    """A lab as asked for; None is "as it is, or the default"."""

    name: str
    hosts: int | None = None
    osds_per_host: int | None = None
    media: MediaName | None = None
    osd_size_bytes: int | None = None
    image: str | None = None
    is_secure: bool | None = None
    osd_hosts: int | None = None


@dataclass(frozen=True)
class HostView:
    """One host as observed."""

    name: str
    address: str
    state: str  # up, cut-off or down
    daemons: tuple[DaemonStatus, ...]
    partition: PartitionName | None = None  # one that is up: from what alone it is cut off


@dataclass(frozen=True)
class LabView:
    """A lab as observed."""

    spec: LabSpec
    hosts: tuple[HostView, ...]
    cluster: ClusterStatus | None
    cluster_problem: str
    unfinished: tuple[str, ...]
    osd_sets: tuple[OsdSet, ...] = ()

    @property
    def state(self) -> str:
        """down (no host runs), up (all hosts run) or degraded."""
        states = {host.state if host.partition is None else "cut-off" for host in self.hosts}
        if states == {"down"}:
            return "down"
        return "up" if states == {"up"} else "degraded"


def decide_osd_size_bytes(requested: int | None, osds: int, free_bytes: int) -> int:
    """How big each OSD's file may grow: as asked, else 20 GiB or what the disk can bear.

    The files are sparse; a lab that is filled must still not fill the machine's disk, so all
    OSDs together get at most 80% of what is free. Raises GrampusError below 4 GiB each.
    """
    bearable = free_bytes * 8 // 10 // osds
    if requested is not None:
        if requested < MIN_OSD_SIZE_BYTES:
            raise UsageError(
                f"An OSD of {format_bytes(requested)} is too small.",
                f"Choose at least {format_bytes(MIN_OSD_SIZE_BYTES)} (--osd-size).",
            )
        wanted = requested
    else:
        wanted = min(DEFAULT_OSD_SIZE_BYTES, max(bearable, MIN_OSD_SIZE_BYTES))
    if wanted > bearable:
        raise GrampusError(
            f"{osds} OSDs of {format_bytes(wanted)} do not fit: {format_bytes(free_bytes)} are "
            "free on the disk.",
            "Free space, put GRAMPUS_HOME on another disk, or choose fewer or smaller OSDs.",
            code="disk-too-small",
        )
    return wanted // MIB * MIB


_SAID = {True: "on", False: "off", None: None}


def require_same(request: LabRequest, spec: LabSpec) -> None:
    """Raise UsageError if `request` asks for something that the lab, once made, is not."""
    differences = [
        f"{option} {have}, not {want}"
        for option, want, have in (
            ("--hosts", request.hosts, spec.host_count),
            ("--osds-per-host", request.osds_per_host, spec.osds_per_host),
            ("--media", request.media, spec.media),
            ("--osd-size", request.osd_size_bytes, spec.osd_size_bytes),
            ("--image", request.image, spec.image_name),
            ("--secure", _SAID[request.is_secure], _SAID[spec.is_secure]),
            ("--osd-hosts", request.osd_hosts, len(spec.osd_hosts)),
        )
        if want is not None and want != have
    ]
    if differences:
        raise UsageError(
            f"The lab '{spec.name}' already exists, with {', '.join(differences)}.",
            "Remove the options to start the lab as it is, remove the lab with `grampus lab "
            "down`, or use another --lab.",
        )


class LabService:
    """One lab by name."""

    def __init__(
        self,
        name: str,
        home: Home,
        store: Store,
        runner: OperationRunner,
        images: HostImages,
        clock: Clock,
        progress: Progress,
        *,
        effective_uid: Callable[[], int] = os.geteuid,
        used_networks: Callable[[], list[IPv4Network]] = observe_used_networks,
        network_lock: NetworkLock | None = None,
    ) -> None:
        self.name = require_name("lab", name)
        # The mount table knows real paths only: through a symbolic link no mount of ours would
        # be found again.
        self._home = Home(home.root.resolve())
        self._effective_uid = effective_uid
        self._used_networks = used_networks
        self._network_lock = network_lock or NetworkLock(clock)
        self._store = store
        self._runner = runner
        self._images = images
        self._clock = clock
        self._progress = progress

    def find_spec(self) -> LabSpec | None:
        """The lab's spec, or None when there is no such lab."""
        return self._store.get(LAB_RECORD, self.name, self.name, LabSpec)

    def spec(self) -> LabSpec:
        """The lab's spec. Raises NotFoundError."""
        spec = self.find_spec()
        if spec is None:
            known = self._store.all(LAB_RECORD, None, LabSpec)
            if not known:
                option = "" if self.name == DEFAULT_LAB else f" --lab {self.name}"
                raise NotFoundError(
                    f"There is no lab named '{self.name}'.",
                    f"`grampus lab up{option}` creates one.",
                )
            raise not_found("lab", self.name, known, list_command="grampus lab list")
        return spec

    def labs(self) -> list[LabSpec]:
        """All labs of this home, by name."""
        return list(self._store.all(LAB_RECORD, None, LabSpec).values())

    def plan_up(self, request: LabRequest, *, build_image: bool = True) -> LabSpec:
        """The lab that `up` shall bring up: the one that is there, or a new one.

        Without `build_image` the spec names the image that would be built first, for a dry run.

        Raises UsageError for an impossible request or an unusable GRAMPUS_HOME, GrampusError
        when this machine cannot.
        """
        existing = self.find_spec()
        if existing is not None:
            require_same(request, existing)
            return existing
        require_usable_home(self._home.root)
        hosts = DEFAULT_HOSTS if request.hosts is None else request.hosts
        per_host = DEFAULT_OSDS_PER_HOST if request.osds_per_host is None else request.osds_per_host
        if not MIN_HOSTS <= hosts <= MAX_HOSTS:
            raise UsageError(
                f"A lab has {MIN_HOSTS} to {MAX_HOSTS} hosts, not {hosts}.",
                "Choose at least three hosts, for three copies.",
            )
        osd_hosts = hosts if request.osd_hosts is None else request.osd_hosts
        if not MIN_HOSTS <= osd_hosts <= hosts:
            raise UsageError(
                f"Of {hosts} hosts {MIN_HOSTS} to {hosts} have OSDs, not {osd_hosts}.",
                "Choose at least three hosts, for three copies, or more --hosts.",
            )
        if not 1 <= per_host <= MAX_OSDS_PER_HOST:
            raise UsageError(f"A host has 1 to {MAX_OSDS_PER_HOST} OSDs, not {per_host}.")
        self._require_root()
        self._home.root.mkdir(parents=True, exist_ok=True)
        osd_size_bytes = decide_osd_size_bytes(
            request.osd_size_bytes, osd_hosts * per_host, shutil.disk_usage(self._home.root).free
        )
        names = IMAGE_PREFERENCE if request.image is None else (request.image,)
        self._require_hosts_image(names[0])
        if build_image:
            image = self._images.ensure_first_available(names, self._progress)
            image_id, image_name = image.id, image.definition
        else:
            definition = self._images.definition(names[0])
            image_id, image_name = definition.image_id, definition.name
        if build_image:
            self._network_lock.acquire()  # until `up` has made it
        return LabSpec(
            name=self.name,
            tag=lab_tag(self._home, self.name),
            image_id=image_id,
            image_name=image_name,
            host_count=hosts,
            osds_per_host=per_host,
            media=request.media or DEFAULT_MEDIA,
            osd_size_bytes=osd_size_bytes,
            subnet=str(decide_subnet([*self._used_networks(), *self._recorded_networks()])),
            fsid=str(uuid.uuid4()),
            is_secure=bool(request.is_secure),
            osd_host_count=None if osd_hosts == hosts else osd_hosts,
        )

    def _require_hosts_image(self, name: str) -> None:
        if not self._images.definition(name).runs_hosts:
            raise UsageError(
                f"The image '{name}' has no Ceph.",
                f"Choose an image for hosts: {', '.join(IMAGE_PREFERENCE)} or {OLDER_CEPH_IMAGE}.",
            )

    def fleet(self, spec: LabSpec) -> LabFleet:
        """The lab's hosts."""
        directory = self._home.lab_dir(spec.name) / "hosts"
        hosts = [
            LabHost(
                LabHostPlace(
                    name=name,
                    address=spec.host_address(name),
                    prefix_length=spec.network.prefixlen,
                    directory=directory / name,
                    network_namespace=spec.host_namespace(name),
                    link=spec.host_link(name),
                    runc_root=spec.run_dir / "runc",
                    cgroup_path=spec.cgroup_path,
                ),
                lambda image_id: self._image_root(image_id or spec.image_id),
                self._clock,
            )
            for name in spec.host_names
        ]
        return LabFleet(hosts, spec.database_addresses())

    def osd_sets(self, spec: LabSpec, fleet: LabFleet) -> OsdSetService:
        """The lab's further OSDs."""
        return OsdSetService(spec, self._home, self._store, self._runner, fleet, self._clock)

    def up(self, spec: LabSpec) -> None:
        """Bring the lab up, from whatever state it is in.

        A lab that never was up is taken away again when this fails; one that holds data stays.
        One whose removal was interrupted is removed to the end first. Raises GrampusError.
        """
        try:
            self._up(spec)
        finally:
            self._network_lock.release()

    def _up(self, spec: LabSpec) -> None:
        self._require_root()
        if not self._image_root(spec.image_id).exists():
            with self._runner.part_of_plan():  # only a dry run comes here without it
                self._runner.propose(lambda: [f"Build the host image {spec.image_name}"])
        unfinished = self._unfinished()
        found = decide_interrupted(unfinished)
        if found.must_be_removed:
            self.down(spec, keep=False)
            unfinished = []
        is_new = found.is_new or self.find_spec() is None
        order = LabUpOrder(lab=spec, is_new=is_new)
        self._runner.run(LAB_UP, self, order, Subject(self.name), supersedes=unfinished)

    def down(self, spec: LabSpec, *, keep: bool) -> None:
        """Take the lab off the machine; `keep` leaves its data for the next `up`.

        Raises GrampusError.
        """
        self._require_root()
        order, unfinished = LabDownOrder(lab=spec, keep=keep), self._unfinished()
        self._runner.run(LAB_DOWN, self, order, Subject(self.name), supersedes=unfinished)

    def unfinished_spec(self) -> LabSpec | None:
        """The lab of an interrupted `up` or `down` that left no record."""
        for operation in self._unfinished():
            return LabSpec.model_validate(operation.spec["lab"])
        return None

    def observe(self, spec: LabSpec) -> LabView:
        """The lab as it is now."""
        fleet = self.fleet(spec)
        hosts = []
        for host in fleet.lab_hosts():
            state = "down" if not host.is_up() else "up" if host.is_linked() else "cut-off"
            partition = host.observe_partition() if state == "up" else None
            daemons = tuple(host.observe_daemons()) if spec.run_dir.exists() else ()
            hosts.append(HostView(host.name, host.address, state, daemons, partition))
        cluster, problem = None, ""
        if any(host.state == "up" for host in hosts):
            try:
                cluster = CephCluster(AnyReachableHost(fleet)).observe_status()
            except GrampusError as error:
                problem = str(error)
        unfinished = tuple(
            f"{operation.kind.replace('.', ' ')} was interrupted at step "
            f"'{operation.step or 'start'}' ({operation.started_at[:19]} UTC)"
            for operation in self._unfinished()
        )
        osd_sets = tuple(find_osd_sets(self._store, spec.name))
        return LabView(spec, tuple(hosts), cluster, problem, unfinished, osd_sets)

    def kill_daemon(self, spec: LabSpec, daemon: str) -> str:
        """End a daemon with SIGKILL; returns the host it was on. Raises NotFoundError."""
        places = {
            status.name: host
            for host in self.fleet(spec).lab_hosts()
            for status in host.observe_daemons()
            if status.state == "running"
        }
        if daemon not in places:
            raise not_found("running daemon", daemon, places, list_command="grampus lab status")
        places[daemon].kill_daemon(daemon)
        return places[daemon].name

    def kill_host(self, spec: LabSpec, name: str) -> None:
        """Cut a host's link, then end all its processes, as a power cut would.

        Nothing stays mounted or attached; its data stay.
        """
        host = self.fleet(spec).lab_host(name)
        set_host_link(spec, name, up=False)
        host.cut_power()

    def partition(self, spec: LabSpec, name: str, cut_from: PartitionName | None = None) -> None:
        """Cut a host off from one kind of peer, or the network; its daemons go on running."""
        self.fleet(spec).lab_host(name)
        if cut_from is None:
            set_host_link(spec, name, up=False)
        else:
            ensure_partition(spec, name, cut_from)

    def require_safe_to_lose(self, spec: LabSpec, *, host: str | None, daemon: str | None) -> None:
        """Raise RefusedError if writes, or the MONs' quorum, would stop without these daemons."""
        fleet = self.fleet(spec)
        names = (
            [status.name for status in fleet.lab_host(host).observe_daemons()]
            if host is not None
            else [daemon or ""]
        )
        osds = {int(name[4:]) for name in names if re.fullmatch(r"osd-\d+", name)}
        mons = {name for name in names if name.startswith("mon-")}
        alive = _observe_alive(fleet)
        advice = "Heal the lab first (`grampus lab fault heal`), or add --force."
        if mons and not decide_keeps_quorum(len(spec.mon_hosts), alive.mons, mons):
            raise RefusedError(
                f"Without {', '.join(sorted(mons))} the MONs have no quorum and the cluster stops.",
                advice,
                code="no-quorum",
            )
        if not osds:
            return
        acting_sets = CephCluster(AnyReachableHost(fleet)).observe_acting_sets()
        copies = decide_copies_left(acting_sets, alive.osds, osds)
        if copies < spec.min_size:
            shown = ", ".join(f"osd.{osd}" for osd in sorted(osds))
            raise RefusedError(
                f"Without {shown} some data has {copies} of {spec.copies} copies left, and "
                f"databases stop writing below {spec.min_size}.",
                advice,
                code="too-few-copies",
            )

    def _require_root(self) -> None:
        if self._effective_uid() != 0:
            raise GrampusError(
                "A lab needs root, because it creates network namespaces, mounts and containers.",
                "Run the command as root, or with sudo.",
                code="not-root",
            )

    def _recorded_networks(self) -> list[IPv4Network]:
        """Networks of labs that are down and kept, and come back with their addresses."""
        return [spec.network for spec in self.labs()]

    def _image_root(self, image_id: str) -> Path:
        return self._home.images_dir / image_id / "root"

    def _unfinished(self) -> list[Operation]:
        return [one for kind in (LAB_UP, LAB_DOWN) for one in self._runner.unfinished(kind.kind)]

    def up_steps(self, spec: LabSpec) -> list[Step]:
        """The steps of a start."""
        fleet = self.fleet(spec)
        root = self._image_root(spec.image_id)
        bootstrap = ClusterBootstrap(
            spec, fleet, self._clock, library_dir=lambda: find_library_dir(root)
        )
        teardown = LabTeardown(spec, self._home, fleet, self._clock, self._network_lock)
        return [
            Step(
                "record",
                "Record the lab",
                lambda: self._store.put(LAB_RECORD, self.name, self.name, spec),
                lambda: self._store.remove(LAB_RECORD, self.name, self.name),
            ),
            Step("data", "Create directories", lambda: None, teardown.remove_data),
            Step(
                "network",
                f"Connect {spec.host_count} hosts",
                lambda: self._make_network(spec),
                teardown.remove_network,
            ),
            Step(
                "hosts",
                f"Start {spec.host_count} hosts",
                lambda: self._ensure_hosts(fleet),
                lambda: self._sweep(teardown),
            ),
            Step("configuration", "Create keys and ceph.conf", bootstrap.ensure_configuration),
            Step("mons", f"Start {len(spec.mon_hosts)} MONs", bootstrap.ensure_mons),
            Step("mgrs", f"Start {len(spec.mgr_hosts)} MGRs", bootstrap.ensure_mgrs),
            Step("osds", f"Start {spec.osd_count} OSDs", bootstrap.ensure_osds),
            *self._osd_set_steps(spec, fleet),
            Step("pool", "Create the pool for databases", bootstrap.ensure_pool),
            Step("health", "Wait for HEALTH_OK", bootstrap.wait_until_healthy),
            *restart_steps(spec, self._home, self._store, fleet, self._clock),
        ]

    def _osd_set_steps(self, spec: LabSpec, fleet: LabFleet) -> list[Step]:
        """The OSDs of the lab's sets again: before the pools, which are on them too."""
        sets = self.osd_sets(spec, fleet)
        count = len(sets.all())
        if not count:
            return []
        noun = "OSD set" if count == 1 else "OSD sets"
        return [Step("osd-sets", f"Start {count} {noun}", sets.ensure_all)]

    def _make_network(self, spec: LabSpec) -> None:
        with self._network_lock.held():
            ensure_network(spec)

    def _ensure_hosts(self, fleet: LabFleet) -> None:
        ensure_aio_limit()
        for host in fleet.lab_hosts():
            host.ensure_up()

    @staticmethod
    def _sweep(teardown: LabTeardown) -> None:
        teardown.stop_daemons(kill=True)
        teardown.remove_mounts()
        teardown.remove_containers()

    def down_steps(self, spec: LabSpec, *, keep: bool) -> list[Step]:
        """The steps of its end."""
        fleet = self.fleet(spec)
        teardown = LabTeardown(spec, self._home, fleet, self._clock, self._network_lock)
        steps = [
            Step("daemons", "Stop daemons", lambda: teardown.stop_daemons(kill=not keep)),
            Step("mounts", "Unmount file systems and free loop devices", teardown.remove_mounts),
            Step("containers", "Remove containers", teardown.remove_containers),
            Step("network", "Remove the network", teardown.remove_network),
            Step("overlays", "Remove the files of containers", teardown.remove_overlays),
        ]
        if not keep:
            steps += [
                Step("data", "Remove the data", teardown.remove_data),
                Step("forget", "Delete the record of the lab", lambda: self._forget(spec)),
            ]
        return steps

    def _forget(self, spec: LabSpec) -> None:
        # Its volumes and databases went with its data.
        secrets = self._home.secrets_dir(spec.name)
        if secrets.exists():
            shutil.rmtree(secrets)
        self._store.remove_lab(spec.name)
        # What was interrupted in it must not be finished on a later lab of the same name.
        for operation in self._runner.unfinished(""):
            if not operation.kind.startswith("lab."):
                self._runner.close(operation, "its lab was removed")


@dataclass(frozen=True)
class _Alive:
    osds: frozenset[int]
    mons: frozenset[str]  # names of daemons


def _observe_alive(fleet: LabFleet) -> _Alive:
    names = [
        status.name
        for host in fleet.lab_hosts()
        if fleet.reaches_cluster(host.name)
        for status in host.observe_daemons()
        if status.state == "running"
    ]
    return _Alive(
        frozenset(int(name[4:]) for name in names if re.fullmatch(r"osd-\d+", name)),
        frozenset(name for name in names if name.startswith("mon-")),
    )


def find_library_dir(root: Path) -> str:
    """The directory that holds Ceph's object classes in a host image, by its machine triplet."""
    for found in root.glob("usr/lib/*/rados-classes"):
        return f"/{found.parent.relative_to(root)}"
    raise GrampusError(
        f"The host image at {root} has no Ceph object classes.",
        "Build the image again: remove its directory, then run `grampus lab up`.",
    )
