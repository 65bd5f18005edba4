"""Host images on hosts that are dictionaries: copied, noted and removed without SSH."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from grampus.core.errors import GrampusError, RefusedError
from grampus.core.progress import SilentProgress
from grampus.hosts.remote.host_parts import HostParts
from grampus.hosts.remote.image_scripts import FoundImages
from grampus.hosts.remote.ssh import SshPlace
from grampus.sites.host_images import HostImageCopies, ImageCopy


@dataclass
class FakeMachine:
    """What a host has on its disk, and what uses its images."""

    images: dict[str, str] = field(default_factory=dict)  # digests by id
    parts: str | None = None
    users: dict[str, tuple[str, ...]] = field(default_factory=dict)
    is_full: bool = False


class FakeHostImages(HostImageCopies):
    """`machines` by the host's name; each call burns the fuse before and after its change."""

    def __init__(self, machines: dict[str, FakeMachine], burn: Callable[[], None]) -> None:
        super().__init__("/d", Path("/nowhere"), SilentProgress())
        self.machines = machines
        self._burn = burn

    def is_whole(self, ssh: SshPlace, image: ImageCopy) -> bool | None:
        self._burn()
        found = self.machines[ssh.host].images.get(image.id)
        return None if found is None else found == image.digest

    def ensure(self, ssh: SshPlace, image: ImageCopy) -> None:
        self._burn()
        machine = self.machines[ssh.host]
        if machine.images.get(image.id) == image.digest:
            return
        if machine.users.get(image.id):
            raise RefusedError(f"{image.id} was changed.", code="host-in-use")
        if machine.is_full:
            raise GrampusError(f"The disk of {ssh.host} is full.", code="host-disk-full")
        machine.images[image.id] = image.digest
        self._burn()

    def ensure_absent(self, ssh: SshPlace, image_id: str) -> None:
        self._burn()
        machine = self.machines[ssh.host]
        if machine.users.get(image_id):
            raise RefusedError(f"{image_id} is in use.", code="host-in-use")
        machine.images.pop(image_id, None)
        self._burn()

    def note_parts(self, ssh: SshPlace, parts: HostParts) -> None:
        self._burn()
        self.machines[ssh.host].parts = " ".join(parts.words())
        self._burn()

    def observe(self, ssh: SshPlace) -> FoundImages:
        self._burn()
        machine = self.machines[ssh.host]
        return FoundImages(
            machine.parts, {image: machine.users.get(image, ()) for image in machine.images}
        )
