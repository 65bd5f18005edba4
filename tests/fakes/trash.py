"""A `TrashPort` in memory: images that are out of the way, by their ids."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from grampus.core.errors import GrampusError, RefusedError
from grampus.volumes.decide_namespace import decide_renamed
from grampus.volumes.model import VolumeRecord
from grampus.volumes.trash import TrashedVolume

if TYPE_CHECKING:
    from tests.fakes.interruption import Fuse
    from tests.fakes.volumes import FakeImage, FakeVolumes


class FakeTrash:
    """Beside a `FakeVolumes`, whose images it takes and gives back."""

    def __init__(self, volumes: FakeVolumes, fuse: Fuse) -> None:
        self._volumes = volumes
        self._fuse = fuse
        self.images: dict[str, FakeImage] = {}
        self.expiry: dict[str, datetime] = {}
        self.with_clones: set[str] = set()

    def drain(self, name: str, *, leaves_lost: bool = False) -> TrashedVolume:
        self._volumes.ensure_detached(name)
        record = self._volumes.get(name)
        return TrashedVolume(record=record, image_id=self._volumes.images[name].image_id)

    def ensure_trashed(self, volume: TrashedVolume, expires_at: datetime) -> None:
        self._fuse.burn()
        name = volume.record.spec.name
        image = self._volumes.images.get(name)
        if image is not None and image.image_id == volume.image_id:
            self.images[volume.image_id] = self._volumes.images.pop(name)
            self.expiry[volume.image_id] = expires_at
        self._fuse.burn()

    def ensure_restored(self, volume: TrashedVolume, name: str, image: str) -> VolumeRecord:
        self._fuse.burn()
        if volume.image_id in self.images:
            if name in self._volumes.images:
                raise RefusedError(f"There is a volume named '{name}'.", code="exists")
            found = self.images.pop(volume.image_id)
            self._volumes.images[name] = _renamed(found, name, image)
        self._fuse.burn()
        if name not in self._volumes.images:
            raise GrampusError("It is gone.", code="not-in-trash")
        return self._volumes.images[name].record

    def ensure_renamed(self, name: str, new_name: str, new_image: str) -> VolumeRecord:
        self._fuse.burn()
        if name in self._volumes.images:
            if new_name in self._volumes.images:
                raise RefusedError(f"There is a volume named '{new_name}'.", code="exists")
            self._volumes.ensure_detached(name)
            found = self._volumes.images.pop(name)
            self._volumes.images[new_name] = _renamed(found, new_name, new_image)
        self._fuse.burn()
        return self._volumes.get(new_name)

    def require_purgeable(self, volume: TrashedVolume) -> None:
        if volume.image_id in self.with_clones:
            raise RefusedError("Clones stand on it.", code="has-clones")

    def ensure_purged(self, volume: TrashedVolume) -> None:
        self._fuse.burn()
        self.images.pop(volume.image_id, None)
        self._fuse.burn()


def _renamed(image: FakeImage, name: str, image_name: str) -> FakeImage:
    renamed = decide_renamed(image.record.spec.image, image_name)
    spec = image.record.spec.model_copy(update={"name": name, "image": renamed})
    user = f"u-{name}"
    image.record = image.record.model_copy(update={"spec": spec, "ceph_user": user})
    return image
