"""Volumes: RBD images with a file system, attached to hosts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from grampus.ceph.cluster import CephCluster
from grampus.ceph.rbd import RbdImages
from grampus.core.clock import Clock
from grampus.core.errors import RefusedError
from grampus.core.names import require_name
from grampus.core.progress import Progress
from grampus.core.units import format_bytes
from grampus.hosts.port import Fleet
from grampus.operations.runner import OperationRunner
from grampus.state.home import Home
from grampus.state.store import Store
from grampus.volumes import kinds
from grampus.volumes.cloning import CloneOrder
from grampus.volumes.decide_external_log import MIN_FILESYSTEM_BYTES
from grampus.volumes.decide_identity import new_identity
from grampus.volumes.decide_namespace import make_namespace
from grampus.volumes.drivers.volumed import VolumedProgram
from grampus.volumes.fencing import FenceOrder
from grampus.volumes.flushes import Flushes
from grampus.volumes.journals import MoveJournalOrder, Replayed, require_detached
from grampus.volumes.live import LiveVolume
from grampus.volumes.local_logs import Aside
from grampus.volumes.model import (
    Attachment,
    CloneSource,
    DriverFault,
    DriverName,
    EncryptionName,
    Lineage,
    SnapshotInfo,
    TransportName,
    VolumeRecord,
    VolumeSpec,
    WritePath,
    whole_mib,
)
from grampus.volumes.parts import build_parts
from grampus.volumes.places import is_older_driver
from grampus.volumes.write_paths import WriteBounds, decide_written, describe_written

if TYPE_CHECKING:
    from grampus.volumes.lending import Lending


class VolumeService:
    """The volumes of one lab or cluster.

    Every change holds the lock of its volume, so whoever finds an unfinished operation under
    that lock knows that its process is gone (INV-27). Methods that change a volume raise
    RefusedError with code `busy` when another process keeps it.
    """

    def __init__(
        self,
        lab: str,
        tag: str,
        home: Home,
        store: Store,
        runner: OperationRunner,
        fleet: Fleet,
        cluster: CephCluster,
        images: RbdImages,
        clock: Clock,
        progress: Progress,
        *,
        volumed: Path | None = None,
        make_namespace: Callable[[str], str] = make_namespace,
    ) -> None:
        """`volumed` is the built program on this machine, if there is one."""
        parts = build_parts(
            *(lab, tag, home, store, runner, fleet, cluster, images, clock, progress),
            volumed=volumed,
            make_namespace=make_namespace,
        )
        self._fleet = fleet
        self._program = VolumedProgram(volumed)
        self._images = images
        self._records = parts.records
        self._attacher = parts.attacher
        self._flushes = Flushes(parts.records, fleet, parts.attacher)
        self._asking = parts.asking
        self._resizing = parts.resizing
        self._fencing, self._journals = parts.fencing, parts.journals
        self._creating = parts.creating
        self._snapshots = parts.snapshots
        self._cloning = parts.cloning
        self.operations = parts.operations
        # They change nothing that others use: they need no lock, and nothing else of this service.
        self.exporting, self.importing = parts.transfers.exporting, parts.transfers.importing
        self.check_room = parts.creating.check_room
        self.check_journal_pool = parts.creating.check_journal_pool
        self.require_writable = parts.creating.require_writable
        self.measure_snapshots = parts.snapshots.measured
        self.observe_states = parts.asking.observe_states
        self.trash, self.encryption = parts.trash, parts.encrypting
        self.migrations, self.key_rotation = parts.migrations, parts.key_rotation
        self.takeovers = parts.takeovers

    @property
    def lending(self) -> Lending:
        """Images for virtual machines. Commands of others go without its module."""
        lending: Lending = import_module("grampus.volumes.lending").Lending(
            self._records, self._fleet, self._attacher, self.operations
        )
        return lending

    def all(self) -> list[VolumeRecord]:
        """Every volume, by name."""
        return self._records.all()

    def find(self, name: str) -> VolumeRecord | None:
        return self._records.find(name)

    def get(self, name: str) -> VolumeRecord:
        """The volume named `name`. Raises NotFoundError."""
        return self._records.get(name)

    def plan_create(
        self,
        name: str,
        pool: str,
        size_bytes: int,
        *,
        write_path: WritePath = "direct",
        encryption: EncryptionName | None = None,
        **bounds: Unpack[WriteBounds],
    ) -> VolumeSpec:
        """A new volume, its size rounded up to whole MiB.

        Raises UsageError, RefusedError when the name, the image or the room is taken, and
        GrampusError with code `no-volumed` when the write path needs it and it is not built.
        """
        require_name("volume", name)
        self._creating.require_new(name)
        self._attacher.require_volumed(write_path, encryption)
        if size_bytes < MIN_FILESYSTEM_BYTES:
            raise RefusedError(
                f"A volume of {format_bytes(size_bytes)} is too small for a file system.",
                f"Choose at least {format_bytes(MIN_FILESYSTEM_BYTES)}.",
                code="too-small",
            )
        spec = VolumeSpec(
            name=name,
            pool=pool,
            image=name,
            size_bytes=whole_mib(size_bytes),
            encryption=encryption,
            identity=new_identity(),
        )
        spec = decide_written(spec, write_path, **bounds)
        self.check_room(pool, spec.size_bytes)
        self.check_journal_pool(spec.journal_pool, pool, spec.size_bytes)
        self._creating.require_free(spec)
        return spec

    def create(self, spec: VolumeSpec) -> VolumeRecord:
        """Make the image and its cephx user; undone as a whole when it fails."""
        with self.operations.locked(spec.name):
            self.operations.settle(spec.name)
            self._creating.require_new(spec.name)
            self.operations.run(kinds.CREATE, spec)
            return self.get(spec.name)

    def delete(self, name: str) -> None:
        """Detach the volume and remove its image with all snapshots.

        Raises NotFoundError, RefusedError with code `has-clones`.
        """
        self.get(name)
        with self.operations.locked(name):
            self.operations.settle(name)
            record = self.find(name)
            if record is not None:
                self._creating.require_removable(name)
                self.operations.run(kinds.DELETE, record.spec)

    def plan_resize(self, name: str, size_bytes: int) -> VolumeSpec:
        """The volume as it shall be, its size rounded up to whole MiB.

        Raises NotFoundError, HostUnreachableError, and RefusedError with code `shrink`,
        `cannot-grow` or `pool-full`.
        """
        spec = self._resizing.plan(name, size_bytes)
        more_bytes = spec.size_bytes - self.get(name).spec.size_bytes
        if more_bytes > 0:
            self.check_room(spec.pool, more_bytes)
        return spec

    def resize(self, spec: VolumeSpec) -> VolumeRecord:
        """Grow the volume to the size that `plan_resize` settled, also under a running writer.

        Interrupted, it is finished by the next command. A volume that has the size already gets
        its device and file system checked, and grown if they lag behind.
        """
        with self.operations.locked(spec.name):
            self.operations.settle(spec.name)
            if spec.size_bytes < self.get(spec.name).spec.size_bytes:
                raise RefusedError(
                    f"The volume '{spec.name}' has grown meanwhile.",
                    f"`grampus volume show {spec.name}` shows its size now.",
                )
            self.operations.runner.propose(lambda: self._resizing.describe(spec))
            self.operations.run(kinds.RESIZE, spec)
            return self.get(spec.name)

    def ensure_size(self, name: str, size_bytes: int) -> None:
        """At least that size, in whole MiB; a bigger volume is left as it is."""
        spec = self.get(name).spec.model_copy(update={"size_bytes": whole_mib(size_bytes)})
        with self.operations.locked(name):
            self.operations.settle(name)
            is_smaller = self.get(name).spec.size_bytes < spec.size_bytes
        if is_smaller:
            self.resize(spec)

    def plan_fence(self, name: str) -> FenceOrder | None:
        """Whom a fence would cut off; None when the volume is fenced already.

        Raises NotFoundError, and RefusedError with code `not-attached`, `in-use` (a client that
        is not the volume's holds the lock) or `client-unknown`.
        """
        return self._fencing.plan(name)

    def fence(self, name: str) -> VolumeRecord:
        """Take the volume away from its host, which is not asked: it may be lost.

        Exactly the volume's own client is blocklisted, its key removed and its lock broken; from
        then on it can be attached anywhere. Interrupted, it is finished by the next command.
        Raises what `plan_fence` raises.
        """
        with self.operations.locked(name):
            # What else was interrupted may need the host that this is to do without.
            self.operations.settle(name, only=kinds.FENCE)
            order = self._fencing.plan(name)
            if order is not None:
                self.operations.run(kinds.FENCE, order)
            return self.get(name)

    def ensure_write_path(
        self, name: str, write_path: WritePath | None, **bounds: Unpack[WriteBounds]
    ) -> VolumeRecord:
        """How a detached volume is written to from its next attachment on.

        What is None stays, or is the default of a new path. A journal that holds something is
        applied by that attachment, whatever the write path, or before the journal moves to another
        pool. Raises NotFoundError, UsageError for a bound that the path has not, RefusedError with
        code `attached`, GrampusError with code `no-volumed` when the write path needs it and it is
        not built, and what `check_journal_pool` and `replay` raise.
        """
        self.get(name)
        with self.operations.locked(name):
            self.operations.settle(name)
            record = self.get(name)
            spec = decide_written(record.spec, write_path, **bounds)
            if record.spec != spec:
                require_detached(record, "its write path is fixed at the attach")
                self._attacher.require_volumed(spec.write_path)
                if spec.journal_pool != record.spec.journal_pool:
                    self.check_journal_pool(spec.journal_pool, spec.pool, spec.size_bytes)
                    order = MoveJournalOrder(**spec.model_dump(), former=record.spec.journal_pool)
                    self.operations.run(kinds.MOVE_JOURNAL, order)
                else:
                    written = f"the write path of the volume '{name}' to {describe_written(spec)}"
                    self.operations.runner.propose(lambda: [f"Set {written}"])
                    # Nothing but the record: the operation journal has nothing to undo.
                    self._records.put(record.model_copy(update={"spec": spec}))
            return self.get(name)

    def require_served(
        self, host: str, write_path: WritePath, encryption: EncryptionName | None = None
    ) -> None:
        """Raise GrampusError when no such volume could be attached to `host`.

        The code is `no-volumed` or `no-driver`. What can be said only by trying is not tried.
        """
        if write_path != "direct" or encryption is not None:
            self._attacher.require_volumed(write_path, encryption)
            self._attacher.require_served(self._fleet.host(host), write_path, encryption)

    def replay(self, name: str, *, accept_loss: bool = False) -> Replayed:
        """Bring what the journal of a detached volume holds into its image.

        Cut off, its traces are cleared away by the next command, and the journal keeps what is
        not in the image. Raises NotFoundError, RefusedError with code `attached` or `in-use`,
        HostUnreachableError, and GrampusError with code `no-volumed` or `volumed-failed`.
        """
        self.get(name)
        with self.operations.locked(name):
            self.operations.settle(name)
            order = self._journals.plan_replay(name, accept_loss=accept_loss)
            kept: list[Replayed] = []
            if order is not None:
                steps = self._journals.replay_steps(order, kept.append)
                self.operations.run(kinds.REPLAY, order, steps)
            return kept[-1] if kept else Replayed()

    def observe_unapplied(self, name: str) -> bool | None:
        """Whether the journal of a detached volume may hold what its image does not.

        None when it is attached: then that is as it should be. Raises NotFoundError, and
        GrampusError when the cluster does not answer.
        """
        record = self.get(name)
        if record.host is not None:
            return None
        return self._attacher.observe_journal(record.spec).is_unapplied

    def observe_asides(self, name: str) -> list[Aside]:
        """Logs that were set aside on hosts that can be reached. Raises NotFoundError."""
        return self._attacher.local_logs.observe_asides(self.get(name))

    def find_silent(self, names: Collection[str], for_s: float) -> set[str]:
        """Those of these volumes to whose requests the cluster has given no answer for so long.

        A volume that cannot be asked is not among them.
        """
        records = [record for name in names if (record := self._records.find(name)) is not None]
        states = self._asking.observe_states(records)
        return {
            name
            for name, live in states.items()
            if isinstance(live, LiveVolume) and live.has_waited(for_s)
        }

    def find_driver_faults(self, names: Collection[str]) -> dict[str, DriverFault]:
        """Those of these volumes whose driver has ended, or runs and gives no answer for seconds.

        A volume that cannot be asked is not among them.
        """
        records = [record for name in names if (record := self._records.find(name)) is not None]
        return self._asking.find_driver_faults(records)

    def end_driver(self, name: str) -> None:
        """Kill the driver of an attached volume; the next attachment replaces it.

        What was flushed is in the image or its journal. Raises NotFoundError, and GrampusError when
        its host cannot be reached.
        """
        record = self._records.get(name)
        daemon = self.driver_daemon(record)
        if record.host is not None and daemon is not None:
            self._fleet.host(record.host).ensure_daemon_absent(daemon, kill=True)

    def observe_live(self, name: str) -> LiveVolume | None:
        """State and statistics of an attachment now; None when there is nobody to ask."""
        return self._asking.observe_live(self.get(name))

    def draw_down(self, name: str, *, towards: str | None = None) -> int | None:
        """Leave little to do for detaching, and for attaching to the host `towards`, while the
        volume is used: as much as a minute allows. The bytes that its journal still holds; None
        where nobody says. Raises NotFoundError."""
        record = self.get(name)
        if towards is not None:
            self._attacher.ready(record, self._fleet.host(towards))
        return self._asking.draw_down(record)

    def converge(self, *, completes: bool = False) -> list[str]:
        """Undo interrupted creations, finish the rest (a copy only if `completes`); what it did.

        Volumes that another process works on are left to it. What cannot be settled now (a
        host is down) is said and stays for the next time.
        """
        return self.operations.converge(completes=completes)

    def ensure_created(self, spec: VolumeSpec, sealed_key: str | None = None) -> VolumeRecord:
        """The cephx user, the image and the record; `sealed_key` as `VolumePort` says.

        Raises RefusedError when the image is there and no volume of ours: it may hold data.
        """
        with self.operations.locked(spec.name):
            return self._creating.ensure_created(spec, sealed_key)

    def ensure_attached(
        self,
        name: str,
        host: str,
        *,
        driver: DriverName | None = None,
        transport: TransportName | None = None,
    ) -> Attachment:
        """The volume as a mounted file system on `host`, through `driver` if one is asked for.

        A `transport` other than None asks for volumed. A volume never used gets its file system
        here. What is left on the host of an attachment that died (driver killed, machine rebooted)
        or was fenced is cleared away first. Raises NotFoundError,
        RefusedError when it is attached to another host, with code `unapplied-journal` or
        `write-path` when the driver asked for leaves out its journal, and with `local-log` when
        only another host's log makes it whole, HostUnreachableError.
        """
        self.get(name)
        with self.operations.locked(name):
            self.operations.settle(name, completes=False)  # its users do not wait for a copy
            return self._attacher.attach(name, host, driver=driver, transport=transport)

    def drop_flushes(self, name: str) -> bool:
        """Have flushes of the attached volume answered at once, until `ensure_flushed`.

        For a volume on whose flushes nobody relies yet: a crash may take what was flushed
        meanwhile. What is written is still applied in its order, so a volume with the write path
        direct, which has none, keeps its flushes, and the answer is False. Raises NotFoundError.
        """
        with self.operations.locked(name):
            return self._flushes.drop(name)

    def ensure_flushed(self, name: str) -> None:
        """Flushes of the attached volume are done before they are answered, also those so far.

        Raises NotFoundError, and GrampusError with code `drops-flushes`.
        """
        with self.operations.locked(name):
            self._flushes.ensure_done(name)

    def ensure_durable(self, name: str) -> None:
        """What was written to the volume is durable, also where flushes keep the order alone.

        For what is in no binary log. Nothing happens without the volume, or while it is detached.
        No lock is taken: whoever holds it may wait for the server.
        """
        self._flushes.ensure_durable(name)

    def ensure_detached(self, name: str) -> None:
        """Flush, unmount, and take the block device away; nothing happens if it is detached."""
        if self.find(name) is not None:
            with self.operations.locked(name):
                self._attacher.detach(name)

    def ensure_absent(self, name: str, meant: VolumeSpec | None = None) -> None:
        """As `Creating.ensure_absent`. Raises RefusedError with code `has-clones`."""
        if self.find(name) is not None:
            with self.operations.locked(name):
                self._creating.ensure_absent(name, meant)

    def set_metadata(self, name: str, facts: Mapping[str, str]) -> None:
        """Write facts to the image's own metadata."""
        spec = self.get(name).spec
        self._images.set_metadata(spec.pool, spec.image, facts)

    def is_attached(self, name: str) -> bool:
        """Whether the volume is mounted and its driver alive, as observed now."""
        return self._attacher.observe_attachment(self.get(name)) is not None

    def driver_daemon(self, record: VolumeRecord) -> str | None:
        """The daemon that serves the volume's device, if it has one."""
        driven = self._attacher.driver_of(record)
        return None if driven is None else driven[0].daemon(driven[1])

    def has_older_driver(self, name: str) -> bool:
        """Whether its driver runs from an older host image or program than its host has now.

        The host gets the present program first. Raises NotFoundError.
        """
        record = self.get(name)
        return is_older_driver(self._fleet, self._program, record, self.driver_daemon(record))

    def require_removable(self, name: str) -> None:
        """Raise RefusedError with code `has-clones` when other images stand on this one."""
        self._creating.require_removable(name)

    def snapshots(self, name: str) -> list[SnapshotInfo]:
        """The volume's snapshots, oldest first. Raises NotFoundError."""
        return self._snapshots.all(name)

    def require_snapshot_new(self, name: str, snapshot: str) -> None:
        """Raise RefusedError with code `exists`, UsageError for the name, NotFoundError."""
        self._snapshots.require_new(name, snapshot)

    def ensure_snapshot(self, name: str, snapshot: str) -> None:
        """A snapshot that holds everything flushed so far (INV-4), also under a running writer.

        The journal of a detached volume is replayed first. A snapshot of that name is left as it
        is. Raises NotFoundError, UsageError for the name, RefusedError with code `empty` or
        `attachment-lost`, GrampusError with code `snapshot-failed`, and what `replay` raises.
        """
        require_name("snapshot", snapshot)
        self.get(name)
        with self.operations.locked(name):
            self.operations.settle(name)
            order = self._snapshots.plan_before(name)
            if order is not None:
                with self.operations.runner.part_of_plan():
                    self.operations.run(kinds.REPLAY, order)
            self._snapshots.ensure(name, snapshot)

    def ensure_snapshot_absent(self, name: str, snapshot: str) -> None:
        """The snapshot removed; nothing happens when it, or the volume, is not there.

        Raises RefusedError with code `protected` or `has-clones`.
        """
        if self.find(name) is not None:
            with self.operations.locked(name):
                self._snapshots.ensure_absent(name, snapshot)

    def ensure_snapshot_released(self, name: str, snapshot: str) -> None:
        """As `ensure_snapshot_absent`, also under clones: as `VolumePort` says."""
        if self.find(name) is not None:
            with self.operations.locked(name):
                self._snapshots.ensure_released(name, snapshot)

    def require_snapshot_removable(self, name: str, snapshot: str) -> None:
        """Raise RefusedError with code `protected` or `has-clones`, NotFoundError."""
        self._snapshots.require_removable(name, snapshot)

    def ensure_snapshot_protected(self, name: str, snapshot: str, *, protected: bool) -> None:
        """Whether the snapshot can be removed, by anybody. Raises NotFoundError."""
        self.get(name)
        with self.operations.locked(name):
            self._snapshots.ensure_protected(name, snapshot, protected=protected)

    def require_rollable(self, name: str, snapshot: str) -> None:
        """Raise what `ensure_rolled_back` raises before it changes anything."""
        self._snapshots.plan_rollback(name, snapshot)

    def ensure_rolled_back(self, name: str, snapshot: str) -> None:
        """The detached volume as it was at the snapshot, at the size that it has now.

        What its journal and logs on hosts hold is dropped: it was written later. Interrupted, it
        is finished by the next command. Raises NotFoundError, RefusedError with code `attached`
        or `in-use`, GrampusError with code `no-volumed`, HostUnreachableError.
        """
        self.get(name)
        with self.operations.locked(name):
            self.operations.settle(name)
            self.operations.run(kinds.ROLLBACK, self._snapshots.plan_rollback(name, snapshot))

    def plan_clone(self, spec: VolumeSpec, source: CloneSource) -> CloneOrder:
        """The clone, if it can be made now, its size rounded up to whole MiB.

        Raises UsageError for the name, NotFoundError when there is no such snapshot, RefusedError
        with code `exists`, `image-exists`, `shrink` or `other-pool`, GrampusError with code
        `no-volumed`.
        """
        require_name("volume", spec.name)
        return self._cloning.plan(spec, source)

    def clone(self, order: CloneOrder) -> VolumeRecord:
        """Make the clone and its cephx user; undone as a whole when it fails."""
        with self.operations.locked(order.name):
            self.operations.settle(order.name)
            self._creating.require_new(order.name)
            self.operations.run(kinds.CLONE, order)
            return self.get(order.name)

    def ensure_cloned(self, spec: VolumeSpec, source: CloneSource) -> VolumeRecord:
        """A volume that shares the snapshot's data until it writes, grown to `spec.size_bytes`.

        Its cephx user is its own; metadata of the parent under our prefix does not come with it.
        Raises what `plan_clone` raises, and GrampusError with code `clone-failed`.
        """
        with self.operations.locked(spec.name):
            return self._cloning.ensure(spec, source)

    def ensure_flattened(self, name: str) -> None:
        """The volume's image standing alone, also under a running writer. Raises NotFoundError.

        Its key can no longer read what it shared, unless snapshots from before still share it.
        """
        self.get(name)
        with self.operations.locked(name):
            self.operations.settle(name)
            record = self.get(name)
            if record.host is None:
                self._cloning.flatten(record)
                self._cloning.ensure_unshared(name)
                return
        # Its client does the copying, for as long as that takes: nobody is to wait for it.
        self._cloning.flatten(record)
        with self.operations.locked(name):
            self._cloning.ensure_unshared(name)

    def needs_flattening(self, name: str) -> bool:
        """Whether `ensure_flattened` has anything to do. Raises NotFoundError."""
        return self._cloning.needs_flattening(self.get(name))

    def lineage(self, name: str, *, with_children: bool = True) -> Lineage:
        """What the volume's image is a clone of, and which images are clones of it, if asked for.

        Raises NotFoundError.
        """
        return self._cloning.lineage(name, with_children=with_children)

    def note_formatted(self, name: str) -> None:
        """A file system is on the volume's image already: attaching must not make one.

        For an image that was filled otherwise, as from a backup. Raises NotFoundError.
        """
        self.get(name)
        with self.operations.locked(name):
            record = self.get(name)
            self._records.put(record.model_copy(update={"is_formatted": True}))
