"""Images, and a cluster, as far as databases see them."""

from __future__ import annotations

from grampus.core.errors import RefusedError
from grampus.databases.model import FlavourName
from grampus.databases.upgrades.decide_server import choose_version
from grampus.volumes.decide_pool import require_pool

OLD_IMAGE = "old-89ab"  # it holds MySQL 8.4


class FakeImages:
    """An `ImagePort`."""

    def __init__(self) -> None:
        self.own_is_older = False  # than what it would be built from now

    def image_for(
        self, flavour: FlavourName, version: str | None = None, *, as_defined: bool = False
    ) -> str | None:
        newest = choose_version(flavour, version, self.versions(flavour)) in ("9.7", "11.8")
        if not newest:
            return OLD_IMAGE
        if flavour == "mysql":
            return "sid-cdef" if as_defined and self.own_is_older else None
        return "trixie-0123"

    def versions(self, flavour: FlavourName) -> list[str]:
        return ["8.4", "9.7"] if flavour == "mysql" else ["10.11", "11.8"]

    def own_image(self) -> str:
        return "sid-4567"


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
