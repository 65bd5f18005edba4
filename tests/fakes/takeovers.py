"""Volumes in memory that are taken away from lost hosts: a `TakeoverPort`."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from grampus.core.errors import GrampusError
from grampus.volumes.model import FencedAttachment, VolumeRecord, VolumeSpec
from tests.fakes.interruption import Fuse

if TYPE_CHECKING:
    from tests.fakes.hosts import FakeFleet
    from tests.fakes.volumes import FakeVolumes


class FakeTakeovers:
    """What a fenced host has of the volume is stale: it is `left` there until it is cleared."""

    def __init__(self, volumes: FakeVolumes, fleet: FakeFleet, fuse: Fuse) -> None:
        self._volumes = volumes
        self._fleet = fleet
        self._fuse = fuse
        self.needed_logs: dict[str, str] = {}  # host by volume
        self.left: set[tuple[str, str]] = set()  # host and volume
        self.hurried: list[str] = []
        self.failure = ""  # why a fence cannot be confirmed
        self.no_quorum = ""  # what is said when the MONs do not answer

    def hurry(self, host: str, *, is_silent: bool = False, is_cut: bool = False) -> None:
        del is_silent
        assert is_cut or not self._fleet.is_reachable(host), "it is not lost"
        self.hurried.append(host)

    def mon_places(self) -> tuple[str, ...]:
        if self.no_quorum:
            raise GrampusError(self.no_quorum, code="timeout")
        return ("10.0.0.7:3300", "10.0.0.8:3300")

    def find_needed_log(self, name: str) -> str | None:
        self._volumes.get(name)
        return self.needed_logs.get(name)

    def ensure_fenced(self, name: str, host: str) -> None:
        image = self._volumes.images[name]
        self._fuse.burn()
        if image.record.host != host:
            self.needed_logs.pop(name, None)
            return
        if self.failure:
            raise GrampusError(self.failure, code="not-fenced")
        self.needed_logs.pop(name, None)
        attachment = image.record.attachment
        if attachment is not None:
            mount = PurePosixPath(attachment.mount_path)
            place = self._fleet.by_name[host]
            found = place.below(mount)
            image.files = {path.relative_to(mount): file for path, file in found.items()}
            for path in found:
                del place.files[path]
        now = self._volumes._clock.now()
        fenced = FencedAttachment(
            host=host, driver="qsd", client_addresses=(), fenced_at=now, expires_at=now
        )
        changes = {"attachment": None, "host": None, "fenced": (*image.record.fenced, fenced)}
        image.record = image.record.model_copy(update=changes)
        self.left.add((host, name))
        self._fuse.burn()

    def ensure_absent(self, name: str, meant: VolumeSpec) -> None:
        self._volumes.ensure_absent(name, meant)

    def ensure_cleared(self, name: str) -> None:
        image = self._volumes.images.get(name)
        if image is None:
            return
        for left in image.record.fenced:
            if self._fleet.is_reachable(left.host):
                self.ensure_left_cleared(image.record, left.host)
                kept = tuple(each for each in image.record.fenced if each != left)
                image.record = image.record.model_copy(update={"fenced": kept})
                self._fuse.burn()

    def ensure_left_cleared(self, volume: VolumeRecord, host: str) -> bool:
        name, place = volume.spec.name, self._fleet.by_name[host]
        place.require_up()
        daemon = place.daemons.get(f"mysqld-{name}")
        if (
            daemon is not None
            and daemon.state == "running"
            and self._volumes.get(name).host != host
        ):
            raise GrampusError("umount: target is busy.")
        self._fuse.burn()
        self.left.discard((host, name))
        return True
