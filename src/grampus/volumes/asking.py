"""What is asked of the driver of an attached volume while it is used.

Also before each command that takes the exclusive lock of the volume's image (INV-69).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from grampus.ceph.cluster import CephCluster
from grampus.ceph.rbd import RbdImages
from grampus.ceph.reporting import Watch
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError, RefusedError
from grampus.hosts.port import Fleet, Host
from grampus.volumes.attaching import Attacher
from grampus.volumes.decide_clients import decide_silent_owner, owner_is_silent
from grampus.volumes.drivers.port import ClientAnswer, Driver, MapRequest
from grampus.volumes.drivers.volumed_states import observe_states, status_socket
from grampus.volumes.live import LiveVolume, is_failing, note_missing_log, parse_status
from grampus.volumes.model import DriverFault, VolumeRecord

# A client renews its watch every 5 s, and the watch lasts 30 s: one that had an answer a moment ago
# keeps its watch for longer than this.
HEARD_FOR_S = 20.0
LOOK_EVERY_S = 5.0


class Asking:
    """Asks whoever serves a volume; nothing of it is recorded."""

    def __init__(
        self,
        fleet: Fleet,
        cluster: CephCluster,
        images: RbdImages,
        attacher: Attacher,
        clock: Clock,
    ) -> None:
        self._fleet = fleet
        self._clock = clock
        self._cluster = cluster
        self._images = images
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

    def observe_states(
        self, records: Iterable[VolumeRecord]
    ) -> dict[str, LiveVolume | GrampusError | None]:
        """As `observe_live` without statistics, of many: one look by host, not by volume.

        Who gives no answer to that look is asked alone, as `observe_live` does; the error is that
        of a volume which cannot be asked.
        """
        found: dict[str, LiveVolume | GrampusError | None] = {}
        records = list(records)
        for record in records:
            if record.attachment is not None and record.attachment.driver != "volumed":
                found[record.spec.name] = None  # no other driver can say
        for name, asked in self._sockets(records).items():
            answers = self._ask_all(name, list(asked))
            for socket, record in asked.items():
                found[record.spec.name] = self._read(record, answers.get(socket))
        return found

    def find_driver_faults(self, records: Iterable[VolumeRecord]) -> dict[str, DriverFault]:
        """Attached volumes whose driver has ended, answers every request with an error, or runs
        and gives no answer within seconds.

        Only volumed can be asked; of other drivers it is seen whether they run. Nothing is said of
        a host that cannot be asked.
        """
        faults: dict[str, DriverFault] = {}
        records = list(records)
        sockets = self._sockets(records)
        for name, attached in self._attached(records).items():
            if not self._fleet.is_reachable(name):
                continue
            host, asked = self._fleet.host(name), sockets.get(name, {})
            try:
                answers = observe_states(host, list(asked)) if asked else {}
                well = {record.spec.name for socket, record in asked.items() if socket in answers}
                in_doubt = {one: daemon for one, daemon in attached.items() if one not in well}
                running = _running_daemons(host) if in_doubt else set()
            except GrampusError:
                continue
            faults |= {
                record.spec.name: "failing"
                for socket, record in asked.items()
                if is_failing(answers.get(socket))
            }
            mute = {record.spec.name for record in asked.values()} - well
            for one, daemon in in_doubt.items():
                if daemon not in running:
                    faults[one] = "ended"
                elif one in mute:
                    faults[one] = "stuck"
        return faults

    def _attached(self, records: Iterable[VolumeRecord]) -> dict[str, dict[str, str]]:
        """The daemon that drives each attached volume, by host; the kernel's drivers have none."""
        by_host: dict[str, dict[str, str]] = {}
        for record in records:
            driven = self._attacher.driver_of(record)
            daemon = None if driven is None else driven[0].daemon(driven[1])
            if daemon is not None and record.attachment is not None:
                by_host.setdefault(record.attachment.host, {})[record.spec.name] = daemon
        return by_host

    def _sockets(
        self, records: Iterable[VolumeRecord]
    ) -> dict[str, dict[PurePosixPath, VolumeRecord]]:
        """Where each attached volume's volumed is asked, by host."""
        by_host: dict[str, dict[PurePosixPath, VolumeRecord]] = {}
        for record in records:
            driven = self._attacher.driver_of(record)
            if driven is None or record.attachment is None:
                continue
            if record.attachment.driver == "volumed":
                host = self._fleet.host(record.attachment.host)
                by_host.setdefault(host.name, {})[status_socket(host, driven[1])] = record
        return by_host

    def _ask_all(self, name: str, sockets: Sequence[PurePosixPath]) -> Mapping[PurePosixPath, Any]:
        if not self._fleet.is_reachable(name):
            return {}
        try:
            return observe_states(self._fleet.host(name), sockets)
        except GrampusError:
            return {}  # each is asked alone, and says why

    def _read(self, record: VolumeRecord, answer: Any) -> LiveVolume | GrampusError | None:
        try:
            if answer is None:
                return self.observe_live(record)
            return note_missing_log(parse_status(answer), record.spec.write_path)
        except GrampusError as error:
            return error

    def draw_down(self, record: VolumeRecord) -> int | None:
        """As `Driver.draw_down`; None also where there is nobody to ask."""
        driven = self._attacher.driver_of(record)
        if driven is not None and record.host is not None and self._fleet.is_reachable(record.host):
            driver, request = driven
            return driver.draw_down(self._fleet.host(record.host), request)
        return None

    def require_heard(self, record: VolumeRecord) -> float | None:
        """How long a command may take that takes the lock of the image; None: there is no limit.

        Raises RefusedError with code `owner-silent` if the volume's client would lose its lock.
        Asks the client itself where its driver can: the watch of a client that is cut off is there
        for 30 s more, and a command that began meanwhile would break the lock at the end of it.
        """
        if record.host is None:
            # Its own client is gone, and whoever attaches it next asks for the lock again.
            return None
        found = self._client_of(record)
        if found is not None:
            driver, host, request = found
            answer = driver.check_cluster(host, request)
            if answer.is_done:
                return HEARD_FOR_S
            if answer.is_silent:
                raise _not_answered(record, answer)
        self._require_watching(record)
        return None

    def watch(self, record: VolumeRecord) -> Watch:
        """For a long command: it is ended before the volume's client would lose its lock."""
        return Watch(lambda: self.find_silence(record), LOOK_EVERY_S, self._clock.monotonic_s)

    def find_silence(self, record: VolumeRecord) -> GrampusError | None:
        """The error of `require_heard` if the volume's client says that it is not heard."""
        found = self._client_of(record)
        if found is None:
            return None
        driver, host, request = found
        answer = driver.check_cluster(host, request)
        return _not_answered(record, answer) if answer.is_silent else None

    def take_snapshot(self, record: VolumeRecord, snapshot: str) -> bool:
        """A snapshot taken by the volume's own client, which holds everything flushed (INV-4).

        False: nobody serves the volume, or its driver cannot take one. Raises what the driver
        raises, and RefusedError with code `owner-silent`.
        """
        found = self._client_of(record)
        if found is None:
            return False
        driver, host, request = found
        answer = driver.take_snapshot(host, request, snapshot)
        if answer.is_silent:
            raise _not_answered(record, answer)
        return answer.is_done

    def _require_watching(self, record: VolumeRecord) -> None:
        spec = record.spec
        clients = self._images.clients(spec.pool, spec.image)
        locks, watchers = clients.locks, clients.watchers
        if all(lock.address in watchers for lock in locks):
            return
        owner = decide_silent_owner(
            record,
            self._fleet.host(record.host).address if record.host else None,
            locks,
            watchers,
            self._cluster.observe_blocklist(),
        )
        if owner is not None:
            raise owner_is_silent(
                record, f"the cluster receives nothing from the volume's client {owner}"
            )

    def _client_of(self, record: VolumeRecord) -> tuple[Driver, Host, MapRequest] | None:
        driven = self._attacher.driver_of(record)
        if driven is None or record.host is None or not self._fleet.is_reachable(record.host):
            return None
        return driven[0], self._fleet.host(record.host), driven[1]


def _not_answered(record: VolumeRecord, answer: ClientAnswer) -> RefusedError:
    why = f"the cluster does not answer the client on that host ({answer.said})"
    return owner_is_silent(record, why)


def _running_daemons(host: Host) -> set[str]:
    return {one.name for one in host.observe_daemons() if one.state == "running"}
