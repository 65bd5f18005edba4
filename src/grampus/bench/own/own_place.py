"""Somebody's own Ceph cluster as the place on which cells are measured, from this machine.

What is done to it is little, and is all taken back: pools of a benchmark's own, which bear its
mark; scrubs, balancer and autoscaler off while it measures; and for the moment of a removal the
leave to remove pools. Each is in the state, under the cluster's FSID, before it is done.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ConfigDict

from grampus.bench.drivers.command import CephClient
from grampus.bench.environments.environment_ports import EnvironmentPorts
from grampus.bench.environments.environment_records import (
    ENVIRONMENT_RECORD,
    POOL_RECORD,
    QUIET,
    QUIET_RECORD,
    BenchEnvironment,
    BenchPool,
    BenchQuiet,
)
from grampus.bench.environments.monitors import HostMonitors
from grampus.bench.environments.place import EnvironmentsPlace
from grampus.bench.machine_facts import decide_facts, observe_machine
from grampus.bench.matrix.capabilities import Capabilities
from grampus.bench.matrix.cells import Cell
from grampus.bench.own.absent import NoDatabases, NoDevices, NoGuests, NoOsdSets, NoTuning, OneHost
from grampus.bench.own.environments import OwnEnvironmentCluster, OwnImages, OwnPools, OwnRoom
from grampus.bench.own.facts import describe_cluster, describe_load_generators, describe_options
from grampus.bench.own.offers import decide_own_capabilities
from grampus.bench.own.placement import decide_placement, parse_room
from grampus.ceph.access import AccessRunner
from grampus.ceph.cluster import CephCluster
from grampus.ceph.marked_pools import ALLOW_REMOVAL, MarkedPools
from grampus.ceph.rbd import RbdImages
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError
from grampus.core.models import Model
from grampus.core.progress import Progress
from grampus.hosts.port import Host
from grampus.hosts.this_machine import ThisMachineAlone
from grampus.state.runs import Setting
from grampus.state.store import Store

CLUSTER_RECORD = "bench-own-cluster"
CLUSTER = "cluster"
UNSEEN = "The OSDs are on hosts that Grampus cannot look at, so nothing of them was watched."


class OwnCluster(Model):
    """A cluster that benchmarks are run on. `token` is in the marks and names of their pools: two
    homes that measure one cluster leave each other's alone. `rule` is the CRUSH rule of those that
    are there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fsid: str
    token: str  # 8 hexadecimal digits
    rule: str


@dataclass(frozen=True)
class OwnPorts:
    """What such a place works with.

    `options` are those of a command that name the cluster, with a space before. `rule` is the CRUSH
    rule of its pools; None: Ceph's own choice. `program_facts` describe Grampus itself.
    """

    host: Host
    client: CephClient
    store: Store
    clock: Clock
    progress: Progress
    raw_dir: Path
    options: str
    rule: str | None
    disk_room: Callable[[], tuple[int, int]]
    program_facts: Sequence[Setting]


def cluster_at(host: Host, client: CephClient) -> CephCluster:
    """The cluster that `client` reaches, by the programs on `host`."""
    return CephCluster(AccessRunner(host, client), has_bindings=False)


def observe_fsid(cluster: CephCluster) -> str:
    """The cluster's FSID. Raises GrampusError when it does not answer with one."""
    said = cluster.ceph("fsid").stdout.strip()
    try:
        return str(uuid.UUID(said))
    except ValueError:
        raise GrampusError(
            f"`ceph fsid` printed '{said[:60]}', which is not an FSID.",
            "Run `ceph fsid` with the same configuration.",
            code="no-fsid",
        ) from None


class OwnClusterPlace(EnvironmentsPlace):
    """A `CellPlace`. Making one asks the cluster what it is, and changes nothing."""

    def __init__(self, own: OwnPorts, fsid: str) -> None:
        self._own = own
        self._cluster = cluster_at(own.host, own.client)
        self._key = f"cluster/{fsid}"  # no lab has such a name
        rules = self._cluster.query("osd", "crush", "rule", "dump")
        self._placement = decide_placement(
            rules, self._cluster.query("osd", "tree"), asked=own.rule
        )
        self._fsid = fsid
        self._found = own.store.get(CLUSTER_RECORD, self._key, CLUSTER, OwnCluster)
        token = uuid.uuid4().hex[:8] if self._found is None else self._found.token
        self._identity = OwnCluster(fsid=fsid, token=token, rule=self._placement.rule)
        self._room = parse_room(self._cluster.query("df"), self._placement.device_class)
        self._marked = MarkedPools(self._cluster, own.store, self._key, token)
        pools = OwnPools(self._cluster, self._marked, self._placement, token)
        fleet = ThisMachineAlone(own.host)
        super().__init__(
            EnvironmentPorts(
                lab=self._key,
                place=_name(fsid, own.rule),
                store=own.store,
                fleet=fleet,
                databases=NoDatabases(),
                guests=NoGuests(),
                volumes=OwnImages(
                    self._cluster,
                    RbdImages(self._cluster, own.clock),
                    own.store,
                    self._key,
                    own.client.user,
                ),
                pools=pools,
                osd_sets=NoOsdSets(self._room.total_bytes),
                cluster=OwnEnvironmentCluster(self._cluster),
                devices=NoDevices(),
                monitors=HostMonitors(fleet, own.clock, unseen=UNSEEN),
                capabilities=self._observe_capabilities,
                facts=self._observe_facts,
                disk_room=own.disk_room,
                clock=own.clock,
                progress=own.progress,
                raw_dir=own.raw_dir,
                tuning=NoTuning(),
                layout=OneHost(own.host.name),
                client=own.client,
                look="See with `ceph status` how the cluster does.",
                options=own.options,
                shared_note=None,
                require_room=OwnRoom(pools, own.store, self._key).require,
            ),
            shape_only=False,
        )

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """See `CellPlace`. What the cluster's owner has to know is told."""
        if self._found is not None and self._found.rule != self._identity.rule:
            # What was kept is on other OSDs than those that shall be measured now.
            self.dismantle()
        self._own.store.put(CLUSTER_RECORD, self._key, CLUSTER, self._identity)
        self._marked.restore_leave()
        self._own.progress.note(
            "Until the run ends the cluster neither scrubs nor balances, and no pool scales its "
            "placement groups. Should the run be killed, "
            f"`grampus bench tidy{self._own.options}` brings all back that was on."
        )
        with super().quiet():
            yield

    def dismantle(self) -> None:
        """See `CellPlace`."""
        self._marked.restore_leave()
        super().dismantle()

    def left(self) -> list[str]:
        """What is still there of runs, as what `dismantle` will do about it."""
        own, key = self._own, self._key
        found = []
        if self._marked.has_leave():
            found.append(f"Put back what {ALLOW_REMOVAL} was for the MONs")
        for environment in own.store.all(ENVIRONMENT_RECORD, key, BenchEnvironment).values():
            what = "objects" if environment.plan.target == "pool" else "images"
            found.append(
                f"Remove the {what} of {environment.plan.name} in the pool {environment.pool}"
            )
        found += [f"Remove the pool {name}" for name in own.store.all(POOL_RECORD, key, BenchPool)]
        quiet = own.store.get(QUIET_RECORD, key, QUIET, BenchQuiet)
        if quiet is not None:
            found += [f"Unset the flag {flag}" for flag in quiet.flags]
            found += ["Switch the balancer on"] if quiet.balancer else []
            found += [f"Switch the autoscaler of the pool {pool} on" for pool in quiet.pools]
        return found

    def marked_by_others(self) -> list[str]:
        """Pools with the mark of another Grampus's benchmark; they are its own to remove."""
        return self._marked.others()

    def _observe_capabilities(self) -> Capabilities:
        versions = {"ceph": (self._observe_version(),)}
        return decide_own_capabilities(self.name, self._placement, versions)

    def _observe_facts(self, _cells: Sequence[Cell]) -> list[Setting]:
        own, cluster = self._own, self._cluster
        osds = cluster.query("osd", "metadata")
        found = decide_facts(
            [Setting(group="Ceph", name="version", value=cluster.observe_versions())],
            describe_cluster(self._fsid, self._placement, self._room, osds),
            observe_machine(own.host, with_sysbench=False),
            own.program_facts,
            [describe_load_generators(own.host.name)],
            describe_options(cluster.query("config", "dump")),
        )
        return list(found)

    def _observe_version(self) -> str:
        return self._cluster.observe_versions().split()[0]


def _name(fsid: str, rule: str | None) -> str:
    """Figures of other OSDs are those of another place."""
    return f"cluster {fsid}" if rule is None else f"cluster {fsid} (CRUSH rule {rule})"
