"""What a run of `paths` stands on: its volume, and what is set up once a round on top of it.

Everything that is made is registered to be taken away before it is made, so that a run may end
anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict

from grampus.bench.paths.database import DatabasePlace, ScratchDatabase, ensure_database_absent
from grampus.bench.paths.fio_job import (
    FileTarget,
    RbdTarget,
    Region,
    Timing,
    render_ceph_conf,
)
from grampus.bench.paths.load import Figure, LoadGenerator
from grampus.bench.paths.memory_device import DEVICE_BYTES, MemoryDevice
from grampus.bench.paths.plan import Block, PathsPlan, decide_measures
from grampus.bench.paths.ports import PathsPorts
from grampus.bench.paths.suite import Measure, PathsSuite
from grampus.core.errors import GrampusError, RefusedError
from grampus.databases.credentials import CredentialFiles
from grampus.hosts.port import Host
from grampus.volumes.model import Attachment, VolumeRecord

VOLUME = "bench-paths"
VOLUME_RECORD = "bench-volume"
CREDENTIALS = "paths"
# What volumed gives librbd too (dataplane/volumed/src/rbd.rs says why): the ceiling must not be
# lower for want of a setting.
LIBRBD_SETTINGS = (
    "rbd_cache=false",
    "rbd_disable_zero_copy_writes=false",
    "rbd_io_scheduler=none",
)
_CEPH_CONF = "/etc/ceph/ceph.conf"

# Takes the figures of an arm as they come, so that what follows them may fail.
Keep = Callable[[str, Sequence[Figure]], None]


class BenchVolume(BaseModel):
    """Says that the volume of that name is a benchmark's, which may remove it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str


@dataclass(frozen=True)
class RoundSettings:
    """What is the same for all arms of a round."""

    number: int
    timing: Timing
    fio_seed: int


class Stage:
    """The volume of one run on one host, with the load generator beside it."""

    def __init__(
        self, ports: PathsPorts, suite: PathsSuite, plan: PathsPlan, host: Host, raw_dir: Path
    ) -> None:
        self._ports = ports
        self._suite = suite
        self._plan = plan
        self._host = host
        self._raw_dir = raw_dir
        self._directory = host.data_dir / "bench" / "paths"
        self._file_is_filled = False
        self._database: ScratchDatabase | None = None
        self._load = LoadGenerator(host, ports.clock, directory=self._directory, raw_dir=raw_dir)
        self._memory = MemoryDevice(
            host,
            ports.clock,
            program=ports.program,
            directory=self._directory / "memory",
            reference=f"grampus/{ports.tag}/bench-memory",
        )

    @property
    def server_version(self) -> str:
        """The version of the scratch instance's server; empty when there is none."""
        return "" if self._database is None else self._database.server_version

    def set_up(self, ends: ExitStack) -> list[str]:
        """The volume, filled; answers with what could not be prepared, in sentences.

        Raises RefusedError with code `exists` when there is a volume of that name that no
        benchmark made, or `pool-full`; FioError when not even the image can be written.
        """
        kinds = {block.kind for block in self._plan.blocks}
        self._clear_host()  # a run that was killed could not do it
        problems: list[str] = []
        if kinds & {"rbd", "volume"}:
            self._create_volume(ends)
        # Nothing on the host may keep the volume busy when its turn to go comes.
        ends.callback(self._clear_host)
        self._load.ensure_running()
        if any(block.raw for block in self._plan.blocks if block.kind != "memory"):
            self._ports.progress.phase("Fill the image")
            self._load.fill(self._rbd_target(), self._raw_region(), name="fill.image")
        if self._plan.database:
            secrets = CredentialFiles(self._ports.home.secrets_dir(self._ports.lab) / "bench")
            ends.callback(secrets.ensure_absent, CREDENTIALS)
            self._ports.progress.phase("Load a database")
            problems += _attempt("The database", lambda: self._load_database(secrets))
        if "volume" in kinds:
            self._ports.progress.phase("Fill the file system")
            problems += _attempt("The file system", self._fill_filesystem)
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
        return self._measure_volume(block, settings, keep)

    def _clear_host(self) -> None:
        """End the containers, and remove the files. The volume is not touched."""
        # A stack carries out all of its steps, the last one first, even when one fails.
        with ExitStack() as steps:
            steps.callback(self._host.run, ["rm", "-rf", "--", str(self._directory)])
            steps.callback(self._load.ensure_absent)
            steps.callback(self._memory.ensure_absent)
            steps.callback(ensure_database_absent, self._host, self._database_directory())

    def _create_volume(self, ends: ExitStack) -> None:
        ports = self._ports
        ours = ports.store.get(VOLUME_RECORD, ports.lab, VOLUME, BenchVolume)
        if ports.volumes.find(VOLUME) is not None:
            if ours is None:
                raise RefusedError(
                    f"There is a volume named '{VOLUME}', and no benchmark made it.",
                    "Remove it or give it another name: the suite needs that one.",
                    code="exists",
                )
            ports.progress.phase("Remove the volume of an earlier run")
            ports.volumes.delete(VOLUME)
        spec = ports.volumes.plan_create(
            VOLUME, ports.cluster.volume_pool(), self._plan.image_bytes
        )
        # The intent first: whoever finds the volume later knows whose it is.
        ports.store.put(VOLUME_RECORD, ports.lab, VOLUME, BenchVolume(name=VOLUME))
        ends.callback(self._leave_volume)
        ports.progress.phase("Make the volume")
        filesystem_bytes = self._plan.scale.filesystem_bytes
        ports.volumes.create(spec.model_copy(update={"filesystem_bytes": filesystem_bytes}))

    def _leave_volume(self) -> None:
        ports = self._ports
        if ports.volumes.find(VOLUME) is None:
            ports.store.remove(VOLUME_RECORD, ports.lab, VOLUME)
        elif self._plan.keep_data:
            ports.volumes.ensure_detached(VOLUME)
            ports.progress.note(f"The volume {VOLUME} is kept; the next run replaces it.")
        else:
            ports.progress.phase("Remove the volume")
            ports.volumes.delete(VOLUME)
            ports.store.remove(VOLUME_RECORD, ports.lab, VOLUME)

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

    def _fill_filesystem(self) -> None:
        try:
            attachment = self._ports.volumes.ensure_attached(VOLUME, self._host.name)
            mount_path = PurePosixPath(attachment.mount_path)
            if any(block.xfs for block in self._plan.blocks):
                self._load.fill(
                    FileTarget(_file_on(mount_path)), self._file_region(), name="fill.xfs"
                )
                self._file_is_filled = True
            if self._database is not None:
                self._database.install(mount_path)
        finally:
            self._ports.volumes.ensure_detached(VOLUME)

    def _measure_volume(self, block: Block, settings: RoundSettings, keep: Keep) -> str:
        try:
            attachment = self._ports.volumes.ensure_attached(
                VOLUME, self._host.name, driver=block.driver, transport=block.transport
            )
            _require_way(block, attachment)
            daemon = self._ports.volumes.driver_daemon(self._record())
            if block.raw and attachment.export_path is not None:
                target = FileTarget(PurePosixPath(attachment.export_path))
                self._measure_fio(
                    block.raw_arm, target, self._raw_region(), block.raw, settings, keep, daemon
                )
            mount_path = PurePosixPath(attachment.mount_path)
            if block.xfs and self._file_is_filled:
                target = FileTarget(_file_on(mount_path))
                self._measure_fio(
                    block.xfs_arm, target, self._file_region(), block.xfs, settings, keep, daemon
                )
            if block.has_database and self._database is not None:
                name = f"round-{settings.number:02}.{block.xfs_arm}.update-index"
                figure = self._database.measure(mount_path, name=name, driver_daemon=daemon)
                keep(block.xfs_arm, [figure])
            return f"{attachment.driver}: {attachment.driver_reason}" + (
                f"; transport {attachment.transport}" if attachment.transport else ""
            )
        finally:
            self._ports.volumes.ensure_detached(VOLUME)

    def _measure_memory(self, block: Block, settings: RoundSettings, keep: Keep) -> str:
        if block.transport is None:
            raise AssertionError("a memory block has a transport")
        try:
            device, detail = self._memory.ensure_present(block.transport)
            target, region = FileTarget(device), Region(0, DEVICE_BYTES)
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
        target: RbdTarget | FileTarget,
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

    def _rbd_target(self) -> RbdTarget:
        record = self._record()
        keyring, conf = self._directory / "keyring", self._directory / "ceph.conf"
        # Written each time: detaching takes away the key that the volume's driver had.
        self._host.write_file(
            keyring, self._ports.cluster.client_keyring(record.ceph_user), mode=0o600
        )
        cluster_conf = self._host.run(["cat", _CEPH_CONF]).stdout
        self._host.write_file(
            conf, render_ceph_conf(cluster_conf, keyring=keyring, settings=LIBRBD_SETTINGS)
        )
        return RbdTarget(record.spec.pool, record.spec.image, record.ceph_user, conf)

    def _record(self) -> VolumeRecord:
        record = self._ports.volumes.find(VOLUME)
        if record is None:
            raise GrampusError(
                f"The volume {VOLUME} was removed while it was measured.", "Run the suite again."
            )
        return record

    def _raw_region(self) -> Region:
        # Behind the file system, so that raw writes do it no harm.
        return Region(self._plan.scale.filesystem_bytes, self._plan.scale.region_bytes)

    def _file_region(self) -> Region:
        return Region(0, self._plan.scale.region_bytes)

    def _database_directory(self) -> PurePosixPath:
        return self._directory / "database"


def _file_on(mount_path: PurePosixPath) -> PurePosixPath:
    return mount_path / "fio.data"


def _require_way(block: Block, attachment: Attachment) -> None:
    """Raise GrampusError when the volume is not attached as the block says."""
    is_driver = attachment.driver == block.driver
    if not is_driver or block.transport not in (None, attachment.transport):
        raise GrampusError(
            f"{block.name} was asked for, and the volume is attached through "
            f"{attachment.driver}, transport {attachment.transport}.",
            "See `grampus volume show` for the reason.",
            code="no-driver",
        )


def _attempt(what: str, prepare: Callable[[], None]) -> list[str]:
    try:
        prepare()
    except GrampusError as error:
        return [f"{what} could not be prepared, and is left out: {error}"]
    return []
