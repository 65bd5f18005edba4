"""What is asked of the driver of an attached volume while it is used."""

from __future__ import annotations

from grampus.hosts.port import Fleet
from grampus.volumes.attaching import Attacher
from grampus.volumes.live import LiveVolume, note_missing_log
from grampus.volumes.model import VolumeRecord


class Asking:
    """Asks whoever serves a volume; nothing of it is recorded."""

    def __init__(self, fleet: Fleet, attacher: Attacher) -> None:
        self._fleet = fleet
        self._attacher = attacher

    def observe_live(self, record: VolumeRecord) -> LiveVolume | None:
        """State and statistics of an attachment now; None when there is nobody to ask."""
        driven = self._attacher.driver_of(record)
        if driven is None or record.attachment is None:
            return None
        host = record.attachment.host
        if not self._fleet.is_reachable(host):
            return LiveVolume(state="unknown", state_reason=f"{host} cannot be reached")
        driver, request = driven
        live = driver.observe_live(self._fleet.host(host), request)
        return note_missing_log(live, record.spec.write_path)

    def draw_down(self, record: VolumeRecord) -> None:
        """Leave little of its journal to apply; nothing when there is nobody to ask."""
        driven = self._attacher.driver_of(record)
        if driven is not None and record.host is not None and self._fleet.is_reachable(record.host):
            driver, request = driven
            driver.draw_down(self._fleet.host(record.host), request)
