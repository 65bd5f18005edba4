"""A `VolumePort` in memory: images with their content, snapshots, clones and metadata."""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePosixPath
from typing import Unpack

from grampus.ceph.namespaces import place_of
from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.core.streams import ByteReader, ByteWriter
from grampus.volumes.decide_identity import is_same_volume
from grampus.volumes.decide_pool import require_pool
from grampus.volumes.model import (
    Attachment,
    CloneSource,
    DriverFault,
    EncryptionName,
    Lineage,
    MeasuredSnapshots,
    SnapshotInfo,
    VolumeRecord,
    VolumeSpec,
    WritePath,
)
from grampus.volumes.write_paths import WriteBounds, decide_written
from tests.fakes.clock import FakeClock
from tests.fakes.hosts import FakeFile, FakeFleet
from tests.fakes.image_ids import new_image_id
from tests.fakes.interruption import Fuse
from tests.fakes.migrations import FakeKeyRotation, FakeMigrations
from tests.fakes.takeovers import FakeTakeovers
from tests.fakes.trash import FakeTrash


def in_namespace(spec: VolumeSpec) -> VolumeSpec:
    """The volume with a namespace of its own, as its record has it."""
    image = spec.image if "/" in spec.image else f"{spec.name}.1/{spec.image}"
    return spec.model_copy(update={"image": image})


Files = dict[PurePosixPath, FakeFile]


@dataclass
class FakeSnapshot:
    """What an image held at a moment."""

    info: SnapshotInfo
    files: Files


@dataclass
class FakeImage:
    """An RBD image with its file system's content and metadata."""

    record: VolumeRecord
    files: Files = field(default_factory=dict)  # while it is detached
    facts: dict[str, str] = field(default_factory=dict)
    snapshots: dict[str, FakeSnapshot] = field(default_factory=dict)
    parent: CloneSource | None = None
    sealed_key: str | None = None  # of an encrypted one
    image_id: str = field(default_factory=new_image_id, compare=False)

    @property
    def lasting_facts(self) -> dict[str, str]:
        """The facts, without the id, which is another one in each world."""
        return {key: fact for key, fact in self.facts.items() if key != "database-id"}


class FakeVolumes:
    """A `VolumePort`: what is below the mount is on the host only while attached."""

    def __init__(self, fleet: FakeFleet, fuse: Fuse, clock: FakeClock | None = None) -> None:
        self._fleet = fleet
        self._fuse = fuse
        self._clock = clock or FakeClock()
        self.images: dict[str, FakeImage] = {}
        self.trash = FakeTrash(self, fuse)
        self.encryption = FakeEncryption(self)
        self.takeovers = FakeTakeovers(self, fleet, fuse)
        self.migrations = FakeMigrations(self, fuse)
        self.key_rotation = FakeKeyRotation(self, fuse)
        self.dead_drivers: set[str] = set()
        self.older_drivers: set[str] = set()  # attaching renews them
        self.silent: set[str] = set()  # volumes whose cluster does not answer
        self.stuck: set[str] = set()  # volumes whose driver does not answer
        self.failing: set[str] = set()  # and those whose driver answers with errors alone
        self.full_pools: set[str] = set()
        self.hosts_without_volumed: set[str] = set()
        self.failing_paths: set[WritePath] = set()  # attaching by them fails
        self.unflushed: set[str] = set()  # volumes whose flushes are answered at once
        self.made_durable: list[str] = []
        self.dropped_flushes: list[str] = []  # volumes whose flushes ever were
        self.drawn_down: list[str] = []  # while they were attached
        self.measured: list[str] = []  # whose snapshots were measured
        self.measure_failure = ""  # why they cannot be

    def drop_flushes(self, name: str) -> bool:
        self._fuse.burn()
        record = self._image(name).record
        assert record.attachment is not None
        if record.spec.write_path == "direct":
            return False
        self.unflushed.add(name)
        self.dropped_flushes.append(name)
        self._fuse.burn()
        return True

    def ensure_flushed(self, name: str) -> None:
        self._fuse.burn()
        self._image(name)
        self.unflushed.discard(name)
        self._fuse.burn()

    def ensure_durable(self, name: str) -> None:
        self.made_durable.append(name)

    def is_attached(self, name: str) -> bool:
        self._fuse.burn()
        return self._image(name).record.attachment is not None and name not in self.dead_drivers

    def has_older_driver(self, name: str) -> bool:
        return name in self.older_drivers

    def require_writable(self, name: str) -> None:
        image = self.images.get(name)
        if image is not None and image.record.spec.pool in self.full_pools:
            raise RefusedError("The pool is full.", code="pool-full")

    def ensure_created(self, spec: VolumeSpec, sealed_key: str | None = None) -> VolumeRecord:
        self._fuse.burn()
        made = FakeImage(VolumeRecord(spec=in_namespace(spec), ceph_user=f"u-{spec.name}"))
        if spec.encryption is not None:
            made.sealed_key = sealed_key or f"1:0011223344556677:{spec.name}"
        image = self.images.setdefault(spec.name, made)
        _require_same(image, spec)
        self._fuse.burn()
        return image.record

    def ensure_attached(self, name: str, host: str) -> Attachment:
        image = self._image(name)
        self._fuse.burn()
        self._fleet.by_name[host].require_up()
        if image.record.host not in (None, host):
            raise RefusedError(f"It is attached to {image.record.host}.", code="attached-elsewhere")
        if name in self.dead_drivers:
            daemons = self._fleet.by_name[host].observe_daemons()
            if any(d.name == f"mysqld-{name}" and d.state == "running" for d in daemons):
                raise GrampusError("umount: target is busy.")
            self.dead_drivers.discard(name)
        if image.record.spec.write_path in self.failing_paths:
            raise GrampusError("The driver ended.", code="driver-failed")
        mount = PurePosixPath(f"/data/volumes/{name}")
        if image.record.attachment is None:
            self._fleet.by_name[host].files.update(
                {mount / path: file for path, file in image.files.items()}
            )
        attachment = Attachment(
            host=host,
            driver="qsd",
            driver_reason="It is the only one.",
            device="/dev/loop7",
            mount_path=str(mount),
            client_address=None,
        )
        changes = {"attachment": attachment, "host": host, "is_formatted": True}
        image.record = image.record.model_copy(update=changes)
        self._fuse.burn()
        return attachment

    def draw_down(self, name: str, *, towards: str | None = None) -> int | None:
        self._fuse.burn()
        assert towards is None or towards in self._fleet.by_name
        if self._image(name).record.attachment is not None:
            self.drawn_down.append(name)
        return 0

    def ensure_detached(self, name: str) -> None:
        self.older_drivers.discard(name)
        self._fuse.burn()
        image = self.images.get(name)
        if image is not None and image.record.attachment is not None:
            self._fleet.by_name[image.record.attachment.host].require_up()
            mount = PurePosixPath(image.record.attachment.mount_path)
            host = self._fleet.by_name[image.record.attachment.host]
            found = host.below(mount)
            image.files = {path.relative_to(mount): file for path, file in found.items()}
            host._remove(mount)
            image.record = image.record.model_copy(update={"attachment": None, "host": None})
            self.unflushed.discard(name)
        self._fuse.burn()

    def ensure_absent(self, name: str, meant: VolumeSpec | None = None) -> None:
        image = self.images.get(name)
        if image is not None and meant is not None and not is_same_volume(image.record.spec, meant):
            return
        self.require_removable(name)
        self.ensure_detached(name)
        self.images.pop(name, None)
        self._fuse.burn()

    def get(self, name: str) -> VolumeRecord:
        return self._image(name).record

    def plan_resize(self, name: str, size_bytes: int) -> VolumeSpec:
        spec = self._image(name).record.spec
        if size_bytes < spec.size_bytes:
            raise RefusedError("It cannot shrink.", code="shrink")
        return spec.model_copy(update={"size_bytes": size_bytes})

    def ensure_size(self, name: str, size_bytes: int) -> None:
        self._fuse.burn()
        image = self._image(name)
        spec = image.record.spec
        grown = spec.model_copy(update={"size_bytes": max(spec.size_bytes, size_bytes)})
        image.record = image.record.model_copy(update={"spec": grown})
        self._fuse.burn()

    def require_served(
        self, host: str, write_path: WritePath, encryption: EncryptionName | None = None
    ) -> None:
        needs_volumed = write_path != "direct" or encryption is not None
        if needs_volumed and host in self.hosts_without_volumed:
            raise GrampusError(f"{host} cannot attach the volume.", code="no-driver")

    def check_journal_pool(self, journal_pool: str | None, pool: str, size_bytes: int) -> None:
        if journal_pool is not None:
            require_pool(journal_pool, ["databases", "flash"])

    def ensure_write_path(
        self, name: str, write_path: WritePath, **bounds: Unpack[WriteBounds]
    ) -> VolumeRecord:
        self._fuse.burn()
        image = self._image(name)
        if image.record.attachment is not None:
            raise RefusedError("It is attached.", code="attached")
        spec = decide_written(image.record.spec, write_path, **bounds)
        image.record = image.record.model_copy(update={"spec": spec})
        self._fuse.burn()
        return image.record

    def set_metadata(self, name: str, facts: Mapping[str, str]) -> None:
        image = self._image(name)
        self._fuse.burn()
        image.facts.update(facts)
        self._fuse.burn()

    def require_removable(self, name: str) -> None:
        if name in self.images and self._clones_of(name):
            raise RefusedError(f"Clones stand on '{name}'.", code="has-clones")

    def find_silent(self, names: Collection[str], for_s: float) -> set[str]:
        assert 0 < for_s <= 5
        return self.silent & set(names)

    def find_driver_faults(self, names: Collection[str]) -> dict[str, DriverFault]:
        faults: dict[str, DriverFault] = dict.fromkeys(self.stuck & set(names), "stuck")
        faults |= dict.fromkeys(self.failing & set(names), "failing")
        return faults | dict.fromkeys(self.dead_drivers & set(names), "ended")

    def end_driver(self, name: str) -> None:
        self._fuse.burn()
        self.stuck.discard(name)
        self.failing.discard(name)
        self.dead_drivers.add(name)
        self._fuse.burn()

    def snapshots(self, name: str) -> list[SnapshotInfo]:
        return [snapshot.info for snapshot in self._image(name).snapshots.values()]

    def measure_snapshots(self, name: str) -> MeasuredSnapshots:
        self.measured.append(name)
        if self.measure_failure:
            raise GrampusError(self.measure_failure)
        found = self.snapshots(name)
        return MeasuredSnapshots(
            snapshots=tuple(info.model_copy(update={"used_bytes": 4096}) for info in found),
            since_last_bytes=8192 if found else None,
        )

    def ensure_snapshot(self, name: str, snapshot: str) -> None:
        image = self._image(name)
        if not image.record.is_formatted:
            raise RefusedError("It holds nothing.", code="empty")
        self._fuse.burn()
        if snapshot not in image.snapshots:
            size_bytes, now = image.record.spec.size_bytes, self._clock.now()
            info = SnapshotInfo(name=snapshot, size_bytes=size_bytes, created_at=now)
            image.snapshots[snapshot] = FakeSnapshot(info, self._content(image))
        self._fuse.burn()

    def ensure_snapshot_absent(self, name: str, snapshot: str) -> None:
        image = self.images.get(name)
        if image is None or snapshot not in image.snapshots:
            return
        self.require_snapshot_removable(name, snapshot)
        self._fuse.burn()
        del image.snapshots[snapshot]
        self._fuse.burn()

    def require_snapshot_removable(self, name: str, snapshot: str) -> None:
        if self._snapshot(name, snapshot).info.protected:
            raise RefusedError("It is protected.", code="protected")
        if self._clones_of(name, snapshot):
            raise RefusedError("Clones stand on it.", code="has-clones")

    def ensure_snapshot_released(self, name: str, snapshot: str) -> None:
        image = self.images.get(name)
        self._fuse.burn()
        if image is not None:
            image.snapshots.pop(snapshot, None)
        self._fuse.burn()

    def ensure_snapshot_protected(self, name: str, snapshot: str, *, protected: bool) -> None:
        found = self._snapshot(name, snapshot)
        self._fuse.burn()
        found.info = found.info.model_copy(update={"protected": protected})
        self._fuse.burn()

    def ensure_rolled_back(self, name: str, snapshot: str) -> None:
        image, found = self._image(name), self._snapshot(name, snapshot)
        if image.record.attachment is not None:
            raise RefusedError("It is attached.", code="attached")
        self._fuse.burn()
        image.files = _copied(found.files)
        self._fuse.burn()

    def ensure_cloned(self, spec: VolumeSpec, source: CloneSource) -> VolumeRecord:
        if spec.name not in self.images:
            parents = [i for i in self.images.values() if i.record.spec.image == source.image]
            if not parents or source.snapshot not in parents[0].snapshots:
                raise GrampusError("There is no such snapshot.", code="clone-failed")
            found = parents[0].snapshots[source.snapshot]
            if spec.size_bytes < found.info.size_bytes:
                raise RefusedError("It cannot shrink.", code="shrink")
            self._fuse.burn()
            record = VolumeRecord(
                spec=in_namespace(spec),
                ceph_user=f"u-{spec.name}",
                is_formatted=True,
                source=source,
                shares_with=(place_of(source.pool, source.image),),
            )
            assert spec.encryption == parents[0].record.spec.encryption, "another encryption"
            self.images[spec.name] = FakeImage(
                record, _copied(found.files), parent=source, sealed_key=parents[0].sealed_key
            )
            self._fuse.burn()
        _require_same(self.images[spec.name], spec)
        return self.images[spec.name].record

    def ensure_flattened(self, name: str) -> None:
        image = self._image(name)
        self._fuse.burn()
        image.parent = None
        image.record = image.record.model_copy(update={"shares_with": ()})
        self._fuse.burn()

    def needs_flattening(self, name: str) -> bool:
        image = self._image(name)
        return image.parent is not None or bool(image.record.shares_with)

    def lineage(self, name: str, *, with_children: bool = True) -> Lineage:
        parent, depth = self._image(name).parent, 0
        below = parent
        while below is not None:
            depth += 1
            found = [i for i in self.images.values() if i.record.spec.image == below.image]
            below = found[0].parent if found else None
        return Lineage(
            parent=parent,
            depth=depth,
            children=tuple(self._clones_of(name)) if with_children else (),
        )

    def note_formatted(self, name: str) -> None:
        image = self._image(name)
        image.record = image.record.model_copy(update={"is_formatted": True})

    @contextmanager
    def exporting(
        self, name: str, snapshot: str, *, since: str | None = None
    ) -> Iterator[ByteReader]:
        found = self._snapshot(name, snapshot)
        before = self._snapshot(name, since).files if since is not None else {}
        diff = {
            "since": since,
            "snapshot": snapshot,
            "changed": {
                str(path): asdict(file)
                for path, file in found.files.items()
                if before.get(path) != file
            },
            "gone": [str(path) for path in before if path not in found.files],
        }
        self._fuse.burn()
        yield io.BytesIO(json.dumps(diff).encode())
        self._fuse.burn()

    @contextmanager
    def importing(self, name: str) -> Iterator[ByteWriter]:
        image = self._image(name)
        if image.record.is_formatted:
            raise RefusedError("It holds data.", code="not-empty")
        self._fuse.burn()
        sink = io.BytesIO()
        yield sink
        diff = json.loads(sink.getvalue())
        if diff["since"] is not None and diff["since"] not in image.snapshots:
            raise GrampusError("The image has no such snapshot.", code="command-failed")
        for path in diff["gone"]:
            del image.files[PurePosixPath(path)]
        image.files.update(
            {PurePosixPath(path): FakeFile(**file) for path, file in diff["changed"].items()}
        )
        info = SnapshotInfo(
            name=diff["snapshot"],
            size_bytes=image.record.spec.size_bytes,
            created_at=self._clock.now(),
        )
        image.snapshots[diff["snapshot"]] = FakeSnapshot(info, _copied(image.files))
        self._fuse.burn()

    def _content(self, image: FakeImage) -> Files:
        """What is on the volume now, wherever it is."""
        attachment = image.record.attachment
        if attachment is None:
            return _copied(image.files)
        mount = PurePosixPath(attachment.mount_path)
        found = self._fleet.by_name[attachment.host].below(mount)
        return _copied({path.relative_to(mount): file for path, file in found.items()})

    def _clones_of(self, name: str, snapshot: str | None = None) -> list[str]:
        image = self._image(name).record.spec.image
        return sorted(
            other.record.spec.name
            for other in self.images.values()
            if other.parent is not None
            and other.parent.image == image
            and snapshot in (None, other.parent.snapshot)
        )

    def _snapshot(self, name: str, snapshot: str) -> FakeSnapshot:
        found = self._image(name).snapshots.get(snapshot)
        if found is None:
            raise NotFoundError(f"There is no snapshot named '{snapshot}'.")
        return found

    def _image(self, name: str) -> FakeImage:
        if name not in self.images:
            raise NotFoundError(f"There is no volume named '{name}'.")
        return self.images[name]


class FakeEncryption:
    """An `EncryptionPort`."""

    def __init__(self, volumes: FakeVolumes) -> None:
        self._volumes = volumes
        self.lost: set[str] = set()  # sealed keys whose master key is not here

    def find_sealed_key(self, spec: VolumeSpec) -> str | None:
        return self._volumes.images[spec.name].sealed_key

    def require_openable(self, sealed_key: str) -> None:
        if sealed_key in self.lost:
            raise NotFoundError("The master key is not here.", code="no-volume-key")


def _require_same(image: FakeImage, spec: VolumeSpec) -> None:
    if not is_same_volume(image.record.spec, spec):
        raise RefusedError(f"There is a volume named '{spec.name}' already.", code="exists")


def _copied(files: Files) -> Files:
    """Files that do not change with the ones they were copied from."""
    return {path: replace(file) for path, file in files.items()}
