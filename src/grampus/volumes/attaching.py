"""Attaching a volume to a host and detaching it; the volume's lock is held by the caller."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from importlib import import_module
from pathlib import PurePosixPath

from pydantic import SecretStr

from grampus.ceph.cluster import CephCluster
from grampus.ceph.rbd import RbdImages
from grampus.core.clock import Clock, wait_until
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.progress import Progress
from grampus.hosts.mounts import BUSY_TIMEOUT_S, ensure_unmounted, observe_mounted_source
from grampus.hosts.port import Fleet, Host, HostUnreachableError
from grampus.operations.runner import OperationRunner
from grampus.volumes.attach_plans import attach_titles, detach_titles, fenced_titles
from grampus.volumes.decide_clients import decide_client_address
from grampus.volumes.decide_driver import (
    DriverChoice,
    HostCapabilities,
    decide_asked,
    decide_drivers,
    explain_absence,
    explain_need,
    no_driver_error,
    require_as_asked,
    require_driver_serves,
    with_refused,
)
from grampus.volumes.decide_local_log import (
    find_current_log,
    is_current_log,
    local_log_is_broken,
    note_current_log,
    note_opened,
    require_log_at_hand,
)
from grampus.volumes.decide_namespace import decide_capabilities
from grampus.volumes.drivers.export_devices import Devices
from grampus.volumes.drivers.port import Driver, Mapped, MapRequest
from grampus.volumes.drivers.table import build_drivers
from grampus.volumes.drivers.volumed import NOT_BUILT, VolumedProgram
from grampus.volumes.file_systems import grow, make, mount
from grampus.volumes.fresh import Fresh
from grampus.volumes.key_files import ensure_key_absent, key_on_host
from grampus.volumes.local_logs import LocalLogs, ensure_local_directory, is_local_directory
from grampus.volumes.model import (
    Attachment,
    DriverName,
    EncryptionName,
    FencedAttachment,
    TransportName,
    VolumeRecord,
    VolumeSpec,
    WritePath,
)
from grampus.volumes.places import keyring_file, mount_path, observe_capabilities
from grampus.volumes.records import VolumeRecords
from grampus.volumes.write_paths import JournalFacts, parse_journal_facts

# The watch of a client that died without a word lasts 30 s (`osd_client_watch_timeout`).
DEAD_WATCH_S = 35.0


class Attacher:
    """Attaches and detaches the volumes of one lab or cluster."""

    def __init__(
        self,
        tag: str,
        records: VolumeRecords,
        fleet: Fleet,
        cluster: CephCluster,
        images: RbdImages,
        program: VolumedProgram,
        runner: OperationRunner,
        clock: Clock,
        progress: Progress,
        find_key: Callable[[VolumeSpec], SecretStr | None],
    ) -> None:
        """`find_key` gives the key of a volume, None of one that is not encrypted."""
        self._tag = tag
        self._records = records
        self._fleet = fleet
        self._cluster = cluster
        self._images = images
        self._program = program
        self._runner = runner
        self._clock = clock
        self._progress = progress
        self._find_key = find_key
        self._drivers = build_drivers(clock, program)
        self.local_logs = LocalLogs(records, fleet, progress)
        # Asking again costs 0.4 s and 0.2 s, for which users of a volume that is moved would wait.
        self._keyrings: Fresh[str] = Fresh(clock)
        self._capabilities: Fresh[HostCapabilities] = Fresh(clock)

    def ensure_client(self, record: VolumeRecord, *, is_new: bool = False) -> str:
        """The keyring of the volume's cephx user, made if need be; `is_new` as in `CephCluster`."""
        user, caps = record.ceph_user, decide_capabilities(record)
        keyring = self._cluster.ensure_client(user, caps, is_new=is_new)
        self._keyrings.put(record.ceph_user, keyring)
        return keyring

    def ready(self, record: VolumeRecord, host: Host) -> None:
        """Find out beforehand what the next attach of the volume to `host` asks for."""
        self.ensure_client(record)
        self._capabilities.put(host.name, observe_capabilities(host, self._program))

    def attach(
        self,
        name: str,
        host: str,
        *,
        driver: DriverName | None,
        transport: TransportName | None,
    ) -> Attachment:
        """As `VolumeService.ensure_attached`."""
        asked = decide_asked(driver, transport)
        record = self._records.get(name)
        if record.host is not None and record.host != host:
            raise self._attached_elsewhere(record, record.host)
        target = self._fleet.host(host)
        if not self._fleet.is_reachable(host):
            # Before the intent is recorded: it would bind the volume to a host that is away.
            raise HostUnreachableError(
                f"The host {host} cannot be reached.",
                f"Start {host} again, or choose another host.",
            )
        current = self.observe_attachment(record)
        if current is not None:
            require_as_asked(name, current, asked, transport)
            return current
        journal = self.observe_journal(record.spec)
        require_log_at_hand(record, host, is_unapplied=journal.is_unapplied)
        choices = self._decide(target, asked, record.spec, journal)
        has_log = self._has_local_log(record, target, choices)
        needs_log = journal.is_unapplied and is_current_log(record, host)
        self._find_key(record.spec)  # before anything is changed: it may not be here
        drivers, is_unapplied = [choice.driver for choice in choices], journal.is_unapplied
        self._runner.propose(
            lambda: attach_titles(record, target, drivers, is_unapplied=is_unapplied)
        )
        record = self._clear_target(record, target)
        if record.host is None:
            # The intent first: whoever finds it half done knows where to clear up.
            record = record.model_copy(update={"host": host})
            record = self._put(note_opened(record, host, has_log=has_log))
        else:
            self._clear_dead(record, target)
            record = record.model_copy(update={"attachment": None})
            record = self._put(note_opened(record, host, has_log=has_log))
        others = self.require_unlocked(record)
        self.write_keyring(record, target)
        if journal.is_unapplied:
            self._progress.note(f"The journal of {_image(record.spec)} is applied first.")
        served = record.spec
        if has_log and not self._ensure_local_directory(record, target, needs_log=needs_log):
            has_log = False
            if served.write_path == "cache":
                served = served.model_copy(update={"write_path": "journal"})
            record = self._put(note_opened(record, host, has_log=False))
        request = replace(
            self._request(record, transport or "auto"),
            volume=served,
            is_unapplied=journal.is_unapplied,
            has_local_log=has_log,
        )
        with self.key_on(target, record) as key_file:
            choice, mapped = self._map(record, target, choices, replace(request, key_file=key_file))
        is_new = not record.is_formatted
        devices = Devices(mapped.device, mapped.log_device)
        record = self._ensure_formatted(record, target, devices)
        path = mount_path(target, name)
        target.run(["mkdir", "-p", str(path)])
        if mount(target, devices, path):
            self._progress.note(f"'{name}' was grown right before a crash: it has its size again.")
        if not is_new:
            self._grow_filesystem(record, target, just_mounted=True)  # grown while it was detached
        attachment = Attachment(
            host=host,
            driver=choice.driver,
            driver_reason=choice.reason,
            device=mapped.device,
            log_device=mapped.log_device,
            mount_path=str(path),
            client_address=mapped.client_address
            or decide_client_address(self._watchers(record), others, target.address),
            export_path=mapped.export_path,
            transport=mapped.transport,
        )
        self._put(record.model_copy(update={"attachment": attachment}))
        return attachment

    def detach(self, name: str, *, leaves_journal: bool = False) -> None:
        """Flush, unmount, unmap; also what a fence left on hosts that can be reached."""
        record = self._records.find(name)
        if record is None:
            return
        self._runner.propose(lambda: detach_titles(self._records.get(name), self._fleet))
        record = self.clear_all_fenced(record)
        if record.host is None:
            self._drop_drained_log(record)
            return
        if not self._fleet.is_reachable(record.host):
            raise HostUnreachableError(
                f"The host {record.host} cannot be reached.",
                f"Start {record.host} again. If it is lost, take the volume away from it: "
                f"`grampus volume fence {name}`.",
            )
        target = self._fleet.host(record.host)
        for driver in self._drivers_to_clear(record):
            driver.ensure_answering(target, self._request(record))  # or looking at it would wait
        was_alive = self.observe_attachment(record) is not None
        # An image that is removed next need not have what the journal holds.
        if was_alive and not leaves_journal:
            self.clear(record, target, self._drivers_to_clear(record))
        else:
            # A clean stop closes the image; without one, the removal would wait for its watch.
            self._clear_dead(record, target, leaves_journal)
        record = self._put(record.model_copy(update={"host": None, "attachment": None}))
        self._drop_drained_log(record)
        if was_alive and record.spec.write_path != "direct" and not leaves_journal:
            self._note_undrained(record.spec)

    def require_cleared(self, name: str) -> None:
        """Clear what fences left. Raises HostUnreachableError when a host of it is away."""
        record = self._records.find(name)
        if record is None or not record.fenced:
            return
        for left in self.clear_all_fenced(record).fenced:
            raise HostUnreachableError(
                f"The host {left.host} cannot be reached, and still has remains of the volume "
                f"'{name}' from before the fence.",
                f"Start {left.host} again, then try again.",
            )

    def grow(self, record: VolumeRecord) -> None:
        """Give the living block device and its file system the size in the record.

        Nothing happens to an attachment that is dead, or whose driver cannot grow: the next
        attach does it.
        """
        attachment = self.observe_attachment(record)
        if attachment is None or not self._drivers[attachment.driver].grows_live:
            return
        host = self._fleet.host(attachment.host)
        self._drivers[attachment.driver].ensure_grown(host, self._request(record))

    def grow_filesystem(self, record: VolumeRecord) -> None:
        """Let the mounted file system fill its device; nothing happens to a dead attachment."""
        attachment = self.observe_attachment(record)
        if attachment is not None:
            host = self._fleet.host(attachment.host)
            self._grow_filesystem(record, host, just_mounted=False)

    def observe_attachment(self, record: VolumeRecord) -> Attachment | None:
        """The attachment if it is mounted and its driver alive, as observed now."""
        attachment = record.attachment
        if attachment is None or not self._fleet.is_reachable(attachment.host):
            return None
        host = self._fleet.host(attachment.host)
        device = self._drivers[attachment.driver].find(host, self._request(record))
        mounted = observe_mounted_source(host, PurePosixPath(attachment.mount_path))
        if device is None or mounted != device or device != attachment.device:
            return None
        return attachment

    def driver_of(self, record: VolumeRecord) -> tuple[Driver, MapRequest] | None:
        """The driver of a recorded attachment, and what it has to be told."""
        if record.attachment is None:
            return None
        return self._drivers[record.attachment.driver], self._request(record)

    def observe_journal(self, spec: VolumeSpec) -> JournalFacts:
        """What the image says of its journal."""
        return parse_journal_facts(self._images.metadata(spec.pool, spec.image))

    def require_served(
        self, host: Host, write_path: WritePath, encryption: EncryptionName | None = None
    ) -> None:
        """Raise GrampusError with code `no-driver` when no driver there can serve that."""
        capabilities = observe_capabilities(host, self._program, changes_nothing=True)
        if not decide_drivers(capabilities, write_path=write_path, encryption=encryption):
            need = explain_need(write_path, is_unapplied=False, encryption=encryption)
            raise no_driver_error(host.name, capabilities, need)

    def require_volumed(
        self, write_path: WritePath, encryption: EncryptionName | None = None
    ) -> None:
        """Raise GrampusError with code `no-volumed` when it is needed and has not been built."""
        need = explain_need(write_path, is_unapplied=False, encryption=encryption)
        if need is not None and not self._program.is_built():
            remedy = "." if encryption else ", or choose the write path direct."
            raise GrampusError(
                f"{need[0].upper()}{need[1:]}, and {NOT_BUILT}.",
                f"Build volumed{remedy}",
                code="no-volumed",
            )

    def _decide(
        self,
        host: Host,
        asked: DriverName | None,
        spec: VolumeSpec,
        journal: JournalFacts,
    ) -> list[DriverChoice]:
        require_driver_serves(asked, spec, is_unapplied=journal.is_unapplied)
        capabilities = self._capabilities.take(host.name) or observe_capabilities(
            host, self._program, changes_nothing=self._runner.is_planning
        )
        choices = decide_drivers(
            capabilities,
            asked=asked,
            write_path=spec.write_path,
            is_unapplied=journal.is_unapplied,
            encryption=spec.encryption,
            has_external_log=spec.external_log_bytes is not None,
        )
        if choices:
            return choices
        if asked is not None:
            raise GrampusError(
                f"{host.name} cannot attach a volume through {asked}: "
                f"{explain_absence(capabilities, asked)}.",
                "Remove --driver and --transport, or choose another driver.",
                code="no-driver",
            )
        need = explain_need(
            spec.write_path,
            is_unapplied=journal.is_unapplied,
            encryption=spec.encryption,
            has_external_log=spec.external_log_bytes is not None,
        )
        raise no_driver_error(host.name, capabilities, need)

    def _map(
        self, record: VolumeRecord, host: Host, choices: list[DriverChoice], request: MapRequest
    ) -> tuple[DriverChoice, Mapped]:
        refused: list[str] = []
        for choice in choices[:-1]:
            driver = self._drivers[choice.driver]
            try:
                mapped = driver.ensure_mapped(host, request)
            except GrampusError as error:
                # A driver can be there and yet not serve a network namespace: try the next,
                # once nothing of this one can still have the image open.
                with self._fenced(record, host, [driver], request):
                    driver.ensure_unmapped(host, request)
                refused.append(f"{choice.driver} failed ({error.problem})")
                self._progress.note(f"{refused[-1]}: trying the next driver.")
            else:
                return with_refused(choice, refused), mapped
        last = choices[-1]
        mapped = self._drivers[last.driver].ensure_mapped(host, request)
        return with_refused(last, refused), mapped

    def _ensure_formatted(self, record: VolumeRecord, host: Host, devices: Devices) -> VolumeRecord:
        if record.is_formatted:
            return record
        # Not marked as formatted: nothing can have been stored, whatever half-made bytes say.
        make(host, devices, record.spec)
        return self._put(record.model_copy(update={"is_formatted": True}))

    def _grow_filesystem(self, record: VolumeRecord, host: Host, *, just_mounted: bool) -> None:
        if record.spec.filesystem_bytes is None:
            grow(host, mount_path(host, record.spec.name), just_mounted=just_mounted)

    def clear(
        self,
        record: VolumeRecord,
        host: Host,
        drivers: list[Driver],
        leaves_journal: bool = False,
        *,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
    ) -> None:
        """Remove the volume's mount, daemon and key from `host`. Raises GrampusError.

        `busy_timeout_s` is how long a process may still have files of the volume open.
        """
        request = replace(self._request(record), leaves_journal=leaves_journal)
        path = mount_path(host, record.spec.name)
        for driver in drivers:
            driver.ensure_answering(host, request)  # unmounting writes and waits
        ensure_unmounted(host, path, self._clock, busy_timeout_s=busy_timeout_s)
        # Never `rm -r`: were it still a mount point, the volume's own files would go.
        host.run(["rmdir", str(path)], check=False)
        for driver in drivers:
            driver.ensure_unmapped(host, request)
        host.run(["rm", "-f", str(keyring_file(host, record))])
        if record.spec.encryption is not None:
            ensure_key_absent(host, self._tag, record.spec.name)

    def clear_fenced(
        self, record: VolumeRecord, host: Host, left: FencedAttachment, *, busy_timeout_s: float
    ) -> None:
        """As `clear`, of what a fence left on `host`."""
        drivers = self.drivers_of(left.driver)
        for driver in drivers:
            # Nothing of it can reach the image. Asked to end, it would wait for whoever still has
            # files of the volume open, such as a server that writes nothing and notices nothing.
            daemon = driver.daemon(self._request(record))
            if daemon is not None:
                host.ensure_daemon_absent(daemon, kill=True)
        self.clear(record, host, drivers, busy_timeout_s=busy_timeout_s)

    def _clear_target(self, record: VolumeRecord, target: Host) -> VolumeRecord:
        """Clear what fences left on the host that the volume is attached to next.

        Users of the volume do not wait for what is left elsewhere: `clear_all_fenced`.
        """
        for left in record.fenced:
            if left.host == target.name and self._fleet.reaches_cluster(left.host):
                self.clear_fenced(record, target, left, busy_timeout_s=BUSY_TIMEOUT_S)
                record = self._without(record, left)
        return record

    def clear_all_fenced(self, record: VolumeRecord) -> VolumeRecord:
        """Clear what fences left on each host where it can be done now.

        What cannot be cleared does no harm there, and is said: the next detach tries again.
        """
        if record.fenced:
            self._runner.propose(lambda: fenced_titles(record))
        for left in record.fenced:
            if not self._fleet.reaches_cluster(left.host):  # it would not be unmounted for minutes
                continue
            try:
                self.clear_fenced(record, self._fleet.host(left.host), left, busy_timeout_s=0)
            except GrampusError as error:
                self._progress.note(
                    f"The remains on {left.host} from before the fence are kept: {error.problem}"
                )
            else:
                record = self._without(record, left)
        return record

    def _without(self, record: VolumeRecord, left: FencedAttachment) -> VolumeRecord:
        kept = tuple(other for other in record.fenced if other != left)
        return self._put(record.model_copy(update={"fenced": kept}))

    def _clear_dead(self, record: VolumeRecord, host: Host, leaves_journal: bool = False) -> None:
        """As `clear`, of drivers that may not close the image: then they are fenced."""
        drivers = self._drivers_to_clear(record)
        with self._fenced(record, host, drivers, self._request(record)):
            self.clear(record, host, drivers, leaves_journal)

    def _fenced(
        self, record: VolumeRecord, host: Host, drivers: list[Driver], request: MapRequest
    ) -> AbstractContextManager[None]:
        dead_clients = import_module("grampus.volumes.dead_clients")  # few attaches need it
        fenced: AbstractContextManager[None] = dead_clients.fenced(
            self._cluster, self._images, record, host, drivers, request
        )
        return fenced

    def write_keyring(self, record: VolumeRecord, host: Host) -> None:
        """The key of the volume's cephx user, which is made if need be, on the host."""
        keyring = self._keyrings.take(record.ceph_user) or self.ensure_client(record)
        self._keyrings.take(record.ceph_user)  # a later attach asks again
        host.write_file(keyring_file(host, record), keyring, mode=0o600)

    def key_on(
        self, host: Host, record: VolumeRecord
    ) -> AbstractContextManager[PurePosixPath | None]:
        """The file with the volume's key on the host while the block runs; None: it has none."""
        return key_on_host(host, self._tag, record.spec.name, self._find_key(record.spec))

    def require_unlocked(self, record: VolumeRecord) -> list[str]:
        """Who watches the image, none of whom may write to it.

        Not every driver asks for the lock and keeps it. Raises RefusedError with code `in-use`.
        """
        spec = record.spec
        watchers: list[str] = []
        owners: list[str] = []

        def is_unlocked() -> bool:
            clients = self._images.clients(spec.pool, spec.image)
            watchers[:] = clients.watchers
            owners[:] = [lock.address for lock in clients.locks if lock.address in watchers]
            return not owners

        try:
            wait_until(
                self._clock, is_unlocked, what="the lock", timeout_s=DEAD_WATCH_S, interval_s=0.5
            )
        except GrampusError as error:
            if error.code != "timeout":
                raise
            raise RefusedError(
                f"The image {spec.pool}/{spec.image} is open for writing by the client "
                f"{owners[0]}, which does not belong to Grampus.",
                f"End that client. `rbd status {spec.pool}/{spec.image}` shows it.",
                code="in-use",
            ) from None
        return watchers

    def _attached_elsewhere(self, record: VolumeRecord, host: str) -> RefusedError:
        name = record.spec.name
        if self._fleet.is_reachable(host):
            remedy = f"Detach the volume from that host first: `grampus volume detach {name}`."
        else:
            remedy = (
                f"{host} cannot be reached: start it again, or take the volume away from it "
                f"with `grampus volume fence {name}`."
            )
        return RefusedError(
            f"The volume '{name}' is attached to {host}.", remedy, code="attached-elsewhere"
        )

    def _drivers_to_clear(self, record: VolumeRecord) -> list[Driver]:
        return self.drivers_of(record.attachment.driver if record.attachment else None)

    def drivers_of(self, name: DriverName | None) -> list[Driver]:
        """The driver, or all of them: half an attachment says nothing of what was begun."""
        return list(self._drivers.values()) if name is None else [self._drivers[name]]

    def _watchers(self, record: VolumeRecord) -> list[str]:
        return self._images.watchers(record.spec.pool, record.spec.image)

    def _has_local_log(self, record: VolumeRecord, host: Host, choices: list[DriverChoice]) -> bool:
        """Whether the volumed that is to be started gets a directory on the host itself.

        With another write path than `cache` it does when one is there: it may hold what an
        earlier attachment flushed, and no other driver could bring that in.
        """
        if all(choice.driver != "volumed" for choice in choices):
            return False
        return record.spec.write_path == "cache" or is_local_directory(host, record.spec.name)

    def _ensure_local_directory(self, record: VolumeRecord, host: Host, *, needs_log: bool) -> bool:
        """Whether the host can keep the volume's directory, which is made if need be.

        With a disk that cannot, a volume with the write path `cache` works as with `journal`.
        Raises RefusedError with code `local-log` when what is on that disk may be needed.
        """
        try:
            ensure_local_directory(host, record.spec.name)
        except GrampusError as error:
            if needs_log:
                raise local_log_is_broken(record, host.name, why=error.problem) from error
            self._progress.note(
                f"{host.name} cannot keep a log of the volume '{record.spec.name}'. "
                f"{error.problem} Until its next attach, the volume works as with the write "
                "path journal: no flushed data is only on the host."
            )
            return False
        return True

    def _drop_drained_log(self, record: VolumeRecord) -> None:
        """Remove the volume's directories on hosts that hold nothing which the image lacks."""
        spec = record.spec
        if find_current_log(record) is not None:
            if self._images.find(spec.pool, spec.image) is None:
                return  # it is being deleted, and the directory with it
            if not self.observe_journal(spec).is_unapplied:
                record = self._put(note_current_log(record, "drained"))
        self.local_logs.ensure_drained_absent(record)

    def _note_undrained(self, spec: VolumeSpec) -> None:
        if self.observe_journal(spec).is_unapplied:
            self._progress.note(
                f"The journal of {_image(spec)} was not applied in time. No data is lost: the "
                f"next attach applies it, or `grampus volume replay {spec.name}`."
            )

    def _request(
        self,
        record: VolumeRecord,
        transport: TransportName = "auto",
    ) -> MapRequest:
        return MapRequest(
            volume=record.spec,
            ceph_user=record.ceph_user,
            reference=f"grampus/{self._tag}/volume-{record.spec.name}",
            transport=transport,
        )

    def _put(self, record: VolumeRecord) -> VolumeRecord:
        self._records.put(record)
        return record


def _image(spec: VolumeSpec) -> str:
    return f"{spec.pool}/{spec.image}"
