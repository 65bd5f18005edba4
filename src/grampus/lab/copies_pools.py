"""The pools of a lab whose images have fewer copies than its databases have."""

from __future__ import annotations

from grampus.ceph.cluster import CephCluster
from grampus.ceph.erasure_pools import chunks_of
from grampus.ceph.pools import ensure_empty_pool_absent, ensure_pool_of_copies
from grampus.core.clock import Clock
from grampus.core.errors import RefusedError
from grampus.lab.bootstrap import decide_placement_groups
from grampus.lab.model import DATABASE_POOL, LabSpec


class CopiesPools:
    """Pools by their number of copies; the one of databases is one of them."""

    def __init__(self, spec: LabSpec, cluster: CephCluster, clock: Clock) -> None:
        self._spec = spec
        self._cluster = cluster
        self._clock = clock

    def pool_of(self, copies: int) -> str:
        """The name of the pool, there or not. Raises RefusedError with code `too-many-copies`."""
        if copies > self._spec.copies:
            raise RefusedError(
                f"This lab keeps {self._spec.copies} copies, not {copies}.",
                f"Choose at most {self._spec.copies} copies.",
                code="too-many-copies",
            )
        if copies == self._spec.copies:
            return DATABASE_POOL
        return f"{DATABASE_POOL}-{copies}-{'copy' if copies == 1 else 'copies'}"

    def require_chunks_fit(self, code: str) -> None:
        """Raise RefusedError with code `too-few-hosts` unless each chunk has a host of its own."""
        chunks = sum(chunks_of(code))
        if chunks > len(self._spec.osd_hosts):
            raise RefusedError(
                f"This lab has OSDs on {len(self._spec.osd_hosts)} hosts, and {code} needs "
                f"{chunks} hosts, one for each chunk.",
                "Create a lab with more hosts, or choose a code with fewer chunks.",
                code="too-few-hosts",
            )

    def ensure(self, copies: int) -> str:
        """The pool, made if need be; its name.

        Raises RefusedError with code `osds-down`, and what `pool_of` raises.
        """
        pool = self.pool_of(copies)
        if pool != DATABASE_POOL:
            ensure_pool_of_copies(
                self._cluster,
                self._clock,
                pool,
                placement_groups=decide_placement_groups(self._spec.osd_count, self._spec.copies),
                copies=copies,
            )
        return pool

    def names(self) -> tuple[str, ...]:
        """The pools with fewer copies than the lab keeps, there or not."""
        return tuple(self.pool_of(copies) for copies in range(1, self._spec.copies))

    def tidy(self, pool: str) -> None:
        """Remove the pool once its last image is gone; never the one of databases.

        While an OSD of a pool with one copy is away, `rbd` cannot list the clones of any image of
        the cluster (it looks for them in every pool), so none is kept for nothing.
        """
        if pool in self.names():
            ensure_empty_pool_absent(self._cluster, pool)
