"""A Ceph cluster in memory, behind the commands that volumes run: `ceph` and `rbd`."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from grampus.ceph.rbd import CHANGE_METADATA
from grampus.ceph.reporting import REPORT
from grampus.core.errors import GrampusError
from grampus.core.streams import ByteReader
from grampus.core.units import GIB, MIB
from grampus.hosts.port import CommandFailedError, CommandResult
from tests.fakes.clock import FakeClock
from tests.fakes.commands import PlayedCommands
from tests.fakes.image_ids import new_image_id
from tests.fakes.interruption import Fuse
from tests.fakes.mon_commands import as_ceph_command

from .encryption_commands import answer_encryption
from .fact_commands import answer_facts
from .lock_commands import takes_lock
from .migration_commands import (
    Moving,
    SlowCopy,
    answer_migrations,
    describe_migration,
    execute,
)
from .namespace_commands import answer_namespaces, place_of_name, require_granted, split_name
from .pool_commands import answer_pools
from .trash_commands import answer_trash

POOL = "databases"
FSID = "6e1c5a52-0c0c-4f55-9d3b-7a4a5b1f6c11"
WATCH_TIMEOUT_S = 30.0
ENOENT = 2


@dataclass
class Client:
    """A RADOS client that has an image open; `died_at_s` once its process is gone."""

    address: str
    died_at_s: float | None = None
    entity: str = ""
    is_cut_off: bool = False  # it lives, and the cluster hears nothing of it


@dataclass
class Snapshot:
    """What an image held at a moment."""

    id: int
    size_bytes: int
    has_filesystem: bool
    filesystem_bytes: int
    data: str
    is_protected: bool = False
    parent: tuple[str, str] | None = None  # of the image at that moment
    flags: list[str] = field(default_factory=list)


@dataclass
class Image:
    size_bytes: int
    clients: list[Client] = field(default_factory=list)
    lock: str | None = None  # the address of the client that holds it, also when it is dead
    has_filesystem: bool = False
    filesystem_bytes: int = 0
    external_log_bytes: int | None = None  # of that file system
    was_mounted: bool = False  # from then on it may hold data
    data: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    frames: int = 0  # that its journal holds and it lacks
    applied_frames: int = 0  # that were brought into it, ever
    snapshots: dict[str, Snapshot] = field(default_factory=dict)
    parent: tuple[str, str] | None = None  # POOL/NAMESPACE/IMAGE and the snapshot
    epoch: int = 0  # of the last owner of its journal
    passphrase: str | None = None  # that opens its LUKS2 header; None: it has none
    header_bytes: int = 16 * MIB  # of that header
    used_bytes: int = 0
    deleted_bytes: int = 0  # of those, what files that are gone once took
    image_id: str = field(default_factory=new_image_id, compare=False)
    trimmed_bytes: int = 0  # of those, what only its journal has heard of
    features: list[str] = field(default_factory=lambda: ["exclusive-lock", "object-map"])
    flags: list[str] = field(default_factory=list)

    @property
    def facts(self) -> dict[str, str]:
        """The metadata, without the id, which is another one in each world."""
        return {key: fact for key, fact in self.metadata.items() if key != "grampus.identity"}

    @property
    def is_journal_open(self) -> bool:
        return self.metadata.get("grampus.journal") == "open"

    def apply_journal(self, *, closes: bool = True) -> int:
        """As volumed does before it serves, and before it ends; how many frames there were."""
        applied, self.frames = self.frames, 0
        self.applied_frames += applied
        self.used_bytes -= self.trimmed_bytes
        self.trimmed_bytes = 0
        if self.is_journal_open and closes:
            self.metadata["grampus.journal"] = "drained"
        return applied

    def lose_journal(self) -> None:
        """As when it is removed, with all that only it holds."""
        self.frames = self.trimmed_bytes = 0
        if self.is_journal_open:
            self.metadata["grampus.journal"] = "drained"


class RbdCluster(PlayedCommands):
    """A `CommandRunner`."""

    def __init__(self, fuse: Fuse, clock: FakeClock) -> None:
        self._fuse = fuse
        self._clock = clock
        self.images: dict[str, Image] = {}  # by POOL/NAMESPACE/IMAGE, or POOL/IMAGE
        self.namespaces: set[str] = set()  # POOL/NAMESPACE
        self.swept: list[str] = []  # images whose snapshots without clones were asked to go
        self.trash: dict[str, tuple[Image, bool]] = {}  # by id; whether it has a journal
        self.trash_places: dict[str, str] = {}  # by id: POOL/NAMESPACE or POOL
        self.trashed_parents: set[str] = set()  # ids of images in the trash that clones stand on
        self.journals: set[str] = set()  # images that have objects of a journal beside them
        self.users: dict[str, dict[str, str]] = {}
        self.blocklist: list[str] = []
        self.forgets_blocklist = False
        self.available_bytes = 100 * GIB
        self.stored_bytes = 0  # in each pool, as far as it was counted
        self.quota_bytes = 0  # of each pool; 0: it has none
        self.commands: list[tuple[str, ...]] = []
        self._nonce = self._snapshots = 0
        self.refuses_snapshots = False
        self.pools = [POOL, "archive"]  # for images
        self.redundancy = {("weak", "size"): 2, ("lax", "min_size"): 1}
        self.full_pools: set[str] = set()
        self.uncounted_looks: dict[str, int] = {}  # looks at a pool until the MGR has counted it
        self.moving: dict[str, Moving] = {}  # by the target of the migration
        self.refuses_migrations = False
        self.fails_copies = False
        self.warnings: dict[str, str] = {}  # health checks by code: what they say of a pool
        self.copy_looks: list[Callable[[], object]] = []  # what becomes of it as a copy goes on
        self.exchange_failure = ""  # what volumed says to `close-image` and `open-image`
        self.cuts_commits = False  # a commit leaves its source in the trash
        self.before_image: Callable[[], object] = lambda: None  # what others do just before
        self.left_sources: dict[str, tuple[str, Image]] = {}  # by id: in which trash
        self.ended_sources: set[str] = set()
        self.journal_ids: dict[str, str] = {}  # the ids of the images that `journals` belong to
        self.journal_pools: dict[str, str] = {}  # of those, the pools that are not the image's
        self.keys: dict[str, str] = {}  # by entity; `secret` at first
        self.pending_keys: dict[str, str] = {}
        self._made_keys = 0
        # Image, user and host of a client that comes in just before the next key is removed.
        self.late_client: tuple[str, str, str] | None = None
        self.cut_off: set[str] = set()  # addresses of clients that the cluster does not hear now
        self.unwatched: set[str] = set()  # of those, whose watch has ended
        self.are_volumeds_old = False  # of a release that takes no snapshots itself
        self.broken_locks: list[str] = []  # whose lock librbd broke, and blocklisted them

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout_s: float = 60.0,
        check: bool = True,
    ) -> CommandResult:
        self._fuse.burn()
        argv = as_ceph_command(argv)
        self.commands.append(tuple(argv))
        if argv[:2] == ["env", "TZ=UTC"]:
            argv = argv[2:]
        if list(argv[:3]) == ["python3", "-c", CHANGE_METADATA]:
            code, text = self._change_metadata(f"{argv[3]}/{argv[4]}", json.loads(argv[5]))
        elif answer := (
            answer_migrations(self, argv)
            or answer_namespaces(self, argv)
            or answer_encryption(self, argv, stdin)
            or answer_facts(self, argv, stdin)
            or answer_pools(self, argv)
        ):
            code, text = answer
        else:
            code, text = self._ceph(argv[3:]) if argv[0] == "ceph" else self._rbd(argv[1:])
        self._fuse.burn()
        result = CommandResult(tuple(argv), code, "" if code else text, text if code else "")
        if check and code:
            raise CommandFailedError("the cluster", result)
        return result

    @contextmanager
    def reading(self, argv: Sequence[str]) -> Iterator[ByteReader]:
        self._fuse.burn()
        self.commands.append(tuple(argv))
        assert argv[:4] == ["sh", "-c", REPORT, "rbd"], argv
        if self.fails_copies:
            yield io.BytesIO(b"\rImage migration: 3% complete...\nrbd: no space left\n")
            raise GrampusError("The command failed.")
        if argv[4:6] == ["migration", "execute"]:
            if self.copy_looks:
                yield SlowCopy(self, self._clock, argv[-1])
                self._fuse.burn()
                return
            said = execute(self, argv[-1])
        else:
            code, text = self._rbd(argv[4:])
            said = text.encode() if code else b"\rImage: 50% complete...\rImage: 100% complete.\n"
            if code:
                yield io.BytesIO(said)
                raise GrampusError("The command failed.")
        self._fuse.burn()
        yield io.BytesIO(said)

    def find(self, image: str) -> Image | None:
        """The image of that name in any namespace; there is one at most."""
        found = [self.images[name] for name in self.images if name.rpartition("/")[2] == image]
        return found[0] if found else None

    def open_image(self, name: str, user: str, host_address: str) -> Client:
        """A client opens the image for writing, as a driver does."""
        assert f"client.{user}" in self.users, f"no cephx user {user}"
        require_granted(self, user, name)
        image = self.images[name]
        living = [
            client
            for client in image.clients
            if client.died_at_s is None and client.address not in self.blocklist
        ]
        assert not living, f"{name} would have two writers: {living}"
        self._nonce += 1
        client = Client(f"{host_address}:0/{self._nonce}", entity=f"client.{user}")
        image.clients.append(client)
        image.lock = client.address
        return client

    def close_image(self, name: str, client: Client) -> None:
        if name not in self.images:
            return  # it was removed under a client that was fenced
        image = self.images[name]
        image.clients.remove(client)
        if image.lock == client.address:
            image.lock = None

    def is_fenced(self, client: Client | None) -> bool:
        return client is not None and client.address in self.blocklist

    def kill_client(self, client: Client) -> None:
        client.died_at_s = self._clock.slept_s

    def watchers(self, name: str) -> list[str]:
        now_s = self._clock.slept_s
        return [
            client.address
            for client in self.images[name].clients
            if client.address not in self.blocklist
            and client.address not in self.unwatched
            and (client.died_at_s is None or now_s < client.died_at_s + WATCH_TIMEOUT_S)
        ]

    def _ceph(self, argv: Sequence[str]) -> tuple[int, str]:
        match list(argv):
            case ["auth", "get-or-create", entity, *words]:
                capabilities = dict(zip(words[::2], words[1::2], strict=True))
                if self.users.setdefault(entity, capabilities) != capabilities and capabilities:
                    return 22, "EINVAL: key exists but cap does not match"
                return 0, f"[{entity}]\n\tkey = {self.keys.get(entity, 'secret')}\n"
            case ["auth", "get-or-create-pending", entity, "--format", "json"]:
                assert entity in self.users
                self._made_keys += 1
                pending = self.pending_keys.setdefault(entity, f"secret-{self._made_keys}")
                return 0, json.dumps([{"entity": entity, "key": "x", "pending_key": pending}])
            case ["auth", "commit-pending", entity]:
                if entity in self.pending_keys:
                    self.keys[entity] = self.pending_keys.pop(entity)
                return 0, ""
            case ["auth", "caps", entity, *words]:
                self.users[entity] = dict(zip(words[::2], words[1::2], strict=True))
                return 0, ""
            case ["auth", "get", entity, "--format", "json"]:
                if entity not in self.users:
                    return 2, "Error ENOENT: failed to find it"
                return 0, json.dumps([{"entity": entity, "caps": self.users[entity]}])
            case ["auth", "rm", entity]:
                if self.late_client is not None:
                    self.open_image(*self.late_client)
                    self.late_client = None
                self.users.pop(entity, None)
                return 0, ""
            case ["osd", "blocklist", "add", address, expire_s]:
                assert int(expire_s) >= 3600
                if address not in self.blocklist and not self.forgets_blocklist:
                    self.blocklist.append(address)
                return 0, ""
            case ["osd", "blocklist", "ls", "--format", "json"]:
                entries = [{"addr": address, "until": "later"} for address in self.blocklist]
                return 0, json.dumps(entries) + "[]"
            case ["quorum_status", *_]:
                return 0, json.dumps({"quorum_names": ["h1", "h2"]})
            case ["tell", mon, "sessions", *_]:
                return 0, json.dumps(self._sessions() if mon == "mon.h1" else [])
        raise AssertionError(f"a command that no cluster was told of: {argv}")

    def _sessions(self) -> list[dict[str, object]]:
        living = [
            client
            for image in self.images.values()
            for client in image.clients
            if client.died_at_s is None and not client.is_cut_off
        ]
        sessions: list[dict[str, object]] = [
            {
                "con_type": "client",
                "entity_name": client.entity,
                "socket_addr": {
                    "type": "any",
                    "addr": client.address.split("/")[0],
                    "nonce": int(client.address.split("/")[1]),
                },
            }
            for client in living
        ]
        return [*sessions, {"con_type": "osd", "entity_name": "osd.0"}]

    def _change_metadata(self, image: str, changes: dict[str, Any]) -> tuple[int, str]:
        if image not in self.images:
            return 1, "rbd.ImageNotFound"
        known = self.images[image].metadata
        known.update(changes["set"])
        for key in changes["remove"]:
            known.pop(key, None)
        return 0, ""

    def _take_lock(self, name: str) -> None:
        """As librbd does when the owner of the lock has no watch: it is shut out."""
        image = self.images.get(name)
        if image is None or image.lock is None or image.lock in self.blocklist:
            return
        if image.lock not in self.watchers(name):
            self.broken_locks.append(image.lock)
            self.blocklist.append(image.lock)
            image.lock = None

    def _rbd(self, argv: Sequence[str]) -> tuple[int, str]:
        answer = answer_trash(self, argv)
        if answer is not None:
            return answer
        if takes_lock(argv):
            self._take_lock(argv[2 if argv[0] == "feature" else -1].partition("@")[0])
        if argv[0] == "--rbd-blocklist-on-break-lock":
            assert argv[1] == "false", "rbd would replace how long the fence lasts"
            return self._rbd(argv[2:])
        if argv[:2] == ["lock", "remove"]:
            return self._break_lock(argv[2], argv[3])
        if argv[0] == "snap" and argv[1] != "ls":
            return self._snap(argv[1], *argv[-1].split("@"))
        if argv[0] == "feature":
            return self._change_features(argv[1], argv[2], argv[3:])
        if argv[:2] == ["object-map", "rebuild"] or "@" in argv[-1]:
            return self._object_map(argv)
        if argv[:2] == ["image-meta", "remove"]:
            known = self.images[argv[2]].metadata
            return (0, "") if known.pop(argv[3], None) is not None else (ENOENT, "no such key")
        name = argv[-1]
        match list(argv):
            case ["image-meta", "set", image, key, value]:
                if image not in self.images:
                    return ENOENT, "no such image"
                if not value:
                    return 22, "rbd: metadata value was not specified."
                self.images[image].metadata[key] = value
                return 0, ""
            case [*_] if name not in self.images:
                return ENOENT, f"rbd: error opening image {name}"
            case ["info", "--format", "json", _]:
                size_bytes = self.images[name].size_bytes
                document: dict[str, object] = {
                    "id": self.images[name].image_id,
                    "size": size_bytes,
                    "object_size": 4194304,
                    "features": self.images[name].features,
                    "flags": list(self.images[name].flags),
                }
                parent = self.images[name].parent
                if parent is not None:
                    document["parent"] = {**split_name(parent[0]), "snapshot": parent[1]}
                return 0, json.dumps(document)
            case ["snap", "ls", "--format", "json", _]:
                return 0, json.dumps(
                    [
                        {
                            "id": snapshot.id,
                            "name": known,
                            "size": snapshot.size_bytes,
                            "protected": str(snapshot.is_protected).lower(),
                            "timestamp": "Sun Nov 22 00:56:44 2026",
                        }
                        for known, snapshot in self.images[name].snapshots.items()
                    ]
                )
            case ["du", "--format", "json", _] | ["du", "--exact", "--format", "json", _]:
                used = [
                    {"name": "x", "snapshot": known, "used_size": 4194304}
                    for known in self.images[name].snapshots
                ]
                return 0, json.dumps(
                    {"images": [*used, {"name": "x", "used_size": self.images[name].used_bytes}]}
                )
            case ["children", "--all", "--format", "json", *words]:
                of_one = words[1] if words[0] == "--snap" else None
                found = self.children(name, of_one)
                return 0, json.dumps([{**split_name(child), "trash": False} for child in found])
            case ["flatten", *_]:
                if self.images[name].parent is None:
                    return 22, "rbd: flatten error: (22) Invalid argument"
                assert "object-map" not in self.images[name].features, (
                    "a snapshot that is taken meanwhile would have a wrong object map"
                )
                self.images[name].parent = None
                return 0, ""
            case ["image-meta", "list", "--format", "json", _]:
                return 0, json.dumps(self.images[name].metadata)
            case ["status", "--format", "json", _]:
                watchers = [{"address": address} for address in self.watchers(name)]
                return 0, json.dumps({"watchers": watchers, **describe_migration(self, name)})
            case ["resize", "--no-progress", "--size", size, _]:
                size_bytes = int(size.removesuffix("B"))
                if size_bytes < self.images[name].size_bytes:
                    return 22, "rbd: shrinking an image is only allowed with --allow-shrink"
                self.images[name].size_bytes = size_bytes
                return 0, ""
            case ["remove", "--no-progress", _]:
                if self.watchers(name):
                    return 16, "rbd: error: image still has watchers"
                if self.images[name].snapshots:
                    return 39, "rbd: image has snapshots"
                assert name not in self.journals, "the objects of its journal would be left"
                del self.images[name]
                return 0, ""
        raise AssertionError(f"a command that no cluster was told of: {argv}")

    def _change_features(self, verb: str, name: str, features: Sequence[str]) -> tuple[int, str]:
        image = self.images[name]
        have = [one for one in image.features if one not in features]
        assert have == image.features or verb == "disable", "librbd refuses what is so already"
        image.features = [*have, *features] if verb == "enable" else have
        for one in (image, *image.snapshots.values()):
            one.flags = ["object map invalid"] if verb == "enable" else []
        return 0, ""

    def _object_map(self, argv: Sequence[str]) -> tuple[int, str]:
        name, _, snapshot = argv[-1].partition("@")
        image = self.images[name]
        if snapshot and snapshot not in image.snapshots:
            return ENOENT, f"rbd: no snapshot {snapshot}"
        found = image.snapshots[snapshot] if snapshot else image
        if argv[0] == "info":
            sizes = {"size": found.size_bytes, "object_size": 4194304}
            return 0, json.dumps({**sizes, "features": image.features, "flags": found.flags})
        assert "object-map" in image.features
        found.flags = []
        return 0, ""

    def children(self, name: str, snapshot: str | None = None) -> list[str]:
        """The clones of an image, or of one of its snapshots."""
        return sorted(
            child
            for child, image in self.images.items()
            if any(
                parent is not None and parent[0] == name and snapshot in (None, parent[1])
                for parent in (image.parent, *(one.parent for one in image.snapshots.values()))
            )
        )

    def take_snapshot(self, name: str, snapshot: str) -> tuple[int, str]:
        """As the volumed that has the image open takes one."""
        code, said = self._snap("create", name, snapshot)
        if code in (0, 17):
            return 0, json.dumps({"snapshot": snapshot, "created": code == 0})
        return 1, f"volumed: {said} (snapshot-failed)"

    def _snap(self, verb: str, name: str, snapshot: str) -> tuple[int, str]:
        image = self.images[name]
        if verb == "create":
            if snapshot in image.snapshots:
                return 17, "rbd: failed to create snapshot: (17) File exists"
            if self.refuses_snapshots:
                return 110, "rbd: failed to create snapshot: (110) Connection timed out"
            if self.watchers(name):
                image.apply_journal(closes=False)  # as librbd asks the one who has it open
            assert not image.frames, "a snapshot without what was flushed"
            self._snapshots += 1
            image.snapshots[snapshot] = Snapshot(
                *(self._snapshots, image.size_bytes, image.has_filesystem),
                *(image.filesystem_bytes, image.data),
                parent=image.parent,
            )
            return 0, ""
        if snapshot not in image.snapshots:
            return ENOENT, f"rbd: no snapshot {snapshot}"
        found = image.snapshots[snapshot]
        match verb:
            case "rm":
                if found.is_protected:
                    return 16, "rbd: snapshot is protected from removal."
                assert not self.children(name, snapshot), "a snapshot removed under its clones"
                del image.snapshots[snapshot]
            case "protect" | "unprotect":
                if found.is_protected == (verb == "protect"):
                    return (16 if found.is_protected else 22), "rbd: snap is so already"
                found.is_protected = verb == "protect"
            case "rollback":
                assert not self.watchers(name), "an image rolled back under its client"
                assert not image.is_journal_open, "the journal would come over the rollback"
                assert name not in self.journals, "an old log could come over the rollback"
                image.size_bytes, image.filesystem_bytes = found.size_bytes, found.filesystem_bytes
                image.has_filesystem, image.data = found.has_filesystem, found.data
            case _:
                raise AssertionError(f"rbd snap {verb}")
        return 0, ""

    def make_image(self, name: str, size_bytes: int) -> None:
        """An image, unless there is one; the namespace must be there."""
        place = place_of_name(name)
        assert "/" not in place or place in self.namespaces, f"no namespace {place}"
        self.images.setdefault(name, Image(size_bytes))

    def list_clients(self, name: str) -> tuple[int, str]:
        """Who holds the image's lock, and who has it open."""
        if name not in self.images:
            return 1, "rbd.ImageNotFound: [errno 2] RBD image not found"
        owner = self.images[name].lock
        locks = [] if owner is None else [{"id": "auto 1", "locker": "client.1"}]
        found = [{**lock, "address": owner} for lock in locks]
        return 0, json.dumps({"locks": found, "watchers": self.watchers(name)})

    def clone(self, parent: str, snapshot: str, name: str) -> tuple[int, str]:
        """A clone; its code and what is said."""
        if parent not in self.images or snapshot not in self.images[parent].snapshots:
            return 1, "rbd.ImageNotFound: [errno 2] RBD image not found (error creating clone)"
        if name in self.images:
            return 17, "[errno 17] RBD image already exists (error creating clone)"
        source = self.images[parent]
        found = source.snapshots[snapshot]
        self.images[name] = Image(
            found.size_bytes,
            has_filesystem=found.has_filesystem,
            filesystem_bytes=found.filesystem_bytes,
            was_mounted=True,
            data=found.data,
            metadata=dict(source.metadata),
            parent=(parent, snapshot),
            passphrase=source.passphrase,
            external_log_bytes=source.external_log_bytes,
        )
        return 0, ""

    def _break_lock(self, name: str, lock_id: str) -> tuple[int, str]:
        image = self.images[name]
        if image.lock is None:
            return ENOENT, "rbd: releasing lock failed: (2) No such file or directory"
        assert lock_id == "auto 1"
        assert image.lock in self.blocklist, "a lock was broken whose owner can still write"
        image.lock = None
        return 0, ""
