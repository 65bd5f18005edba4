"""The composition root: which part is built from which."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from grampus.bench.ports import IoDevice
from grampus.ceph.cluster import CephCluster
from grampus.ceph.fullness import observe_pool_room
from grampus.ceph.rbd import RbdImages
from grampus.cli.progress_bar import PlainProgress, TerminalProgress, make_progress
from grampus.core.actor import observe_actor
from grampus.core.clock import SystemClock
from grampus.core.names import require_name
from grampus.databases.backup.archiving import BinlogArchiver
from grampus.databases.backup.backup_schedules import BackupSchedules
from grampus.databases.backup.restore_tests import RestoreTests
from grampus.databases.backup.restores import DatabaseRestores
from grampus.databases.backup.scheduled_tests import ScheduledTests
from grampus.databases.backup.service import DatabaseBackups
from grampus.databases.backup.states import BackupStates
from grampus.databases.clones.cloning import DatabaseClones
from grampus.databases.growth.growth import DatabaseGrowth
from grampus.databases.live.live_settings import LiveSettings
from grampus.databases.live.migrating import DatabaseMigrations
from grampus.databases.live.moving import DatabaseMoves
from grampus.databases.live.parameters import DatabaseParameters
from grampus.databases.model import FlavourName
from grampus.databases.names.events import DatabaseEvents
from grampus.databases.names.naming import DatabaseNames
from grampus.databases.names.trash import DatabaseTrash
from grampus.databases.replicas.renewals import ReplicaRenewals
from grampus.databases.replicas.replicas import DatabaseReplicas
from grampus.databases.service import DatabaseService
from grampus.databases.snapshots.snapshot_schedules import SnapshotSchedules
from grampus.databases.snapshots.snapshots import DatabaseSnapshots
from grampus.databases.upgrades.decide_server import choose_version
from grampus.databases.upgrades.upgrading import DatabaseUpgrades
from grampus.databases.users.rotation import DatabaseRotation
from grampus.databases.users.users import DatabaseUsers
from grampus.databases.verify.verification import DatabaseVerification
from grampus.hosts.any_host import AnyReachableHost
from grampus.hosts.lab_host import LabFleet
from grampus.lab.copies_pools import CopiesPools
from grampus.lab.gateway_service import GatewayService
from grampus.lab.images.cache import HostImages
from grampus.lab.images.definition import load_definitions
from grampus.lab.model import DATABASE_POOL, LabSpec
from grampus.lab.osd_devices import observe_osd_devices
from grampus.lab.service import LabService
from grampus.state.history import OperationHistory
from grampus.state.home import Home
from grampus.state.locks import hold_lock
from grampus.state.operations import OperationJournal
from grampus.state.runs import RunArchive, Setting
from grampus.state.store import Store
from grampus.state.stored import copy_of_lab
from grampus.volumes.scrubbing import VolumeScrubs
from grampus.volumes.service import VolumeService
from grampus.volumes.volume_keys import MasterKeys, master_keys
from grampus.volumes.write_paths import describe_write_path

# The data directories of a checkout (this package is installed in place, see Makefile).
CHECKOUT = Path(__file__).resolve().parents[3]
IMAGE_DEFINITIONS = CHECKOUT / "images"
SUITES = CHECKOUT / "suites"
VOLUMED_VARIABLE = "GRAMPUS_VOLUMED"
BUILT_VOLUMED = CHECKOUT / "dataplane" / "target" / "release" / "volumed"
# How long a command waits for another one that is changing the same lab.
LAB_LOCK_TIMEOUT_S = 15.0


def volumed_program() -> Path:
    """The built volumed: `$GRAMPUS_VOLUMED`, or what the checkout built; it may be absent."""
    return Path(os.environ.get(VOLUMED_VARIABLE) or BUILT_VOLUMED).absolute()


class LabImages:
    """Host images by flavour for one lab; an `ImagePort` of databases."""

    def __init__(
        self,
        images: HostImages,
        spec: LabSpec,
        progress: TerminalProgress | PlainProgress,
    ) -> None:
        self._images = images
        self._spec = spec
        self._progress = progress

    def image_for(
        self, flavour: FlavourName, version: str | None = None, *, as_defined: bool = False
    ) -> str | None:
        images = self._with_server(flavour)
        name = images[choose_version(flavour, version, list(images))]
        if name == self._spec.image_name and not as_defined:
            return None
        image_id = self._images.ensure(name, self._progress).id
        return None if image_id == self._spec.image_id else image_id

    def versions(self, flavour: FlavourName) -> list[str]:
        return list(self._with_server(flavour))

    def own_image(self) -> str:
        return self._spec.image_id

    def _with_server(self, flavour: FlavourName) -> dict[str, str]:
        """Definitions by the version of their server; the hosts' own stands for its version."""
        definitions = load_definitions(IMAGE_DEFINITIONS).values()
        ordered = sorted(definitions, key=lambda d: d.name == self._spec.image_name)
        return {d.database_version: d.name for d in ordered if flavour in d.flavours}


class LabCluster:
    """The lab's cluster as databases see it; a `ClusterPort`."""

    def __init__(self, volumes: VolumeService) -> None:
        self._volumes = volumes

    def volume_pool(self) -> str:
        return DATABASE_POOL

    def check_room(self, size_bytes: int) -> None:
        self._volumes.check_room(DATABASE_POOL, size_bytes)


class Session:
    """Everything one command needs, made when first asked for.

    Only a command that `makes_lab` creates GRAMPUS_HOME: the others find nothing in an absent
    one, and leave it absent. With `on_copy` the state is a copy in memory, whatever is written to
    it. Raises UsageError when `lab` is no name.
    """

    def __init__(
        self,
        lab: str,
        *,
        makes_lab: bool = False,
        on_copy: bool = False,
        progress: TerminalProgress | PlainProgress | None = None,
    ) -> None:
        self.lab_name = require_name("lab", lab)
        self._makes_lab = makes_lab
        self._on_copy = on_copy
        self.home = Home.from_environment()
        self.clock = SystemClock()
        self.progress = progress or make_progress()
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        if self._store is None:
            file = self.home.store_file
            try:
                if self._on_copy:
                    self._store = copy_of_lab(file, self.lab_name)
                else:
                    self._store = Store(file if self._makes_lab or file.exists() else None)
            except OSError as error:
                raise self.home.unusable(error) from error
        return self._store

    def close(self) -> None:
        """Release the store, for whoever makes many sessions."""
        if self._store is not None:
            self._store.close()
            self._store = None

    @property
    def journal(self) -> OperationJournal:
        return OperationJournal(self.store, self.clock, actor=observe_actor())

    @property
    def images(self) -> HostImages:
        return HostImages(self.home, IMAGE_DEFINITIONS, self.clock)

    @property
    def archive(self) -> RunArchive:
        return RunArchive(self.home.runs_dir)

    def lab(self) -> LabService:
        """The lab by name, whether it exists or not."""
        return LabService(
            self.lab_name,
            self.home,
            self.store,
            self.journal,
            self.images,
            self.clock,
            self.progress,
        )

    def lab_gateway(self) -> GatewayService:
        return GatewayService(
            self.require_lab(),
            self.home,
            self.store,
            self.journal,
            self.images,
            self.fleet(),
            self.clock,
            self.progress,
        )

    def require_lab(self) -> LabSpec:
        """The lab's spec. Raises NotFoundError when there is none."""
        return self.lab().spec()

    def require_lab_or_rest(self) -> LabSpec:
        """The lab's spec, also that of an interrupted `up` or `down`. Raises NotFoundError."""
        service = self.lab()
        return service.find_spec() or service.unfinished_spec() or service.spec()

    def fleet(self) -> LabFleet:
        return self.lab().fleet(self.require_lab())

    def cluster(self) -> CephCluster:
        return CephCluster(AnyReachableHost(self.fleet()))

    def volumes(self) -> VolumeService:
        spec, cluster = self.require_lab(), self.cluster()
        return VolumeService(
            self.lab_name,
            spec.tag,
            self.home,
            self.store,
            self.journal,
            self.fleet(),
            cluster,
            RbdImages(cluster, self.clock),
            self.clock,
            self.progress,
            volumed=volumed_program(),
        )

    def master_keys(self) -> MasterKeys:
        """The master keys of volumes of this home."""
        return master_keys(self.home)

    def databases(self) -> DatabaseService:
        volumes = self.volumes()
        return DatabaseService(
            lab=self.lab_name,
            home=self.home,
            store=self.store,
            journal=self.journal,
            clock=self.clock,
            fleet=self.fleet(),
            volumes=volumes,
            images=self._server_images(),
            cluster=LabCluster(volumes),
            progress=self.progress,
        )

    def database_clones(self) -> DatabaseClones:
        databases = self.databases()
        return DatabaseClones(databases.operations, databases.planner)

    def database_replicas(self) -> DatabaseReplicas:
        pools = CopiesPools(self.require_lab(), self.cluster(), self.clock)
        return DatabaseReplicas(self.databases(), pools)

    def replica_renewals(self) -> ReplicaRenewals:
        return ReplicaRenewals(self.databases().operations, self.database_replicas())

    def database_users(self) -> DatabaseUsers:
        return DatabaseUsers(self.databases().operations)

    def database_rotation(self) -> DatabaseRotation:
        return DatabaseRotation(self.databases().operations)

    def database_names(self) -> DatabaseNames:
        return DatabaseNames(self.databases().operations)

    def database_events(self) -> DatabaseEvents:
        history = OperationHistory(self.store, self.lab_name)
        return DatabaseEvents(self.databases().operations.records, history)

    def database_trash(self) -> DatabaseTrash:
        return DatabaseTrash(self.databases().operations)

    def database_moves(self) -> DatabaseMoves:
        return DatabaseMoves(self.databases().operations)

    def _server_images(self) -> LabImages:
        return LabImages(self.images, self.require_lab(), self.progress)

    def database_upgrades(self) -> DatabaseUpgrades:
        return DatabaseUpgrades(self.databases().operations, self._server_images())

    def live_settings(self) -> LiveSettings:
        return LiveSettings(self.databases().operations)

    def parameters(self) -> DatabaseParameters:
        return DatabaseParameters(self.databases().operations)

    def database_growth(self) -> DatabaseGrowth:
        cluster = self.cluster()
        return DatabaseGrowth(
            self.databases().operations, lambda pool: observe_pool_room(cluster, pool)
        )

    def database_backups(self) -> DatabaseBackups:
        return DatabaseBackups(self.databases().operations)

    def restore_tests(self) -> RestoreTests:
        return RestoreTests(self.databases(), self.database_clones())

    def scheduled_tests(self) -> ScheduledTests:
        return ScheduledTests(self.databases().operations, self.restore_tests())

    def backup_schedules(self) -> BackupSchedules:
        return BackupSchedules(self.databases().operations)

    def backup_states(self) -> BackupStates:
        return BackupStates(self.databases().operations)

    def binlog_archiver(self) -> BinlogArchiver:
        return BinlogArchiver(self.databases().operations)

    def database_restores(self) -> DatabaseRestores:
        return DatabaseRestores(self.databases())

    def database_snapshots(self) -> DatabaseSnapshots:
        return DatabaseSnapshots(self.databases().operations)

    def snapshot_schedules(self) -> SnapshotSchedules:
        return SnapshotSchedules(self.databases().operations)

    def database_migrations(self) -> DatabaseMigrations:
        return DatabaseMigrations(self.databases().operations)

    def database_verification(self) -> DatabaseVerification:
        return DatabaseVerification(self.databases().operations, self.volume_scrubs())

    def volume_scrubs(self) -> VolumeScrubs:
        return VolumeScrubs(self.cluster(), self.clock, self.progress)

    @contextmanager
    def alone_in_lab(self) -> Iterator[None]:
        """Hold the lab against every other command (up, down, faults).

        Raises NotFoundError when there is none, unless this command makes it.
        """
        if not self._makes_lab:
            self.require_lab_or_rest()
        with hold_lock(self.home, f"lab.{self.lab_name}", self.clock, timeout_s=LAB_LOCK_TIMEOUT_S):
            yield

    @contextmanager
    def sharing_lab(self) -> Iterator[None]:
        """Hold the lab against `up` and `down`, beside other commands that share it.

        Raises NotFoundError when there is none.
        """
        self.require_lab()
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


class LabDevices:
    """Block devices of a lab's OSDs and volumes; a `DevicesPort` of bench."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def io_devices(self) -> list[IoDevice]:
        osds = [
            IoDevice("daemon", osd.daemon, osd.host, osd.device)
            for osd in observe_osd_devices(self._session.require_lab(), self._session.fleet())
        ]
        volumes = [
            IoDevice("volume", record.spec.name, attachment.host, attachment.device)
            for record in self._session.volumes().all()
            if (attachment := record.attachment) is not None
        ]
        return osds + volumes


class LabFacts:
    """What a run records of the lab; a `FactsPort` of bench."""

    def __init__(self, session: Session, database: str) -> None:
        self._session = session
        self._database = database

    def facts(self) -> list[Setting]:
        record = self._session.volumes().get(self._database)
        attachment = record.attachment
        return describe_lab(
            self._session,
            record.spec.pool,
            {
                "image": f"{record.spec.pool}/{record.spec.image}",
                "image size (bytes)": str(record.spec.size_bytes),
                "file system": record.spec.filesystem,
                "write path": describe_write_path(record.spec.write_path, record.spec.max_lag_ms),
                "driver": attachment.driver if attachment else "detached",
                "driver reason": attachment.driver_reason if attachment else "",
                "transport": (attachment.transport or "") if attachment else "",
            },
        )


def describe_lab(session: Session, pool_name: str, further: Mapping[str, str]) -> list[Setting]:
    """What a run records of the lab and one of its pools, with `further` settings of its own."""
    spec, cluster = session.require_lab(), session.cluster()
    pool = cluster.observe_pool(pool_name)
    pairs = {
        "version": cluster.observe_versions(),
        "hosts": f"{spec.host_count} (network namespaces of one machine)",
        "OSDs": f"{spec.osd_count}, BlueStore on loop devices over sparse files",
        "OSD size (bytes)": str(spec.osd_size_bytes),
        "media": spec.media,
        "pool": pool_name,
        "copies": f"{pool.copies}, min_size {spec.min_size}",
        **further,
        "host image": spec.image_id,
    }
    return [Setting(group="Ceph", name=name, value=value) for name, value in pairs.items()]
