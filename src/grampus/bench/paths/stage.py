"""What a run of `paths` stands on: its volumes, and what is set up once a round on top of them.

Everything that is made is registered to be taken away before it is made, so that a run may end
anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path, PurePosixPath

from grampus.bench.drivers.fio_command import Device, RbdEngine
from grampus.bench.paths.blocks import Block
from grampus.bench.paths.database import (
    DatabasePlace,
    Ground,
    ScratchDatabase,
    ensure_database_absent,
)
from grampus.bench.paths.load import LoadGenerator, Region
from grampus.bench.paths.local_disk import LocalDisk
from grampus.bench.paths.memory_device import DEVICE_BYTES, MemoryDevice
from grampus.bench.paths.paths_ports import PathsPorts
from grampus.bench.paths.plan import PathsPlan, decide_measures
from grampus.bench.paths.run_volume import RunVolume
from grampus.bench.paths.suite import Measure, PathsSuite
from grampus.bench.paths.write_paths import Keep, RoundSettings, WritePathLoad
from grampus.core.errors import GrampusError
from grampus.databases.credentials import CredentialFiles
from grampus.hosts.port import Host
from grampus.volumes.decide_external_log import EXTERNAL_LOG_BYTES

VOLUME = "bench-paths"
# As databases with a journal have it: the log of its file system is on a device of its own.
VOLUME_WITH_EXTERNAL_LOG = "bench-paths-log"
CREDENTIALS = "paths"
# volumed gives librbd the same (dataplane/volumed/src/rbd_source.rs says why): the ceiling must
# not be lower for want of a setting.
LIBRBD_SETTINGS = (
    "rbd_cache=false",
    "rbd_disable_zero_copy_writes=false",
    "rbd_io_scheduler=none",
)
# Nothing that is left out before the rounds is there in any of them.
NOT_PREPARED = "not-prepared"
_CEPH_CONF = "/etc/ceph/ceph.conf"


class Stage:
    """The volumes of one run on one host, with the load generator beside them."""

    def __init__(
        self, ports: PathsPorts, suite: PathsSuite, plan: PathsPlan, host: Host, raw_dir: Path
    ) -> None:
        self._ports = ports
        self._suite = suite
        self._plan = plan
        self._host = host
        self._raw_dir = raw_dir
        self._directory = host.data_dir / "bench" / "paths"
        keep = plan.keep_data
        self._volume = RunVolume(ports, VOLUME, host.name, keep=keep)
        self._with_external_log = RunVolume(ports, VOLUME_WITH_EXTERNAL_LOG, host.name, keep=keep)
        self._filled: set[PurePosixPath] = set()
        self._local_is_made = False
        self._database: ScratchDatabase | None = None
        self._load = LoadGenerator(host, ports.clock, directory=self._directory, raw_dir=raw_dir)
        self._memory = MemoryDevice(
            host,
            ports.clock,
            program=ports.program,
            directory=self._directory / "memory",
            reference=f"grampus/{ports.tag}/bench-memory",
        )
        self._local = LocalDisk(
            host,
            directory=self._directory / "local",
            reference=f"grampus/{ports.tag}/bench-local",
        )
        self._write_paths = WritePathLoad(host, ports.clock, plan, self._load)

    @property
    def server_version(self) -> str:
        """The version of the scratch instance's server; empty when there is none."""
        return "" if self._database is None else self._database.server_version

    def set_up(self, ends: ExitStack) -> list[str]:
        """The volumes, filled; answers with what could not be prepared, in sentences.

        Raises RefusedError with code `exists` when there is a volume of that name that no
        benchmark made, or `pool-full`; DriverError when not even the image can be written.
        """
        blocks = self._plan.blocks
        self._clear_host()  # a run that was killed could not do it
        problems: list[str] = []
        self._create_volumes(ends)
        # Nothing on the host may keep the volume busy when its turn to go comes.
        ends.callback(self._clear_host)
        self._load.ensure_running()
        if any(block.raw for block in blocks if block.is_of_cluster):
            self._ports.progress.phase("Fill the image")
            self._load.fill(self._rbd_target(), self._raw_region(), name="fill.image")
        if self._plan.database:
            secrets = CredentialFiles(self._ports.home.secrets_dir(self._ports.lab) / "bench")
            ends.callback(secrets.ensure_absent, CREDENTIALS)
            self._ports.progress.phase("Load a database")
            problems += _attempt("The database", lambda: self._load_database(secrets))
        for volume, mounted in (
            (self._volume, [one for one in self._plan.on_one_device if one.kind != "rbd"]),
            (self._with_external_log, self._plan.with_external_log),
        ):
            if mounted:
                self._ports.progress.phase("Fill the file system")
                fill = partial(self._fill_filesystem, volume, mounted)
                problems += _attempt("The file system", fill)
        if any(block.kind == "local" for block in blocks):
            self._ports.progress.phase("Make a file system on the host's own disk")
            problems += _attempt("The local disk", self._make_local)
        if self._database is not None:
            self._database.forget_loaded()
        return problems

    def measure(self, block: Block, settings: RoundSettings, keep: Keep) -> str:
        """Set the block up, measure its arms, take it down; answers with what was used in fact.

        Raises GrampusError when one of these fails; what was measured before is kept.
        """
        if block.kind == "rbd":
            self._measure_fio(
                block.raw_arm, self._rbd_target(), self._raw_region(), block.raw, settings, keep
            )
            return f"librbd with {', '.join(LIBRBD_SETTINGS)}, the volume detached meanwhile"
        if block.kind == "memory":
            return self._measure_memory(block, settings, keep)
        if block.kind == "local":
            return self._measure_local(block, settings, keep)
        return self._measure_volume(block, settings, keep)

    def _clear_host(self) -> None:
        """End the containers, and remove the files. The volume is not touched."""
        # A stack carries out all of its steps, the last one first, even when one fails.
        with ExitStack() as steps:
            steps.callback(self._host.run, ["rm", "-rf", "--", str(self._directory)])
            steps.callback(self._load.ensure_absent)
            steps.callback(self._memory.ensure_absent)
            steps.callback(self._local.ensure_absent)
            steps.callback(ensure_database_absent, self._host, self._database_directory())

    def _create_volumes(self, ends: ExitStack) -> None:
        plan = self._plan
        filesystem_bytes = plan.scale.filesystem_bytes
        if plan.on_one_device:
            self._volume.create(ends, plan.image_bytes, filesystem_bytes=filesystem_bytes)
        if plan.with_external_log:
            self._with_external_log.create(
                ends, filesystem_bytes + EXTERNAL_LOG_BYTES, external_log_bytes=EXTERNAL_LOG_BYTES
            )

    def _load_database(self, secrets: CredentialFiles) -> None:
        place = DatabasePlace(
            self._host, self._database_directory(), self._ports.images.image_for("mysql")
        )
        database = ScratchDatabase(
            place,
            self._suite.database,
            self._plan.scale,
            secrets.ensure(CREDENTIALS),
            clock=self._ports.clock,
            raw_dir=self._raw_dir,
        )
        database.load()
        self._database = database

    def _fill_filesystem(self, volume: RunVolume, blocks: Sequence[Block]) -> None:
        try:
            self._fill_mounted(volume.ensure_mounted(), blocks, name="fill.xfs")
        finally:
            volume.ensure_detached()

    def _make_local(self) -> None:
        blocks = [block for block in self._plan.blocks if block.kind == "local"]
        self._local.make(self._plan.scale.filesystem_bytes)
        self._local_is_made = True
        try:
            self._fill_mounted(self._local.ensure_mounted(), blocks, name="fill.local")
        finally:
            self._local.ensure_unmounted()

    def _fill_mounted(
        self, mount_path: PurePosixPath, blocks: Sequence[Block], *, name: str
    ) -> None:
        if any(block.xfs for block in blocks):
            file = _file_on(mount_path)
            self._load.fill(Device(file), self._file_region(), name=name)
            self._filled.add(file)
        if self._database is not None and any(block.database for block in blocks):
            self._database.install(mount_path)

    def _measure_volume(self, block: Block, settings: RoundSettings, keep: Keep) -> str:
        volume = self._with_external_log if block.external_log else self._volume
        try:
            attachment = volume.ensure_attached_for(block)
            daemon = volume.driver_daemon()
            if block.raw and attachment.export_path is not None:
                target = Device(PurePosixPath(attachment.export_path))
                self._measure_fio(
                    block.raw_arm, target, self._raw_region(), block.raw, settings, keep, daemon
                )
            mount_path = PurePosixPath(attachment.mount_path)
            ground = self._ground(block, mount_path, daemon, volume.is_drained)
            self._measure_ground(block, ground, settings, keep)
            details = [f"{attachment.driver}: {attachment.driver_reason}"]
            if attachment.transport:
                details.append(f"transport {attachment.transport}")
            if block.is_write_path:
                details.append(f"write path {block.write_path}")
            if block.external_log:
                details.append("external log")
            return "; ".join(details)
        finally:
            volume.ensure_detached()

    def _measure_local(self, block: Block, settings: RoundSettings, keep: Keep) -> str:
        if not self._local_is_made:
            raise GrampusError(
                "There is no file system on the host's own disk.",
                "The run's first warning says why.",
                code=NOT_PREPARED,
            )
        try:
            ground = self._ground(block, self._local.ensure_mounted(), None, lambda: True)
            self._measure_ground(block, ground, settings, keep)
            return self._local.detail
        finally:
            self._local.ensure_unmounted()

    def _measure_ground(
        self, block: Block, ground: Ground, settings: RoundSettings, keep: Keep
    ) -> None:
        """The block's measures on the mounted file system, as far as they were prepared."""
        file = _file_on(ground.mount_path)
        if block.xfs and file in self._filled:
            if block.is_write_path:
                self._write_paths.measure_files(block, ground, file, settings, keep)
            else:
                self._measure_fio(
                    block.xfs_arm,
                    Device(file),
                    self._file_region(),
                    block.xfs,
                    settings,
                    keep,
                    ground.driver_daemon,
                )
        if block.database and self._database is not None:
            self._write_paths.measure_database(block, ground, self._database, settings, keep)

    def _ground(
        self,
        block: Block,
        mount_path: PurePosixPath,
        daemon: str | None,
        is_drained: Callable[[], bool],
    ) -> Ground:
        ports = self._ports
        fleet = ports.fleet
        hosts = [host for host in fleet.hosts() if fleet.is_reachable(host.name)]
        return Ground(
            mount_path=mount_path,
            write_path=block.write_path,
            driver_daemon=daemon,
            osd_hosts=hosts if any(cost.is_of_cluster for cost in block.costs) else [],
            is_drained=is_drained,
            observe_writes=ports.cluster.observe_writes,
        )

    def _measure_memory(self, block: Block, settings: RoundSettings, keep: Keep) -> str:
        if block.transport is None:
            raise AssertionError("a memory block has a transport")
        try:
            device, detail = self._memory.ensure_present(block.transport)
            target, region = Device(device), Region(0, DEVICE_BYTES)
            # Reads of what was never written are answered without any data.
            self._load.fill(target, region, name=f"fill.{block.name}")
            self._measure_fio(
                block.raw_arm, target, region, block.raw, settings, keep, self._memory.daemon
            )
            return detail
        finally:
            self._memory.ensure_absent()

    def _measure_fio(
        self,
        arm: str,
        target: RbdEngine | Device,
        region: Region,
        measures: Sequence[Measure],
        settings: RoundSettings,
        keep: Keep,
        daemon: str | None = None,
    ) -> None:
        ordered = decide_measures(measures, seed=self._plan.seed, round_number=settings.number)
        figures = self._load.measure(
            target,
            region,
            ordered,
            settings.timing,
            seed=settings.fio_seed,
            name=f"round-{settings.number:02}.{arm}",
            daemon=daemon,
        )
        keep(arm, figures)

    def _rbd_target(self) -> RbdEngine:
        record = self._volume.record()
        keyring, conf = self._directory / "keyring", self._directory / "ceph.conf"
        # Written each time: detaching takes away the key that the volume's driver had.
        self._host.write_file(
            keyring, self._ports.cluster.client_keyring(record.ceph_user), mode=0o600
        )
        cluster_conf = self._host.run(["cat", _CEPH_CONF]).stdout
        self._host.write_file(
            conf, render_ceph_conf(cluster_conf, keyring=keyring, settings=LIBRBD_SETTINGS)
        )
        return RbdEngine(conf, record.ceph_user, record.spec.pool, record.spec.image)

    def _raw_region(self) -> Region:
        # Behind the file system, so that raw writes do it no harm.
        return Region(self._plan.scale.filesystem_bytes, self._plan.scale.region_bytes)

    def _file_region(self) -> Region:
        return Region(0, self._plan.scale.region_bytes)

    def _database_directory(self) -> PurePosixPath:
        return self._directory / "database"


def render_ceph_conf(conf: str, *, keyring: PurePosixPath, settings: Iterable[str]) -> str:
    """The cluster's ceph.conf with a section for fio's client.

    `settings` are options as `name=value`, the same that volumed gives librbd.
    """
    own = [f"keyring = {keyring}", *(" = ".join(one.split("=", 1)) for one in settings)]
    return "\n".join([conf.rstrip(), "", "[client]", *own, ""])


def _file_on(mount_path: PurePosixPath) -> PurePosixPath:
    return mount_path / "fio.data"


def _attempt(what: str, prepare: Callable[[], None]) -> list[str]:
    try:
        prepare()
    except GrampusError as error:
        return [f"{what} could not be prepared, and is left out: {error}"]
    return []
