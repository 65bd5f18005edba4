"""Snapshots of volumes: taken, listed, protected, removed and rolled back to.

The volume's lock is held by the caller, wherever something is changed.
"""

from __future__ import annotations

from pydantic import ConfigDict

from grampus.ceph.image_snapshots import RbdSnapshot, RbdSnapshots
from grampus.ceph.rbd import RbdImages
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.models import Model
from grampus.core.names import require_name
from grampus.core.progress import Progress
from grampus.operations.runner import OperationRunner
from grampus.state.operations import Step
from grampus.volumes.asking import Asking
from grampus.volumes.attaching import Attacher
from grampus.volumes.decide_snapshot import (
    decide_before_snapshot,
    describe_snapshot,
    require_no_clones,
    require_snapshot,
)
from grampus.volumes.encrypting import Encrypting
from grampus.volumes.journals import Journals, ReplayOrder, require_detached
from grampus.volumes.model import MeasuredSnapshots, SnapshotInfo, VolumeRecord
from grampus.volumes.records import VolumeRecords
from grampus.volumes.write_paths import LOCAL_KEY


class RollbackOrder(Model):
    """A rollback as it is journaled."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    snapshot: str


class Snapshots:
    """Snapshots of the volumes of one lab or cluster."""

    def __init__(
        self,
        records: VolumeRecords,
        images: RbdImages,
        snapshots: RbdSnapshots,
        attacher: Attacher,
        journals: Journals,
        encrypting: Encrypting,
        asking: Asking,
        runner: OperationRunner,
        progress: Progress,
    ) -> None:
        self._records = records
        self._images = images
        self._snapshots = snapshots
        self._attacher = attacher
        self._journals = journals
        self._encrypting = encrypting
        self._asking = asking
        self._runner = runner
        self._progress = progress

    def all(self, name: str) -> list[SnapshotInfo]:
        """The volume's snapshots, oldest first. Raises NotFoundError."""
        record = self._records.get(name)
        return [describe_snapshot(s, None, record.spec.encryption) for s in self._list(record)]

    def measured(self, name: str) -> MeasuredSnapshots:
        """The same, and how much was written between them. Raises NotFoundError.

        Two commands of the cluster, however many there are; one when there is none.
        """
        record = self._records.get(name)
        spec, found = record.spec, self._list(record)
        if not found:
            return MeasuredSnapshots(snapshots=())
        used_bytes = self._snapshots.used_bytes(spec.pool, spec.image)
        return MeasuredSnapshots(
            snapshots=tuple(
                describe_snapshot(one, used_bytes.get(one.name), spec.encryption) for one in found
            ),
            since_last_bytes=used_bytes.get(None),
        )

    def require_new(self, name: str, snapshot: str) -> None:
        """Raise RefusedError with code `exists`, UsageError for the name, NotFoundError."""
        require_name("snapshot", snapshot)
        record = self._records.get(name)
        if any(found.name == snapshot for found in self._list(record)):
            raise RefusedError(
                f"'{name}' already has a snapshot named '{snapshot}'.",
                "Choose another name, or delete the existing snapshot.",
                code="exists",
            )

    def plan_before(self, name: str) -> ReplayOrder | None:
        """The replay that must come before a snapshot, if one must.

        Raises NotFoundError, and what `plan_replay` and `decide_before_snapshot` raise.
        """
        record = self._records.get(name)
        # With `direct`, the attachment brought everything into the image as it began.
        is_direct = record.host is not None and record.spec.write_path == "direct"
        is_alive = record.host is not None and (
            is_direct or self._attacher.observe_attachment(record) is not None
        )
        is_unapplied = not is_alive and self._attacher.observe_journal(record.spec).is_unapplied
        before = decide_before_snapshot(record, is_alive=is_alive, is_unapplied=is_unapplied)
        return self._journals.plan_replay(name) if before == "replay" else None

    def ensure(self, name: str, snapshot: str) -> None:
        """The snapshot, taken now if there is none of that name; a journal has been replayed.

        The client that has the volume open takes it, where it can. Raises GrampusError with code
        `snapshot-failed` when a client could not flush in time, and what `Asking` raises.
        """
        record = self._records.get(name)
        spec = record.spec
        take = f"Take the snapshot '{snapshot}' of the volume '{name}'"
        self._runner.propose(lambda: [take])
        try:
            if self._asking.take_snapshot(record, snapshot):
                return
            self._asking.require_heard(record)
            self._snapshots.ensure(spec.pool, spec.image, snapshot)
        except RefusedError:
            raise
        except GrampusError as error:
            raise GrampusError(
                f"The snapshot of the volume '{name}' failed: {error.problem}",
                f"`grampus volume show {name}` shows the state of the volume. Try again when "
                "the write load is lower.",
                code="snapshot-failed",
            ) from error

    def ensure_absent(self, name: str, snapshot: str) -> None:
        """Remove a snapshot; nothing happens when it, or the volume, is not there.

        Raises RefusedError with code `protected` or `has-clones`.
        """
        record = self._records.find(name)
        found = [] if record is None else self._list(record)
        if record is not None and any(known.name == snapshot for known in found):
            self.require_removable(name, snapshot)
            removal = f"Remove the snapshot '{snapshot}' of the volume '{name}'"
            self._runner.propose(lambda: [removal])
            limit_s = self._asking.require_heard(record)
            spec = record.spec
            self._snapshots.ensure_absent(spec.pool, spec.image, snapshot, limit_s=limit_s)

    def ensure_released(self, name: str, snapshot: str) -> None:
        """Remove a snapshot, also one that has clones: they keep its data until they are gone."""
        record = self._records.find(name)
        found = [] if record is None else self._list(record)
        if record is not None and any(known.name == snapshot for known in found):
            limit_s = self._asking.require_heard(record)
            spec = record.spec
            self._snapshots.ensure_absent(spec.pool, spec.image, snapshot, limit_s=limit_s)

    def require_removable(self, name: str, snapshot: str) -> None:
        """Raise RefusedError with code `protected` or `has-clones`, NotFoundError."""
        record = self._records.get(name)
        if self._require(record, snapshot).is_protected:
            raise RefusedError(
                f"The snapshot '{snapshot}' of '{name}' is protected.",
                f"To remove it anyway: `grampus volume snapshot unprotect {name} {snapshot}`; "
                f"for a database: `grampus db snapshot unprotect {name} {snapshot}`.",
                code="protected",
            )
        children = self._snapshots.children(record.spec.pool, record.spec.image, snapshot)
        what = f"The snapshot '{snapshot}' of '{name}'"
        require_no_clones(what, children, self._records.names_of_images())

    def ensure_protected(self, name: str, snapshot: str, *, protected: bool) -> None:
        """Whether the snapshot can be removed. Raises NotFoundError."""
        record = self._records.get(name)
        found = self._require(record, snapshot)
        if found.is_protected == protected:
            return
        word = "Protect" if protected else "Unprotect"
        self._runner.propose(lambda: [f"{word} the snapshot '{snapshot}'"])
        limit_s = self._asking.require_heard(record)
        change = (
            self._snapshots.ensure_protected if protected else self._snapshots.ensure_unprotected
        )
        change(record.spec.pool, record.spec.image, snapshot, limit_s=limit_s)

    def plan_rollback(self, name: str, snapshot: str) -> RollbackOrder:
        """The rollback, if it can be done now.

        Raises NotFoundError, RefusedError with code `attached`, and GrampusError with code
        `no-volumed` when there is a journal and nothing to drop it with.
        """
        record = self._records.get(name)
        self._require(record, snapshot)
        require_detached(record, "a rollback needs a detached volume")
        if self._attacher.observe_journal(record.spec).has_objects:
            self._attacher.require_volumed("journal")
        return RollbackOrder(name=name, snapshot=snapshot)

    def rollback_steps(self, order: RollbackOrder) -> list[Step]:
        """The rollback; every step may be repeated, none is ever undone.

        Half of it, the image is neither the one nor the other: so it is always finished.
        """
        return [
            Step(
                "journal",
                f"Discard the data in the journal of '{order.name}', and its logs on hosts",
                lambda: self._drop_journal(order.name),
            ),
            Step(
                "rollback",
                f"Roll the image back to the snapshot '{order.snapshot}'",
                lambda: self._roll_back(order),
            ),
            Step(
                "size",
                "Resize the image to the current size of the volume",
                lambda: self._restore_size(order.name),
            ),
        ]

    def _drop_journal(self, name: str) -> None:
        """Nothing that was written before the rollback may come into the image after it.

        Without its objects a journal begins anew with another identity: a log that is still on a
        host which cannot be reached now is set aside when it is found (INV-3).
        """
        record = self._records.get(name)
        has_objects = self._attacher.observe_journal(record.spec).has_objects
        if has_objects:
            # First: without objects, nobody would come here again.
            spec = record.spec
            self._images.ensure_metadata_absent(spec.pool, spec.image, [LOCAL_KEY])
            self._journals.ensure_removed(name)
        # Cut off, a removal has left its traces on a host, and no objects.
        self._attacher.detach(name)
        self._attacher.local_logs.ensure_absent(name)

    def _roll_back(self, order: RollbackOrder) -> None:
        record = self._records.get(order.name)
        self._attacher.require_unlocked(record)
        self._snapshots.roll_back(
            record.spec.pool,
            record.spec.image,
            order.snapshot,
            lambda done: self._progress.detail(f"{done:.0%} rolled back", fraction=done),
        )

    def _restore_size(self, name: str) -> None:
        spec = self._records.get(name).spec
        # The file system grows with the next attachment.
        self._encrypting.ensure_size(spec)

    def _list(self, record: VolumeRecord) -> list[RbdSnapshot]:
        return self._snapshots.all(record.spec.pool, record.spec.image)

    def _require(self, record: VolumeRecord, snapshot: str) -> RbdSnapshot:
        name = record.spec.name
        command = f"grampus volume snapshot list {name}"
        return require_snapshot(name, self._list(record), snapshot, list_command=command)
