"""Ports of environments on somebody's cluster: a benchmark's pools and images, and the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grampus.bench.environments.environment_plan import NO_CODE, EnvironmentPlan
from grampus.bench.environments.environment_records import (
    ENVIRONMENT_RECORD,
    POOL_RECORD,
    BenchEnvironment,
    BenchPool,
)
from grampus.bench.own.absent import not_here
from grampus.bench.own.placement import (
    Placement,
    decide_groups,
    decide_quota_bytes,
    parse_room,
    require_room,
)
from grampus.ceph.cluster import CephCluster
from grampus.ceph.marked_pools import IMAGES, OBJECTS, MarkedPools, PoolShape
from grampus.ceph.rbd import RbdImages
from grampus.core.units import MIB
from grampus.state.store import Store
from grampus.volumes.model import Attachment, DriverName, VolumeRecord, VolumeSpec

_IMAGE_POOL = "bench-images"


class OwnPools:
    """An `EnvironmentPools` of marked pools, whose names hold the token of this Grampus's home."""

    def __init__(
        self, cluster: CephCluster, marked: MarkedPools, placement: Placement, token: str
    ) -> None:
        self._cluster = cluster
        self._marked = marked
        self._placement = placement
        self._prefix = f"grampus-{token}-"

    def named(self, environment: str) -> str:
        return f"{self._prefix}{environment}"

    def pool_of(self, copies: int, *, osd_set: str | None, erasure_code: str) -> str:
        self._require_plain(osd_set, erasure_code)
        return self.named(f"{_IMAGE_POOL}-{copies}-copies")

    def is_there(self, pool: str) -> bool:
        return self._marked.is_there(pool)

    def ensure(self, pool: str, copies: int, *, osd_set: str | None, erasure_code: str) -> None:
        self._require_plain(osd_set, erasure_code)
        shape = PoolShape(
            copies=copies,
            placement_groups=decide_groups(self._placement, copies),
            rule=self._placement.rule,
            quota_bytes=self.observe_quota_bytes(copies),
        )
        has_images = pool.startswith(self.named(_IMAGE_POOL))
        self._marked.ensure(pool, shape, application=IMAGES if has_images else OBJECTS)

    def ensure_unused_absent(self, pool: str) -> None:
        self._marked.ensure_absent(pool)

    def ensure_absent(self, pool: str) -> None:
        self._marked.ensure_absent(pool)

    def observe_quota_bytes(self, copies: int) -> int:
        """What a pool of ours may hold now. Raises RefusedError (`cluster-full`)."""
        room = parse_room(self._cluster.query("df"), self._placement.device_class)
        return decide_quota_bytes(room, copies)

    def _require_plain(self, osd_set: str | None, erasure_code: str) -> None:
        if osd_set is not None:
            raise not_here("OSD sets")
        if erasure_code != NO_CODE:
            raise not_here("erasure-coded pools")


class OwnImages:
    """An `EnvironmentVolumes` of images in the marked pools of the records, never attached."""

    def __init__(
        self, cluster: CephCluster, images: RbdImages, store: Store, key: str, user: str
    ) -> None:
        self._cluster = cluster
        self._images = images
        self._store = store
        self._key = key
        self._user = user

    def find(self, name: str) -> VolumeRecord | None:
        for pool in self._pools():
            found = self._images.find(pool, name)
            if found is not None:
                spec = VolumeSpec(name=name, pool=pool, image=name, size_bytes=found.size_bytes)
                return VolumeRecord(spec=spec, ceph_user=self._user)
        return None

    def create(self, name: str, environment: BenchEnvironment) -> None:
        size_mib = environment.plan.size_bytes // MIB  # sizes of images are whole objects
        self._cluster.runner.run(
            ["rbd", "create", f"--size={size_mib}M", f"{environment.pool}/{name}"]
        )

    def ensure_attached(self, name: str, host: str, driver: DriverName | None) -> Attachment:
        raise not_here("attached volumes")

    def ensure_absent(self, name: str) -> None:
        for pool in self._pools():
            self._images.ensure_absent(pool, name)

    def _pools(self) -> list[str]:
        return sorted(self._store.all(POOL_RECORD, self._key, BenchPool))


class OwnEnvironmentCluster:
    """An `EnvironmentCluster` that asks nothing but the program `ceph`."""

    def __init__(self, cluster: CephCluster) -> None:
        self._cluster = cluster

    def ceph(self, *arguments: str) -> object:
        return self._cluster.ceph(*arguments)

    def query(self, *arguments: str) -> Any:
        return self._cluster.query(*arguments)

    def observe_osd_map(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._cluster.query("osd", "dump")
        return found

    def observe_status(self) -> Mapping[str, Any]:
        status: Mapping[str, Any] = self._cluster.query("status")
        return status


class OwnRoom:
    """Whether what a benchmark writes is small beside the room that the cluster has left."""

    def __init__(self, pools: OwnPools, store: Store, key: str) -> None:
        self._pools = pools
        self._store = store
        self._key = key

    def require(self, plan: EnvironmentPlan) -> None:
        """Room for the environment beside all others. Raises RefusedError (`cluster-full`)."""
        environments = self._store.all(ENVIRONMENT_RECORD, self._key, BenchEnvironment)
        plans = {name: environment.plan for name, environment in environments.items()} | {
            plan.name: plan
        }
        # As if all had as many copies as this one: they share the OSDs.
        needed_bytes = sum(_data_bytes(one) for one in plans.values())
        require_room(needed_bytes, self._pools.observe_quota_bytes(plan.copies))


def _data_bytes(plan: EnvironmentPlan) -> int:
    return plan.count * max(plan.dataset_bytes, plan.size_bytes)
