"""Volumes in the cluster's trash: out of the way under any name, and whole until they expire."""

from __future__ import annotations

from datetime import datetime

from pydantic import ConfigDict

from grampus.ceph.namespaces import place_of
from grampus.ceph.trash import RbdTrash
from grampus.core.errors import RefusedError
from grampus.core.models import Model
from grampus.volumes.attaching import Attacher
from grampus.volumes.creating import Creating
from grampus.volumes.decide_identity import is_same_volume
from grampus.volumes.decide_namespace import decide_renamed
from grampus.volumes.journals import Journals
from grampus.volumes.model import VolumeRecord
from grampus.volumes.operations import VolumeOperations
from grampus.volumes.records import VolumeRecords


class TrashedVolume(Model):
    """A volume as it was; its image is known by `image_id`, whatever it is called."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    record: VolumeRecord
    image_id: str


class VolumeTrash:
    """Into the trash and back, each under the lock of the volume that it takes away or makes."""

    def __init__(
        self,
        records: VolumeRecords,
        trash: RbdTrash,
        attacher: Attacher,
        journals: Journals,
        creating: Creating,
        operations: VolumeOperations,
    ) -> None:
        self._records = records
        self._trash = trash
        self._attacher = attacher
        self._journals = journals
        self._creating = creating
        self._operations = operations

    def drain(self, name: str, *, leaves_lost: bool = False) -> TrashedVolume:
        """Detach the volume, and bring all that its journal and its log hold into the image.

        With `leaves_lost`, what fences left on hosts that are away stays there: the caller has
        noted it.

        Raises NotFoundError, HostUnreachableError when a host is needed for it, and GrampusError
        with code `volumed-failed`.
        """
        self._records.get(name)
        with self._operations.locked(name):
            self._operations.settle(name)
            self._attacher.detach(name)
            if not leaves_lost:
                self._attacher.require_cleared(name)
            order = self._journals.plan_replay(name)
            if order is not None:
                for step in self._journals.replay_steps(order, _ignore):
                    step.apply()
            # All that was acknowledged is in the image; what was set aside is known by the name.
            self._attacher.local_logs.ensure_absent(name)
            record = self._records.get(name).model_copy(update={"fenced": ()})
        image_id = self._trash.image_id(record.spec.pool, record.spec.image)
        return TrashedVolume(record=record, image_id=image_id)

    def ensure_trashed(self, volume: TrashedVolume, expires_at: datetime) -> None:
        """The image in the trash until `expires_at` at least, its key and its record gone."""
        spec = volume.record.spec
        with self._operations.locked(spec.name):
            self._trash.ensure_trashed(spec.pool, spec.image, volume.image_id, expires_at)
            found = self._records.find(spec.name)
            if found is not None and not is_same_volume(found.spec, spec):
                return  # another volume has the name by now
            self._creating.ensure_client_absent(volume.record)
            self._records.remove(spec.name)

    def ensure_restored(self, volume: TrashedVolume, name: str, image: str) -> VolumeRecord:
        """The volume again, as `name` with an image `image` in its namespace, and a new key.

        Raises RefusedError with code `exists` or `image-exists`, GrampusError with code
        `not-in-trash`.
        """
        with self._operations.locked(name):
            return self._restore(volume, name, image)

    def require_purgeable(self, volume: TrashedVolume) -> None:
        """Raise RefusedError with code `has-clones` when other images stand on this one."""
        spec = volume.record.spec
        if self._trash.has_children(_place(volume), volume.image_id):
            raise RefusedError(
                f"The volume '{spec.name}' in the trash has clones.",
                "Make the clones independent (`grampus db flatten NAME`), or delete them first.",
                code="has-clones",
            )

    def ensure_purged(self, volume: TrashedVolume) -> None:
        """The volume gone for good, with its snapshots and its journal. Refuses as above."""
        name = f"trash-{volume.image_id}"  # under its own it may stand in another's way
        if self._trash.contains(_place(volume), volume.image_id):
            self.require_purgeable(volume)
            self.ensure_restored(volume, name, name)
        with self._operations.locked(name):
            self._creating.ensure_absent(name)
        # Somebody else may have emptied the trash.
        self._creating.ensure_namespace_absent(volume.record.spec)

    def ensure_renamed(self, name: str, new_name: str, new_image: str) -> VolumeRecord:
        """The detached volume under another name, with all that was acknowledged, and a new key.

        Its image is called `new_image`, in the namespace that it has.

        Raises RefusedError with code `exists` or `image-exists`, and what `drain` raises.
        """
        former = self._records.find(name)
        if former is None:
            return self._records.get(new_name)  # it was renamed before
        image = decide_renamed(former.spec.image, new_image)
        spec = former.spec.model_copy(update={"name": new_name, "image": image})
        if self._creating.find_begun(spec) is None:
            former = self.drain(name).record
            self._creating.require_no_image(spec)
        with self._operations.locked(name), self._operations.locked(new_name):
            user = self._creating.user_of(spec)
            update = {"spec": spec, "ceph_user": user, "local_logs": ()}
            record = former.model_copy(update=update)
            self._records.put(record)
            self._trash.ensure_renamed(spec.pool, former.spec.image, image)
            self._attacher.ensure_client(record, is_new=True)
            self._creating.ensure_client_absent(former)
            self._records.remove(name)
        return record

    def _restore(self, volume: TrashedVolume, name: str, image: str) -> VolumeRecord:
        former = volume.record.spec
        image = decide_renamed(former.image, image)
        spec = former.model_copy(update={"name": name, "image": image})
        if self._trash.contains(_place(volume), volume.image_id):
            self._creating.require_no_image(spec)
        found = self._records.find(name)
        if found is not None and found.spec == spec:
            record = found  # it was restored before, perhaps not to the end
        else:
            self._creating.require_new(name)
            # What a log on a host held is in the image: it was drained.
            user = self._creating.user_of(spec)
            update = {"spec": spec, "ceph_user": user, "local_logs": ()}
            record = volume.record.model_copy(update=update)
            self._records.put(record)
        self._trash.ensure_restored(former.pool, volume.image_id, image)
        self._attacher.ensure_client(record, is_new=True)
        return record


def _place(volume: TrashedVolume) -> str:
    return place_of(volume.record.spec.pool, volume.record.spec.image)


def _ignore(_value: object) -> None:
    """What a replay brought in is in the image; nobody asks how much it was."""
