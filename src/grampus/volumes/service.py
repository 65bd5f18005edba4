"""Volumes: RBD images with a file system, attached to hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from grampus.ceph.cluster import CephCluster
from grampus.ceph.rbd import RbdImages
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.names import require_name
from grampus.core.progress import Progress
from grampus.core.units import MIB, format_bytes
from grampus.hosts.port import Fleet
from grampus.state.home import Home
from grampus.state.locks import hold_lock
from grampus.state.operations import Operation, OperationJournal, Step
from grampus.state.store import Store
from grampus.volumes.attaching import Attacher
from grampus.volumes.decide_local_log import require_log_at_hand
from grampus.volumes.drivers.volumed import VolumedProgram
from grampus.volumes.fencing import FenceOrder, Fencing
from grampus.volumes.journals import Journals, Replayed, ReplayOrder, require_detached
from grampus.volumes.live import LiveVolume
from grampus.volumes.local_logs import Aside
from grampus.volumes.model import (
    Attachment,
    DriverName,
    TransportName,
    VolumeRecord,
    VolumeSpec,
    WritePath,
    whole_mib,
)
from grampus.volumes.places import mount_path
from grampus.volumes.records import VolumeRecords
from grampus.volumes.resizing import Resizing
from grampus.volumes.write_paths import decide_max_lag_ms, decide_written

OPERATION_KINDS = "volume."
CREATE, DELETE, RESIZE, FENCE = "volume.create", "volume.delete", "volume.resize", "volume.fence"
REPLAY = "volume.replay"
_WHAT = {
    CREATE: "creation",
    DELETE: "deletion",
    RESIZE: "resize",
    FENCE: "fence",
    REPLAY: "replay",
}
# Undone when found cut off; the others are finished. What a replay has brought into the image
# stays, and the journal holds the rest: only its traces on the host are taken away.
_UNDONE = frozenset({CREATE, REPLAY})
LOCK_TIMEOUT_S = 10.0
MIN_VOLUME_SIZE_BYTES = 320 * MIB  # XFS makes no smaller file system (mkfs.xfs 6.0 and later)


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
        journal: OperationJournal,
        fleet: Fleet,
        cluster: CephCluster,
        images: RbdImages,
        clock: Clock,
        progress: Progress,
        *,
        volumed: Path | None = None,
    ) -> None:
        """`volumed` is the built program on this machine, if there is one."""
        self._lab = lab
        self._home = home
        self._journal = journal
        self._fleet = fleet
        self._cluster = cluster
        self._images = images
        self._clock = clock
        self._progress = progress
        self._records = VolumeRecords(store, lab)
        program = VolumedProgram(volumed)
        self._attacher = Attacher(
            tag, self._records, fleet, cluster, images, program, clock, progress
        )
        self._resizing = Resizing(self._records, fleet, images, self._attacher)
        self._fencing = Fencing(self._records, fleet, cluster, images, clock)
        self._journals = Journals(self._records, fleet, images, self._attacher, program)

    def all(self) -> list[VolumeRecord]:
        """Every volume, by name."""
        return self._records.all()

    def find(self, name: str) -> VolumeRecord | None:
        return self._records.find(name)

    def get(self, name: str) -> VolumeRecord:
        """The volume named `name`. Raises NotFoundError."""
        return self._records.get(name)

    def check_room(self, pool: str, size_bytes: int) -> None:
        """Raise RefusedError when the pool cannot take a volume of that size now."""
        usage = self._cluster.observe_pool(pool)
        if size_bytes > usage.available_bytes:
            raise RefusedError(
                f"The pool '{pool}' has room for {format_bytes(usage.available_bytes)}, not for "
                f"{format_bytes(size_bytes)}.",
                "Ask for a smaller size, delete what is not needed, or add OSDs.",
                code="pool-full",
            )

    def plan_create(
        self,
        name: str,
        pool: str,
        size_bytes: int,
        *,
        write_path: WritePath = "direct",
        max_lag_ms: int | None = None,
    ) -> VolumeSpec:
        """A new volume, its size rounded up to whole MiB; `max_lag_ms` with `cache` alone.

        Raises UsageError, RefusedError when the name, the image or the room is taken, and
        GrampusError with code `no-volumed` when the write path needs it and it is not built.
        """
        require_name("volume", name)
        self._require_new(name)
        self._attacher.require_volumed(write_path)
        if size_bytes < MIN_VOLUME_SIZE_BYTES:
            raise RefusedError(
                f"A volume of {format_bytes(size_bytes)} is too small for a file system.",
                f"Ask for at least {format_bytes(MIN_VOLUME_SIZE_BYTES)}.",
                code="too-small",
            )
        spec = VolumeSpec(
            name=name,
            pool=pool,
            image=name,
            size_bytes=whole_mib(size_bytes),
            write_path=write_path,
            max_lag_ms=decide_max_lag_ms(write_path, max_lag_ms),
        )
        self.check_room(pool, spec.size_bytes)
        self._require_no_image(spec)
        return spec

    def create(self, spec: VolumeSpec) -> VolumeRecord:
        """Make the image and its cephx user; undone as a whole when it fails."""
        with self._locked(spec.name):
            self._settle(spec.name)
            self._require_new(spec.name)
            operation = self._begin(CREATE, spec)
            self._journal.apply(
                operation, self._create_steps(spec), self._progress, undo_on_failure=True
            )
            return self.get(spec.name)

    def delete(self, name: str) -> None:
        """Detach the volume and remove its image. Raises NotFoundError."""
        self.get(name)
        with self._locked(name):
            self._settle(name)
            record = self.find(name)
            if record is None:
                return
            operation = self._begin(DELETE, record.spec)
            self._journal.apply(
                operation, self._delete_steps(record.spec), self._progress, undo_on_failure=False
            )

    def describe_delete(self, name: str) -> list[str]:
        """What `delete` would do, step by step. Raises NotFoundError."""
        return [step.title for step in self._delete_steps(self.get(name).spec)]

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

    def describe_resize(self, spec: VolumeSpec) -> list[str]:
        """What `resize` would do now, step by step."""
        return self._resizing.describe(spec)

    def resize(self, spec: VolumeSpec) -> VolumeRecord:
        """Grow the volume to the size that `plan_resize` settled, also under a running writer.

        Interrupted, it is finished by the next command. A volume that has the size already gets
        its device and file system checked, and grown if they lag behind.
        """
        with self._locked(spec.name):
            self._settle(spec.name)
            if spec.size_bytes < self.get(spec.name).spec.size_bytes:
                raise RefusedError(
                    f"The volume '{spec.name}' has grown meanwhile.", "Look at it, then decide."
                )
            steps = self._resizing.steps(spec)
            operation = self._begin(RESIZE, spec)
            self._journal.apply(operation, steps, self._progress, undo_on_failure=False)
            return self.get(spec.name)

    def ensure_size(self, name: str, size_bytes: int) -> None:
        """At least that size, in whole MiB; a bigger volume is left as it is."""
        spec = self.get(name).spec.model_copy(update={"size_bytes": whole_mib(size_bytes)})
        with self._locked(name):
            self._settle(name)
            is_smaller = self.get(name).spec.size_bytes < spec.size_bytes
        if is_smaller:
            self.resize(spec)

    def plan_fence(self, name: str) -> FenceOrder | None:
        """Whom a fence would cut off; None when the volume is fenced already.

        Raises NotFoundError, and RefusedError with code `not-attached`, `in-use` (a client that
        is not the volume's holds the lock) or `client-unknown`.
        """
        return self._fencing.plan(name)

    def describe_fence(self, order: FenceOrder) -> list[str]:
        """What the fence would do, step by step."""
        return [step.title for step in self._fencing.steps(order)]

    def fence(self, name: str) -> VolumeRecord:
        """Take the volume away from its host, which is not asked: it may be lost.

        Exactly the volume's own client is blocklisted, its key removed and its lock broken; from
        then on it can be attached anywhere. Interrupted, it is finished by the next command.
        Raises what `plan_fence` raises.
        """
        with self._locked(name):
            # What else was interrupted may need the host that this is to do without.
            self._settle(name, only=FENCE)
            order = self._fencing.plan(name)
            if order is not None:
                operation = self._begin(FENCE, order)
                steps = self._fencing.steps(order)
                self._journal.apply(operation, steps, self._progress, undo_on_failure=False)
            return self.get(name)

    def plan_write_path(
        self, name: str, write_path: WritePath | None, *, max_lag_ms: int | None = None
    ) -> VolumeSpec:
        """The volume as it shall be; what is None stays, or is the default of a new path.

        Raises NotFoundError, UsageError for a `max_lag_ms` without `cache`, RefusedError with
        code `attached`, and GrampusError with code `no-volumed` when the write path needs it and
        it is not built.
        """
        record = self.get(name)
        spec = decide_written(record.spec, write_path, max_lag_ms)
        if spec != record.spec:
            require_detached(record, "its write path is settled when it is attached")
            self._attacher.require_volumed(spec.write_path)
        return spec

    def ensure_write_path(
        self, name: str, write_path: WritePath | None, *, max_lag_ms: int | None = None
    ) -> VolumeRecord:
        """How a detached volume is written to from its next attachment on.

        A journal that holds something is applied by that attachment, whatever the write path.
        Raises what `plan_write_path` raises.
        """
        self.get(name)
        with self._locked(name):
            self._settle(name)
            spec = self.plan_write_path(name, write_path, max_lag_ms=max_lag_ms)
            record = self.get(name)
            if record.spec != spec:
                # Nothing but the record: the operation journal has nothing to undo.
                record = record.model_copy(update={"spec": spec})
                self._records.put(record)
            return record

    def require_served(self, host: str, write_path: WritePath) -> None:
        """Raise GrampusError when no volume with that write path could be attached to `host`.

        The code is `no-volumed` or `no-driver`. What can be said only by trying is not tried.
        """
        if write_path != "direct":
            self._attacher.require_volumed(write_path)
            self._attacher.require_served(self._fleet.host(host), write_path)

    def plan_replay(self, name: str) -> ReplayOrder | None:
        """Where the journal of a detached volume would be replayed; None: it holds nothing.

        Raises NotFoundError, RefusedError with code `attached`, HostUnreachableError, and
        GrampusError with code `no-volumed`.
        """
        return self._journals.plan_replay(name)

    def describe_replay(self, order: ReplayOrder) -> list[str]:
        """What the replay would do, step by step."""
        return [step.title for step in self._journals.replay_steps(order, _discard)]

    def replay(self, name: str) -> Replayed:
        """Bring what the journal of a detached volume holds into its image.

        Cut off, its traces are cleared away by the next command, and the journal keeps what is
        not in the image. Raises what `plan_replay` raises, RefusedError with code `in-use`, and
        GrampusError with code `volumed-failed`.
        """
        self.get(name)
        with self._locked(name):
            self._settle(name)
            order = self._journals.plan_replay(name)
            kept: list[Replayed] = []
            if order is not None:
                operation = self._begin(REPLAY, order)
                steps = self._journals.replay_steps(order, kept.append)
                self._journal.apply(operation, steps, self._progress, undo_on_failure=True)
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

    def observe_live(self, name: str) -> LiveVolume | None:
        """State and statistics of an attachment now; None when there is nobody to ask."""
        record = self.get(name)
        driven = self._attacher.driver_of(record)
        if driven is None or record.attachment is None:
            return None
        host = record.attachment.host
        if not self._fleet.is_reachable(host):
            return LiveVolume(state="unknown", state_reason=f"{host} cannot be reached")
        driver, request = driven
        return driver.observe_live(self._fleet.host(host), request)

    def converge(self) -> list[str]:
        """Undo interrupted creations and finish everything else; says what it did.

        Volumes that another process works on are left to it. What cannot be settled now (a
        host is down) is said and stays for the next time.
        """
        done: list[str] = []
        unfinished = self._journal.unfinished(self._lab, kind_prefix=OPERATION_KINDS)
        for name in dict.fromkeys(operation.subject for operation in unfinished):
            try:
                with self._locked(name, timeout_s=0.0):
                    done += self._settle(name)
            except GrampusError as error:
                if error.code != "busy":
                    done.append(
                        f"Interrupted work on the volume '{name}' could not be settled: {error}"
                    )
        return done

    def ensure_created(self, spec: VolumeSpec) -> VolumeRecord:
        """The cephx user, the image and the record.

        Raises RefusedError when the image is there and no volume of ours: it may hold data.
        """
        with self._locked(spec.name):
            return self._ensure_created(spec)

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
        here. What is left of an attachment that died
        (driver killed, machine rebooted) is cleared away first. Raises NotFoundError,
        RefusedError when it is attached to another host, with code `unapplied-journal` or
        `write-path` when the driver asked for leaves out its journal, and with `local-log` when
        only another host's log makes it whole, HostUnreachableError.
        """
        self.get(name)
        with self._locked(name):
            self._settle(name)
            return self._attacher.attach(name, host, driver=driver, transport=transport)

    def describe_attach(
        self, name: str, host: str, *, driver: DriverName | None = None
    ) -> list[str]:
        """What `ensure_attached` would do now, step by step.

        Raises NotFoundError, GrampusError with code `no-driver`, and RefusedError when the
        driver asked for leaves out the volume's journal.
        """
        record, target = self.get(name), self._fleet.host(host)
        image = f"{record.spec.pool}/{record.spec.image}"
        journal = self._attacher.observe_journal(record.spec)
        require_log_at_hand(record, host, is_unapplied=journal.is_unapplied)
        drivers = self._attacher.describe_drivers(target, record.spec, journal, asked=driver)
        steps = [
            f"Clear away what the fence left on {left.host}, if it can be reached"
            for left in record.fenced
        ]
        if record.attachment is not None:
            steps.append(f"Keep the attachment to {record.host} if it is alive, else clear it away")
        if journal.is_unapplied:
            steps.append("Apply what its journal holds")
        steps.append(f"Map {image} on {host} through {' or '.join(drivers)}")
        if not record.is_formatted:
            steps.append(f"Make an {record.spec.filesystem} file system")
        return [*steps, f"Mount it at {mount_path(target, name)}"]

    def describe_detach(self, name: str) -> list[str]:
        """What `ensure_detached` would do now, step by step; empty when it is detached."""
        record = self.get(name)
        if record.host is None:
            return []
        drain = ["Apply what its journal holds"] if record.spec.write_path != "direct" else []
        return [
            f"Unmount {mount_path(self._fleet.host(record.host), name)}",
            *drain,
            f"Unmap {record.spec.pool}/{record.spec.image} from {record.host}",
        ]

    def ensure_detached(self, name: str) -> None:
        """Flush, unmount, and take the block device away; nothing happens if it is detached."""
        if self.find(name) is not None:
            with self._locked(name):
                self._attacher.detach(name)

    def ensure_fenced_cleared(self, name: str) -> None:
        """Clear away what fences left on hosts that can be reached; what stays is said."""
        record = self.find(name)
        if record is not None and record.fenced:
            with self._locked(name):
                self._attacher.ensure_fenced_cleared(name)

    def ensure_absent(self, name: str) -> None:
        """Detach, remove journal, image and cephx user, forget the volume."""
        if self.find(name) is not None:
            with self._locked(name):
                self._ensure_absent(name)

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

    @contextmanager
    def _locked(self, name: str, *, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
        require_name("volume", name)  # it becomes a part of a file's name
        lock = f"volume.{self._lab}.{name}"
        with hold_lock(self._home, lock, self._clock, timeout_s=timeout_s):
            yield

    def _begin(self, kind: str, order: VolumeSpec | FenceOrder | ReplayOrder) -> Operation:
        return self._journal.begin(kind, self._lab, order.name, order.model_dump(mode="json"))

    def _settle(self, name: str, *, only: str | None = None) -> list[str]:
        """Finish or undo what was interrupted; the lock of `name` is held.

        Fences first: the others may wait for the host that a fence does without.
        """
        done: list[str] = []
        unfinished = self._journal.unfinished(self._lab, kind_prefix=OPERATION_KINDS)
        for operation in sorted(unfinished, key=lambda operation: operation.kind != FENCE):
            if operation.subject != name or only not in (None, operation.kind):
                continue
            steps = self._steps(operation)
            what = f"The interrupted {_WHAT[operation.kind]} of volume '{name}'"
            if operation.kind in _UNDONE:
                self._journal.undo(operation, steps, self._progress, error="interrupted")
                rest = "" if operation.kind == CREATE else "; the journal keeps what is to come"
                done.append(f"{what} was undone{rest}.")
            else:
                self._journal.apply(operation, steps, self._progress, undo_on_failure=False)
                done.append(f"{what} was finished.")
        return done

    def _steps(self, operation: Operation) -> list[Step]:
        """The steps of a journaled operation."""
        if operation.kind == FENCE:
            return self._fencing.steps(FenceOrder.model_validate(operation.spec))
        if operation.kind == REPLAY:
            order = ReplayOrder.model_validate(operation.spec)
            return self._journals.replay_steps(order, _discard)
        spec = VolumeSpec.model_validate(operation.spec)
        if operation.kind == RESIZE:
            return self._resizing.steps(spec)
        return self._create_steps(spec) if operation.kind == CREATE else self._delete_steps(spec)

    def _require_new(self, name: str) -> None:
        if self.find(name) is not None:
            raise RefusedError(
                f"There is a volume named '{name}' already.", "Choose another name.", code="exists"
            )

    def _require_no_image(self, spec: VolumeSpec) -> None:
        # Formatting it, or undoing a creation, would destroy what somebody else keeps there.
        if self._images.find(spec.pool, spec.image) is not None:
            raise RefusedError(
                f"There is an image {spec.pool}/{spec.image} already, and it is no volume of "
                f"'{self._lab}'.",
                "Choose another name, or remove or rename that image once you know whose it is.",
                code="image-exists",
            )

    def _ensure_created(self, spec: VolumeSpec) -> VolumeRecord:
        record = self.find(spec.name)
        if record is None:
            self._require_no_image(spec)
            whole = spec.model_copy(update={"size_bytes": whole_mib(spec.size_bytes)})
            record = VolumeRecord(spec=whole, ceph_user=f"grampus.{self._lab}.{spec.name}")
            self._records.put(record)
        self._attacher.ensure_client(record)
        self._images.ensure_image(spec.pool, spec.image, record.spec.size_bytes)
        return record

    def _ensure_absent(self, name: str) -> None:
        record = self.find(name)
        if record is None:
            return
        self._attacher.detach(name)
        self._attacher.require_cleared(name)
        self._journals.ensure_removed(name)
        self._attacher.local_logs.ensure_absent(name)
        self._images.ensure_absent(record.spec.pool, record.spec.image)
        self._cluster.ensure_client_absent(record.ceph_user)
        self._records.remove(name)

    def _remove_journal(self, name: str) -> None:
        self._attacher.require_cleared(name)
        self._journals.ensure_removed(name)
        self._attacher.local_logs.ensure_absent(name)

    def _create_steps(self, spec: VolumeSpec) -> list[Step]:
        return [
            Step(
                "image",
                f"Make the image {spec.pool}/{spec.image}",
                lambda: _discard(self._ensure_created(spec)),
                lambda: self._ensure_absent(spec.name),
            )
        ]

    def _delete_steps(self, spec: VolumeSpec) -> list[Step]:
        return [
            Step("detach", "Detach", lambda: self._attacher.detach(spec.name)),
            Step(
                "journal",
                "Remove its journal, if it has one",
                lambda: self._remove_journal(spec.name),
            ),
            Step(
                "image",
                f"Remove the image {spec.pool}/{spec.image}",
                lambda: self._ensure_absent(spec.name),
            ),
        ]


def _discard(_value: object) -> None:
    """Steps return nothing."""
