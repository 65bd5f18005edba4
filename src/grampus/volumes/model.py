"""What a volume is: an RBD image, attached or to be attached to a host."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import ConfigDict

from grampus.core.models import Model
from grampus.core.units import MIB

DriverName = Literal["krbd", "volumed", "nbd", "qsd"]
# Between the kernel and volumed; `auto` is what the host can do best.
TransportName = Literal["auto", "uring", "classic"]
FilesystemName = Literal["xfs"]
# Where an image is made: in an RBD namespace of its own, or in the default one of the pool, for
# programs that know no other.
NamespaceChoice = Literal["own", "default"]
# At rest, by librbd in volumed; `luks2` is the format of the header on the image.
EncryptionName = Literal["luks2"]
# How a write comes to the image: as it is, through a journal beside it, or through a log on the
# host's own disk and that journal.
WritePath = Literal["direct", "journal", "cache"]
# `current`: the volume was last attached there, and its log may hold what the cluster lacks.
# `drained`: all that it held is in the image. `fenced`: a fence took the volume away from it; what
# it alone holds is brought in only if nobody else opens the volume before.
# What is wrong with the driver of an attached volume: it runs and gives no answer, or has ended.
DriverFault = Literal["stuck", "ended", "failing"]
LocalLogState = Literal["current", "drained", "fenced"]
DEFAULT_MAX_LAG_MS = 100
DEFAULT_JOURNAL_MEMORY_BYTES = 256 * MIB  # as volumed itself chooses


class VolumeSpec(Model):
    """A volume as asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    pool: str
    # The RBD image's name in `pool`: NAMESPACE/IMAGE, or IMAGE in the default namespace. Of one
    # that is to be made in a namespace of its own it is IMAGE; its record then has the namespace.
    image: str
    size_bytes: int
    namespace: NamespaceChoice = "own"
    filesystem: FilesystemName = "xfs"
    # The file system covers only the first so many bytes; the rest is free for raw use.
    # None: all of it.
    filesystem_bytes: int | None = None
    # XFS has its log in the first so many bytes, on a device of its own, and the file system is in
    # the rest (`drivers/export_devices.py`). None: the log is inside the file system.
    external_log_bytes: int | None = None
    write_path: WritePath = "direct"
    # With `cache` alone: how far the cluster may be behind what was flushed.
    max_lag_ms: int = DEFAULT_MAX_LAG_MS
    # With a journal: what data that waits to be applied may take of the host's memory. None:
    # DEFAULT_JOURNAL_MEMORY_BYTES.
    journal_memory_bytes: int | None = None
    # With a journal: the pool of its objects, such as one on flash in front of disks. None: that of
    # the image.
    journal_pool: str | None = None
    # The image is bigger by a header then (`decide_encryption.image_bytes`).
    encryption: EncryptionName | None = None
    # Whose it is: the id of the database that it was made for, else an id of its own. Whoever
    # finishes or undoes something changes a volume of that id alone, whatever its name. Empty: an
    # older release made it.
    identity: str = ""


class LocalLog(Model):
    """The directory of a volume on a host: its log, logs set aside, and its read cache."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str
    state: LocalLogState = "current"


class Attachment(Model):
    """Where and how a volume is attached."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str
    driver: DriverName
    driver_reason: str  # why this driver was chosen, in one sentence
    device: str  # block device on the host, such as /dev/loop3
    log_device: str | None = None  # the same, of an external log
    mount_path: str  # where the file system is mounted on the host
    client_address: str | None  # address:port/nonce of the RADOS client, as `rbd status` shows it
    export_path: str | None = None  # the FUSE file under the device, for drivers that have one
    transport: str | None = None  # volumed's, as it runs: `uring` or `classic`


class FencedAttachment(Model):
    """An attachment that a fence took away from its host, and that is not cleared away there yet.

    What is left of it (mount, block device, daemon) fails every request.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str
    driver: DriverName | None  # None: it was never wholly attached
    client_addresses: tuple[str, ...]  # blocklisted, each exactly
    fenced_at: datetime
    expires_at: datetime  # when the cluster forgets the blocklist entries


class CloneSource(Model):
    """The snapshot that an image is a clone of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pool: str
    image: str
    snapshot: str


class SnapshotInfo(Model):
    """A snapshot of a volume."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    size_bytes: int  # the image's size at that moment
    created_at: datetime
    # What was written between the snapshot before and this one, in whole objects; of the first,
    # all that it holds. None: not measured.
    used_bytes: int | None = None
    protected: bool = False


class MeasuredSnapshots(Model):
    """A volume's snapshots with what each added, and what was written after the newest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    snapshots: tuple[SnapshotInfo, ...]  # oldest first
    # In whole objects, as `used_bytes`. None: there is no snapshot to count from.
    since_last_bytes: int | None = None


class Lineage(Model):
    """Where an image comes from, and what comes from it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    parent: CloneSource | None  # None: it stands alone, or has been flattened
    depth: int  # images that a read may go through below this one; 0: it stands alone
    # Volumes that are clones of its snapshots, by name; `POOL/IMAGE` for an image that is none.
    children: tuple[str, ...] = ()


class Migration(Model):
    """A volume's way to another pool, from before it begins until nothing is left of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    from_pool: str
    to_pool: str
    # The image's id in the former pool, once the image there is a migration's source.
    source_id: str | None = None
    # From then on there is no way back.
    is_committing: bool = False
    # How much was copied (0 to 1) when the copy was gone on with last: librbd then forgets it.
    copied: float = 0.0


class VolumeRecord(Model):
    """A volume as it stands."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    spec: VolumeSpec
    ceph_user: str  # the cephx user that opens the image, without "client."
    # Where it is attached, or may be: set before attaching begins, cleared after detaching.
    host: str | None = None
    is_formatted: bool = False
    attachment: Attachment | None = None
    fenced: tuple[FencedAttachment, ...] = ()
    source: CloneSource | None = None  # what it was cloned from, also once it is flattened
    # POOL/NAMESPACE (or POOL) of each image that it, or a snapshot of it, may share data with, the
    # nearest first. None: noted by no release that knew namespaces; `source` says it.
    shares_with: tuple[str, ...] | None = None
    # Noted before the directory is made, taken away after it is removed; at most one is `current`.
    local_logs: tuple[LocalLog, ...] = ()
    # While it moves to another pool; its spec says in which one it is opened.
    migration: Migration | None = None


def whole_mib(size_bytes: int) -> int:
    """`size_bytes` rounded up to whole MiB.

    A block device has whole sectors only: an image that ends inside one is shown with another
    size than it has.
    """
    return -(-size_bytes // MIB) * MIB
