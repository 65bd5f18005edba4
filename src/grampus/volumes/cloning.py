"""Clones of volumes: images that share a snapshot's data until they are written to."""

from __future__ import annotations

from grampus.ceph.flattening import RbdFlattening
from grampus.ceph.image_snapshots import ParentImage, RbdSnapshots
from grampus.ceph.namespaces import place_of
from grampus.core.errors import RefusedError
from grampus.core.progress import Progress
from grampus.core.units import format_bytes
from grampus.state.operations import Step
from grampus.volumes.asking import Asking
from grampus.volumes.attaching import Attacher
from grampus.volumes.creating import Creating
from grampus.volumes.decide_encryption import (
    ENCRYPTION_FACT,
    decide_clone_encryption,
    header_bytes,
)
from grampus.volumes.decide_external_log import parse_external_log
from grampus.volumes.decide_identity import new_identity
from grampus.volumes.decide_namespace import decide_shared, read_places
from grampus.volumes.decide_snapshot import describe_parent, name_child, require_snapshot
from grampus.volumes.encrypting import Encrypting
from grampus.volumes.model import CloneSource, Lineage, VolumeRecord, VolumeSpec, whole_mib
from grampus.volumes.records import VolumeRecords

# A chain that is longer is a defect; nothing is read that far.
MAX_DEPTH = 64


class CloneOrder(VolumeSpec):
    """A clone as it is journaled."""

    source: CloneSource

    def spec(self) -> VolumeSpec:
        """The volume that is made."""
        return VolumeSpec.model_validate(self.model_dump(exclude={"source"}))


class Cloning:
    """Clones among the volumes of one lab or cluster."""

    def __init__(
        self,
        records: VolumeRecords,
        snapshots: RbdSnapshots,
        flattening: RbdFlattening,
        attacher: Attacher,
        creating: Creating,
        encrypting: Encrypting,
        asking: Asking,
        progress: Progress,
    ) -> None:
        self._records = records
        self._snapshots = snapshots
        self._flattening = flattening
        self._attacher = attacher
        self._creating = creating
        self._encrypting = encrypting
        self._asking = asking
        self._progress = progress

    def plan(self, spec: VolumeSpec, source: CloneSource) -> CloneOrder:
        """The clone, if it can be made now, its size rounded up to whole MiB.

        Raises NotFoundError when there is no such snapshot, RefusedError with code `exists`,
        `image-exists`, `shrink`, `other-pool`, `encryption` or `empty`, and GrampusError with
        code `no-volumed`.
        """
        self._creating.require_new(spec.name)
        if spec.pool != source.pool:
            # Nobody asks for it by accident: what it shares stays in the other pool.
            raise RefusedError(
                f"A clone of an image in the pool '{source.pool}' cannot be in '{spec.pool}'.",
                f"Remove --pool, or use --pool {source.pool}.",
                code="other-pool",
            )
        spec = self._require_cloneable(spec, source)
        self._attacher.require_volumed(spec.write_path, spec.encryption)
        self._creating.check_journal_pool(spec.journal_pool, spec.pool, spec.size_bytes)
        self._creating.require_free(spec)
        whole = spec.model_copy(
            update={
                "size_bytes": whole_mib(spec.size_bytes),
                "identity": spec.identity or new_identity(),
            }
        )
        return CloneOrder(**whole.model_dump(), source=source)

    def steps(self, order: CloneOrder) -> list[Step]:
        """The clone; undone as a whole."""
        source = order.source
        return [
            Step(
                "clone",
                f"Clone {source.pool}/{source.image}@{source.snapshot} to "
                f"{order.pool}/{order.image}",
                lambda: _discard(self.ensure(order.spec(), source)),
                lambda: self._creating.ensure_absent(order.name, order.spec()),
            )
        ]

    def ensure(self, spec: VolumeSpec, source: CloneSource) -> VolumeRecord:
        """As `VolumeService.ensure_cloned`."""
        record = self._creating.find_begun(spec)
        if record is not None and record.is_formatted:
            # It is whole, and may have been used: what is on it is its own.
            return record
        if record is None:
            spec = self._require_cloneable(spec, source)
            self._creating.require_free(spec)
            shared = {"source": source, "shares_with": self._places_shared(source)}
            record = self._creating.new_record(spec).model_copy(update=shared)
            self._records.put(record)
        self._attacher.ensure_client(record, is_new=True)
        parent = ParentImage(
            pool=source.pool, image=source.image, snapshot=source.snapshot, is_in_trash=False
        )
        wanted = self._encrypting.find_new_clone(record.spec)
        pool, image = record.spec.pool, record.spec.image
        if not self._snapshots.ensure_clone(parent, pool, image, wanted) or wanted is None:
            # What else came along says what the parent is, and where *its* journal is.
            self._encrypting.inherit(record.spec, (source.pool, source.image))
            self._encrypting.ensure_size(record.spec)
        # Only now: until then it is a clone half made, which is not to be attached.
        record = record.model_copy(update={"is_formatted": True})
        self._records.put(record)
        return record

    def lineage(self, name: str, *, with_children: bool) -> Lineage:
        """As `VolumeService.lineage`."""
        record = self._records.get(name)
        pool, image = record.spec.pool, record.spec.image
        parents = self._snapshots.parents(pool, image, most=MAX_DEPTH)
        children = self._snapshots.children(pool, image) if with_children else []
        names = self._records.names_of_images()
        return Lineage(
            parent=describe_parent(parents[0] if parents else None, record.source),
            depth=len(parents),
            children=tuple(name_child(child, names) for child in children),
        )

    def flatten(self, record: VolumeRecord) -> None:
        """Let the image stand alone; it may be in use."""
        self._asking.require_heard(record)
        # Half a minute where a command that worked on it was killed a moment ago.
        self._progress.detail("until no other client has the image open")
        # An encrypted clone has its parent's header and key: what is copied is as it has to be.
        self._flattening.ensure_flattened(
            record.spec.pool,
            record.spec.image,
            lambda copied: self._progress.detail(f"{copied:.0%} copied", fraction=copied),
            lambda done: self._progress.detail(f"object maps {done:.0%} made", fraction=done),
            None if record.host is None else self._asking.watch(record),
        )

    def needs_flattening(self, record: VolumeRecord) -> bool:
        """Whether anything is left to do for the volume's image to stand alone."""
        return bool(read_places(record)) or self._flattening.is_due(
            record.spec.pool, record.spec.image
        )

    def ensure_unshared(self, name: str) -> None:
        """Take from a flattened volume's key what let it read other images.

        While snapshots from before still share their data, it stays.
        """
        record = self._records.get(name)
        spec, source = record.spec, record.source
        if source is None or not read_places(record):
            return
        if self._snapshots.has_parents(spec.pool, spec.image):
            return
        record = record.model_copy(update={"shares_with": ()})
        self._attacher.ensure_client(record)
        owner = self._records.names_of_images().get((source.pool, source.image))
        if owner is not None:
            self._asking.require_heard(self._records.get(owner))
        # The volume's own client has let go of the parent, with a key that could only read there.
        self._snapshots.ensure_swept(source.pool, source.image)
        self._records.put(record)

    def _places_shared(self, source: CloneSource) -> tuple[str, ...]:
        name = self._records.names_of_images().get((source.pool, source.image))
        if name is not None:
            return decide_shared(source, self._records.get(name), ())
        parents = self._snapshots.parents(source.pool, source.image, most=MAX_DEPTH)
        found = (place_of(below.pool, below.image) for below in parents)
        return decide_shared(source, None, tuple(found))

    def _require_cloneable(self, spec: VolumeSpec, source: CloneSource) -> VolumeSpec:
        """The clone, encrypted as its source is, with its file system at the same place."""
        volume = self._records.names_of_images().get((source.pool, source.image))
        name = volume or f"{source.pool}/{source.image}"
        command = f"grampus volume snapshot list {name}"
        found = require_snapshot(
            name,
            self._snapshots.all(source.pool, source.image),
            source.snapshot,
            list_command=command,
        )
        fact: str | None
        # A volume's record has it since it was created; another image says it itself.
        if volume is not None:
            whole = self._records.get(volume).spec
            fact, log_bytes = whole.encryption, whole.external_log_bytes
        else:
            facts = self._encrypting.facts(source.pool, source.image)
            fact, log_bytes = facts.get(ENCRYPTION_FACT), parse_external_log(name, facts)
        encryption = decide_clone_encryption(f"The volume '{name}'", fact, spec.encryption)
        least_bytes = found.size_bytes - header_bytes(encryption)
        if whole_mib(spec.size_bytes) < least_bytes:
            raise RefusedError(
                f"A clone of '{name}@{source.snapshot}' has at least "
                f"{format_bytes(least_bytes)}, not {format_bytes(spec.size_bytes)}.",
                "Remove --size, or choose a larger size.",
                code="shrink",
            )
        return spec.model_copy(update={"encryption": encryption, "external_log_bytes": log_bytes})


def _discard(_value: object) -> None:
    """Steps return nothing."""
