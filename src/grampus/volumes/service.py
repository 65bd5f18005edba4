"""Volumes: RBD images with a file system, attached to hosts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from grampus.ceph.cluster import CephCluster
from grampus.ceph.rbd import RbdImages
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError, RefusedError, not_found
from grampus.core.names import require_name
from grampus.core.progress import Progress
from grampus.core.units import MIB, format_bytes
from grampus.hosts.port import Fleet, Host
from grampus.state.operations import OperationJournal, Step
from grampus.state.store import Store
from grampus.volumes.decide_driver import DriverChoice, HostCapabilities, decide_drivers
from grampus.volumes.drivers import Driver, KernelDriver, MapRequest, QemuStorageDaemonDriver
from grampus.volumes.model import Attachment, DriverName, VolumeRecord, VolumeSpec

VOLUME_RECORD = "volume"
MIN_VOLUME_SIZE_BYTES = 320 * MIB  # XFS makes no smaller file system (mkfs.xfs 6.0 and later)


class VolumeService:
    """The volumes of one lab or cluster."""

    def __init__(
        self,
        lab: str,
        tag: str,
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
        self._store = store
        self._journal = journal
        self._fleet = fleet
        self._cluster = cluster
        self._images = images
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
        """A new volume. Raises UsageError, or RefusedError when the name or the room is taken."""
        require_name("volume", name)
        if self.find(name) is not None:
            raise RefusedError(
                f"There is a volume named '{name}' already.", "Choose another name.", code="exists"
            )
        if size_bytes < MIN_VOLUME_SIZE_BYTES:
            raise RefusedError(
                f"A volume of {format_bytes(size_bytes)} is too small for a file system.",
                f"Ask for at least {format_bytes(MIN_VOLUME_SIZE_BYTES)}.",
                code="too-small",
            )
        self.check_room(pool, size_bytes)
        return VolumeSpec(name=name, pool=pool, image=name, size_bytes=size_bytes)

    def create(self, spec: VolumeSpec) -> VolumeRecord:
        """Make the image and its cephx user; undone as a whole when it fails."""
        operation = self._journal.begin(
            "volume.create", self._lab, spec.name, spec.model_dump(mode="json")
        )
        self._journal.apply(
            operation, self._create_steps(spec), self._progress, undo_on_failure=True
        )
        return self.get(spec.name)

    def delete(self, name: str) -> None:
        """Detach the volume and remove its image."""
        spec = self.get(name).spec
        operation = self._journal.begin(
            "volume.delete", self._lab, name, spec.model_dump(mode="json")
        )
        self._journal.apply(
            operation, self._delete_steps(spec), self._progress, undo_on_failure=False
        )

    def converge(self) -> list[str]:
        """Undo interrupted creations and finish interrupted deletions; says what it did."""
        done = []
        for operation in self._journal.unfinished(self._lab, kind_prefix="volume."):
            spec = VolumeSpec.model_validate(operation.spec)
            if operation.kind == "volume.create":
                steps = self._create_steps(spec)
                self._journal.undo(operation, steps, self._progress, error="interrupted")
                done.append(f"The interrupted creation of volume '{spec.name}' was undone.")
            else:
                self._journal.apply(
                    operation, self._delete_steps(spec), self._progress, undo_on_failure=False
                )
                done.append(f"The interrupted deletion of volume '{spec.name}' was finished.")
        return done

    def ensure_created(self, spec: VolumeSpec) -> VolumeRecord:
        """The cephx user, the image and the record."""
        record = self.find(spec.name) or VolumeRecord(
            spec=spec, ceph_user=f"grampus.{self._lab}.{spec.name}"
        )
        self._put(record)
        self._cluster.ensure_client(
            record.ceph_user,
            {"mon": "profile rbd", "osd": f"profile rbd pool={spec.pool}"},
        )
        self._images.ensure_image(spec.pool, spec.image, spec.size_bytes)
        return record

    def ensure_attached(self, name: str, host: str) -> Attachment:
        """The volume as a mounted file system on `host`.

        A volume never used gets its file system here. What is left of an attachment that died
        (driver killed, machine rebooted) is cleared away first. Raises RefusedError when it is
        attached to another host.
        """
        record = self.get(name)
        if record.host is not None and record.host != host:
            raise RefusedError(
                f"The volume '{name}' is attached to {record.host}.",
                f"Detach it there first: `grampus volume detach {name}`.",
                code="attached-elsewhere",
            )
        target = self._fleet.host(host)
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
        keyring = self._cluster.ensure_client(
            record.ceph_user,
            {"mon": "profile rbd", "osd": f"profile rbd pool={record.spec.pool}"},
        )
        target.write_file(_keyring_file(target, record), keyring, mode=0o600)
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
            client_address=self._client_address(record, target),
        )
        self._put(record.model_copy(update={"attachment": attachment}))
        return attachment

    def ensure_detached(self, name: str) -> None:
        """Flush, unmount, and take the block device away; nothing happens if it is detached."""
        record = self.find(name)
        if record is None or record.host is None:
            return
        self._clear(record, self._fleet.host(record.host))
        self._put(record.model_copy(update={"host": None, "attachment": None}))

    def ensure_absent(self, name: str) -> None:
        """Detach, remove the image and the cephx user, forget the volume."""
        record = self.find(name)
        if record is None:
            return
        self.ensure_detached(name)
        if self._images.find(record.spec.pool, record.spec.image) is not None:
            self._fence_dead_client(record)
        self._images.ensure_absent(record.spec.pool, record.spec.image)
        self._cluster.ensure_client_absent(record.ceph_user)
        self._store.remove(VOLUME_RECORD, self._lab, name)

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

    def _map(self, record: VolumeRecord, host: Host) -> tuple[DriverChoice, str]:
        choices = decide_drivers(_observe_capabilities(host))
        refused: list[str] = []
        for choice in choices:
            try:
                device = self._drivers[choice.driver].ensure_mapped(host, self._request(record))
            except GrampusError as error:
                if choice is choices[-1]:
                    raise
                # A driver can be there and yet not serve a network namespace: try the next.
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
        host.run(["rm", "-rf", "--one-file-system", "--dir", str(path)], check=False)
        for driver in self._drivers_to_clear(record, host):
            driver.ensure_unmapped(host, self._request(record))
        host.run(["rm", "-f", str(_keyring_file(host, record))])

    def _fence_dead_client(self, record: VolumeRecord) -> None:
        # A client that was killed keeps its watch, and with it the exclusive lock, for 30 s. Its
        # exact address is never used again, so the fence needs no undoing.
        address = record.attachment.client_address if record.attachment else None
        if address in self._images.watchers(record.spec.pool, record.spec.image):
            self._cluster.ensure_blocklisted(str(address))

    def _drivers_to_clear(self, record: VolumeRecord, host: Host) -> list[Driver]:
        if record.attachment is not None:
            return [self._drivers[record.attachment.driver]]
        return [
            self._drivers[choice.driver] for choice in decide_drivers(_observe_capabilities(host))
        ]

    def _client_address(self, record: VolumeRecord, host: Host) -> str | None:
        watchers = self._images.watchers(record.spec.pool, record.spec.image)
        own = [watcher for watcher in watchers if watcher.startswith(f"{host.address}:")]
        return own[0] if own else None

    def _request(self, record: VolumeRecord) -> MapRequest:
        return MapRequest(
            volume=record.spec,
            ceph_user=record.ceph_user,
            reference=f"grampus/{self._tag}/{record.spec.name}",
        )

    def _put(self, record: VolumeRecord) -> None:
        self._store.put(VOLUME_RECORD, self._lab, record.spec.name, record)

    def _create_steps(self, spec: VolumeSpec) -> list[Step]:
        return [
            Step(
                "image",
                f"Make the image {spec.pool}/{spec.image}",
                lambda: _discard(self.ensure_created(spec)),
                lambda: self.ensure_absent(spec.name),
            )
        ]

    def _delete_steps(self, spec: VolumeSpec) -> list[Step]:
        return [
            Step("detach", "Detach", lambda: self.ensure_detached(spec.name)),
            Step(
                "image",
                f"Remove the image {spec.pool}/{spec.image}",
                lambda: self.ensure_absent(spec.name),
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
