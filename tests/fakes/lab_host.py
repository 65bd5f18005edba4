"""A lab's hosts in memory, behind the commands that bring up a Ceph cluster on them.

A MON starts only from a store that mkfs finished, an OSD only from a store on the device that
carries its own label, and the cluster answers only while most MONs run.
"""

from __future__ import annotations

import json
import shlex
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import PurePosixPath

from grampus.ceph.journal_objects import COUNT_JOURNALS
from grampus.ceph.pools import COUNT_IMAGES
from grampus.hosts.lab_host import PartitionName
from grampus.hosts.loop_scripts import DETACH_LOOPS, LIST_LOOPS
from grampus.hosts.port import BlockLimit, DaemonSpec
from tests.fakes.hosts import FakeDaemon, FakeFile, FakeFleet, FakeHost
from tests.fakes.interruption import Fuse
from tests.fakes.mon_commands import as_ceph_command

Path = PurePosixPath


@dataclass
class FakeCeph:
    """What the MONs know."""

    hosts: list[FakeLabHost] = field(default_factory=list)
    osds: dict[str, tuple[int, str]] = field(default_factory=dict)  # uuid -> id, secret
    users: dict[str, str] = field(default_factory=dict)
    pools: dict[str, dict[str, str]] = field(default_factory=dict)
    health: str = "HEALTH_OK"
    # What the MGR says of every placement group, one answer after the other, before it is clean.
    group_states: list[str] = field(default_factory=list)
    version: str = "20.2.4"
    heard_groups: int = 0  # that the MGR counts
    peering_looks: int = 0  # how often its groups are still seen not to serve
    crush: dict[str, str] = field(default_factory=dict)  # an OSD or bucket -> what it is in
    rules: list[str] = field(default_factory=lambda: ["replicated_rule"])
    images: dict[str, int] = field(default_factory=dict)  # by pool
    journals: dict[str, int] = field(default_factory=dict)  # of images in other pools, by pool
    acting_sets: list[list[int]] = field(default_factory=lambda: [[0, 1, 2], [2, 0, 1]])
    # Hosts work at the same time, each call of theirs alone.
    lock: AbstractContextManager[bool] = field(default_factory=threading.RLock)

    def running(self, kind: str) -> list[str]:
        return [
            status.name.removeprefix(f"{kind}-")
            for host in self.hosts
            for status in host.observe_daemons()
            if status.name.startswith(f"{kind}-") and status.state == "running"
        ]

    def answer(self, argv: Sequence[str], stdin: str | None) -> tuple[int, str]:
        if len(self.running("mon")) * 2 <= len([h for h in self.hosts if h.has_mon()]):
            return 110, "[errno 110] RADOS timed out (error connecting to the cluster)"
        osds_up = len(self.running("osd"))
        match list(argv):
            case ["version"]:
                return 0, f"ceph version {self.version} (0123abcd) name (stable)\n"
            case ["quorum_status", *_]:
                return 0, json.dumps({"quorum": list(range(len(self.running("mon"))))})
            case ["auth", "get-or-create", entity, *_]:
                key = self.users.setdefault(entity, f"key-of-{entity}==")
                return 0, f"[{entity}]\n\tkey = {key}\n"
            case ["osd", "new", osd_uuid, "-i", "-"]:
                secret = json.loads(stdin or "{}")["cephx_secret"]
                taken = {number for number, _ in self.osds.values()}
                free = next(number for number in count() if number not in taken)
                known = self.osds.setdefault(osd_uuid, (free, secret))
                if known[1] != secret:
                    return 17, "EEXIST: entity exists but key does not match"
                return 0, f"{known[0]}\n"
            case ["osd", "dump", *_]:
                return 0, json.dumps({"osds": self._osd_dump()})
            case ["osd", "pool", "ls", "detail", *_]:
                detail = [
                    {
                        "pool_name": pool,
                        "pg_num": int(facts["pg_num"]),
                        "crush_rule": self.rules.index(facts["rule"]),
                    }
                    for pool, facts in self.pools.items()
                ]
                return 0, json.dumps(detail)
            case ["osd", "pool", "ls", *_]:
                return 0, json.dumps(sorted(self.pools))
            case ["osd", "pool", "create", pool, groups, *_]:
                rule = next((word for word in argv if word in self.rules), self.rules[0])
                self.pools[pool] = {"pg_num": groups, "rule": rule}
                return 0, ""
            case ["osd", "pool", "rm", pool, _, "--yes-i-really-really-mean-it"]:
                assert not self.images.get(pool)
                assert not self.journals.get(pool)
                del self.pools[pool]
                return 0, ""
            case ["config", "set" | "rm", *_]:
                return 0, ""
            case ["osd", "crush" | "down" | "purge", *_]:
                return self._change_map(list(argv)[1:])
            case ["osd", "pool", "set", pool, name, value]:
                self.pools[pool][name] = value
                return 0, ""
            case ["pg", "dump", "pgs_brief", *_]:
                state = self.group_states.pop(0) if self.group_states else "active+clean"
                return 0, json.dumps([{"acting": one, "state": state} for one in self.acting_sets])
            case ["mon", "dump", *_]:
                return 0, json.dumps({"mons": [{"name": name} for name in self.running("mon")]})
            case ["health"]:
                return 0, f"{self.health} 1 osds down\n"
            case ["status", *_]:
                return 0, json.dumps(self._status(osds_up))
        raise AssertionError(f"a command that no cluster was told of: {argv}")

    def _change_map(self, argv: list[str]) -> tuple[int, str]:
        match argv:
            case ["crush", "add-bucket", name, "root"]:
                self.crush.setdefault(name, "")
            case ["crush", "rule", "create-replicated", rule, root, "host"]:
                assert root in self.crush
                self.rules += [] if rule in self.rules else [rule]
            case ["crush", "rule", "dump", *_]:
                rules = [{"rule_id": at, "rule_name": rule} for at, rule in enumerate(self.rules)]
                return 0, json.dumps(rules)
            case ["crush", "rule", "rm", rule]:
                if any(facts["rule"] == rule for facts in self.pools.values()):
                    return 16, f"rule {rule} is in use"
                self.rules = [one for one in self.rules if one != rule]
            case ["crush", "rm", name]:
                if name in self.crush.values():
                    return 39, f"{name} is not empty"
                self.crush.pop(name, None)
            case ["down", number]:
                assert number not in self.running("osd"), "it would come up again"
            case ["purge", number, "--force", "--yes-i-really-mean-it"]:
                self.osds = {u: known for u, known in self.osds.items() if known[0] != int(number)}
                self.crush.pop(f"osd.{number}", None)
        return 0, ""

    def _osd_dump(self) -> list[dict[str, object]]:
        up = {int(name) for name in self.running("osd")}
        return [
            {"osd": number, "uuid": osd_uuid, "up": int(number in up), "in": int(number in up)}
            for osd_uuid, (number, _) in self.osds.items()
        ]

    def _status(self, osds_up: int) -> dict[str, object]:
        state = "peering" if self.peering_looks else "active+clean"
        self.peering_looks = max(0, self.peering_looks - 1)
        # The MGR is told of a new pool's groups after the first look.
        heard, made = self.heard_groups, sum(int(p["pg_num"]) for p in self.pools.values())
        self.heard_groups = made
        return {
            "health": {"status": self.health, "checks": {}},
            "quorum_names": self.running("mon"),
            "osdmap": {"num_osds": len(self.osds), "num_up_osds": osds_up, "num_in_osds": osds_up},
            "pgmap": {
                "num_pgs": heard,
                "pgs_by_state": [{"state_name": state, "count": heard}],
                "bytes_total": 1,
                "bytes_avail": 1,
            },
        }


class FakeLabHost(FakeHost):
    """As much of a `LabHost` as a lab needs of it."""

    def __init__(self, name: str, address: str, ceph: FakeCeph, fuse: Fuse) -> None:
        super().__init__(name, address=address, fuse=fuse)
        self.data_dir = Path("/lab") / name / "data"
        self.ceph = ceph
        self.state = "up"  # up, cut-off or down
        self.partition: PartitionName | None = None
        self.loops: dict[str, tuple[Path, str]] = {}  # device -> file, reference
        self.parts: dict[str, tuple[str, ...]] = {}  # device -> its place
        self.rotational: dict[str, str] = {}  # device -> 0 or 1
        self.served: dict[Path, Path] = {}  # where an emulated disk is served -> its file
        self.kept_by: dict[str, Path] = {}  # daemon -> what its detached device is over
        self.unpaced: set[str] = set()  # emulated disks, by daemon, that are as fast as can be
        self.labels: dict[Path, str] = {}  # file of an OSD -> uuid on it
        self.block_limits: dict[tuple[str, str], BlockLimit] = {}
        self.first_loop = 0

    def is_up(self) -> bool:
        return self.state != "down"

    def is_linked(self) -> bool:
        return self.state == "up"

    def observe_partition(self) -> PartitionName | None:
        return self.partition

    def has_mon(self) -> bool:
        return any(name.startswith("mon-") for name in self.daemons)

    @contextmanager
    def changing(self) -> Iterator[None]:
        with self.ceph.lock, super().changing():
            yield

    def play(self, argv: list[str], stdin: str | None, daemon: str | None) -> tuple[int, str]:
        with self.changing():
            return self._command(as_ceph_command(argv), stdin)

    def start(self, spec: DaemonSpec) -> FakeDaemon:
        self._place(spec)
        return FakeDaemon(spec, "running" if self._can_start(spec) else "stopped")

    def set_block_limit(self, daemon: str, limit: BlockLimit) -> None:
        assert self.runs(daemon)
        self.block_limits[daemon, limit.device] = limit

    def _place(self, spec: DaemonSpec) -> None:
        """An OSD puts itself where it is told in the CRUSH map, else under its host."""
        if not spec.name.startswith("osd-"):
            return
        options = dict(zip(spec.argv, spec.argv[1:], strict=False))
        told = options.get("--crush-location", f"root=default host={self.name}")
        root, host = (word.partition("=")[2] for word in told.split())
        self.ceph.crush |= {f"osd.{options['--id']}": host, host: root, root: ""}

    def slice(self, device: str) -> Path:
        """The file that a device is, or its part of it, below whatever serves it."""
        file, part = self.loops[device][0], "".join(self.parts.get(device, ()))
        file = self.served.get(file, file)
        return Path(f"{file}@{part}") if part else file

    def daemon_log(self, name: str, *, last_lines: int = 20) -> str:
        return f"{name} found no store"

    def kill_daemon(self, name: str) -> None:
        self.daemons[name].state = "stopped"

    def reboot(self) -> None:
        """Loop devices are gone and get other numbers; daemons have ended; files stay."""
        self.loops.clear()
        self.served.clear()
        self.first_loop += 40
        for daemon in self.daemons.values():
            daemon.state = "stopped"

    def path(self, inside: str | Path) -> Path:
        """Where a path of the host container lies on the machine."""
        for target, below in (("/var/lib/ceph", "var-lib-ceph"), ("/etc/ceph", "etc-ceph")):
            if Path(inside).is_relative_to(target):
                return self.data_dir / below / Path(inside).relative_to(target)
        return Path(inside)

    def _can_start(self, spec: DaemonSpec) -> bool:
        kind, _, name = spec.name.partition("-")
        if kind == "disk":
            return self._serve_disk(spec)
        store = self.path(f"/var/lib/ceph/{kind}/ceph-{name}")
        if kind == "mgr":
            return store / "keyring" in self.files
        if kind == "mon":
            return store / "store.db" in self.files
        device = self.read_file(store / "block") or ""
        return (
            device in self.loops
            and spec.devices
            == tuple(
                self.text(link)
                for name in ("block", "block.db")
                if (link := store / name) in self.files
            )
            and store / "superblock" in self.files
            and self.labels.get(self.slice(device)) == self.text(store / "superblock")
        )

    def _command(self, argv: list[str], stdin: str | None) -> tuple[int, str]:
        match argv:
            case ["ceph", "--connect-timeout", _, *rest]:
                return self.ceph.answer(rest, stdin)
            case ["rbd", "pool", "init", pool]:
                self.ceph.pools[pool]["application"] = "rbd"
                return 0, ""
            case ["ceph-authtool", "--gen-print-key"]:
                return 0, f"secret-{uuid.uuid4().hex}\n"
            case ["monmaptool", "--create", "--clobber", *options, monmap]:
                release = options[options.index("--set-min-mon-release") + 1]
                if int(release) > int(self.ceph.version.partition(".")[0]):
                    return 22, f"a map for release {release}"
                self.put(monmap, "monmap")
                return 0, ""
            case ["ceph-mon", "--version"]:
                return 0, f"ceph version {self.ceph.version} (0123abcd) name (stable)\n"
            case ["ceph-mon", "--mkfs", "--id", name, "--monmap", monmap, "--keyring", keyring]:
                assert Path(monmap) in self.files
                assert "[mon.]" in self.text(keyring)
                return self._make(f"/var/lib/ceph/mon/ceph-{name}/store.db", "")
            case ["ceph-osd", "--mkfs", "--id", name, *options, osd_uuid]:
                store = self.path(f"/var/lib/ceph/osd/ceph-{name}")
                if "--bluestore-block-db-path" in options:
                    if store / "block.db" in self.files:
                        return 250, "bluestore mkfs failed, (17) File exists"
                    wal_db = options[options.index("--bluestore-block-db-path") + 1]
                    self.put(store / "block.db", wal_db)
                return self._make_osd(store, osd_uuid)
            case ["sh", "-c", _, "sh", setting] if setting.endswith("/queue/write_cache"):
                return 0, "write back\n"
            case ["sh", "-c", _, "sh", setting, value] if setting.endswith("/queue/rotational"):
                self.rotational[f"/dev/{Path(setting).parts[3]}"] = value
                return 0, ""
            case ["python3", "-c", script, *pairs] if script == DETACH_LOOPS:
                for device in pairs[::2]:
                    assert Path(device) not in [file for file, _ in self.loops.values()], "in use"
                    file, _ = self.loops.pop(device, (Path(), ""))
                    # Whoever has it open keeps it, and what it is over.
                    users = [name for name in self.daemons if device in self._opened_by(name)]
                    self.kept_by |= dict.fromkeys(users, file)
                return 0, ""
            case ["findmnt", *_, "--mountpoint", path]:
                return (0, "volumed\n") if Path(path) in self.served else (1, "")
            case ["umount", path]:
                kept = [file for name, file in self.kept_by.items() if self.runs(name)]
                if Path(path) in (*kept, *(file for file, _ in self.loops.values())):
                    return 32, "target is busy"
                del self.served[Path(path)]
                return 0, ""
            case [program, "ctl", "--socket", socket, "pace", word]:
                assert Path(program) in self.files
                name = f"disk-{self.name}-{Path(socket).parent.name}"
                assert self.runs(name), "nobody listens"
                (self.unpaced.discard if word == "on" else self.unpaced.add)(name)
                return 0, "{}"
            case ["losetup", *rest]:
                return self._losetup(rest)
            case ["python3", "-c", script, where] if script == LIST_LOOPS:
                return self._list_loops(where)
            case ["wipefs", "--all", "--quiet", device] | ["dd", _, device, *_]:
                self.labels.pop(self.slice(device.removeprefix("of=")), None)
                return 0, ""
            case _:
                return self._file_command(argv)

    def _opened_by(self, name: str) -> tuple[str, ...]:
        return self.daemons[name].spec.devices if self.runs(name) else ()

    def _serve_disk(self, spec: DaemonSpec) -> bool:
        """Mounts the disk over its file, unless what it needs is missing."""
        options = dict(zip(spec.argv, spec.argv[1:], strict=False))
        file, target = Path(options["--file"]), Path(options["--mountpoint"])
        assert target not in self.served, "mounted twice"
        self.unpaced.discard(spec.name)
        if not self.files.keys() >= {file, target, Path(spec.argv[0])}:
            return False
        self.served[target] = file
        return True

    def _file_command(self, argv: list[str]) -> tuple[int, str]:
        path = self.path(argv[-1])
        match argv:
            case ["sync"]:
                return 0, ""
            case ["rm", "-f", *names]:
                for name in names:
                    self.files.pop(self.path(name), None)
                    self.labels = {
                        place: label
                        for place, label in self.labels.items()
                        if str(place).partition("@")[0] != str(self.path(name))
                    }
            case ["python3", "-c", script, pool] if script == COUNT_IMAGES:
                return 0, str(self.ceph.images.get(pool, 0))
            case ["python3", "-c", script, pool] if script == COUNT_JOURNALS:
                return 0, str(self.ceph.journals.get(pool, 0))
            case ["stat", "--format", "%F", _]:
                return (0, "") if path in self.files else (1, "No such file or directory")
            case ["rm", "-rf", "--one-file-system", _] | ["rm", "-rf", _]:
                assert not any(mount.is_relative_to(path) for mount in self.served), "mounted"
                self.files = {f: c for f, c in self.files.items() if not f.is_relative_to(path)}
            case ["mkdir", "-p", _]:
                self.files.setdefault(path, FakeFile("directory"))
            case ["touch", _] | ["truncate", "--size", _, _]:
                self.files.setdefault(path, FakeFile(""))
            case ["ln", "--symbolic", *_, device, _]:
                self.put(path, device)
            case _:
                raise AssertionError(f"a command that no host was told of: {shlex.join(argv)}")
        return 0, ""

    def _make(self, inside: str, content: str) -> tuple[int, str]:
        path = self.path(inside)
        assert path.parent in self.files, f"no directory {path.parent}"
        if path in self.files:
            return 17, f"{path}: already exists"
        self.put(path, content)
        return 0, ""

    def _make_osd(self, store: Path, osd_uuid: str) -> tuple[int, str]:
        assert store / "keyring" in self.files, "no key for the OSD"
        file = self.slice(self.text(store / "block"))
        if file in self.labels:
            return 1, "bluestore: device carries a label already"
        self.labels[file] = osd_uuid
        return self._make(str(store / "superblock"), osd_uuid)

    def _list_loops(self, where: str) -> tuple[int, str]:
        devices = [
            {"name": device, "ref": reference, "back-file": str(file)}
            for device, (file, reference) in self.loops.items()
            if (str(file).startswith(where) if where.endswith("/") else str(file) == where)
        ]
        return 0, json.dumps({"loopdevices": devices})

    def _losetup(self, options: list[str]) -> tuple[int, str]:
        match options:
            case ["--find", "--show", "--direct-io=on", reference, *part, name]:
                assert Path(name) in self.files, "losetup over nothing"
                assert Path(name) in self.served or Path(name).name != "disk", "not served yet"
                device = next(
                    free
                    for number in count(self.first_loop)
                    if (free := f"/dev/loop{number}") not in self.loops
                )
                self.parts[device] = tuple(part)
                self.loops[device] = (Path(name), reference.removeprefix("--loop-ref="))
                return 0, f"{device}\n"
        raise AssertionError(f"losetup {options}")


class FakeLabFleet(FakeFleet):
    """As much of a `LabFleet` as a lab needs of it."""

    lab_hosts = FakeFleet.hosts
    lab_host = FakeFleet.host

    def is_reachable(self, name: str) -> bool:
        return bool(self.by_name[name].state == "up")
