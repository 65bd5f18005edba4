"""The composition root, of virtual machines of databases' servers."""

from __future__ import annotations

from grampus.bench.guests.machines import Guests
from grampus.cli.composition.session import Session
from grampus.volumes.model import VolumeRecord

GUEST_IMAGE = "sid-guest"


class LabGuestImages:
    """Host images of the lab; a `GuestImages`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def qemu_image(self) -> str:
        return self._session.images.ensure(GUEST_IMAGE, self._session.progress).id

    def server_root(self, image_id: str | None) -> str:
        session = self._session
        return str(session.home.images_dir / (image_id or session.require_lab().image_id) / "root")


class LabGuestVolumes:
    """Volumes of the lab; a `GuestVolumes`."""

    def __init__(self, session: Session) -> None:
        self._volumes = session.volumes()

    def get(self, name: str) -> VolumeRecord:
        return self._volumes.get(name)

    def lend(self, name: str, host: str) -> VolumeRecord:
        return self._volumes.lending.lend(name, host)

    def ensure_detached(self, name: str) -> None:
        self._volumes.ensure_detached(name)


def lab_guests(session: Session) -> Guests:
    """The virtual machines of the lab."""
    return Guests(
        session.fleet(),
        LabGuestImages(session),
        LabGuestVolumes(session),
        session.clock,
        session.progress,
    )


def guest_versions(session: Session) -> dict[str, tuple[str, ...]]:
    """The version of QEMU; of an image that is still to be built nobody knows it."""
    image = session.images.find(GUEST_IMAGE)
    return {} if image is None else {"qemu": (image.versions["qemu-system-x86"],)}
