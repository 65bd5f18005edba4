"""RBD images, through the `rbd` command on any reachable host."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from pydantic import ConfigDict

from grampus.ceph.cluster import CephCluster
from grampus.ceph.connecting import CONNECT
from grampus.ceph.image_reads import LIST_METADATA, require_image
from grampus.ceph.namespaces import ENTER_NAMESPACE, place_of, split_image
from grampus.ceph.ports import CommandOutput
from grampus.core.clock import Clock, wait_until
from grampus.core.errors import RefusedError
from grampus.core.models import Model

ENOENT, EBUSY, EEXIST = 2, 16, 17
# How many objects are read or copied at once by what copies a whole image. rbd's own 10 keep the
# OSDs of a small cluster so busy that writers wait for seconds; 2 are some 100 MB/s on flash.
GENTLY = ("--rbd-concurrent-management-ops", "2")
# Of those who have an image open: the watch of one that was killed lasts 30 s.
LET_GO_TIMEOUT_S = 45.0
METADATA_PREFIX = "grampus."
# The fact that says whose an image is: an id that no other volume has.
IDENTITY_FACT = "identity"
# Metadata of an image, changed without the image's exclusive lock. `rbd image-meta` and librbd take
# the lock first, and break it where its owner is silent (its watch has ended, as when the storage
# network of its host is down): the owner is blocklisted (INV-69). So Grampus asks the OSD of the
# image's header to change the metadata, by the method of the object class `rbd` that librbd uses.
#
# For scripts on a host that have imported `rados`. `facts` are keys and values to set, `absent`
# keys to remove, `former` values that must still be there: all of it happens, or nothing. Raises
# rados.ObjectNotFound when there is no such image. `image_id_of` gives the id of a named image.
HEADER_METADATA = """
import errno, struct
def packed(text):
    data = text.encode()
    return struct.pack("<I", len(data)) + data
def image_id_of(context, name):
    answer = context.execute("rbd_id." + name, "rbd", "get_id", b"")[1]
    (length,) = struct.unpack_from("<I", answer)
    return answer[4 : 4 + length].decode()
def change_metadata(context, image_id, facts, absent=(), former=None):
    with rados.WriteOpCtx() as operation:
        # Fails where there is no header: setting alone would make one of an image that is gone.
        operation.execute("rbd", "get_object_prefix", b"")
        for key, value in (former or {}).items():
            operation.omap_cmp("metadata_" + key, value)
        if facts:
            pairs = b"".join(packed(key) + packed(value) for key, value in facts.items())
            operation.execute("rbd", "metadata_set", struct.pack("<I", len(facts)) + pairs)
        for key in absent:
            operation.execute("rbd", "metadata_remove", packed(key))
        try:
            context.operate_write_op(operation, "rbd_header." + image_id)
        except rados.Error as error:
            if abs(getattr(error, "errno", None) or 0) != errno.ECANCELED:
                raise
            return False
    return True
"""
# Several facts at once: `rbd image-meta` connects to the cluster anew for each, 14 times 0.2 s for
# a new database; and it would take the lock. Ceph's own packages bring python3-rados along wherever
# they bring `rbd`.
CHANGE_METADATA = f"""
{CONNECT}
import json, sys
{HEADER_METADATA}
changes = json.loads(sys.argv[3])
namespace, _, name = sys.argv[2].rpartition("/")
with connect() as cluster, cluster.open_ioctx(sys.argv[1]) as pool:
    pool.set_namespace(namespace)
    change_metadata(pool, image_id_of(pool, name), changes["set"], changes["remove"])
"""
# The namespace and the image over one connection: `rbd` connects anew for each, and a database is
# waited for.
CREATE_IMAGE = f"""
{CONNECT}
import sys, rbd
{ENTER_NAMESPACE}
{HEADER_METADATA}
namespace, _, name = sys.argv[2].rpartition("/")
key, identity = sys.argv[4:6]
def noted(image):
    try:
        return image.metadata_get(key)
    except KeyError:
        return ""
with connect() as cluster, cluster.open_ioctx(sys.argv[1]) as pool:
    enter(pool, namespace)
    is_new = True
    try:
        rbd.RBD().create(pool, name, int(sys.argv[3]))
    except rbd.ImageExists:
        is_new = False
    if identity:
        with rbd.Image(pool, name, read_only=True) as image:
            known = noted(image)
            if is_new or (namespace and not known):
                change_metadata(pool, image.id(), {{key: identity}})
            elif known != identity:
                sys.exit({EEXIST})
"""


# Both over one connection: who opens a volume, fences it or fails it over asks for both. The lock
# first: its owner is a watcher for as long as it lives.
LIST_CLIENTS = f"""
{CONNECT}
import json, sys, rbd
namespace, _, name = sys.argv[2].rpartition("/")
with connect() as cluster, cluster.open_ioctx(sys.argv[1]) as pool:
    pool.set_namespace(namespace)
    with rbd.Image(pool, name, read_only=True) as image:
        # No dictionary, but an empty list, if there is no lock.
        lockers = (image.list_lockers() or {{"lockers": []}})["lockers"]
        locks = [
            {{"id": cookie, "locker": client, "address": address}}
            for client, cookie, address in lockers
        ]
        watchers = [watcher["addr"] for watcher in image.watchers_list()]
print(json.dumps({{"locks": locks, "watchers": watchers}}))
"""


class ImageInfo(Model):
    """An image as `rbd info` shows it."""

    model_config = ConfigDict(frozen=True)

    pool: str
    name: str  # with its namespace, as everywhere
    size_bytes: int
    object_size_bytes: int
    features: tuple[str, ...]
    flags: tuple[str, ...] = ()  # such as `object map invalid`


class ImageLock(Model):
    """The lock that a client holds on an image, as `rbd lock list` shows it, too."""

    model_config = ConfigDict(frozen=True)

    id: str
    locker: str  # such as client.4394
    address: str  # address:port/nonce


class ImageClients(Model):
    """Who uses an image."""

    model_config = ConfigDict(frozen=True)

    locks: tuple[ImageLock, ...]  # its exclusive lock: one, or none
    watchers: tuple[str, ...]  # client addresses (address:port/nonce) that have it open


class RbdImages:
    """The RBD images of one cluster; names are IMAGE or NAMESPACE/IMAGE."""

    def __init__(self, cluster: CephCluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def ensure_image(self, pool: str, name: str, size_bytes: int, identity: str = "") -> None:
        """An image of that size, and its namespace; an existing one is left as it is.

        With an `identity` the image bears it as a fact (`IDENTITY_FACT`), and one of that name
        which bears another one is refused: RefusedError with code `image-exists`. So is one
        without any in the default namespace, where anybody may have made it.
        """
        key = f"{METADATA_PREFIX}{IDENTITY_FACT}"
        argv = ["python3", "-c", CREATE_IMAGE, pool, name, str(size_bytes), key, identity]
        result = self._cluster.runner.run(argv, timeout_s=60, check=False)
        if result.returncode == EEXIST:
            raise RefusedError(
                f"The image {pool}/{name} already exists, and Grampus did not create it for "
                "this volume.",
                "Choose another name. If you know the owner of the image, you can also "
                "remove or rename the image.",
                code="image-exists",
            )
        if result.returncode != 0:
            self._cluster.runner.run(argv, timeout_s=60)  # so that the runner raises its own error

    def ensure_namespace(self, pool: str, name: str) -> None:
        """The namespace that an image called `name` is to be in."""
        if split_image(name)[0]:
            argv = ("namespace", "create", place_of(pool, name))
            result = self._rbd(*argv, check=False)
            if result.returncode not in (0, EEXIST):
                self._rbd(*argv)  # once more, so that the runner raises its own error

    def ensure_namespace_absent(self, pool: str, name: str) -> None:
        """The namespace of an image that is gone; it stays while others, or trash, are in it."""
        if split_image(name)[0]:
            argv = ("namespace", "remove", place_of(pool, name))
            result = self._rbd(*argv, check=False)
            if result.returncode not in (0, ENOENT, EBUSY):
                self._rbd(*argv)  # once more, so that the runner raises its own error

    def find(self, pool: str, name: str) -> ImageInfo | None:
        """The image, or the snapshot IMAGE@SNAPSHOT, or None when there is none."""
        arguments = ("info", "--format", "json", f"{pool}/{name}")
        result = self._rbd(*arguments, check=False)
        if result.returncode == ENOENT:
            return None
        if result.returncode != 0:
            result = self._rbd(*arguments)  # once more, so that the runner raises its own error
        document = json.loads(result.stdout)
        return ImageInfo(
            pool=pool,
            name=name,
            size_bytes=document["size"],
            object_size_bytes=document["object_size"],
            features=tuple(document["features"]),
            flags=tuple(document.get("flags", ())),
        )

    def ensure_size(
        self, pool: str, name: str, size_bytes: int, *, limit_s: float | None = None
    ) -> None:
        """Grow the image to that size, within `limit_s` if given.

        Raises GrampusError when it is bigger already.
        """
        image = self.find(pool, name)
        if image is not None and image.size_bytes == size_bytes:
            return
        # Without --allow-shrink, rbd refuses to cut anything off.
        size = f"{size_bytes}B"
        argv = ("resize", "--no-progress", "--size", size, f"{pool}/{name}")
        self._rbd(*argv, timeout_s=limit_s or 60)

    def clients(self, pool: str, name: str) -> ImageClients:
        """Who holds the exclusive lock of the image, and who has it open.

        Raises GrampusError when there is no such image.
        """
        argv = ["python3", "-c", LIST_CLIENTS, pool, name]
        return ImageClients.model_validate_json(self._cluster.runner.run(argv, timeout_s=60).stdout)

    def ensure_lock_absent(self, pool: str, name: str, lock: ImageLock) -> None:
        """Break a lock. Its owner must be blocklisted first: a lock alone stops no write."""
        arguments = ("lock", "remove", f"{pool}/{name}", lock.id, lock.locker)
        # rbd would blocklist the owner once more, and so replace how long that lasts.
        option = ("--rbd-blocklist-on-break-lock", "false")
        result = self._rbd(*option, *arguments, check=False)
        if result.returncode not in (0, ENOENT):
            self._rbd(*option, *arguments)  # once more, so that the runner raises its own error

    def watchers(self, pool: str, name: str) -> list[str]:
        """Client addresses (address:port/nonce) that have the image open."""
        result = self._rbd("status", "--format", "json", f"{pool}/{name}")
        return [watcher["address"] for watcher in json.loads(result.stdout).get("watchers", [])]

    def wait_for_others(self, pool: str, name: str) -> None:
        """Wait until one client at most has the image open: its own, which may go on.

        A command that was killed keeps its watch for 30 s, and what is asked of the image's own
        client meanwhile is never answered (Ceph 20.2). Raises GrampusError with code `timeout`.
        """
        wait_until(
            self._clock,
            lambda: len(self.watchers(pool, name)) < 2,
            what=f"other clients to close {pool}/{name}",
            remedy=f"`rbd status {pool}/{name}` shows the clients of the image.",
            timeout_s=LET_GO_TIMEOUT_S,
            interval_s=0.5,
        )

    def ensure_absent(self, pool: str, name: str) -> None:
        """Remove the image; waits for a client that has just gone (its watch ends in 30 s)."""
        if self.find(pool, name) is not None:
            self.take_away(pool, name, "remove", "--no-progress", timeout_s=600)

    def take_away(self, pool: str, name: str, *arguments: str, timeout_s: float = 60) -> None:
        """Run `rbd ARGUMENTS` on the image as soon as nobody has it open.

        Raises GrampusError with code `timeout` when somebody keeps it open.
        """

        def is_done() -> bool:
            if self.watchers(pool, name):
                return False
            argv = (*arguments, f"{pool}/{name}")
            result = self._rbd(*argv, check=False, timeout_s=timeout_s)
            if result.returncode == EBUSY:
                return False  # opened since: another command may be noting a fact on it
            if result.returncode != 0:
                self._rbd(*argv, timeout_s=timeout_s)  # so that the runner raises its own error
            return True

        wait_until(
            self._clock,
            is_done,
            what=f"the last client to close {pool}/{name}",
            remedy=f"`rbd status {pool}/{name}` shows the clients of the image.",
            timeout_s=LET_GO_TIMEOUT_S,
            interval_s=0.5,
        )

    def set_metadata(self, pool: str, name: str, facts: Mapping[str, str]) -> None:
        """Write facts to the image's own metadata, under our prefix, without its lock.

        An empty one is removed: rbd keeps none that is empty.
        """
        kept = {key: fact for key, fact in facts.items() if fact}
        absent = [key for key, fact in facts.items() if not fact]
        self._change_metadata(pool, name, kept, absent)

    def metadata(self, pool: str, name: str) -> dict[str, str]:
        """Our facts on the image."""
        found = require_image(self._cluster.runner, LIST_METADATA, pool, name)
        return {
            key.removeprefix(METADATA_PREFIX): value
            for key, value in found.items()
            if key.startswith(METADATA_PREFIX)
        }

    def ensure_metadata_absent(self, pool: str, name: str, keys: Iterable[str]) -> None:
        """Remove facts from the image's own metadata, under our prefix."""
        self._change_metadata(pool, name, {}, keys)

    def _change_metadata(
        self, pool: str, name: str, facts: Mapping[str, str], absent: Iterable[str]
    ) -> None:
        changes = {
            "set": {f"{METADATA_PREFIX}{key}": fact for key, fact in facts.items()},
            "remove": [f"{METADATA_PREFIX}{key}" for key in absent],
        }
        if changes["set"] or changes["remove"]:
            argv = ["python3", "-c", CHANGE_METADATA, pool, name, json.dumps(changes)]
            self._cluster.runner.run(argv, timeout_s=120)

    def _rbd(self, *arguments: str, check: bool = True, timeout_s: float = 60) -> CommandOutput:
        return self._cluster.runner.run(["rbd", *arguments], check=check, timeout_s=timeout_s)
