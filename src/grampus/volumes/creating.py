"""Making volumes and removing them: image, cephx user and record."""

from __future__ import annotations

from collections.abc import Callable

from grampus.ceph.cluster import CephCluster
from grampus.ceph.image_notes import observe_image_pools
from grampus.ceph.image_snapshots import RbdSnapshots
from grampus.ceph.namespaces import join_image
from grampus.ceph.rbd import IDENTITY_FACT, RbdImages
from grampus.core.clock import Clock, wait_until
from grampus.core.errors import RefusedError
from grampus.state.operations import Step
from grampus.volumes.attaching import Attacher
from grampus.volumes.decide_identity import is_own_client, is_own_image, is_same_volume
from grampus.volumes.decide_namespace import needs_namespace
from grampus.volumes.decide_pool import (
    SMALLER,
    Redundancy,
    journal_bytes,
    require_as_redundant,
    require_pool,
    require_room,
)
from grampus.volumes.decide_snapshot import require_no_clones
from grampus.volumes.encrypting import Encrypting
from grampus.volumes.journals import Journals
from grampus.volumes.model import VolumeRecord, VolumeSpec, whole_mib
from grampus.volumes.records import VolumeRecords

# The OSDs report to the MGR every 5 s (`mgr_stats_period`), and it reports to the MONs every 2 s
# (`mgr_tick_period`); a busy machine takes longer.
COUNTED_WITHIN_S = 60.0
_OTHER_POOL = "Choose another pool for the journal, delete data in this one, or add OSDs."


class Creating:
    """Creations and deletions of the volumes of one lab or cluster."""

    def __init__(
        self,
        lab: str,
        records: VolumeRecords,
        cluster: CephCluster,
        images: RbdImages,
        snapshots: RbdSnapshots,
        attacher: Attacher,
        journals: Journals,
        encrypting: Encrypting,
        make_namespace: Callable[[str], str],
        clock: Clock,
    ) -> None:
        self._lab = lab
        self._records = records
        self._cluster = cluster
        self._images = images
        self._snapshots = snapshots
        self._attacher = attacher
        self._journals = journals
        self._encrypting = encrypting
        self._make_namespace = make_namespace
        self._clock = clock

    def require_free(self, spec: VolumeSpec) -> None:
        """Raise RefusedError with code `image-exists` when a new image would meet another.

        In a namespace of its own it cannot.
        """
        if not needs_namespace(spec):
            self.require_no_image(spec)

    def check_room(self, pool: str, size_bytes: int, *, remedy: str = SMALLER) -> None:
        """Raise RefusedError when the pool cannot take a volume of that size now.

        Raises NotFoundError when it is not there, or not meant for images, and GrampusError with
        code `timeout` when the cluster does not say what room there is.
        """
        pools = observe_image_pools(self._cluster)
        require_pool(pool, pools, of_site=self._cluster.image_pools is not None)
        counted: list[int] = []

        def is_counted() -> bool:
            available_bytes = self._cluster.find_available_bytes(pool)
            counted.extend(() if available_bytes is None else (available_bytes,))
            return bool(counted)

        wait_until(
            self._clock,
            is_counted,
            what=f"the cluster to report the free space of the pool '{pool}'",
            remedy="`ceph status` shows whether a MGR is active, and `ceph df` the free space.",
            timeout_s=COUNTED_WITHIN_S,
            interval_s=0.5,
        )
        require_room(pool, size_bytes, counted[0], remedy=remedy)

    def check_journal_pool(self, journal_pool: str | None, pool: str, size_bytes: int) -> None:
        """Raise what `check_room` raises when the journal of a volume in `pool` cannot be there.

        RefusedError has code `weaker-journal` when that pool has fewer copies than the image's.
        """
        if journal_pool is not None:
            self.check_room(journal_pool, journal_bytes(size_bytes), remedy=_OTHER_POOL)
            journal, image = (self._redundancy(one) for one in (journal_pool, pool))
            require_as_redundant(journal_pool, journal, pool, image)

    def _redundancy(self, pool: str) -> Redundancy:
        size, min_size = (
            int(self._cluster.query("osd", "pool", "get", pool, key)[key])
            for key in ("size", "min_size")
        )
        return Redundancy(copies=size, min_copies=min_size)

    def require_writable(self, name: str) -> None:
        """Raise RefusedError with code `pool-full` when whoever opened its image would wait.

        So does Ceph while the pool is full. Nothing happens when there is no such volume.
        """
        record = self._records.find(name)
        if record is not None:
            self._cluster.require_writable(record.spec.pool)
            if record.spec.journal_pool is not None:
                self._cluster.require_writable(record.spec.journal_pool)

    def require_new(self, name: str) -> None:
        """Raise RefusedError with code `exists` when there is such a volume."""
        if self._records.find(name) is not None:
            raise _exists(name)

    def find_begun(self, spec: VolumeSpec) -> VolumeRecord | None:
        """The record of the volume that is being made; None: it has none yet.

        Raises RefusedError with code `exists` when another volume has its name.
        """
        record = self._records.find(spec.name)
        if record is not None and not is_same_volume(record.spec, spec):
            raise _exists(spec.name)
        return record

    def require_no_image(self, spec: VolumeSpec) -> None:
        """Raise RefusedError with code `image-exists` when the image is there."""
        # Formatting it, or undoing a creation, would destroy what somebody else keeps there.
        if self._images.find(spec.pool, spec.image) is not None:
            raise RefusedError(
                f"The image {spec.pool}/{spec.image} already exists, and is not a volume of "
                f"'{self._lab}'.",
                "Choose another name. If you know the owner of the image, you can also "
                "remove or rename the image.",
                code="image-exists",
            )

    def require_removable(self, name: str) -> None:
        """Raise RefusedError with code `has-clones` when other images stand on this one."""
        record = self._records.find(name)
        if record is not None:
            children = self._snapshots.children(record.spec.pool, record.spec.image)
            require_no_clones(f"The volume '{name}'", children, self._records.names_of_images())

    def new_record(self, spec: VolumeSpec) -> VolumeRecord:
        """The record of a volume that is to be made: its cephx user and its namespace are new."""
        whole = spec.model_copy(update={"size_bytes": whole_mib(spec.size_bytes)})
        if needs_namespace(spec):
            image = join_image(self._make_namespace(spec.name), spec.image)
            whole = whole.model_copy(update={"image": image})
        return VolumeRecord(spec=whole, ceph_user=self.user_of(spec))

    def user_of(self, spec: VolumeSpec) -> str:
        """The cephx user of a volume, after its name."""
        return f"grampus.{self._lab}.{spec.name}"

    def ensure_created(self, spec: VolumeSpec, sealed_key: str | None = None) -> VolumeRecord:
        """The cephx user, the image and the record; `sealed_key` as in `Encrypting.ensure_image`.

        Raises what `require_free` and `find_begun` raise, and RefusedError with code
        `client-exists`.
        """
        record = self.find_begun(spec)
        if record is None:
            self.require_free(spec)
            record = self.new_record(spec)
            self._records.put(record)
        self._attacher.ensure_client(record, is_new=True)
        self._encrypting.ensure_image(record.spec, sealed_key)
        return record

    def ensure_absent(
        self, name: str, meant: VolumeSpec | None = None, *, leaves_lost: bool = False
    ) -> None:
        """Detach, remove journal, snapshots, image, namespace and cephx user, forget the volume.

        With `meant`, another volume of that name is left as it is. So are an image and a cephx
        user of the volume's names that somebody else made. With `leaves_lost`, what fences left on
        hosts that are away stays there: the caller has noted it. Raises what `require_removable`
        raises, before anything is changed.
        """
        record = self._records.find(name)
        if record is None or (meant is not None and not is_same_volume(record.spec, meant)):
            return
        if self._has_own_image(record.spec):
            self.require_removable(name)
            self._attacher.detach(name, leaves_journal=True)
            self._remove_journal(name, leaves_lost=leaves_lost)
            self._snapshots.ensure_all_absent(record.spec.pool, record.spec.image)
            self._images.ensure_absent(record.spec.pool, record.spec.image)
            self.ensure_namespace_absent(record.spec)
        self.ensure_client_absent(record)
        self._records.remove(name)

    def ensure_client_absent(self, record: VolumeRecord) -> None:
        """The volume's cephx user removed; one of its name that somebody else made stays."""
        found = self._cluster.find_capabilities(record.ceph_user)
        if found is not None and is_own_client(record, found):
            self._cluster.ensure_client_absent(record.ceph_user)

    def _has_own_image(self, spec: VolumeSpec) -> bool:
        if is_own_image(spec, None):
            return True  # whatever the image says: it is not asked
        if self._images.find(spec.pool, spec.image) is None:
            return True
        noted = self._images.metadata(spec.pool, spec.image).get(IDENTITY_FACT)
        return is_own_image(spec, noted)

    def ensure_namespace_absent(self, spec: VolumeSpec) -> None:
        """The namespace of an image that is gone, also from the trash; until then it stays."""
        self._images.ensure_namespace_absent(spec.pool, spec.image)

    def create_steps(self, spec: VolumeSpec) -> list[Step]:
        """The creation; undone as a whole."""
        where = ", in its own namespace" if needs_namespace(spec) else ""
        return [
            Step(
                "image",
                f"Create the {'encrypted ' if spec.encryption else ''}image "
                f"{spec.pool}/{spec.image}" + where,
                lambda: _discard(self.ensure_created(spec)),
                lambda: self.ensure_absent(spec.name, spec),
            )
        ]

    def delete_steps(self, spec: VolumeSpec) -> list[Step]:
        """The deletion; every step may be repeated, none is ever undone."""
        return [
            Step(
                "detach",
                "Detach",
                lambda: self._if_same(
                    spec, lambda: self._attacher.detach(spec.name, leaves_journal=True)
                ),
            ),
            Step(
                "journal",
                "Remove its journal, if it has one",
                lambda: self._if_same(spec, lambda: self._remove_journal(spec.name)),
            ),
            Step(
                "image",
                f"Remove the image {spec.pool}/{spec.image}",
                lambda: self.ensure_absent(spec.name, spec),
            ),
        ]

    def _if_same(self, spec: VolumeSpec, change: Callable[[], None]) -> None:
        """Change the volume, unless another one has its name by now."""
        record = self._records.find(spec.name)
        if record is None or is_same_volume(record.spec, spec):
            change()

    def _remove_journal(self, name: str, *, leaves_lost: bool = False) -> None:
        if not leaves_lost:
            self._attacher.require_cleared(name)
        self._journals.ensure_removed(name)
        self._attacher.local_logs.ensure_absent(name, says=not leaves_lost)


def _exists(name: str) -> RefusedError:
    return RefusedError(
        f"A volume named '{name}' already exists.", "Choose another name.", code="exists"
    )


def _discard(_value: object) -> None:
    """Steps return nothing."""
