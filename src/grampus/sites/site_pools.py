"""The pools of a site by their number of copies: there are those that it was adopted with."""

from __future__ import annotations

from grampus.ceph.cluster import CephCluster
from grampus.core.errors import RefusedError
from grampus.sites.model import SiteSpec


class SitePools:
    """A `CopiesPort`: Grampus makes no pools in somebody's cluster."""

    def __init__(self, site: SiteSpec, cluster: CephCluster) -> None:
        self._site = site
        self._cluster = cluster

    def pool_of(self, copies: int) -> str:
        """The site's first pool with so many; RefusedError with code `no-such-copies`: none has."""
        kept = {}
        for pool in self._site.pools:
            kept[pool] = self._cluster.observe_pool(pool).copies
            if kept[pool] == copies:
                return pool
        told = ", ".join(f"'{pool}' keeps {count}" for pool, count in kept.items())
        raise RefusedError(
            f"No pool of the site keeps {copies} copies: {told}.",
            "Leave the number of copies out. Grampus creates no pools in a site's cluster; "
            f"`grampus site adopt {self._site.name}` with one more --pool adds one that is there.",
            code="no-such-copies",
        )

    def ensure(self, copies: int) -> str:
        """As `pool_of`."""
        return self.pool_of(copies)

    def tidy(self, pool: str) -> None:
        """Nothing: no pool was made."""
