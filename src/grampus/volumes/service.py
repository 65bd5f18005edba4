"""Volumes: RBD images with a file system, attached to hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath

from grampus.ceph.cluster import CephCluster
from grampus.ceph.rbd import RbdImages
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError, RefusedError, not_found
from grampus.core.names import require_name
from grampus.core.progress import Progress
from grampus.core.units import MIB, format_bytes
from grampus.hosts.port import Fleet, Host, HostUnreachableError
from grampus.state.home import Home
from grampus.state.locks import hold_lock
from grampus.state.operations import OperationJournal, Step
from grampus.state.store import Store
from grampus.volumes.decide_client import decide_client_address
from grampus.volumes.decide_driver import DriverChoice, HostCapabilities, decide_drivers
from grampus.volumes.drivers import Driver, KernelDriver, MapRequest, QemuStorageDaemonDriver
from grampus.volumes.model import (
    Attachment,
    DriverName,
    VolumeRecord,
    VolumeSpec,
    whole_mib,
)

VOLUME_RECORD = "volume"
OPERATION_KINDS = "volume."
LOCK_TIMEOUT_S = 10.0
MIN_VOLUME_SIZE_BYTES = 320 * MIB  # XFS makes no smaller file system (mkfs.xfs 6.0 and later)


class VolumeService:
    """The volumes of one lab or cluster.

    Every change holds the lock of its volume, so whoever finds an unfinished operation under
    that lock knows that its process is gone (INV-27). Methods that change a volume raise
    RefusedError with code `busy` when another process keeps it.
    """

    def __init__(
        self,
        lab: str,
        tag: str,
        home: Home,
        store: Store,
        journal: OperationJournal,
        fleet: Fleet,
        cluster: CephCluster,
        images: RbdImages,
        clock: Clock,
        progress: Progress,
    ) -> None:
        self._lab = lab
        self._tag = tag
        self._home = home
        self._store = store
        self._journal = journal
        self._fleet = fleet
        self._cluster = cluster
        self._images = images
        self._clock = clock
        self._progress = progress
        self._drivers: dict[DriverName, Driver] = {
            "krbd": KernelDriver("krbd"),
            "nbd": KernelDriver("nbd"),
            "qsd": QemuStorageDaemonDriver(clock),
        }

    def all(self) -> list[VolumeRecord]:
        """Every volume, by name."""
        return list(self._store.all(VOLUME_RECORD, self._lab, VolumeRecord).values())

    def find(self, name: str) -> VolumeRecord | None:
        return self._store.get(VOLUME_RECORD, self._lab, name, VolumeRecord)

    def get(self, name: str) -> VolumeRecord:
        """The volume named `name`. Raises NotFoundError."""
        record = self.find(name)
        if record is None:
            names = [volume.spec.name for volume in self.all()]
            raise not_found("volume", name, names, list_command="grampus volume list")
        return record

    def check_room(self, pool: str, size_bytes: int) -> None:
        """Raise RefusedError when the pool cannot take a volume of that size now."""
        usage = self._cluster.observe_pool(pool)
        if size_bytes > usage.available_bytes:
            raise RefusedError(
                f"The pool '{pool}' has room for {format_bytes(usage.available_bytes)}, not for "
                f"{format_bytes(size_bytes)}.",
                "Ask for a smaller size, delete what is not needed, or add OSDs.",
                code="pool-full",
            )

    def plan_create(self, name: str, pool: str, size_bytes: int) -> VolumeSpec:
        """A new volume, its size rounded up to whole MiB.

        Raises UsageError, or RefusedError when the name, the image or the room is taken.
        """
        require_name("volume", name)
        self._require_new(name)
        if size_bytes < MIN_VOLUME_SIZE_BYTES:
            raise RefusedError(
                f"A volume of {format_bytes(size_bytes)} is too small for a file system.",
                f"Ask for at least {format_bytes(MIN_VOLUME_SIZE_BYTES)}.",
                code="too-small",
            )
        spec = VolumeSpec(name=name, pool=pool, image=name, size_bytes=whole_mib(size_bytes))
        self.check_room(pool, spec.size_bytes)
        self._require_no_image(spec)
        return spec

    def create(self, spec: VolumeSpec) -> VolumeRecord:
        """Make the image and its cephx user; undone as a whole when it fails."""
        with self._locked(spec.name):
            self._settle(spec.name)
            self._require_new(spec.name)
            operation = self._journal.begin(
                "volume.create", self._lab, spec.name, spec.model_dump(mode="json")
            )
            self._journal.apply(
                operation, self._create_steps(spec), self._progress, undo_on_failure=True
            )
            return self.get(spec.name)

    def delete(self, name: str) -> None:
        """Detach the volume and remove its image. Raises NotFoundError."""
        self.get(name)
        with self._locked(name):
            self._settle(name)
            record = self.find(name)
            if record is None:
                return
            operation = self._journal.begin(
                "volume.delete", self._lab, name, record.spec.model_dump(mode="json")
            )
            self._journal.apply(
                operation, self._delete_steps(record.spec), self._progress, undo_on_failure=False
            )

    def converge(self) -> list[str]:
        """Undo interrupted creations and finish interrupted deletions; says what it did.

        Volumes that another process works on are left to it. What cannot be settled now (a
        host is down) is said and stays for the next time.
        """
        done: list[str] = []
        unfinished = self._journal.unfinished(self._lab, kind_prefix=OPERATION_KINDS)
        for name in dict.fromkeys(operation.subject for operation in unfinished):
            try:
                with self._locked(name, timeout_s=0.0):
                    done += self._settle(name)
            except GrampusError as error:
                if error.code != "busy":
                    done.append(
                        f"Interrupted work on the volume '{name}' could not be settled: {error}"
                    )
        return done

    def ensure_created(self, spec: VolumeSpec) -> VolumeRecord:
        """The cephx user, the image and the record.

        Raises RefusedError when the image is there and no volume of ours: it may hold data.
        """
        with self._locked(spec.name):
            return self._ensure_created(spec)

    def ensure_attached(self, name: str, host: str) -> Attachment:
        """The volume as a mounted file system on `host`.

        A volume never used gets its file system here. What is left of an attachment that died
        (driver killed, machine rebooted) is cleared away first. Raises NotFoundError,
        RefusedError when it is attached to another host, HostUnreachableError.
        """
        self.get(name)
        with self._locked(name):
            self._settle(name)
            return self._ensure_attached(name, host)

    def describe_attach(self, name: str, host: str) -> list[str]:
        """What `ensure_attached` would do now, step by step; empty when there is nothing to do."""
        record, target = self.get(name), self._fleet.host(host)
        image = f"{record.spec.pool}/{record.spec.image}"
        drivers = [choice.driver for choice in decide_drivers(_observe_capabilities(target))]
        steps = []
        if record.attachment is not None:
            steps.append(f"Keep the attachment to {record.host} if it is alive, else clear it away")
        steps.append(f"Map {image} on {host} through {' or '.join(drivers)}")
        if not record.is_formatted:
            steps.append(f"Make an {record.spec.filesystem} file system")
        return [*steps, f"Mount it at {_mount_path(target, name)}"]

    def describe_detach(self, name: str) -> list[str]:
        """What `ensure_detached` would do now, step by step; empty when it is detached."""
        record = self.get(name)
        if record.host is None:
            return []
        return [
            f"Unmount {_mount_path(self._fleet.host(record.host), name)}",
            f"Unmap {record.spec.pool}/{record.spec.image} from {record.host}",
        ]

    def ensure_detached(self, name: str) -> None:
        """Flush, unmount, and take the block device away; nothing happens if it is detached."""
        if self.find(name) is not None:
            with self._locked(name):
                self._ensure_detached(name)

    def ensure_absent(self, name: str) -> None:
        """Detach, remove the image and the cephx user, forget the volume."""
        if self.find(name) is not None:
            with self._locked(name):
                self._ensure_absent(name)

    def set_metadata(self, name: str, facts: Mapping[str, str]) -> None:
        """Write facts to the image's own metadata."""
        spec = self.get(name).spec
        self._images.set_metadata(spec.pool, spec.image, facts)

    def is_attached(self, name: str) -> bool:
        """Whether the volume is mounted and its driver alive, as observed now."""
        record = self.get(name)
        if record.host is None or not self._fleet.is_reachable(record.host):
            return False
        return self._observe_attachment(record, self._fleet.host(record.host)) is not None

    def driver_daemon(self, record: VolumeRecord) -> str | None:
        """The daemon that serves the volume's device, if it has one."""
        if record.attachment is None:
            return None
        return self._drivers[record.attachment.driver].daemon(self._request(record))

    @contextmanager
    def _locked(self, name: str, *, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
        require_name("volume", name)  # it becomes a part of a file's name
        lock = f"volume.{self._lab}.{name}"
        with hold_lock(self._home, lock, self._clock, timeout_s=timeout_s):
            yield

    def _settle(self, name: str) -> list[str]:
        """Finish or undo what was interrupted; the lock of `name` is held."""
        done: list[str] = []
        for operation in self._journal.unfinished(self._lab, kind_prefix=OPERATION_KINDS):
            if operation.subject != name:
                continue
            spec = VolumeSpec.model_validate(operation.spec)
            if operation.kind == "volume.create":
                steps = self._create_steps(spec)
                self._journal.undo(operation, steps, self._progress, error="interrupted")
                done.append(f"The interrupted creation of volume '{name}' was undone.")
            else:
                self._journal.apply(
                    operation, self._delete_steps(spec), self._progress, undo_on_failure=False
                )
                done.append(f"The interrupted deletion of volume '{name}' was finished.")
        return done

    def _require_new(self, name: str) -> None:
        if self.find(name) is not None:
            raise RefusedError(
                f"There is a volume named '{name}' already.", "Choose another name.", code="exists"
            )

    def _require_no_image(self, spec: VolumeSpec) -> None:
        # Formatting it, or undoing a creation, would destroy what somebody else keeps there.
        if self._images.find(spec.pool, spec.image) is not None:
            raise RefusedError(
                f"There is an image {spec.pool}/{spec.image} already, and it is no volume of "
                f"'{self._lab}'.",
                "Choose another name, or remove or rename that image once you know whose it is.",
                code="image-exists",
            )

    def _ensure_created(self, spec: VolumeSpec) -> VolumeRecord:
        record = self.find(spec.name)
        if record is None:
            self._require_no_image(spec)
            whole = spec.model_copy(update={"size_bytes": whole_mib(spec.size_bytes)})
            record = VolumeRecord(spec=whole, ceph_user=f"grampus.{self._lab}.{spec.name}")
            self._put(record)
        self._ensure_client(record)
        self._images.ensure_image(spec.pool, spec.image, record.spec.size_bytes)
        return record

    def _ensure_client(self, record: VolumeRecord) -> str:
        return self._cluster.ensure_client(
            record.ceph_user,
            {"mon": "profile rbd", "osd": f"profile rbd pool={record.spec.pool}"},
        )

    def _ensure_attached(self, name: str, host: str) -> Attachment:
        record = self.get(name)
        if record.host is not None and record.host != host:
            raise RefusedError(
                f"The volume '{name}' is attached to {record.host}.",
                f"Detach it there first: `grampus volume detach {name}`.",
                code="attached-elsewhere",
            )
        target = self._fleet.host(host)
        if not self._fleet.is_reachable(host):
            # Before the intent is recorded: it would bind the volume to a host that is away.
            raise HostUnreachableError(
                f"The host {host} cannot be reached.", "Bring it back, or choose another host."
            )
        current = self._observe_attachment(record, target)
        if current is not None:
            return current
        # The intent first: whoever finds it half done knows where to clear up.
        record = record.model_copy(update={"host": host})
        self._put(record)
        self._clear(record, target)
        self._fence_dead_client(record)
        record = record.model_copy(update={"attachment": None})
        self._put(record)
        target.write_file(_keyring_file(target, record), self._ensure_client(record), mode=0o600)
        others = self._watchers(record)
        choice, device = self._map(record, target)
        record = self._ensure_formatted(record, target, device)
        path = _mount_path(target, name)
        target.run(["mkdir", "-p", str(path)])
        options = "noatime,nodev,nosuid"
        target.run(["mount", "-t", "xfs", "-o", options, device, str(path)], timeout_s=120)
        attachment = Attachment(
            host=host,
            driver=choice.driver,
            driver_reason=choice.reason,
            device=device,
            mount_path=str(path),
            client_address=decide_client_address(self._watchers(record), others, target.address),
        )
        self._put(record.model_copy(update={"attachment": attachment}))
        return attachment

    def _ensure_detached(self, name: str) -> None:
        record = self.find(name)
        if record is None or record.host is None:
            return
        target = self._fleet.host(record.host)
        was_alive = self._observe_attachment(record, target) is not None
        self._clear(record, target)
        if not was_alive:  # one that was stopped cleanly has let go of the image itself
            self._fence_dead_client(record)
        self._put(record.model_copy(update={"host": None, "attachment": None}))

    def _ensure_absent(self, name: str) -> None:
        record = self.find(name)
        if record is None:
            return
        self._ensure_detached(name)
        self._images.ensure_absent(record.spec.pool, record.spec.image)
        self._cluster.ensure_client_absent(record.ceph_user)
        self._store.remove(VOLUME_RECORD, self._lab, name)

    def _map(self, record: VolumeRecord, host: Host) -> tuple[DriverChoice, str]:
        choices = decide_drivers(_observe_capabilities(host))
        refused: list[str] = []
        for choice in choices:
            driver = self._drivers[choice.driver]
            try:
                device = driver.ensure_mapped(host, self._request(record))
            except GrampusError as error:
                if choice is choices[-1]:
                    raise
                # A driver can be there and yet not serve a network namespace: try the next,
                # once nothing of this one can still have the image open.
                driver.ensure_unmapped(host, self._request(record))
                refused.append(f"{choice.driver} failed ({error.problem})")
                continue
            reason = "; ".join([choice.reason, *refused])
            return DriverChoice(choice.driver, reason), device
        raise GrampusError(
            f"{host.name} has no way to attach an RBD image: no rbd, nbd or FUSE in its kernel.",
            "Load one of the modules rbd, nbd or fuse on that host.",
            code="no-driver",
        )

    def _ensure_formatted(self, record: VolumeRecord, host: Host, device: str) -> VolumeRecord:
        if record.is_formatted:
            return record
        # Not marked as formatted: nothing can have been stored, whatever half-made bytes say.
        host.run(["mkfs.xfs", "-q", "-f", "-K", device], timeout_s=300)
        formatted = record.model_copy(update={"is_formatted": True})
        self._put(formatted)
        return formatted

    def _observe_attachment(self, record: VolumeRecord, host: Host) -> Attachment | None:
        attachment = record.attachment
        if attachment is None:
            return None
        device = self._drivers[attachment.driver].find(host, self._request(record))
        mounted = _mounted_source(host, PurePosixPath(attachment.mount_path))
        if device is None or mounted != device or device != attachment.device:
            return None
        return attachment

    def _clear(self, record: VolumeRecord, host: Host) -> None:
        path = _mount_path(host, record.spec.name)
        if _mounted_source(host, path) is not None:
            host.run(["umount", str(path)], timeout_s=300)
        # Never `rm -r`: were it still a mount point, the volume's own files would go.
        host.run(["rmdir", str(path)], check=False)
        for driver in self._drivers_to_clear(record, host):
            driver.ensure_unmapped(host, self._request(record))
        host.run(["rm", "-f", str(_keyring_file(host, record))])

    def _fence_dead_client(self, record: VolumeRecord) -> None:
        # A client that was killed keeps its watch, and with it the exclusive lock, for 30 s. Its
        # exact address is never used again, so the fence needs no undoing.
        address = record.attachment.client_address if record.attachment else None
        if address is None or self._images.find(record.spec.pool, record.spec.image) is None:
            return
        if address in self._watchers(record):
            self._cluster.ensure_blocklisted(address)

    def _drivers_to_clear(self, record: VolumeRecord, host: Host) -> list[Driver]:
        if record.attachment is not None:
            return [self._drivers[record.attachment.driver]]
        return [
            self._drivers[choice.driver] for choice in decide_drivers(_observe_capabilities(host))
        ]

    def _watchers(self, record: VolumeRecord) -> list[str]:
        return self._images.watchers(record.spec.pool, record.spec.image)

    def _request(self, record: VolumeRecord) -> MapRequest:
        return MapRequest(
            volume=record.spec,
            ceph_user=record.ceph_user,
            reference=f"grampus/{self._tag}/volume-{record.spec.name}",
        )

    def _put(self, record: VolumeRecord) -> None:
        self._store.put(VOLUME_RECORD, self._lab, record.spec.name, record)

    def _create_steps(self, spec: VolumeSpec) -> list[Step]:
        return [
            Step(
                "image",
                f"Make the image {spec.pool}/{spec.image}",
                lambda: _discard(self._ensure_created(spec)),
                lambda: self._ensure_absent(spec.name),
            )
        ]

    def _delete_steps(self, spec: VolumeSpec) -> list[Step]:
        return [
            Step("detach", "Detach", lambda: self._ensure_detached(spec.name)),
            Step(
                "image",
                f"Remove the image {spec.pool}/{spec.image}",
                lambda: self._ensure_absent(spec.name),
            ),
        ]


def _discard(_value: object) -> None:
    """Steps return nothing."""


def _mount_path(host: Host, name: str) -> PurePosixPath:
    return host.data_dir / "volumes" / name


def _keyring_file(host: Host, record: VolumeRecord) -> PurePosixPath:
    return host.data_dir / "etc-ceph" / f"ceph.client.{record.ceph_user}.keyring"


def _mounted_source(host: Host, path: PurePosixPath) -> str | None:
    result = host.run(
        ["findmnt", "--noheadings", "--output", "SOURCE", "--mountpoint", str(path)], check=False
    )
    return result.stdout.strip() or None if result.returncode == 0 else None


def _observe_capabilities(host: Host) -> HostCapabilities:
    script = (
        "test -e /sys/bus/rbd && echo krbd; "
        "test -e /sys/block/nbd0 && command -v rbd-nbd >/dev/null && echo nbd; "
        "test -c /dev/fuse && echo fuse; true"
    )
    found = host.run(["sh", "-c", script]).stdout.split()
    return HostCapabilities("krbd" in found, "nbd" in found, "fuse" in found)
