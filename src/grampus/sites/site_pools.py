"""The pools of a site by their number of copies: there is the one that it was adopted with."""

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
        """The site's pool. Raises RefusedError with code `no-such-copies` for another number."""
        kept = self._cluster.observe_pool(self._site.pool).copies
        if copies != kept:
            raise RefusedError(
                f"The pool '{self._site.pool}' of the site keeps {kept} copies, not {copies}.",
                "Leave the number of copies out: Grampus creates no pools in a site's cluster.",
                code="no-such-copies",
            )
        return self._site.pool

    def ensure(self, copies: int) -> str:
        """As `pool_of`."""
        return self.pool_of(copies)

    def tidy(self, pool: str) -> None:
        """Nothing: no pool was made."""
