"""From hosts that run to a healthy cluster: keys, MONs, MGRs, OSDs, the pool.

Every function is idempotent: it looks at what is there and does the rest, so that bringing a
lab up, up again after a crash, and up after a reboot are the same steps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import PurePosixPath

from grampus.ceph.cluster import CephCluster
from grampus.ceph.conf import CephConf, mon_address_vector, render_ceph_conf
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError
from grampus.hosts.any_host import AnyReachableHost
from grampus.hosts.lab_host import LabFleet, LabHost
from grampus.hosts.port import Host
from grampus.hosts.presence import is_there
from grampus.lab.ceph_daemons import OSD_MEMORY_TARGET_BYTES, mgr_spec, mon_spec
from grampus.lab.making import MADE_MARKER, in_parallel, new_key, render_keyring
from grampus.lab.model import DATABASE_POOL, LabSpec
from grampus.lab.osd_plans import decide_first_osds
from grampus.lab.osds import LabOsds
from grampus.lab.waiting import ClusterWaits

ADMIN_KEYRING = "ceph.client.admin.keyring"
# MONs of at least this release need not be ready to go back to those before it.
NEWEST_MIN_MON_RELEASE = 18
_RELEASE = re.compile(r"\bceph version (\d+)\.")


class ClusterBootstrap:
    """Brings up the Ceph cluster of one lab."""

    def __init__(
        self, spec: LabSpec, fleet: LabFleet, clock: Clock, *, library_dir: Callable[[], str]
    ) -> None:
        self._spec = spec
        self._fleet = fleet
        self._library_dir = library_dir
        self._cluster = CephCluster(AnyReachableHost(fleet))
        self._waits = ClusterWaits(fleet, self._cluster, clock)

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
        self._waits.until(self._has_quorum, "the MONs to form a quorum", "mon-", timeout_s=60)

    def ensure_mgrs(self) -> None:
        """Two MGRs, one of them active."""
        in_parallel(self._ensure_mgr, self._spec.mgr_hosts)

    def ensure_osds(self) -> None:
        """Every OSD that the lab was made with, up and in."""
        osds = LabOsds(self._spec, self._fleet, self._cluster, self._waits)
        osds.ensure(decide_first_osds(self._spec), what="all OSDs")

    def ensure_pool(self) -> None:
        """The pool for databases."""
        # After a power cut the MONs count OSDs as up that have not come back, and a pool whose
        # placement groups do not serve yet lets `rbd pool init` wait without a word.
        if DATABASE_POOL in self._cluster.query("osd", "pool", "ls"):
            self._waits.until(
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
        self._waits.until_healthy()

    def _ensure_first_keys(self, host: LabHost) -> tuple[str, str]:
        etc = host.data_dir / "etc-ceph"
        admin = host.read_file(etc / ADMIN_KEYRING)
        first = host.read_file(_first_keyring(host))
        if admin is None or first is None:
            admin = render_keyring(
                "client.admin",
                new_key(host),
                {"mon": "allow *", "osd": "allow *", "mgr": "allow *", "mds": "allow *"},
            )
            first = render_keyring("mon.", new_key(host), {"mon": "allow *"}) + admin
        return admin, first.removesuffix(admin)

    def _ensure_mon(self, name: str) -> None:
        host = self._fleet.host(name)
        directory = PurePosixPath(f"/var/lib/ceph/mon/ceph-{name}")
        if not is_there(host, directory / MADE_MARKER):
            vectors = [
                word for mon in self._spec.mon_hosts for word in ("--addv", mon, self._vector(mon))
            ]
            # A directory without the marker was begun and not finished.
            host.run(["rm", "-rf", str(directory)])
            host.run(["mkdir", "-p", str(directory)])
            monmap = "/run/grampus-monmap"
            release = decide_min_mon_release(host.run(["ceph-mon", "--version"]).stdout)
            host.run(
                [
                    *("monmaptool", "--create", "--clobber", "--fsid", self._spec.fsid),
                    *("--set-min-mon-release", str(release), *vectors, monmap),
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

    def _has_quorum(self) -> bool:
        result = self._cluster.ceph("quorum_status", "--format", "json", check=False)
        if result.returncode != 0:
            return False
        return len(json.loads(result.stdout)["quorum"]) == len(self._spec.mon_hosts)

    def _do_groups_serve(self) -> bool:
        serving, known = self._cluster.observe_serving_groups()
        return 0 < known == serving


def decide_placement_groups(osds: int, copies: int) -> int:
    """Placement groups for the one big pool of a cluster.

    The power of two nearest to 100 an OSD, divided by the copies, within 32 and 1024 (Ceph's
    own rule of thumb, documentation "Placement Groups"; a small lab stays small).
    """
    wanted = max(32, min(1024, osds * 100 // copies // 2))
    return 1 << (wanted.bit_length() - 1)


def decide_min_mon_release(version: str) -> int:
    """The oldest release (18: Reef) that the MONs' map is for, from `ceph-mon --version`.

    A MON refuses a map for releases after its own. Raises GrampusError when it names none.
    """
    found = _RELEASE.search(version)
    if found is None:
        raise GrampusError(
            "The host image's ceph-mon does not report its release: "
            f"{version.strip() or 'nothing'}.",
            "Build the image again: remove its directory, then run `grampus lab up`.",
        )
    return min(int(found[1]), NEWEST_MIN_MON_RELEASE)


def _first_keyring(host: Host) -> PurePosixPath:
    return host.data_dir / "var-lib-ceph/first.keyring"
