"""What databases need from the parts below them, as ports that a test can stand in for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from grampus.databases.model import FlavourName
from grampus.volumes.model import Attachment, VolumeRecord, VolumeSpec, WritePath


class VolumePort(Protocol):
    """Volumes by name. Every `ensure_` is idempotent, also after a half-done one."""

    def ensure_created(self, spec: VolumeSpec) -> VolumeRecord:
        """The volume: image, cephx user and record."""
        ...

    def ensure_attached(self, name: str, host: str) -> Attachment:
        """The volume as a mounted file system on `host`. Raises NotFoundError."""
        ...

    def is_attached(self, name: str) -> bool:
        """Whether the volume is mounted and its driver alive, as observed now."""
        ...

    def ensure_detached(self, name: str) -> None:
        """The volume unmounted and closed; nothing happens when there is no such volume."""
        ...

    def ensure_absent(self, name: str) -> None:
        """The volume detached, and its image, cephx user and record removed."""
        ...

    def get(self, name: str) -> VolumeRecord:
        """The volume's record. Raises NotFoundError."""
        ...

    def plan_resize(self, name: str, size_bytes: int) -> VolumeSpec:
        """The volume as it shall be. Raises NotFoundError, RefusedError, HostUnreachableError."""
        ...

    def ensure_size(self, name: str, size_bytes: int) -> None:
        """At least that size, also under a running writer; a bigger volume stays as it is."""
        ...

    def require_served(self, host: str, write_path: WritePath) -> None:
        """Raise GrampusError when no volume with that write path could be attached to `host`."""
        ...

    def ensure_write_path(
        self, name: str, write_path: WritePath, *, max_lag_ms: int | None = None
    ) -> VolumeRecord:
        """How a detached volume is written to from its next attachment on.

        Raises NotFoundError, RefusedError with code `attached`.
        """
        ...

    def set_metadata(self, name: str, facts: Mapping[str, str]) -> None:
        """Write `facts` as metadata of the volume's image, beside what is there."""
        ...


class ImagePort(Protocol):
    """Host images that hold database servers."""

    def image_for(self, flavour: FlavourName) -> str | None:
        """The id of an image with that server, built if needed; None: the host's own has it.

        Raises GrampusError when it cannot be had.
        """
        ...


class ClusterPort(Protocol):
    """The cluster that holds the volumes."""

    def volume_pool(self) -> str:
        """The pool that new volumes go to."""
        ...

    def check_room(self, size_bytes: int) -> None:
        """Raise RefusedError when the pool cannot take a volume of `size_bytes`."""
        ...
