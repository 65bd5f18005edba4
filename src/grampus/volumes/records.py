"""What is remembered of the volumes of one lab."""

from __future__ import annotations

from grampus.core.errors import not_found
from grampus.state.store import Store
from grampus.volumes.model import VolumeRecord

VOLUME_RECORD = "volume"


class VolumeRecords:
    """Records of volumes by name."""

    def __init__(self, store: Store, lab: str) -> None:
        self._store = store
        self._lab = lab

    def all(self) -> list[VolumeRecord]:
        """Every record, by name."""
        return list(self._store.all(VOLUME_RECORD, self._lab, VolumeRecord).values())

    def names(self) -> list[str]:
        """The names of all volumes, sorted; no record is parsed."""
        return self._store.names(VOLUME_RECORD, self._lab)

    def find(self, name: str) -> VolumeRecord | None:
        return self._store.get(VOLUME_RECORD, self._lab, name, VolumeRecord)

    def get(self, name: str) -> VolumeRecord:
        """The record. Raises NotFoundError with the closest name there is."""
        record = self.find(name)
        if record is None:
            raise not_found("volume", name, self.names(), list_command="grampus volume list")
        return record

    def names_of_images(self) -> dict[tuple[str, str], str]:
        """The volumes' names by pool and image."""
        pools = self._store.field(VOLUME_RECORD, self._lab, "$.spec.pool")
        images = self._store.field(VOLUME_RECORD, self._lab, "$.spec.image")
        return {(pools[name], image): name for name, image in images.items() if name in pools}

    def identity_of(self, name: str) -> str:
        """The id of the volume; empty: there is none, or it is an older release's."""
        record = self.find(name)
        return "" if record is None else record.spec.identity

    def put(self, record: VolumeRecord) -> None:
        self._store.put(VOLUME_RECORD, self._lab, record.spec.name, record)

    def remove(self, name: str) -> None:
        self._store.remove(VOLUME_RECORD, self._lab, name)
