"""OSD sets of a place whose hosts are not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grampus.bench.environments.osd_needs import OsdFill, OsdNeeds, PlaceOsds
from grampus.core.errors import GrampusError
from grampus.core.units import GIB

if TYPE_CHECKING:
    from tests.unit.bench.environments.world import EnvironmentWorld


class FakeEnvironmentOsdSets:
    """Sets on two hosts; what is written to a pool for filling makes them fuller."""

    def __init__(self, world: EnvironmentWorld) -> None:
        self._world = world
        self.sets: dict[str, OsdNeeds] = {}
        self.used_bytes: dict[str, int] = {}
        self.unlimited: set[str] = set()
        self.failing = False
        # What a set does not tell yet, in bytes, and until when (s).
        self.untold: dict[str, tuple[int, float]] = {}

    def place_osds(self) -> PlaceOsds:
        return PlaceOsds(OsdNeeds(media="nvme"), hosts=2, first_bytes=6 * GIB)

    def is_there(self, name: str) -> bool:
        return name in self.sets

    def ensure(self, needs: OsdNeeds) -> None:
        if self.failing:
            raise GrampusError("No OSD of the set came up.")
        self._world.fuse.burn()
        self.sets[needs.name] = needs
        self.used_bytes.setdefault(needs.name, GIB // 4)
        self._world.fuse.burn()

    def lift_limits(self, name: str) -> None:
        self._world.fuse.burn()
        assert name in self.sets
        self.unlimited.add(name)
        self._world.fuse.burn()

    def impose_limits(self, name: str) -> None:
        self._world.fuse.burn()
        self.unlimited.discard(name)
        self._world.fuse.burn()

    def ensure_absent(self, name: str) -> None:
        pools = self._world.pools
        assert not [pool for pool in pools.pools if pools.on.get(pool) == name], "it is in use"
        self._world.fuse.burn()
        self.sets.pop(name, None)
        self.unlimited.discard(name)
        self.used_bytes.pop(name, None)
        self._world.fuse.burn()

    def observe_fill(self, name: str) -> OsdFill:
        needs = self.sets[name]
        untold_bytes, until_s = self.untold.get(name, (0, 0.0))
        told_bytes = self.used_bytes[name]
        if self._world.clock.monotonic_s() < until_s:
            told_bytes -= untold_bytes
        return OsdFill(2 * needs.osds_per_host * needs.osd_bytes, told_bytes)

    def written(self, pool: str, data_bytes: int) -> None:
        """As `rados bench` did it."""
        name = pool.removesuffix("-fill")
        if name in self.used_bytes:
            assert name in self.unlimited, "filled at a disk's pace"
            self.used_bytes[name] += data_bytes * self._world.pools.pools[pool]
