"""A volume's image exchanged under its users, who wait meanwhile: closed, and opened again.

In between something may be done to it that a client which has it open would not survive, or would
prevent. A volume that is attached nowhere has nothing to close.
"""

from __future__ import annotations

from grampus.ceph.rbd import RbdImages
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError
from grampus.hosts.port import Fleet, Host, HostUnreachableError
from grampus.volumes.attaching import Attacher
from grampus.volumes.decide_migration import require_exchangeable
from grampus.volumes.drivers.port import Driver, MapRequest
from grampus.volumes.journals import Journals
from grampus.volumes.model import VolumeRecord, VolumeSpec
from grampus.volumes.records import VolumeRecords

# Then the driver opens its last image by itself: longer than what is done in between may take.
EXCHANGE_LIMIT_S = 120.0
# Copying back takes as long as there is data, and an image opened meanwhile would be in the way.
ABORT_LIMIT_S = 3600.0


class Exchanging:
    """Exchanges of the images of one lab or cluster; the volume's lock is held by the caller."""

    def __init__(
        self,
        records: VolumeRecords,
        fleet: Fleet,
        images: RbdImages,
        attacher: Attacher,
        journals: Journals,
        clock: Clock,
    ) -> None:
        self._records = records
        self._images = images
        self._clock = clock
        self._fleet = fleet
        self._attacher = attacher
        self._journals = journals

    def require_ready(self, record: VolumeRecord) -> None:
        """Raise HostUnreachableError, and what `require_exchangeable` raises."""
        driven = self._attacher.driver_of(record)
        if driven is None:
            require_exchangeable(record, exchanges_live=False, is_alive=False)
            return
        driver, request = driven
        is_alive = driver.serves(self._host_of(record), request)
        require_exchangeable(record, exchanges_live=driver.exchanges_live, is_alive=is_alive)

    def ensure_client(self, record: VolumeRecord) -> None:
        """The volume's cephx user, which may do what the record says and nothing else."""
        self._attacher.ensure_client(record)

    def close_image(self, record: VolumeRecord, *, limit_s: float = EXCHANGE_LIMIT_S) -> None:
        """Let go of the image; where nobody has it open there is nothing to do.

        Its users wait until `open_image`, or for `limit_s`. Raises HostUnreachableError, and
        GrampusError with code `exchange-failed`.
        """
        found = self._living(record)
        if found is not None:
            driver, host, request = found
            driver.close_image(host, request, limit_s=limit_s)

    def open_image(self, record: VolumeRecord) -> None:
        """Let the users of the volume go on, with the image that its record names.

        Raises as `close_image`.
        """
        found = self._living(record)
        if found is None or record.attachment is None:
            return
        driver, host, request = found
        address = driver.open_image(host, request)
        attachment = record.attachment.model_copy(update={"client_address": address})
        if attachment != record.attachment:
            self._records.put(record.model_copy(update={"attachment": attachment}))

    def ensure_drained(self, record: VolumeRecord, *, limit_s: float = EXCHANGE_LIMIT_S) -> None:
        """Nothing in the journal of a closed image that it lacks; it is closed again afterwards.

        Raises as `close_image`, what attaching and replaying raise, and GrampusError with code
        `undrained`.
        """
        spec = record.spec
        if not self._attacher.observe_journal(spec).is_unapplied:
            if record.attachment is None:
                self._attacher.detach(spec.name)  # what a replay that was cut off left on its host
            return
        # A journal that has failed, as in a full pool, applies nothing more, and one whose daemon
        # has died has nobody who would: whoever opens the image anew brings it in first.
        if self._living(record) is not None:
            self.open_image(record)
        elif record.host is not None:
            # Half attached: by this, which was cut off, or by a replay that was. Attached, its
            # users go on in the first case, and nothing is lost in the second.
            self._attacher.attach(spec.name, record.host, driver=None, transport=None)
        else:
            self._journals.ensure_replayed(spec.name)
        self.close_image(self._records.get(spec.name), limit_s=limit_s)
        self._require_drained(spec)

    def _require_drained(self, spec: VolumeSpec) -> None:
        if self._attacher.observe_journal(spec).is_unapplied:
            raise GrampusError(
                f"The journal of {spec.pool}/{spec.image} was not applied, so the image "
                "cannot be changed.",
                f"Apply the journal: `grampus volume replay {spec.name}`, or attach the "
                "volume, while the cluster is healthy. Then try again.",
                code="undrained",
            )

    def _living(self, record: VolumeRecord) -> tuple[Driver, Host, MapRequest] | None:
        """What serves the volume; None when nobody does, or not any more."""
        driven = self._attacher.driver_of(record)
        if driven is None:
            return None
        host = self._host_of(record)
        driver, request = driven
        # Not by looking for its device: a loop device asks its file, which waits for the image.
        if not driver.exchanges_live or not driver.serves(host, request):
            return None  # the next attach opens the image that the record names
        return driver, host, request

    def _host_of(self, record: VolumeRecord) -> Host:
        name = record.spec.name
        host = record.host or ""
        if not self._fleet.is_reachable(host):
            raise HostUnreachableError(
                f"The host {host} cannot be reached, and the volume '{name}' is attached to it.",
                f"Start {host} again. If it is lost, run `grampus volume fence {name}`.",
            )
        return self._fleet.host(host)
