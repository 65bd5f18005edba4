"""From hosts that run to a healthy cluster: keys, MONs, MGRs, OSDs, the pool.

Every function is idempotent: it looks at what is there and does the rest, so that bringing a
lab up, up again after a crash, and up after a reboot are the same steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import TypeVar

from grampus.ceph.cluster import CephCluster
from grampus.ceph.conf import CephConf, mon_address_vector, render_ceph_conf
from grampus.core.clock import Clock, wait_until
from grampus.core.errors import GrampusError
from grampus.hosts.any_host import AnyReachableHost
from grampus.hosts.lab_host import LabFleet, LabHost
from grampus.hosts.loop_devices import ensure_loop_device
from grampus.hosts.port import Host
from grampus.lab.ceph_daemons import (
    OSD_MEMORY_TARGET_BYTES,
    mgr_spec,
    mon_spec,
    osd_spec,
)
from grampus.lab.model import DATABASE_POOL, LabSpec

ADMIN_KEYRING = "ceph.client.admin.keyring"
MADE_MARKER = "made-by-grampus"
ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def in_parallel(function: Callable[[ItemT], ResultT], items: Iterable[ItemT]) -> list[ResultT]:
    """`function` of every item, at the same time; the first failure is raised after all ended."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        # Not `map`: at the first failure it cancels what has not begun.
        futures = [pool.submit(function, item) for item in items]
    return [future.result() for future in futures]


class ClusterBootstrap:
    """Brings up the Ceph cluster of one lab."""

    def __init__(
        self, spec: LabSpec, fleet: LabFleet, clock: Clock, *, library_dir: Callable[[], str]
    ) -> None:
        self._spec = spec
        self._fleet = fleet
        self._clock = clock
        self._library_dir = library_dir
        self._cluster = CephCluster(AnyReachableHost(fleet))

    def ensure_configuration(self) -> None:
        """ceph.conf on every host, and the first keys: made on one host, given to all."""
        first = self._fleet.lab_hosts()[0]
        admin, mon = self._ensure_first_keys(first)
        conf = render_ceph_conf(
            CephConf(
                fsid=self._spec.fsid,
                mon_addresses={h: self._spec.host_address(h) for h in self._spec.mon_hosts},
                public_network=self._spec.subnet,
                library_dir=self._library_dir(),
                osd_memory_target_bytes=OSD_MEMORY_TARGET_BYTES,
                copies=self._spec.copies,
                min_size=self._spec.min_size,
                is_secure=self._spec.is_secure,
            )
        )
        for host in self._fleet.lab_hosts():
            etc = host.data_dir / "etc-ceph"
            host.write_file(etc / "ceph.conf", conf)
            host.write_file(etc / ADMIN_KEYRING, admin, mode=0o600)
            host.write_file(_first_keyring(host), mon + admin, mode=0o600)

    def ensure_mons(self) -> None:
        """Three MONs in quorum."""
        in_parallel(self._ensure_mon, self._spec.mon_hosts)
        self._wait_for(self._has_quorum, "the MONs to form a quorum", "mon-", timeout_s=60)

    def ensure_mgrs(self) -> None:
        """Two MGRs, one of them active."""
        in_parallel(self._ensure_mgr, self._spec.mgr_hosts)

    def ensure_osds(self) -> None:
        """Every OSD made, started, up and in."""
        slots = [
            (host, slot)
            for host in self._spec.host_names
            for slot in range(self._spec.osds_per_host)
        ]
        # One after the other: the MONs give out ids in order, so that osd.0 stands on h1.
        ids = [self._ensure_osd_id(host, slot) for host, slot in slots]
        in_parallel(self._ensure_osd, list(zip(slots, ids, strict=True)))
        self._wait_for(self._are_osds_up, "all OSDs to be up and in", "osd-", timeout_s=90)

    def ensure_pool(self) -> None:
        """The pool for databases."""
        # After a power cut the MONs count OSDs as up that have not come back, and a pool whose
        # placement groups do not serve yet lets `rbd pool init` wait without a word.
        if DATABASE_POOL in self._cluster.query("osd", "pool", "ls"):
            self._wait_for(
                self._do_groups_serve, "the placement groups to serve", "osd-", timeout_s=120
            )
        self._cluster.ensure_pool(
            DATABASE_POOL,
            placement_groups=decide_placement_groups(self._spec.osd_count, self._spec.copies),
            copies=self._spec.copies,
            min_size=self._spec.min_size,
        )

    def wait_until_healthy(self) -> None:
        """HEALTH_OK, with every placement group clean."""
        self._wait_for(self._is_healthy, "the cluster to be healthy", "", timeout_s=120)

    def _ensure_first_keys(self, host: LabHost) -> tuple[str, str]:
        etc = host.data_dir / "etc-ceph"
        admin = host.read_file(etc / ADMIN_KEYRING)
        first = host.read_file(_first_keyring(host))
        if admin is None or first is None:
            admin = _keyring(
                "client.admin",
                _new_key(host),
                {"mon": "allow *", "osd": "allow *", "mgr": "allow *", "mds": "allow *"},
            )
            first = _keyring("mon.", _new_key(host), {"mon": "allow *"}) + admin
        return admin, first.removesuffix(admin)

    def _ensure_mon(self, name: str) -> None:
        host = self._fleet.host(name)
        directory = PurePosixPath(f"/var/lib/ceph/mon/ceph-{name}")
        if not _exists(host, directory / MADE_MARKER):
            vectors = [
                word for mon in self._spec.mon_hosts for word in ("--addv", mon, self._vector(mon))
            ]
            # A directory without the marker was begun and not finished.
            host.run(["rm", "-rf", str(directory)])
            host.run(["mkdir", "-p", str(directory)])
            monmap = "/run/grampus-monmap"
            host.run(
                [
                    *("monmaptool", "--create", "--clobber", "--fsid", self._spec.fsid),
                    *("--set-min-mon-release", "18", *vectors, monmap),
                ]
            )
            keyring = _first_keyring(host)
            host.run(
                ["ceph-mon", "--mkfs", "--id", name, "--monmap", monmap, "--keyring", str(keyring)]
            )
            host.run(["touch", str(directory / MADE_MARKER)])
        host.ensure_daemon(mon_spec(name, self._spec.host_address(name), host.data_dir, cpus=1.0))

    def _vector(self, mon: str) -> str:
        return mon_address_vector(self._spec.host_address(mon), is_secure=self._spec.is_secure)

    def _ensure_mgr(self, name: str) -> None:
        host = self._fleet.host(name)
        keyring = host.data_dir / f"var-lib-ceph/mgr/ceph-{name}/keyring"
        if host.read_file(keyring) is None:
            key = self._cluster.ceph(
                *("auth", "get-or-create", f"mgr.{name}"),
                *("mon", "allow profile mgr", "osd", "allow *", "mds", "allow *"),
            ).stdout
            host.write_file(keyring, key, mode=0o600)
        host.ensure_daemon(mgr_spec(name, host.data_dir, cpus=1.0))

    def _ensure_osd_id(self, host_name: str, slot: int) -> int:
        host = self._fleet.host(host_name)
        record_file = _osd_record(host, slot)
        record = host.read_file(record_file)
        if record is not None:
            return int(json.loads(record)["id"])
        secret_file = host.data_dir / f"osd/{slot}.secret.json"
        secret = host.read_file(secret_file)
        if secret is None:
            # Kept before it is used: `osd new` answers alike only to the same secret.
            secret = json.dumps({"cephx_secret": _new_key(host)})
            host.write_file(secret_file, secret, mode=0o600)
        uuid = self._spec.osd_uuid(host_name, slot)
        osd_id = int(self._cluster.ceph("osd", "new", uuid, "-i", "-", stdin=secret).stdout)
        host.write_file(record_file, json.dumps({"id": osd_id, "uuid": uuid}))
        return osd_id

    def _ensure_osd(self, item: tuple[tuple[str, int], int]) -> None:
        (host_name, slot), osd_id = item
        host = self._fleet.host(host_name)
        file = host.data_dir / f"osd/{slot}.img"
        host.run(["truncate", "--size", str(self._spec.osd_size_bytes), str(file)])
        device = ensure_loop_device(host, file, reference=osd_reference(self._spec, osd_id))
        directory = PurePosixPath(f"/var/lib/ceph/osd/ceph-{osd_id}")
        if not _exists(host, directory / MADE_MARKER):
            self._make_osd(host, slot, osd_id, device, directory)
        # The number of a loop device is another one after a restart.
        host.run(["ln", "--symbolic", "--force", "--no-dereference", device, f"{directory}/block"])
        host.ensure_daemon(osd_spec(osd_id, device, self._spec.media, host.data_dir, cpus=2.0))

    def _make_osd(
        self, host: Host, slot: int, osd_id: int, device: str, directory: PurePosixPath
    ) -> None:
        secret = json.loads(host.read_file(host.data_dir / f"osd/{slot}.secret.json") or "{}")
        if "cephx_secret" not in secret:
            raise GrampusError(
                f"The key of osd.{osd_id} on {host.name} is lost.", "Take the lab down and up."
            )
        host.run(["rm", "-rf", str(directory)])
        host.run(["mkdir", "-p", str(directory)])
        host.run(["ln", "--symbolic", device, f"{directory}/block"])
        # BlueStore refuses a device that carries another OSD's label.
        host.run(["wipefs", "--all", "--quiet", device])
        host.run(["dd", "if=/dev/zero", f"of={device}", "bs=1M", "count=4", "status=none"])
        keyring = _keyring(f"osd.{osd_id}", secret["cephx_secret"], {})
        host.write_file(
            host.data_dir / f"var-lib-ceph/osd/ceph-{osd_id}/keyring", keyring, mode=0o600
        )
        host.run(
            [
                *("ceph-osd", "--mkfs", "--id", str(osd_id), "--osd-objectstore", "bluestore"),
                *("--osd-uuid", self._spec.osd_uuid(host.name, slot)),
            ],
            timeout_s=120,
        )
        host.run(["touch", str(directory / MADE_MARKER)])

    def _has_quorum(self) -> bool:
        result = self._cluster.ceph("quorum_status", "--format", "json", check=False)
        if result.returncode != 0:
            return False
        return len(json.loads(result.stdout)["quorum"]) == len(self._spec.mon_hosts)

    def _are_osds_up(self) -> bool:
        stat = self._cluster.query("osd", "stat")
        wanted = self._spec.osd_count
        return bool(stat["num_up_osds"] == wanted and stat["num_in_osds"] == wanted)

    def _do_groups_serve(self) -> bool:
        serving, known = self._cluster.observe_serving_groups()
        return 0 < known == serving

    def _is_healthy(self) -> bool:
        status = self._cluster.observe_status()
        return (
            status.health == "HEALTH_OK"
            and status.placement_groups == status.placement_groups_clean
            and status.placement_groups > 0
        )

    def _wait_for(
        self, condition: Callable[[], bool], what: str, daemons: str, *, timeout_s: float
    ) -> None:
        """Wait; a failure names one of the daemons (their names' beginning) that have ended."""
        try:
            wait_until(self._clock, condition, what=what, timeout_s=timeout_s, interval_s=0.3)
        except GrampusError as error:
            if error.code != "timeout":
                raise
            raise GrampusError(
                f"{error.problem} {self._why(daemons)}".strip(),
                "`grampus lab status` shows the daemons; `grampus lab up` goes on from here.",
                code="timeout",
            ) from error

    def _why(self, daemons: str) -> str:
        stopped = [
            f"{status.name} on {host.name} ended: {host.daemon_log(status.name, last_lines=1)}"
            for host in self._fleet.hosts()
            for status in host.observe_daemons()
            # After a restart those of later steps have ended too, and are not to blame.
            if status.state != "running" and status.name.startswith(daemons)
        ]
        if stopped:
            return stopped[0]
        result = self._cluster.ceph("health", check=False)
        return f"It says {result.stdout.strip()}." if result.returncode == 0 else ""


def decide_placement_groups(osds: int, copies: int) -> int:
    """Placement groups for the one big pool of a cluster.

    The power of two nearest to 100 an OSD, divided by the copies, within 32 and 1024 (Ceph's
    own rule of thumb, documentation "Placement Groups"; a small lab stays small).
    """
    wanted = max(32, min(1024, osds * 100 // copies // 2))
    return 1 << (wanted.bit_length() - 1)


def osd_reference(spec: LabSpec, osd_id: int) -> str:
    """What marks the loop device of an OSD."""
    return f"grampus/{spec.tag}/osd-{osd_id}"


def _first_keyring(host: Host) -> PurePosixPath:
    return host.data_dir / "var-lib-ceph/first.keyring"


def _osd_record(host: Host, slot: int) -> PurePosixPath:
    return host.data_dir / f"osd/{slot}.json"


def _exists(host: Host, path: PurePosixPath) -> bool:
    return host.run(["test", "-e", str(path)], check=False).returncode == 0


def _new_key(host: Host) -> str:
    return host.run(["ceph-authtool", "--gen-print-key"]).stdout.strip()


def _keyring(entity: str, key: str, capabilities: dict[str, str]) -> str:
    lines = [f"[{entity}]", f"\tkey = {key}"]
    lines += [f'\tcaps {daemon} = "{caps}"' for daemon, caps in capabilities.items()]
    return "\n".join([*lines, ""])
