"""Moving a volume to another pool while it is used: its image is exchanged under a short pause.

At every moment exactly one image can be written to: the former one until it is made the source of
a migration, which librbd does only when nobody has it open; from then on the new one, which reads
through to it. What was cut off before that moment is undone, what was cut off after it is finished.
Until the commit there is a way back, on which librbd copies what the new image holds over the
former one: its users wait meanwhile. It is also taken when the pool fills up during the copy: a
cluster that is full gives no client an answer, and the copy is what it can do without.
"""

from __future__ import annotations

from pydantic import ConfigDict

from grampus.ceph.cluster import CephCluster
from grampus.ceph.erasure_pools import data_pool_of
from grampus.ceph.fullness import PoolRoom, observe_pool_rooms
from grampus.ceph.image_notes import observe_image_pools
from grampus.ceph.image_snapshots import RbdSnapshots
from grampus.ceph.migrations import MigrationStatus, RbdMigrations
from grampus.ceph.rbd import RbdImages
from grampus.ceph.reporting import Watch
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.models import Model
from grampus.core.progress import Progress
from grampus.state.operations import Step
from grampus.volumes.asking import Asking
from grampus.volumes.creating import Creating
from grampus.volumes.decide_migration import (
    PoolFillingError,
    decide_left_bytes,
    find_scarcity,
    no_lasting_room,
    not_migrating,
    pool_filling,
    require_abortable,
    require_unfenced,
)
from grampus.volumes.decide_pool import require_pool
from grampus.volumes.exchanging import ABORT_LIMIT_S, Exchanging
from grampus.volumes.model import Migration, VolumeRecord
from grampus.volumes.records import VolumeRecords

# From here on the new image is in use, and nobody waits for what is left.
_MAKE_ROOM = (
    "Delete snapshots that are not needed (they are copied too, and both pools have all data "
    "for a while), or add OSDs."
)
COPY_STEP = "copy"
# As often as the OSDs report what they hold (`mgr_stats_period`).
LOOK_EVERY_S = 5.0


class MigrateOrder(Model):
    """A migration as it is journaled."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    image: str
    from_pool: str
    to_pool: str
    snapshots: tuple[str, ...] = ()  # those that the image had when it was ordered
    held_bytes: int = 0  # what it and they took then
    journal_pool: str | None = None  # None: its journal is in the pool of the image


class Migrating:
    """Migrations of the volumes of one lab or cluster; the volume's lock is held by the caller."""

    def __init__(
        self,
        records: VolumeRecords,
        cluster: CephCluster,
        images: RbdImages,
        snapshots: RbdSnapshots,
        creating: Creating,
        exchanging: Exchanging,
        asking: Asking,
        clock: Clock,
        progress: Progress,
    ) -> None:
        self._records = records
        self._cluster = cluster
        self._images = images
        self._snapshots = snapshots
        self._creating = creating
        self._exchanging = exchanging
        self._asking = asking
        self._clock = clock
        self._progress = progress
        self._rbd = RbdMigrations(cluster, clock)

    def plan(self, name: str, pool: str) -> MigrateOrder | None:
        """The migration, if it can be begun now; None: the volume is in that pool.

        Raises NotFoundError for the volume or the pool, HostUnreachableError, and RefusedError with
        code `attachment-lost`, `cannot-exchange`, `fenced`, `has-clones`, `image-exists` or
        `pool-full`.
        """
        record = self._records.get(name)
        spec = record.spec
        if spec.pool == pool:
            return None
        pools = observe_image_pools(self._cluster)
        require_pool(pool, pools, of_site=self._cluster.image_pools is not None)
        self._exchanging.require_ready(record)
        require_unfenced(record)
        self._asking.require_heard(record)
        # Clones in use would have to open their parent in another pool, with keys of their own.
        self._creating.require_removable(name)
        there = spec.model_copy(update={"pool": pool})
        self._creating.require_no_image(there)
        # Its snapshots go with it, and both pools hold all of it until the commit: a cluster that
        # is full meanwhile keeps every client waiting, and not this volume's alone.
        held_bytes = self._snapshots.stored_bytes(spec.pool, spec.image)
        needed_bytes = max(spec.size_bytes, held_bytes)
        self._creating.check_room(pool, needed_bytes, remedy=_MAKE_ROOM)
        scarcity = find_scarcity(*self._observe_rooms(spec.pool, pool), needed_bytes)
        if scarcity is not None:
            raise no_lasting_room(pool, scarcity, _MAKE_ROOM)
        snapshots = tuple(one.name for one in self._snapshots.all(spec.pool, spec.image))
        return MigrateOrder(
            name=name,
            image=spec.image,
            from_pool=spec.pool,
            to_pool=pool,
            snapshots=snapshots,
            held_bytes=held_bytes,
            journal_pool=spec.journal_pool,
        )

    def steps(self, order: MigrateOrder) -> list[Step]:
        """The migration. Its undo is the way back, up to the commit."""
        return [
            Step(
                "caps",
                f"Allow its key to open {order.to_pool}/{order.image}, too",
                lambda: self._admit(order),
                lambda: self._admit_former_alone(order),
            ),
            Step(
                "switch",
                f"Switch to the pool '{order.to_pool}', with a pause of some seconds",
                lambda: self._switch(order),
                lambda: self._return(order),
            ),
            Step(
                COPY_STEP,
                f"Copy the remaining data from '{order.from_pool}' while the volume is used",
                lambda: self._copy(order),
            ),
            Step(
                "commit",
                f"Remove the image from '{order.from_pool}'",
                lambda: self._commit(order),
            ),
            Step(
                "tidy",
                f"Remove the remains in '{order.from_pool}'",
                lambda: self._tidy(order),
            ),
        ]

    def is_undone(self, order: MigrateOrder) -> bool:
        """Whether a migration that was cut off has changed so little that it is undone."""
        record = self._records.find(order.name)
        migration = record.migration if record is not None else None
        if migration is not None and migration.is_committing:
            return False
        if record is not None and record.spec.pool == order.to_pool:
            return False
        status = self._rbd.observe(order.to_pool, order.image)
        return status is None or status.state == "preparing"

    def require_abortable(self, order: MigrateOrder) -> None:
        """As `decide_migration.require_abortable`, and RefusedError with code `not-migrating`."""
        record = self._records.get(order.name)
        if record.migration is None and record.spec.pool == order.to_pool:
            # Cut off with all of it done: nothing is left in the former pool to go back to.
            raise not_migrating(order.name)
        status = self._rbd.observe(order.to_pool, order.image)
        new: list[str] = []
        if status is not None:
            new = [one.name for one in self._snapshots.all(order.to_pool, order.image)]
        require_abortable(record, new, order.snapshots)

    def _admit(self, order: MigrateOrder) -> None:
        record = self._records.get(order.name)
        if record.migration is None and record.spec.pool == order.to_pool:
            return  # all was done but for its end in the journal
        if record.migration is None:
            migration = Migration(from_pool=order.from_pool, to_pool=order.to_pool)
            record = self._put(record, migration=migration)
        self._images.ensure_namespace(order.to_pool, order.image)
        self._exchanging.ensure_client(record)

    def _admit_former_alone(self, order: MigrateOrder) -> None:
        record = self._records.find(order.name)
        if record is None:
            return
        self._exchanging.ensure_client(record.model_copy(update={"migration": None}))
        self._images.ensure_namespace_absent(order.to_pool, order.image)
        self._put(record, migration=None)

    def _switch(self, order: MigrateOrder) -> None:
        record = self._records.get(order.name)
        status = self._rbd.observe(order.to_pool, order.image)
        if status is None and record.spec.pool == order.to_pool:
            self._exchanging.open_image(record)  # it has been committed
            return
        if status is not None and status.state == "preparing":
            self._rbd.abort(order.from_pool, order.image)  # nobody has ever opened it
            status = None
        if status is None:
            self._prepare(order, record)
        spec = record.spec.model_copy(update={"pool": order.to_pool})
        # At once: its users wait.
        self._exchanging.open_image(self._put(record, spec=spec))
        status = status or self._rbd.observe(order.to_pool, order.image)
        migration = record.migration or Migration(from_pool=order.from_pool, to_pool=order.to_pool)
        source_id = status.source_id if status is not None else None
        self._put(record, migration=migration.model_copy(update={"source_id": source_id}))

    def _prepare(self, order: MigrateOrder, record: VolumeRecord) -> None:
        """The new image made, while nobody has the former one open."""
        self._images.wait_for_others(record.spec.pool, record.spec.image)
        self._exchanging.close_image(record)
        try:
            self._exchanging.ensure_drained(record)
            self._rbd.prepare(order.from_pool, order.to_pool, order.image)
        except GrampusError:
            if self._images.find(order.from_pool, order.image) is not None:
                self._exchanging.open_image(record)
            raise

    def _copy(self, order: MigrateOrder) -> None:
        status = self._rbd.observe(order.to_pool, order.image)
        if status is None or status.state == "executed":
            return
        copied = self._note_copied(order, status)
        there = self._observe_rooms(order.from_pool, order.to_pool)[0]
        others_bytes = max(0, there.stored_bytes - int(copied * order.held_bytes))
        filling = self._find_filling(order, copied, others_bytes)
        if filling is not None:
            raise filling

        def report(done: float) -> None:
            nonlocal copied
            # One that is gone on with counts anew, and soon passes what is there.
            copied = max(copied, done)
            self._progress.detail(f"{copied:.0%} copied", fraction=copied)

        record = self._records.get(order.name)

        def look() -> GrampusError | None:
            try:
                silence = self._asking.find_silence(record)
                if silence is not None or copied >= 1:
                    # What is left then takes no room, and gives back that of the former image.
                    return silence
                return self._find_filling(order, copied, others_bytes)
            except GrampusError as error:
                # The MONs may be choosing a leader: no reason to stop a copy that goes on.
                self._progress.detail(f"The free space is unknown now: {error}", fraction=copied)
                return None

        self._asking.require_heard(record)
        watch = Watch(look, LOOK_EVERY_S, self._clock.monotonic_s)
        self._rbd.execute(order.to_pool, order.image, report, watch)

    def _note_copied(self, order: MigrateOrder, status: MigrationStatus) -> float:
        """How much is there already (0 to 1), kept in the record: librbd begins again with 0."""
        record = self._records.get(order.name)
        if record.migration is None or status.copied <= record.migration.copied:
            return status.copied if record.migration is None else record.migration.copied
        self._put(record, migration=record.migration.model_copy(update={"copied": status.copied}))
        return status.copied

    def _find_filling(
        self, order: MigrateOrder, copied: float, others_bytes: int
    ) -> PoolFillingError | None:
        """Why the copy must not go on, and whether the migration goes back.

        `others_bytes` is what the pool held without this image as the copy began.
        """
        there, former = self._observe_rooms(order.from_pool, order.to_pool)
        taken_bytes = there.stored_bytes - others_bytes
        left_bytes = decide_left_bytes(order.held_bytes, copied, taken_bytes)
        scarcity = find_scarcity(there, former, left_bytes)
        if scarcity is None:
            return None
        barred: RefusedError | None = None
        try:
            self.require_abortable(order)
        except RefusedError as error:
            barred = error
        return pool_filling(order.name, order.from_pool, order.to_pool, scarcity, barred)

    def _observe_rooms(self, from_pool: str, to_pool: str) -> tuple[PoolRoom, PoolRoom]:
        """The room of the pool that the copy goes to, and of the former one."""
        pools = [data_pool_of(pool) or pool for pool in (to_pool, from_pool)]
        there, former = observe_pool_rooms(self._cluster, pools)
        return there, former

    def _commit(self, order: MigrateOrder) -> None:
        record = self._records.get(order.name)
        migration = record.migration or Migration(from_pool=order.from_pool, to_pool=order.to_pool)
        status = self._rbd.observe(order.to_pool, order.image)
        if status is not None:
            self._asking.require_heard(record)
            # First, so that no abort can come after it: it would take the new image away.
            migration = migration.model_copy(
                update={"source_id": status.source_id, "is_committing": True}
            )
            self._put(record, migration=migration)
            self._rbd.commit(order.to_pool, order.image)
        elif migration.source_id is not None:
            self._rbd.ensure_source_absent(order.from_pool, order.image, migration.source_id)

    def _tidy(self, order: MigrateOrder) -> None:
        record = self._records.get(order.name)
        migration = record.migration
        if migration is not None and migration.source_id is not None:
            pool = order.journal_pool or order.from_pool
            self._rbd.ensure_journal_absent(pool, order.image, migration.source_id)
        self._exchanging.ensure_client(record.model_copy(update={"migration": None}))
        self._images.ensure_namespace_absent(order.from_pool, order.image)
        self._put(record, migration=None)

    def _return(self, order: MigrateOrder) -> None:
        """The volume in its former pool again, with all that was written to it since."""
        record = self._records.find(order.name)
        if record is None:
            return
        status = self._rbd.observe(order.to_pool, order.image)
        is_home = self._images.find(order.from_pool, order.image) is not None
        if status is not None:
            there = record.spec.model_copy(update={"pool": order.to_pool})
            self._images.wait_for_others(there.pool, there.image)
            # Its own limit: were the new image opened meanwhile, there would be two.
            self._exchanging.close_image(record, limit_s=ABORT_LIMIT_S)
            if status.state != "aborting":
                self._exchanging.ensure_drained(
                    record.model_copy(update={"spec": there}), limit_s=ABORT_LIMIT_S
                )
            pool = order.journal_pool or order.to_pool
            self._rbd.ensure_journal_absent(pool, order.image, status.target_id)
        if not is_home:
            self._rbd.abort(order.from_pool, order.image)
        spec = record.spec.model_copy(update={"pool": order.from_pool})
        self._exchanging.open_image(self._put(record, spec=spec))

    def _put(self, record: VolumeRecord, **changes: object) -> VolumeRecord:
        # As it is now: opening the image notes its client's address.
        found = self._records.find(record.spec.name) or record
        changed = found.model_copy(update=changes)
        self._records.put(changed)
        return changed
