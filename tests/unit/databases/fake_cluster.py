"""A cluster, as far as databases see it."""

from __future__ import annotations

from grampus.core.errors import RefusedError
from grampus.volumes.decide_pool import require_pool


class FakeCluster:
    """A `ClusterPort`."""

    def __init__(self) -> None:
        self.full = False

    def volume_pool(self) -> str:
        return "databases"

    def check_room(self, pool: str, size_bytes: int) -> None:
        require_pool(pool, ["databases", "databases-disks"])
        if self.full:
            raise RefusedError(f"The pool {pool} is full.", code="pool-full")
