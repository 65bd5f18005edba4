"""Snapshots and clones of RBD images, through the `rbd` command on any reachable host."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from pydantic import ConfigDict

from grampus.ceph.cluster import CephCluster
from grampus.ceph.connecting import CONNECT
from grampus.ceph.image_reads import LIST_PARENTS, LIST_SNAPSHOTS, read_image
from grampus.ceph.namespaces import ENTER_NAMESPACE, join_image
from grampus.ceph.ports import CommandOutput
from grampus.ceph.rbd import HEADER_METADATA, METADATA_PREFIX
from grampus.ceph.reporting import Report, report_nowhere, run_reporting
from grampus.core.errors import GrampusError
from grampus.core.models import Model

ENOENT, EBUSY, EEXIST, EINVAL = 2, 16, 17, 22
# As ctime(3) writes it, whatever the locale.
_TIME_FORMAT = "%a %b %d %H:%M:%S %Y"
# A snapshot waits until each client that has the image open has flushed: librbd gives one 50 s.
SNAPSHOT_TIMEOUT_S = 120.0
# These copy or free as much data as the image holds.
DATA_TIMEOUT_S = 12 * 3600.0
# What an image says of the features that it is without while it is flattened (`flattening`).
SUSPENDED_FACT = "suspended_features"
# The namespace and the clone over one connection. Version 2: the snapshot need not be protected
# (Ceph 13 and later), and the clone may be in another namespace. By a setting of the connection
# (`connecting.py`), since Ceph 16's `clone` does not take the version. A clone has its parent's
# features; one of an image that is being flattened would be without an object map for good. Size
# and facts of a new clone over the same connection, too: three commands less, while a database is
# waited for.
CLONE_IMAGE = f"""
{CONNECT}
import json, sys, rbd
{ENTER_NAMESPACE}
{HEADER_METADATA}
parent_namespace, _, parent = sys.argv[2].rpartition("/")
namespace, _, name = sys.argv[5].rpartition("/")
with connect() as cluster:
    with cluster.open_ioctx(sys.argv[1]) as source, cluster.open_ioctx(sys.argv[4]) as pool:
        source.set_namespace(parent_namespace)
        enter(pool, namespace)
        with rbd.Image(source, parent, read_only=True) as image:
            try:
                image.metadata_get("{METADATA_PREFIX}{SUSPENDED_FACT}")
                features = rbd.RBD_FEATURE_OBJECT_MAP | rbd.RBD_FEATURE_FAST_DIFF
                features |= image.features() & (
                    rbd.RBD_FEATURE_LAYERING
                    | rbd.RBD_FEATURE_EXCLUSIVE_LOCK
                    | rbd.RBD_FEATURE_DEEP_FLATTEN
                )
            except KeyError:
                features = None
        try:
            rbd.RBD().clone(source, parent, sys.argv[3], pool, name, features)
        except rbd.ImageExists as error:
            print(error, file=sys.stderr)
            sys.exit({EEXIST})
        wanted = json.loads(sys.argv[6])
        if wanted is not None:
            with rbd.Image(pool, name) as image:
                if image.size() != wanted["size_bytes"]:
                    image.resize(wanted["size_bytes"], allow_shrink=False)
                facts = {{"{METADATA_PREFIX}" + key: fact for key, fact in wanted["facts"].items()}}
                known = [key for key, _ in image.metadata_list()]
                image_id = image.id()
            inherited = [key for key in known if key.startswith("{METADATA_PREFIX}")]
            change_metadata(pool, image_id, facts, [key for key in inherited if key not in facts])
"""
# Whether an image, or one of its snapshots, is a clone: a flattened one keeps snapshots that are.
HAS_PARENTS = f"""
{CONNECT}
import json, sys, rbd
namespace, _, name = sys.argv[2].rpartition("/")
def is_clone(image):
    try:
        image.get_parent_image_spec()
    except rbd.ImageNotFound:
        return False
    return True
with connect() as cluster, cluster.open_ioctx(sys.argv[1]) as pool:
    pool.set_namespace(namespace)
    with rbd.Image(pool, name, read_only=True) as image:
        found = is_clone(image)
        for snapshot in list(image.list_snaps()):
            image.set_snap_by_id(snapshot["id"])
            found = found or is_clone(image)
print(json.dumps(found))
"""
# What was deleted under its clones is kept by the cluster as a snapshot of its own trash. The last
# clone takes it away as it lets go; one whose key may only read there cannot.
SWEEP_SNAPSHOTS = f"""
{CONNECT}
import sys, rbd
namespace, _, name = sys.argv[2].rpartition("/")
with connect() as cluster, cluster.open_ioctx(sys.argv[1]) as pool:
    pool.set_namespace(namespace)
    try:
        image = rbd.Image(pool, name)
    except rbd.ImageNotFound:
        sys.exit(0)
    with image:
        for snapshot in list(image.list_snaps()):
            if snapshot["namespace"] != rbd.RBD_SNAP_NAMESPACE_TYPE_TRASH:
                continue
            image.set_snap_by_id(snapshot["id"])
            is_needed = any(True for _ in image.list_children2())
            image.set_snap(None)
            if not is_needed:
                image.remove_snap_by_id(snapshot["id"])
"""


class RbdSnapshot(Model):
    """A snapshot as `rbd snap ls` shows it."""

    model_config = ConfigDict(frozen=True)

    name: str
    size_bytes: int
    created_at: datetime
    is_protected: bool


class ParentImage(Model):
    """The snapshot that a clone stands on, as `rbd info` shows it."""

    model_config = ConfigDict(frozen=True)

    pool: str
    image: str
    snapshot: str  # an id of the cluster's own once the snapshot was deleted under the clone
    is_in_trash: bool


class ChildImage(Model):
    """A clone of an image, as `rbd children` shows it."""

    model_config = ConfigDict(frozen=True)

    pool: str
    name: str
    is_in_trash: bool


class NewClone(Model):
    """What a new clone has that its parent has not."""

    model_config = ConfigDict(frozen=True)

    size_bytes: int  # at least its parent's
    facts: dict[str, str]  # instead of its parent's; none is empty


class RbdSnapshots:
    """Snapshots of the RBD images of one cluster, and the clones that stand on them."""

    def __init__(self, cluster: CephCluster) -> None:
        self._cluster = cluster

    def all(self, pool: str, image: str) -> list[RbdSnapshot]:
        """The snapshots that users see, oldest first; none when there is no such image."""
        found = read_image(self._cluster.runner, LIST_SNAPSHOTS, pool, image) or []
        entries = sorted(found, key=lambda entry: int(entry["id"]))
        return [
            RbdSnapshot(
                name=entry["name"],
                size_bytes=entry["size"],
                created_at=_parse_time(entry["timestamp"]),
                is_protected=str(entry["protected"]).lower() == "true",
            )
            for entry in entries
        ]

    def used_bytes(self, pool: str, image: str) -> dict[str | None, int]:
        """What each snapshot added to the one before it, in whole objects; None: since the last.

        With the image's object map it costs one read of the map a snapshot.
        """
        document = json.loads(self._rbd(["du", "--format", "json", f"{pool}/{image}"]).stdout)
        return {entry.get("snapshot"): entry["used_size"] for entry in document["images"]}

    def occupied_bytes(self, pool: str, image: str) -> int:
        """What the image took since its last snapshot, to the byte.

        Asks the OSDs of each object. The object map will not do where blocks were discarded: in a
        clone an empty object stays, to hide the parent's, and counts as a whole one there.
        """
        return self._exact_bytes(pool, image).get(None, 0)

    def stored_bytes(self, pool: str, image: str) -> int:
        """What the image and all its snapshots took, to the byte; asks the OSDs of each object.

        By the object map a page that is written after each snapshot counts as many whole objects.
        """
        return sum(self._exact_bytes(pool, image).values())

    def _exact_bytes(self, pool: str, image: str) -> dict[str | None, int]:
        argv = ["du", "--exact", "--format", "json", f"{pool}/{image}"]
        document = json.loads(self._rbd(argv, timeout_s=DATA_TIMEOUT_S).stdout)
        return {entry.get("snapshot"): entry["used_size"] for entry in document["images"]}

    def ensure(self, pool: str, image: str, snapshot: str) -> None:
        """A snapshot of that name; one that is there is left as it is.

        Clients that have the image open are asked to flush first. Raises GrampusError when one of
        them cannot.
        """
        argv = ["snap", "create", "--no-progress", f"{pool}/{image}@{snapshot}"]
        self._rbd(argv, accept=(EEXIST,), timeout_s=SNAPSHOT_TIMEOUT_S)

    def ensure_absent(
        self, pool: str, image: str, snapshot: str, *, limit_s: float | None = None
    ) -> None:
        """Remove a snapshot, within `limit_s` if given. Raises GrampusError when it is protected.

        The cluster keeps the data of one that has clones for as long as they stand on it.
        """
        argv = ["snap", "rm", "--no-progress", f"{pool}/{image}@{snapshot}"]
        self._rbd(argv, accept=(ENOENT,), timeout_s=limit_s or SNAPSHOT_TIMEOUT_S)

    def ensure_all_absent(self, pool: str, image: str) -> None:
        """Remove every snapshot, protected or not; nothing happens when there is no image."""
        for snapshot in self.all(pool, image):
            if snapshot.is_protected:
                self.ensure_unprotected(pool, image, snapshot.name)
            self.ensure_absent(pool, image, snapshot.name)

    def ensure_protected(
        self, pool: str, image: str, snapshot: str, *, limit_s: float | None = None
    ) -> None:
        """From now on the snapshot cannot be removed, by anybody."""
        argv = ["snap", "protect", f"{pool}/{image}@{snapshot}"]
        self._rbd(argv, accept=(EBUSY,), timeout_s=limit_s or 60)

    def ensure_unprotected(
        self, pool: str, image: str, snapshot: str, *, limit_s: float | None = None
    ) -> None:
        """The snapshot can be removed again."""
        argv = ["snap", "unprotect", f"{pool}/{image}@{snapshot}"]
        self._rbd(argv, accept=(EINVAL,), timeout_s=limit_s or 60)

    def roll_back(
        self, pool: str, image: str, snapshot: str, report: Report = report_nowhere
    ) -> None:
        """Give the image the content and size of the snapshot; nobody may have it open.

        `report` is told how much is done (0 to 1). Cut off, the image is neither the one nor the
        other, until it is done again. Raises GrampusError with code `rollback-failed`.
        """
        place = f"{pool}/{image}@{snapshot}"
        run_reporting(
            self._cluster.runner,
            ["snap", "rollback", place],
            report,
            lambda said: GrampusError(
                f"The image {pool}/{image} was not rolled back to '{snapshot}': {said}",
                "Until the rollback ends, the image is a mixture of both. Check `ceph "
                "health`, then try again.",
                code="rollback-failed",
            ),
        )

    def ensure_clone(
        self, parent: ParentImage, pool: str, name: str, wanted: NewClone | None = None
    ) -> bool:
        """An image that shares all data with `parent` until it is written to, and its namespace.

        An image of that name which is a clone of that parent is left as it is, also one without
        what is `wanted`: an earlier call may have been interrupted. With nothing `wanted`, size
        and metadata are the parent's. Returns whether the clone is new. Raises GrampusError when
        another image has the name, or there is no such snapshot.
        """
        source = f"{parent.pool}/{parent.image}@{parent.snapshot}"
        changes = "null" if wanted is None else wanted.model_dump_json()
        argv = [parent.pool, parent.image, parent.snapshot, pool, name, changes]
        result = self._cluster.runner.run(["python3", "-c", CLONE_IMAGE, *argv], check=False)
        if result.returncode == 0:
            return True
        if result.returncode == EEXIST:
            found = self.parent(pool, name)
            if found is not None and (found.pool, found.image) == (parent.pool, parent.image):
                return False
        raise GrampusError(
            f"{source} cannot be cloned to {pool}/{name}: {_last_line(result)}",
            f"`rbd info {pool}/{name}` and `rbd snap ls {parent.pool}/{parent.image}` show "
            "the images.",
            code="clone-failed",
        )

    def has_parents(self, pool: str, name: str) -> bool:
        """Whether the image, or one of its snapshots, is a clone.

        A flattened image keeps those of its snapshots that are.
        """
        argv = ["python3", "-c", HAS_PARENTS, pool, name]
        return bool(json.loads(self._cluster.runner.run(argv, timeout_s=SNAPSHOT_TIMEOUT_S).stdout))

    def ensure_swept(self, pool: str, name: str) -> None:
        """Free what the image keeps for clones that it has no more; it may be gone itself."""
        argv = ["python3", "-c", SWEEP_SNAPSHOTS, pool, name]
        self._cluster.runner.run(argv, timeout_s=SNAPSHOT_TIMEOUT_S)

    def parent(self, pool: str, name: str) -> ParentImage | None:
        """What the image is a clone of, or None: it stands alone, or there is none."""
        found = self.parents(pool, name, most=1)
        return found[0] if found else None

    def parents(self, pool: str, name: str, *, most: int) -> list[ParentImage]:
        """What the image is a clone of, what that one is a clone of, and so on, at most so many.

        One in the trash is the last: it has no name any more that it could be found by. None when
        the image stands alone, or there is none.
        """
        found = read_image(self._cluster.runner, LIST_PARENTS, pool, name, str(most)) or []
        return [
            ParentImage(
                pool=parent["pool"],
                image=join_image(parent.get("pool_namespace", ""), parent["image"]),
                snapshot=parent["snapshot"],
                is_in_trash=bool(parent.get("trash")),
            )
            for parent in found
        ]

    def children(self, pool: str, name: str, snapshot: str | None = None) -> list[ChildImage]:
        """The clones of the image's snapshots, or of that one alone, by name."""
        of_one = [] if snapshot is None else ["--snap", snapshot]
        argv = ["children", "--all", "--format", "json", *of_one, f"{pool}/{name}"]
        result = self._rbd(argv, accept=(ENOENT,))
        if result.returncode == ENOENT:
            return []
        found = [
            ChildImage(
                pool=entry["pool"],
                name=join_image(entry.get("pool_namespace", ""), entry["image"]),
                is_in_trash=bool(entry.get("trash")),
            )
            for entry in json.loads(result.stdout or "[]")
        ]
        return sorted(found, key=lambda child: (child.pool, child.name))

    def _rbd(
        self,
        arguments: list[str],
        *,
        check: bool = True,
        accept: tuple[int, ...] = (),
        timeout_s: float = 60.0,
    ) -> CommandOutput:
        """`rbd ARGUMENTS`; with `check`, a code that is neither 0 nor in `accept` is an error."""
        argv = ["rbd", *arguments]
        result = self._cluster.runner.run(argv, check=check and not accept, timeout_s=timeout_s)
        if check and accept and result.returncode not in (0, *accept):
            # Once more, so that the runner raises its own error.
            result = self._cluster.runner.run(argv, timeout_s=timeout_s)
        return result


def _parse_time(text: str) -> datetime:
    """The moment in a line such as `Sun Nov 22 00:56:44 2026`, which is in UTC."""
    return datetime.strptime(text, _TIME_FORMAT).replace(tzinfo=UTC)


def _last_line(result: CommandOutput) -> str:
    lines = result.stderr.strip().splitlines()
    return lines[-1] if lines else f"code {result.returncode}"
