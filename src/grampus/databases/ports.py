"""What databases need from the parts below them, as ports that a test can stand in for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol, Unpack

from grampus.core.streams import ByteReader, ByteWriter
from grampus.databases.model import FlavourName
from grampus.volumes.migrating import MigrateOrder
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
from grampus.volumes.trash import TrashedVolume
from grampus.volumes.write_paths import WriteBounds


class VolumePort(Protocol):
    """Volumes by name. Every `ensure_` is idempotent, also after a half-done one."""

    @property
    def trash(self) -> TrashPort:
        """Where volumes can be moved to, and had back from."""
        ...

    @property
    def migrations(self) -> MigrationPort:
        """Volumes that move to other pools."""
        ...

    @property
    def key_rotation(self) -> KeyRotationPort:
        """New cephx keys for volumes."""
        ...

    @property
    def takeovers(self) -> TakeoverPort:
        """Volumes taken away from hosts that are lost."""
        ...

    @property
    def encryption(self) -> EncryptionPort:
        """The keys of encrypted volumes, as they are kept."""
        ...

    def ensure_created(self, spec: VolumeSpec, sealed_key: str | None = None) -> VolumeRecord:
        """The volume: image, cephx user and record.

        With a `sealed_key`, what is to be brought into its image is encrypted by that key already.
        Raises RefusedError with code `exists` when another volume has the name.
        """
        ...

    def draw_down(self, name: str, *, towards: str | None = None) -> int | None:
        """Leave little to do for detaching, and for attaching to the host `towards`, while the
        volume is used. The bytes that its journal still holds; None where nobody says."""
        ...

    def ensure_attached(self, name: str, host: str) -> Attachment:
        """The volume as a mounted file system on `host`. Raises NotFoundError."""
        ...

    def drop_flushes(self, name: str) -> bool:
        """Have flushes of the attached volume answered at once, until `ensure_flushed`.

        For as long as nobody relies on them (ADR 53, 58). False: it goes on to flush. Raises
        NotFoundError.
        """
        ...

    def ensure_durable(self, name: str) -> None:
        """What was written to the volume is durable, also where flushes keep the order alone.

        For what is in no binary log. Nothing happens without the volume, or while it is detached.
        """
        ...

    def ensure_flushed(self, name: str) -> None:
        """Flushes of the attached volume are done before they are answered, also those so far.

        Raises NotFoundError, and GrampusError with code `drops-flushes`.
        """
        ...

    def is_attached(self, name: str) -> bool:
        """Whether the volume is mounted and its driver alive, as observed now."""
        ...

    def has_older_driver(self, name: str) -> bool:
        """Whether its driver runs from an older host image or program than its host has now."""
        ...

    def ensure_detached(self, name: str) -> None:
        """The volume unmounted and closed; nothing happens when there is no such volume."""
        ...

    def ensure_absent(self, name: str, meant: VolumeSpec | None = None) -> None:
        """The volume detached, and its image, cephx user and record removed.

        With `meant`, another volume of that name is left as it is (`is_same_volume`).
        """
        ...

    def get(self, name: str) -> VolumeRecord:
        """The volume's record. Raises NotFoundError."""
        ...

    def plan_resize(self, name: str, size_bytes: int) -> VolumeSpec:
        """The volume as it shall be. Raises NotFoundError, RefusedError, HostUnreachableError."""
        ...

    def ensure_size(self, name: str, size_bytes: int) -> None:
        """At least that size, also under a running writer; a bigger volume stays as it is."""
        ...

    def require_served(
        self, host: str, write_path: WritePath, encryption: EncryptionName | None = None
    ) -> None:
        """Raise GrampusError when no such volume could be attached to `host`."""
        ...

    def check_journal_pool(self, journal_pool: str | None, pool: str, size_bytes: int) -> None:
        """Raise NotFoundError or RefusedError when the journal of a volume cannot be in that pool.

        `pool` is that of its image, `size_bytes` its size. None: the journal is there, too.
        """
        ...

    def ensure_write_path(
        self, name: str, write_path: WritePath, **bounds: Unpack[WriteBounds]
    ) -> VolumeRecord:
        """How a detached volume is written to from its next attachment on.

        Raises NotFoundError, RefusedError with code `attached`.
        """
        ...

    def set_metadata(self, name: str, facts: Mapping[str, str]) -> None:
        """Write `facts` as metadata of the volume's image, beside what is there."""
        ...

    def require_removable(self, name: str) -> None:
        """Raise RefusedError with code `has-clones` when other images stand on this one.

        `ensure_absent` raises it too; ask before anything of a database is taken apart.
        """
        ...

    def require_writable(self, name: str) -> None:
        """Raise RefusedError with code `pool-full` while its pool is full.

        Ceph then holds up every write, and whoever opens the image. Nothing happens when there is
        no such volume.
        """
        ...

    def find_silent(self, names: Collection[str], for_s: float) -> set[str]:
        """Those of these volumes to whose requests the cluster has given no answer for so long."""
        ...

    def find_driver_faults(self, names: Collection[str]) -> dict[str, DriverFault]:
        """Those of these volumes whose driver has ended, or gives no answer for seconds."""
        ...

    def end_driver(self, name: str) -> None:
        """Kill the driver of an attached volume; the next attachment replaces it.

        What was flushed is in the image or its journal. Raises NotFoundError, and GrampusError when
        its host cannot be reached.
        """
        ...

    def snapshots(self, name: str) -> list[SnapshotInfo]:
        """The volume's snapshots, oldest first. Raises NotFoundError."""
        ...

    def measure_snapshots(self, name: str) -> MeasuredSnapshots:
        """The same, and how much was written between them. Raises NotFoundError."""
        ...

    def ensure_snapshot(self, name: str, snapshot: str) -> None:
        """A snapshot that holds everything flushed so far, also under a running writer.

        One of that name is left as it is. Raises NotFoundError, UsageError for the name,
        RefusedError with code `empty` (nothing was ever on the volume) or `attachment-lost`.
        """
        ...

    def ensure_snapshot_absent(self, name: str, snapshot: str) -> None:
        """The snapshot removed; nothing happens when it, or the volume, is not there.

        Raises RefusedError with code `protected` or `has-clones`.
        """
        ...

    def require_snapshot_removable(self, name: str, snapshot: str) -> None:
        """Raise RefusedError with code `protected` or `has-clones`, NotFoundError."""
        ...

    def ensure_snapshot_released(self, name: str, snapshot: str) -> None:
        """The snapshot out of sight; the cluster keeps its data until its last clone is gone.

        The volume itself cannot be removed until then. Nothing happens when the snapshot, or the
        volume, is not there.
        """
        ...

    def ensure_snapshot_protected(self, name: str, snapshot: str, *, protected: bool) -> None:
        """Whether the snapshot can be removed, by anybody. Raises NotFoundError."""
        ...

    def ensure_rolled_back(self, name: str, snapshot: str) -> None:
        """The volume as it was at the snapshot, at the size that it has now.

        What was written since is gone, what the journal and logs on hosts hold with it. Raises
        NotFoundError, RefusedError with code `attached` or `in-use`.
        """
        ...

    def ensure_cloned(self, spec: VolumeSpec, source: CloneSource) -> VolumeRecord:
        """A volume that shares the snapshot's data until it writes, grown to `spec.size_bytes`.

        Its cephx user is its own; facts of the parent (`set_metadata`) do not come with it.
        Raises RefusedError with code `image-exists` or `shrink`, GrampusError with code
        `clone-failed`.
        """
        ...

    def ensure_flattened(self, name: str) -> None:
        """The volume's image standing alone, also under a running writer. Raises NotFoundError."""
        ...

    def needs_flattening(self, name: str) -> bool:
        """Whether `ensure_flattened` has anything to do. Raises NotFoundError."""
        ...

    def lineage(self, name: str, *, with_children: bool = True) -> Lineage:
        """What the volume's image is a clone of, and which images are clones of it, if asked for.

        Raises NotFoundError.
        """
        ...

    def note_formatted(self, name: str) -> None:
        """A file system is on the volume's image already: attaching must not make one.

        For an image that was filled otherwise, as from a backup. Raises NotFoundError.
        """
        ...

    def exporting(
        self, name: str, snapshot: str, *, since: str | None = None
    ) -> AbstractContextManager[ByteReader]:
        """What a snapshot holds, or what is new in it after the snapshot `since`, as a stream.

        All of it was read only when the block ends without an error. Raises NotFoundError, and
        GrampusError at the end of the block when the cluster failed.
        """
        ...

    def importing(self, name: str) -> AbstractContextManager[ByteWriter]:
        """What brings such a stream into a volume that was made and never attached.

        The image then has a snapshot of the name that the stream was exported from, which a
        stream since it needs. Raises NotFoundError, RefusedError with code `attached` or
        `not-empty`, and GrampusError at the end of the block when it is not whole.
        """
        ...


class EncryptionPort(Protocol):
    """The keys of encrypted volumes, sealed with a master key."""

    def find_sealed_key(self, spec: VolumeSpec) -> str | None:
        """The sealed key of an encrypted volume; None: it is not encrypted.

        Raises GrampusError with code `bad-volume-key` when it is lost.
        """
        ...

    def require_openable(self, sealed_key: str) -> None:
        """Raise NotFoundError with code `no-volume-key` when its master key is not here."""
        ...


class MigrationPort(Protocol):
    """Volumes that move to other pools while they are used; journaled below."""

    def plan(self, name: str, pool: str) -> MigrateOrder | None:
        """The migration, if it can be begun now; None: the volume is in that pool.

        Raises NotFoundError for the volume or the pool, HostUnreachableError, and RefusedError with
        code `attachment-lost`, `cannot-exchange`, `fenced`, `has-clones`, `image-exists` or
        `pool-full`.
        """
        ...

    def describe(self, order: MigrateOrder) -> list[str]:
        """What `migrate` would do, step by step."""
        ...

    def find(self, name: str) -> MigrateOrder | None:
        """The migration that was begun and neither ended nor undone. Raises NotFoundError."""
        ...

    def migrate(self, name: str, pool: str) -> VolumeRecord:
        """The volume in that pool. Raises what `plan` raises, and GrampusError."""
        ...

    def describe_abort(self, name: str) -> list[str]:
        """What `abort` would do, step by step. Raises what it raises."""
        ...

    def abort(self, name: str) -> VolumeRecord:
        """The volume in its former pool again.

        Raises NotFoundError, RefusedError with code `not-migrating`, `committing` or
        `has-snapshots`.
        """
        ...


class KeyRotationPort(Protocol):
    """New cephx keys for volumes that are used; journaled below."""

    def can_rotate(self, name: str) -> bool:
        """Whether `rotate` would not be refused now. Raises NotFoundError, HostUnreachableError."""
        ...

    def rotate(self, name: str) -> None:
        """A new key for the volume; the former one opens nothing after it.

        Raises NotFoundError, HostUnreachableError, RefusedError with code `attachment-lost` or
        `cannot-exchange`, and GrampusError with code `exchange-failed`.
        """
        ...


class TakeoverPort(Protocol):
    """Volumes taken away from hosts that are lost. Everything may be repeated."""

    def hurry(self, host: str, *, is_silent: bool = False, is_cut: bool = False) -> None:
        """Spare whoever needs the cluster the wait for what it had on a host that is lost.

        With `is_silent` other hosts have found that it does not answer them, a moment ago. With
        `is_cut` commands run on the host, and it reaches no MON.
        """
        ...

    def mon_places(self) -> tuple[str, ...]:
        """Where the MONs are, as `ADDRESS:PORT`. Raises GrampusError unless they have a quorum."""
        ...

    def find_needed_log(self, name: str) -> str | None:
        """The host whose log may hold commits that the cluster lacks, if there is one.

        Raises NotFoundError, and GrampusError when the cluster does not answer.
        """
        ...

    def ensure_fenced(self, name: str, host: str) -> None:
        """The volume taken away from `host`, if it may be attached there, and a log there given up.

        The fence is confirmed when this returns. Raises NotFoundError, RefusedError with code
        `in-use`, and GrampusError with code `not-fenced` or `timeout`.
        """
        ...

    def ensure_absent(self, name: str, meant: VolumeSpec) -> None:
        """The volume gone for good, if it is the one meant.

        What fences left on hosts that are away stays there.
        """
        ...

    def ensure_cleared(self, name: str) -> None:
        """What fences of the volume left on hosts that can be reached cleared away."""
        ...

    def ensure_left_cleared(self, volume: VolumeRecord, host: str) -> bool:
        """The same on `host` of a volume that is gone by now; whether nothing is left there."""
        ...


class TrashPort(Protocol):
    """Volumes that are out of the way, and can be had back. Everything may be repeated."""

    def drain(self, name: str, *, leaves_lost: bool = False) -> TrashedVolume:
        """The volume detached, with all that was acknowledged in its image, as it then is.

        With `leaves_lost`, what fences left on hosts that are away stays there.

        Raises NotFoundError, HostUnreachableError, GrampusError.
        """
        ...

    def ensure_trashed(self, volume: TrashedVolume, expires_at: datetime) -> None:
        """The image in the trash until `expires_at`; the volume's key and record gone."""
        ...

    def ensure_restored(self, volume: TrashedVolume, name: str, image: str) -> VolumeRecord:
        """The volume again, as `name`, with a new key.

        Raises RefusedError with code `exists` or `image-exists`, GrampusError with code
        `not-in-trash`.
        """
        ...

    def require_purgeable(self, volume: TrashedVolume) -> None:
        """Raise RefusedError with code `has-clones` when other images stand on this one."""
        ...

    def ensure_renamed(self, name: str, new_name: str, new_image: str) -> VolumeRecord:
        """The detached volume under another name, with a new key. Raises what `drain` raises."""
        ...

    def ensure_purged(self, volume: TrashedVolume) -> None:
        """The volume gone for good. Raises what `require_purgeable` raises."""
        ...


class ImagePort(Protocol):
    """Host images that hold database servers."""

    def image_for(
        self, flavour: FlavourName, version: str | None = None, *, as_defined: bool = False
    ) -> str | None:
        """The id of an image with that server, built if needed; None: the host's own has it.

        `version` is one of `versions`; None: the newest. `as_defined`: not the host's own when its
        definition has changed since. Raises UsageError with code `unknown-version`, GrampusError
        when the image cannot be had.
        """
        ...

    def versions(self, flavour: FlavourName) -> list[str]:
        """The series of servers that there are images of, such as `10.11` and `11.8`."""
        ...

    def own_image(self) -> str:
        """The id of the hosts' own image."""
        ...


class ClusterPort(Protocol):
    """The cluster that holds the volumes."""

    def volume_pool(self) -> str:
        """The pool that new volumes go to when nobody says which."""
        ...

    def check_room(self, pool: str, size_bytes: int) -> None:
        """Raise RefusedError when the pool cannot take a volume of `size_bytes`.

        Raises NotFoundError when it is not there, or not meant for images.
        """
        ...


class CopiesPort(Protocol):
    """Pools of the cluster by their number of copies."""

    def pool_of(self, copies: int) -> str:
        """The name of the pool, there or not. Raises RefusedError with code `too-many-copies`."""
        ...

    def ensure(self, copies: int) -> str:
        """The pool, made if need be; its name."""
        ...

    def tidy(self, pool: str) -> None:
        """Remove the pool if it was made for its number of copies, and its last image is gone."""
        ...
