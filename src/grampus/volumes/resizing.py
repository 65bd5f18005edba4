"""Growing a volume while it is used: image, device, file system."""

from __future__ import annotations

from grampus.ceph.rbd import RbdImages
from grampus.core.errors import RefusedError
from grampus.core.units import format_bytes
from grampus.hosts.port import Fleet, HostUnreachableError
from grampus.state.operations import Step
from grampus.volumes.asking import Asking
from grampus.volumes.attaching import Attacher
from grampus.volumes.decide_encryption import header_bytes
from grampus.volumes.encrypting import Encrypting
from grampus.volumes.model import VolumeRecord, VolumeSpec, whole_mib
from grampus.volumes.records import VolumeRecords


class Resizing:
    """Resizes of the volumes of one lab or cluster."""

    def __init__(
        self,
        records: VolumeRecords,
        fleet: Fleet,
        images: RbdImages,
        attacher: Attacher,
        encrypting: Encrypting,
        asking: Asking,
    ) -> None:
        self._records = records
        self._fleet = fleet
        self._images = images
        self._attacher = attacher
        self._encrypting = encrypting
        self._asking = asking

    def plan(self, name: str, size_bytes: int) -> VolumeSpec:
        """The volume as it shall be, its size rounded up to whole MiB.

        Raises NotFoundError, HostUnreachableError, and RefusedError with code `shrink`,
        `cannot-grow` or `owner-silent`. Whether the pool has room is for the caller to check.
        """
        record = self._records.get(name)
        spec = record.spec.model_copy(update={"size_bytes": whole_mib(size_bytes)})
        image = self._images.find(spec.pool, spec.image)
        seen_bytes = image.size_bytes - header_bytes(spec.encryption) if image else 0
        has_bytes = max(record.spec.size_bytes, seen_bytes)
        if spec.size_bytes < has_bytes:
            raise RefusedError(
                f"The volume '{name}' has {format_bytes(has_bytes)}. It cannot shrink to "
                f"{format_bytes(spec.size_bytes)}, because XFS cannot shrink.",
                "Create a smaller volume and copy the data to it.",
                code="shrink",
            )
        self._require_growing(record)
        # Before the operation begins: one that has begun is always finished.
        self._asking.require_heard(record)
        return spec

    def steps(self, spec: VolumeSpec) -> list[Step]:
        """The resize; every step may be repeated, none is ever undone.

        None of them refuses what `plan` would: a driver that cannot grow is passed over, and
        the next attachment has the new size.
        """
        size = format_bytes(spec.size_bytes)
        return [
            Step(
                "image",
                f"Grow the image {spec.pool}/{spec.image} to {size}",
                lambda: self._grow_image(spec),
            ),
            Step("record", f"Record the size of '{spec.name}'", lambda: self._record(spec)),
            Step(
                "device",
                "Grow its block device",
                lambda: self._attacher.grow(self._reachable(spec)),
            ),
            Step(
                "filesystem",
                "Grow its file system",
                lambda: self._attacher.grow_filesystem(self._reachable(spec)),
            ),
        ]

    def describe(self, spec: VolumeSpec) -> list[str]:
        """What the steps would do now."""
        titles = [step.title for step in self.steps(spec)]
        if self._attacher.observe_attachment(self._records.get(spec.name)) is not None:
            return titles
        return [*titles[:2], "Grow its file system at the next attach"]

    def _require_growing(self, record: VolumeRecord) -> None:
        name, driven = record.spec.name, self._attacher.driver_of(record)
        if record.attachment is None or driven is None:
            return
        host = record.attachment.host
        if not self._fleet.is_reachable(host):
            raise HostUnreachableError(
                f"The host {host} cannot be reached, and the volume '{name}' is attached to it.",
                f"Start {host} again. If it is lost, run `grampus volume fence {name}`, then "
                "resize the volume.",
            )
        if not driven[0].grows_live:
            raise RefusedError(
                f"The volume '{name}' is attached through {record.attachment.driver}, which "
                "cannot grow an open image.",
                f"Detach the volume (`grampus volume detach {name}`; for a database: `grampus "
                f"db stop {name}`), resize it, and attach or start it again.",
                code="cannot-grow",
            )

    def _grow_image(self, spec: VolumeSpec) -> None:
        limit_s = self._asking.require_heard(self._records.get(spec.name))
        self._encrypting.ensure_size(spec, limit_s=limit_s)

    def _record(self, spec: VolumeSpec) -> None:
        record = self._records.find(spec.name)
        if record is not None:
            grown = record.spec.model_copy(update={"size_bytes": spec.size_bytes})
            self._records.put(record.model_copy(update={"spec": grown}))

    def _reachable(self, spec: VolumeSpec) -> VolumeRecord:
        """The record. Raises HostUnreachableError: a living device there is yet to be grown."""
        record = self._records.get(spec.name)
        if record.attachment is not None and not self._fleet.is_reachable(record.attachment.host):
            raise HostUnreachableError(
                f"The host {record.attachment.host} cannot be reached.",
                f"Start {record.attachment.host} again, then try again.",
            )
        return record
