"""The composition root, of pools under suites of cells."""

from __future__ import annotations

from contextlib import suppress

from grampus.bench.environments.environment_plan import NO_CODE
from grampus.ceph.erasure_pools import (
    coded_pool,
    data_pool_beside,
    data_pool_of,
    ensure_coded_pools_absent,
    ensure_data_pool_used,
    ensure_erasure_pool,
    ensure_erasure_pool_absent,
)
from grampus.ceph.pools import ensure_empty_pool_absent, ensure_pool_of_copies
from grampus.cli.composition.environment_osds import ensure_pool_on, pool_on
from grampus.cli.composition.osd_sets import lab_osd_sets
from grampus.cli.composition.session import Session
from grampus.core.errors import GrampusError, RefusedError
from grampus.databases.clones.decide_golden import GOLDEN_PREFIX
from grampus.lab.bootstrap import decide_placement_groups
from grampus.lab.copies_pools import CopiesPools
from grampus.lab.model import DATABASE_POOL
from grampus.lab.osd_plans import decide_set_osds
from grampus.lab.osd_sets import decide_set_placement_groups


class LabEnvironmentPools:
    """Pools of the lab; an `EnvironmentPools`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def named(self, environment: str) -> str:
        return environment

    def pool_of(self, copies: int, *, osd_set: str | None, erasure_code: str) -> str:
        pool = self._copies().pool_of(copies) if osd_set is None else pool_on(osd_set, copies)
        if erasure_code == NO_CODE:
            return pool
        self._copies().require_chunks_fit(erasure_code)
        return coded_pool(pool, erasure_code)

    def is_there(self, pool: str) -> bool:
        pools = self._session.cluster().query("osd", "pool", "ls")
        # The data's comes first: of a creation that was cut off it may be all that there is.
        return pool in pools or data_pool_of(pool) in pools

    def ensure(self, pool: str, copies: int, *, osd_set: str | None, erasure_code: str) -> None:
        if erasure_code == NO_CODE:
            self._ensure_replicated(pool, copies, osd_set)
            return
        if pool != self.pool_of(copies, osd_set=osd_set, erasure_code=erasure_code):
            self._ensure_erasure_coded(pool, osd_set, erasure_code)
            return
        data_pool = data_pool_beside(pool)
        self._ensure_erasure_coded(data_pool, osd_set, erasure_code)
        self._ensure_replicated(pool, copies, osd_set)
        ensure_data_pool_used(self._session.cluster(), pool, data_pool)

    def ensure_unused_absent(self, pool: str) -> None:
        volumes = self._session.volumes()
        for record in volumes.all():
            # What new databases were cloned from; the product makes it again when it needs one.
            if record.spec.pool == pool and record.spec.name.startswith(GOLDEN_PREFIX):
                with suppress(RefusedError):
                    volumes.delete(record.spec.name)
        if pool in self._copies().names():
            self._copies().tidy(pool)
        elif data_pool_of(pool) is None:
            self.ensure_absent(pool)
        elif not ensure_coded_pools_absent(self._session.cluster(), pool):
            raise _kept(pool)

    def ensure_absent(self, pool: str) -> None:
        cluster = self._session.cluster()
        if not ensure_empty_pool_absent(cluster, pool):
            raise _kept(pool)
        # Its rule and its profile, if it was an erasure-coded one.
        ensure_erasure_pool_absent(cluster, pool)

    def _ensure_replicated(self, pool: str, copies: int, osd_set: str | None) -> None:
        if osd_set is not None:
            ensure_pool_on(self._session, osd_set, pool, copies)
            return
        if pool == self._copies().pool_of(copies):
            self._copies().ensure(copies)
            return
        ensure_pool_of_copies(
            self._session.cluster(),
            self._session.clock,
            pool,
            placement_groups=self._groups(None),
            copies=copies,
        )

    def _ensure_erasure_coded(self, pool: str, osd_set: str | None, code: str) -> None:
        cluster = self._session.cluster()
        if osd_set is None:
            found = cluster.query("osd", "pool", "get", DATABASE_POOL, "crush_rule")
            rule = str(found["crush_rule"])
        else:
            rule = lab_osd_sets(self._session).get(osd_set).crush_rule
        groups = self._groups(osd_set)
        ensure_erasure_pool(cluster, pool, code=code, placement_groups=groups, rule=rule)

    def _groups(self, osd_set: str | None) -> int:
        spec = self._session.require_lab()
        if osd_set is None:
            return decide_placement_groups(spec.osd_count, spec.copies)
        osds = decide_set_osds(spec, lab_osd_sets(self._session).get(osd_set))
        return decide_set_placement_groups(len(osds), spec.copies)

    def _copies(self) -> CopiesPools:
        session = self._session
        return CopiesPools(session.require_lab(), session.cluster(), session.clock)


def _kept(pool: str) -> GrampusError:
    return GrampusError(
        f"The pool {pool} cannot be removed: an OSD is down, or the pool has images.",
        "Start the OSDs (`grampus lab status` shows them), then try again.",
        code="pool-kept",
    )
