"""Flushes of volumes that nobody relies on yet (ADR 53, 58).

The volume's lock is held by the caller.
"""

from __future__ import annotations

from grampus.hosts.port import Fleet
from grampus.volumes.attaching import Attacher
from grampus.volumes.drivers.export_devices import keeps_order
from grampus.volumes.records import VolumeRecords


class Flushes:
    """Whether flushes of the volumes of one lab or cluster are done before they are answered."""

    def __init__(self, records: VolumeRecords, fleet: Fleet, attacher: Attacher) -> None:
        self._records = records
        self._fleet = fleet
        self._attacher = attacher

    def drop(self, name: str) -> bool:
        """As `VolumeService.drop_flushes`."""
        record = self._records.get(name)
        driven = self._attacher.driver_of(record)
        # A volume that keeps no order without flushes would be damaged by a crash.
        if driven is None or record.attachment is None or record.spec.write_path == "direct":
            return False
        host = self._fleet.host(record.attachment.host)
        driven[0].drop_flushes(host, driven[1])
        return True

    def ensure_durable(self, name: str) -> None:
        """As `VolumeService.ensure_durable`."""
        record = self._records.find(name)
        if record is not None and keeps_order(record.spec):
            self.ensure_done(name)

    def ensure_done(self, name: str) -> None:
        """As `VolumeService.ensure_flushed`."""
        record = self._records.get(name)
        driven = self._attacher.driver_of(record)
        if driven is None or record.attachment is None:
            return
        host = self._fleet.host(record.attachment.host)
        driven[0].ensure_flushed(host, driven[1])
