"""A lost state rebuilt from what the images of the cluster say."""

from __future__ import annotations

from dataclasses import dataclass

from grampus.ceph.cluster import CephCluster
from grampus.ceph.image_notes import FoundImage, observe_images
from grampus.ceph.migrations import RbdMigrations
from grampus.databases.credentials import CredentialFiles
from grampus.databases.rebuild.decide_noting import NOTED_KIND
from grampus.databases.rebuild.decide_rebuild import (
    RebuildPlan,
    decide_movable,
    decide_rebuild,
)
from grampus.databases.rebuild.decide_reconcile import ReconcilePlan, decide_reconcile
from grampus.databases.records import DATABASE_KIND, TRASHED_KIND
from grampus.operations.runner import OperationRunner, Subject
from grampus.state.operations import Operation
from grampus.state.store import Store
from grampus.state.stored import StoredRecord, put_record, records_of_lab
from grampus.volumes.kinds import MIGRATE
from grampus.volumes.migrating import MigrateOrder
from grampus.volumes.model import Migration, VolumeRecord
from grampus.volumes.records import VOLUME_RECORD


@dataclass(frozen=True)
class Rebuilt:
    """What was, or would be, put back."""

    plan: RebuildPlan
    without_passwords: list[str]  # databases whose passwords are not in this home any more
    unfinished: list[str]  # databases that were being made or removed when the state was lost


@dataclass(frozen=True)
class Reconciled:
    """How a state of an earlier time was corrected."""

    plan: ReconcilePlan
    closed: list[Operation]  # neither finished nor undone

    @property
    def is_nothing(self) -> bool:
        """The state was as the images tell it."""
        return not (self.plan.changed or self.plan.removed or self.closed)


class StateRebuild:
    """Rebuilds the records of one lab or cluster. Running databases notice nothing of it."""

    def __init__(
        self,
        store: Store,
        lab: str,
        cluster: CephCluster,
        credentials: CredentialFiles,
        runner: OperationRunner,
        migrations: RbdMigrations,
    ) -> None:
        self._store = store
        self._runner = runner
        self._migrations = migrations
        self._lab = lab
        self._cluster = cluster
        self._credentials = credentials

    def plan(self) -> Rebuilt:
        """What the images tell of and the state lacks; nothing is changed.

        Raises GrampusError when the cluster does not answer.
        """
        existing = records_of_lab(self._store, self._lab)
        images = observe_images(self._cluster)
        plan = decide_rebuild(self._lab, images, existing, self._observe_moving(images))
        names = [*plan.names(DATABASE_KIND), *plan.names(TRASHED_KIND)]
        return Rebuilt(
            plan=plan,
            without_passwords=[name for name in names if not self._credentials.are_there(name)],
            unfinished=[
                record.name
                for record in plan.records
                if record.kind == DATABASE_KIND and record.body.get("phase") != "ready"
            ],
        )

    def apply(self, rebuilt: Rebuilt) -> None:
        """Put the records back. Cut off, it is done again: what is there already stays.

        A volume on its way to another pool has an operation again, which can be resumed.
        """
        for record in rebuilt.plan.records:
            self._put(record)

    def reconcile(self) -> Reconciled:
        """Correct a state of an earlier time by what the images tell, which is newer.

        Operations that had not ended then are closed: nothing of them is finished or undone. Cut
        off, it is done again. Raises GrampusError when the cluster does not answer.
        """
        existing = records_of_lab(self._store, self._lab)
        images = observe_images(self._cluster)
        plan = decide_reconcile(self._lab, images, existing, self._observe_moving(images))
        closed = [
            operation
            for operation in self._runner.unfinished("")
            if operation.kind.startswith(("db.", "volume."))
        ]
        for operation in closed:
            self._runner.close(operation, "the state was restored from an older copy")
        for record in plan.removed:
            self._store.remove(record.kind, self._lab, record.name)
        for record in plan.changed:
            self._put(record)
        for record in existing:
            if record.kind == NOTED_KIND:  # all is noted again
                self._store.remove(record.kind, self._lab, record.name)
        return Reconciled(plan, closed)

    def _put(self, record: StoredRecord) -> None:
        if record.kind == VOLUME_RECORD and record.body.get("migration") is not None:
            self._ensure_begun(VolumeRecord.model_validate(record.body))
        put_record(self._store, self._lab, record)

    def _observe_moving(self, images: list[FoundImage]) -> dict[tuple[str, str], Migration]:
        moving = {}
        for image in decide_movable(self._lab, images):
            status = self._migrations.observe(image.pool, image.name)
            if status is not None:
                moving[image.pool, image.name] = Migration(
                    from_pool=status.source_pool, to_pool=image.pool, source_id=status.source_id
                )
        return moving

    def _ensure_begun(self, record: VolumeRecord) -> None:
        """Before its record is there, so that none is left without an operation."""
        spec, migration = record.spec, record.migration
        if migration is None or self._runner.unfinished(MIGRATE.kind, spec.name):
            return
        order = MigrateOrder(
            name=spec.name,
            image=spec.image,
            from_pool=migration.from_pool,
            to_pool=migration.to_pool,
            # Nobody knows which of its snapshots are new: none may be lost on a way back.
            snapshots=(),
        )
        self._runner.note(MIGRATE, order, Subject(spec.name))
