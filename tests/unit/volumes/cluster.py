"""A Ceph cluster in memory, behind the commands that volumes run: `ceph` and `rbd`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from grampus.core.units import GIB
from grampus.hosts.port import CommandFailedError, CommandResult
from tests.unit.clock import FakeClock as FakeClock

POOL = "databases"
FSID = "6e1c5a52-0c0c-4f55-9d3b-7a4a5b1f6c11"
WATCH_TIMEOUT_S = 30.0
ENOENT = 2


class Killed(BaseException):
    """The process died here: nothing may run after it, not even an undo."""


class Fuse:
    """Ends the process (or fails a call) before or after the n-th call of a port."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.error: BaseException = Killed()

    def burn(self) -> None:
        if self.left is None:
            return
        if self.left == 0:
            self.left = None
            raise self.error
        self.left -= 1


@dataclass
class Client:
    """A RADOS client that has an image open; `died_at_s` once its process is gone."""

    address: str
    died_at_s: float | None = None
    entity: str = ""
    is_cut_off: bool = False  # it lives, and the cluster hears nothing of it


@dataclass
class Image:
    size_bytes: int
    clients: list[Client] = field(default_factory=list)
    lock: str | None = None  # the address of the client that holds it, also when it is dead
    has_filesystem: bool = False
    filesystem_bytes: int = 0
    was_mounted: bool = False  # from then on it may hold data
    data: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    frames: int = 0  # that its journal holds and it lacks
    epoch: int = 0  # of the last owner of its journal

    @property
    def is_journal_open(self) -> bool:
        return self.metadata.get("grampus.journal") == "open"

    def apply_journal(self) -> int:
        """As volumed does before it serves, and before it ends; how many frames there were."""
        applied, self.frames = self.frames, 0
        if self.is_journal_open:
            self.metadata["grampus.journal"] = "drained"
        return applied


class FakeCluster:
    """A `CommandRunner`."""

    def __init__(self, fuse: Fuse, clock: FakeClock) -> None:
        self._fuse = fuse
        self._clock = clock
        self.images: dict[str, Image] = {}
        self.journals: set[str] = set()  # images that have objects of a journal beside them
        self.users: dict[str, dict[str, str]] = {}
        self.blocklist: list[str] = []
        self.forgets_blocklist = False
        self.available_bytes = 100 * GIB
        self.commands: list[tuple[str, ...]] = []
        self._nonce = 0

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout_s: float = 60.0,
        check: bool = True,
    ) -> CommandResult:
        self._fuse.burn()
        self.commands.append(tuple(argv))
        code, text = self._ceph(argv[3:]) if argv[0] == "ceph" else self._rbd(argv[1:])
        self._fuse.burn()
        result = CommandResult(tuple(argv), code, "" if code else text, text if code else "")
        if check and code:
            raise CommandFailedError("the cluster", result)
        return result

    def open_image(self, name: str, user: str, host_address: str) -> Client:
        """A client opens the image for writing, as a driver does."""
        assert f"client.{user}" in self.users, f"no cephx user {user}"
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
            and (client.died_at_s is None or now_s < client.died_at_s + WATCH_TIMEOUT_S)
        ]

    def _ceph(self, argv: Sequence[str]) -> tuple[int, str]:
        match list(argv):
            case ["auth", "get-or-create", entity, *words]:
                capabilities = dict(zip(words[::2], words[1::2], strict=True))
                if self.users.setdefault(entity, capabilities) != capabilities and capabilities:
                    return 22, "EINVAL: key exists but cap does not match"
                return 0, f"[{entity}]\n\tkey = secret\n"
            case ["auth", "caps", entity, *words]:
                self.users[entity] = dict(zip(words[::2], words[1::2], strict=True))
                return 0, ""
            case ["auth", "rm", entity]:
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
            case ["df", "detail", *_]:
                stats = {"stored": 0, "max_avail": self.available_bytes}
                return 0, json.dumps({"pools": [{"name": POOL, "stats": stats}]})
            case ["osd", "pool", "get", _, "size", *_]:
                return 0, json.dumps({"size": 3})
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

    def _rbd(self, argv: Sequence[str]) -> tuple[int, str]:
        if argv[0] == "--rbd-blocklist-on-break-lock":
            assert argv[1] == "false", "rbd would replace how long the fence lasts"
            return self._rbd(argv[2:])
        if argv[:2] == ["lock", "remove"]:
            return self._break_lock(argv[2], argv[3])
        name = argv[-1]
        match list(argv):
            case ["create", "--size", size, _]:
                assert name not in self.images
                self.images[name] = Image(int(size.removesuffix("B")))
                return 0, ""
            case ["image-meta", "set", image, key, value]:
                if image not in self.images:
                    return ENOENT, "no such image"
                self.images[image].metadata[key] = value
                return 0, ""
            case [*_] if name not in self.images:
                return ENOENT, f"rbd: error opening image {name}"
            case ["info", "--format", "json", _]:
                size_bytes = self.images[name].size_bytes
                return 0, json.dumps(
                    {"size": size_bytes, "object_size": 4194304, "features": ["exclusive-lock"]}
                )
            case ["image-meta", "list", "--format", "json", _]:
                return 0, json.dumps(self.images[name].metadata)
            case ["status", "--format", "json", _]:
                watchers = [{"address": address} for address in self.watchers(name)]
                return 0, json.dumps({"watchers": watchers})
            case ["lock", "list", "--format", "json", _]:
                owner = self.images[name].lock
                locks = [] if owner is None else [{"id": "auto 1", "locker": "client.1"}]
                return 0, json.dumps([{**lock, "address": owner} for lock in locks])
            case ["resize", "--no-progress", "--size", size, _]:
                size_bytes = int(size.removesuffix("B"))
                if size_bytes < self.images[name].size_bytes:
                    return 22, "rbd: shrinking an image is only allowed with --allow-shrink"
                self.images[name].size_bytes = size_bytes
                return 0, ""
            case ["remove", "--no-progress", _]:
                if self.watchers(name):
                    return 16, "rbd: error: image still has watchers"
                assert name not in self.journals, "the objects of its journal would be left"
                del self.images[name]
                return 0, ""
        raise AssertionError(f"a command that no cluster was told of: {argv}")

    def _break_lock(self, name: str, lock_id: str) -> tuple[int, str]:
        image = self.images[name]
        if image.lock is None:
            return ENOENT, "rbd: releasing lock failed: (2) No such file or directory"
        assert lock_id == "auto 1"
        assert image.lock in self.blocklist, "a lock was broken whose owner can still write"
        image.lock = None
        return 0, ""
