"""Somebody's Ceph cluster at the wire: what `ceph` and `rbd` answer on this machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from grampus.bench.drivers.command import CephClient
from grampus.bench.own.own_place import CLUSTER_RECORD, OwnClusterPlace, OwnPorts
from grampus.core.units import GIB, MIB, TIB
from grampus.state.runs import Setting
from grampus.state.store import Store
from tests.fakes.clock import FakeClock
from tests.fakes.interruption import Fuse, Killed
from tests.fakes.progress import RecordedProgress
from tests.fakes.sysbench_host import FakeCommand
from tests.unit.bench.environments.world import EnvironmentHost, option

FSID = "6f9a3c1e-8f0b-4e59-9c2d-3d1f6a2b7c88"
KEY = f"cluster/{FSID}"
CLIENT = CephClient(
    PurePosixPath("/mine/ceph.conf"), "bench", PurePosixPath("/mine/bench.keyring"), ("--cold",)
)
ALLOW = "mon_allow_pool_delete"
REFUSAL = (
    "Error EPERM: pool deletion is disabled; you must first set the mon_allow_pool_delete config "
    "option to true before you can destroy a pool\n"
)
KINDS = ("bench-stand", "bench-pool", "bench-quiet", "pool-removal-leave")


@dataclass
class Pool:
    """One pool."""

    applications: dict[str, dict[str, str]] = field(default_factory=dict)
    copies: int = 3
    scaling: str = "on"
    quota_bytes: int = 0
    rule: str = "replicated_rule"
    images: dict[str, int] = field(default_factory=dict)  # bytes by name


def owners_pools() -> dict[str, Pool]:
    """What is there before any benchmark."""
    return {
        "vms": Pool({"rbd": {}}, images={"db1": GIB}),
        ".mgr": Pool({"mgr": {}}, scaling="off"),
    }


class SomebodysCluster:
    """Its state is public. `config` is by section and name."""

    def __init__(self) -> None:
        self.pools = owners_pools()
        self.flags = {"sortbitwise"}
        self.balancer = True
        self.config: dict[tuple[str, str], str] = {
            ("osd", "osd_max_backfills"): "2",
            ("mgr", "mgr/dashboard/admin_password"): "hush",
            ("client.rgw", "rgw_dns_name"): "internal.example",
        }
        self.file_forbids = False  # the MONs' own ceph.conf, which nothing here can change
        self.used_share = 0.3
        self.hosts = 3
        self.status: dict[str, Any] = {
            "health": {"status": "HEALTH_OK", "checks": {}},
            "pgmap": {"pgs_by_state": [{"state_name": "active+clean", "count": 33}]},
        }

    @property
    def settings(self) -> tuple[object, ...]:
        """All that is the owner's."""
        pools = {name: pool for name, pool in self.pools.items() if not name.startswith("grampus")}
        return pools, set(self.flags), self.balancer, dict(self.config)

    @property
    def ours(self) -> dict[str, Pool]:
        return {name: pool for name, pool in self.pools.items() if name.startswith("grampus")}

    def run(self, program: str, words: list[str]) -> tuple[int, str, str]:
        """Code, stdout and stderr of a command."""
        if program == "rbd":
            return self._rbd(words)
        assert words[:2] == ["--connect-timeout", "20"]
        answer = self._ceph([word for word in words[2:] if word not in ("--format", "json")])
        if isinstance(answer, tuple):
            return answer
        return 0, answer if isinstance(answer, str) else json.dumps(answer), ""

    def _ceph(self, words: list[str]) -> Any:
        match words:
            case ["fsid"]:
                return f"{FSID}\n"
            case ["version"]:
                return "ceph version 18.2.4 (e7ad5345525c) reef (stable)\n"
            case ["status"]:
                return self.status
            case ["df"]:
                total = 10 * TIB
                stats = {
                    "total_bytes": total,
                    "total_avail_bytes": round(total * (1 - self.used_share)),
                }
                return {"stats": stats, "stats_by_class": {"ssd": stats}}
            case ["config", *rest]:
                return self._config(rest)
            case ["balancer", "status"]:
                return {"active": self.balancer}
            case ["balancer", switch]:
                self.balancer = switch == "on"
                self.config["mgr", "mgr/balancer/active"] = str(self.balancer).lower()
            case ["osd", *rest]:
                return self._osd(rest)
            case _:
                raise AssertionError(f"unexpected: ceph {words}")
        return ""

    def _config(self, words: list[str]) -> Any:
        match words:
            case ["dump"]:
                return [
                    {"section": section, "name": name, "value": value, "mask": ""}
                    for (section, name), value in self.config.items()
                ]
            case ["set", section, name, value]:
                self.config[section, name] = value
            case ["rm", section, name]:
                self.config.pop((section, name), None)
            case _:
                raise AssertionError(f"unexpected: ceph config {words}")
        return ""

    def _osd(self, words: list[str]) -> Any:
        match words:
            case ["dump"]:
                osds = [{"osd": osd, "up": 1, "up_from": 5} for osd in range(self.hosts)]
                return {"flags_set": sorted(self.flags), "osds": osds}
            case ["metadata"]:
                return [
                    {
                        "id": osd,
                        "hostname": f"ceph{osd}",
                        "osd_objectstore": "bluestore",
                        "bluestore_bdev_type": "ssd",
                        "ceph_version_short": "18.2.4",
                    }
                    for osd in range(self.hosts)
                ]
            case ["tree"]:
                return osd_tree(self.hosts)
            case ["crush", "rule", "dump"]:
                return RULES
            case ["set", flag]:
                self.flags.add(flag)
            case ["unset", flag]:
                self.flags.discard(flag)
            case ["pool", *rest]:
                return self._pool(rest)
            case _:
                raise AssertionError(f"unexpected: ceph osd {words}")
        return ""

    def _pool(self, words: list[str]) -> Any:
        match words:
            case ["ls", "detail"]:
                return [
                    {
                        "pool_name": name,
                        "application_metadata": pool.applications,
                        "pg_autoscale_mode": pool.scaling,
                    }
                    for name, pool in self.pools.items()
                ]
            case ["create", name, _, _, "replicated", rule, "--autoscale-mode=off"]:
                assert name not in self.pools
                self.pools[name] = Pool(scaling="off", rule=rule)
            case ["application", "enable", name, application]:
                found = self.pools[name].applications
                assert set(found) <= {application}, "EPERM: another application is enabled"
                found.setdefault(application, {})
            case ["application", "set", name, application, key, value]:
                self.pools[name].applications[application][key] = value
            case ["set-quota", name, "max_bytes", value]:
                self.pools[name].quota_bytes = int(value)
            case ["set", name, "size", value]:
                self.pools[name].copies = int(value)
            case ["set", name, "pg_autoscale_mode", value]:
                self.pools[name].scaling = value
            case ["rm", name, again, "--yes-i-really-really-mean-it"]:
                assert name == again
                if not self._may_remove():
                    return 1, "", REFUSAL
                del self.pools[name]
            case _:
                raise AssertionError(f"unexpected: ceph osd pool {words}")
        return ""

    def _may_remove(self) -> bool:
        sections = ("mon", "global")
        found = [self.config[one, ALLOW] for one in sections if (one, ALLOW) in self.config]
        return not self.file_forbids and found[:1] == ["true"]

    def _rbd(self, words: list[str]) -> tuple[int, str, str]:
        match words:
            case ["pool", "init", pool]:
                assert self.pools[pool].applications.keys() == {"rbd"}
                return 0, "", ""
            case ["create", size, place]:
                pool, _, name = place.partition("/")
                size_mib = int(size.removeprefix("--size=").removesuffix("M"))
                self.pools[pool].images[name] = size_mib * MIB
                return 0, "", ""
            case ["ls", "--format", "json", pool]:
                return 0, json.dumps(sorted(self.pools[pool].images)), ""
            case [("namespace" | "trash"), "ls", *_]:
                return 0, "[]", ""
        action, *_, place = words
        pool, _, name = place.partition("/")
        if name not in (self.pools[pool].images if pool in self.pools else {}):
            return 2, "", "rbd: error opening image: (2) No such file or directory\n"
        if action == "info":
            size_bytes = self.pools[pool].images[name]
            found = {"size": size_bytes, "object_size": 4 * MIB, "features": []}
            return 0, json.dumps(found), ""
        if action == "status":
            return 0, json.dumps({"watchers": []}), ""
        assert action == "remove", words
        del self.pools[pool].images[name]
        return 0, "", ""


def osd_tree(hosts: int, *, down: Sequence[int] = ()) -> dict[str, Any]:
    """One OSD a host, of the class ssd."""
    root = {"id": -1, "name": "default", "type": "root", "children": [-2 - n for n in range(hosts)]}
    buckets = [
        {"id": -2 - n, "name": f"ceph{n}", "type": "host", "children": [n]} for n in range(hosts)
    ]
    osds = [
        {
            "id": n,
            "name": f"osd.{n}",
            "type": "osd",
            "device_class": "ssd",
            "status": "down" if n in down else "up",
            "reweight": 1.0,
        }
        for n in range(hosts)
    ]
    return {"nodes": [root, *buckets, *osds], "stray": []}


def crush_rule(number: int, name: str, take: str, domain: str, *, kind: int = 1) -> dict[str, Any]:
    """A rule as `ceph osd crush rule dump` has it."""
    return {
        "rule_id": number,
        "rule_name": name,
        "type": kind,
        "steps": [
            {"op": "take", "item": -1, "item_name": take},
            {"op": "chooseleaf_firstn", "num": 0, "type": domain},
            {"op": "emit"},
        ],
    }


RULES = [
    crush_rule(3, "coded", "default", "host", kind=3),
    crush_rule(2, "on-ssd", "default~ssd", "osd"),
    crush_rule(0, "replicated_rule", "default", "host"),
]


class ClientHost(EnvironmentHost):
    """This machine, with Ceph's programs."""

    def __init__(self, fuse: Fuse, clock: FakeClock, cluster: SomebodysCluster) -> None:
        super().__init__("client", fuse, clock)
        self.cluster = cluster
        self.programs: list[str] = []
        self.probes: list[list[str]] = []

    def _play_here(self, argv: list[str]) -> tuple[int, str] | None:
        self.programs.append(argv[0])
        if argv[0] not in ("ceph", "rbd"):
            return super()._play_here(argv)
        count = 1 + len(CLIENT.options)
        assert argv[1:count] == CLIENT.options
        code, stdout, stderr = self.cluster.run(argv[0], argv[count:])
        return code, stderr if code else stdout

    def spawn(self, argv: Sequence[str], *, stdin: str | None = None) -> FakeCommand:
        if "python3" in argv:
            self.probes.append(list(argv))
            return FakeCommand(argv, [])
        return super().spawn(argv, stdin=stdin)

    def _play_rbd(self, argv: list[str]) -> FakeCommand:
        pool, _, name = argv[-1].partition("/")
        assert name in self.cluster.pools[pool].images
        assert "--cold" in argv
        return super()._play_rbd(argv)

    def _play_rados(self, argv: list[str]) -> FakeCommand:
        assert option(argv, "pool") in self.cluster.ours
        return super()._play_rados(argv)


class DeadlyFuse(Fuse):
    """Whoever was killed does nothing any more, whatever cleaning up still tries."""

    def __init__(self) -> None:
        super().__init__()
        self.is_dead = False

    def burn(self) -> None:
        if self.is_dead:
            raise self.error
        try:
            super().burn()
        except Killed:
            self.is_dead = True
            raise


class OwnWorld:
    """Somebody's cluster, this machine, and the state, which outlives a killed process."""

    def __init__(self, directory: Path, *, removal: dict[str, str] | None = None) -> None:
        self.fuse = DeadlyFuse()
        self.clock = FakeClock()
        self.store = Store(None)
        self.cluster = SomebodysCluster()
        self.cluster.config |= {(where, ALLOW): value for where, value in (removal or {}).items()}
        self.found = self.cluster.settings
        self.host = ClientHost(self.fuse, self.clock, self.cluster)
        self.progress = RecordedProgress()
        self.rule: str | None = None
        self._directory = directory

    def close(self) -> None:
        self.store.close()

    def place(self) -> OwnClusterPlace:
        """That of a new process."""
        self.fuse.is_dead = False
        ports = OwnPorts(
            host=self.host,
            client=CLIENT,
            store=self.store,
            clock=self.clock,
            progress=self.progress,
            raw_dir=self._directory,
            options=" --conf /mine/ceph.conf",
            rule=self.rule,
            disk_room=lambda: (250 * GIB, 100 * GIB),
            program_facts=[Setting(group="versions", name="grampus commit", value="abc")],
        )
        return OwnClusterPlace(ports, FSID)

    @property
    def is_as_found(self) -> bool:
        """Whether the cluster is as it was, and the state holds no more than who we are."""
        return (
            self.cluster.settings == self.found
            and not self.cluster.ours
            and not any(self.names_of(kind) for kind in KINDS)
        )

    def names_of(self, kind: str) -> list[str]:
        """The names of the records of a kind."""
        with self.store.transaction() as connection:
            rows = connection.execute(
                "SELECT name FROM records WHERE kind = ? AND lab = ?", (kind, KEY)
            ).fetchall()
        return [row["name"] for row in rows]

    @property
    def is_known(self) -> bool:
        return bool(self.names_of(CLUSTER_RECORD))
