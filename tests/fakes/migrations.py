"""Volumes in memory that move to other pools and get new keys: a `MigrationPort` and another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.volumes.decide_migration import not_migrating
from grampus.volumes.migrating import MigrateOrder
from grampus.volumes.model import VolumeRecord
from tests.fakes.interruption import Fuse

if TYPE_CHECKING:
    from tests.fakes.volumes import FakeVolumes

POOLS = ("databases", "archive")


class FakeMigrations:
    """One that fails half-way stays begun until it is done again, or aborted."""

    def __init__(self, volumes: FakeVolumes, fuse: Fuse) -> None:
        self._volumes = volumes
        self._fuse = fuse
        self.begun: dict[str, MigrateOrder] = {}
        self.fails_half_way = False
        self.fills_up = False  # the pool that it goes to: it goes back
        self.refused = ""  # the code of what keeps volumes where they are

    def plan(self, name: str, pool: str) -> MigrateOrder | None:
        record = self._volumes.get(name)
        if pool not in POOLS:
            raise NotFoundError(f"There is no pool '{pool}' for images.")
        if self.refused:
            raise RefusedError("It stays.", "Let it.", code=self.refused)
        if record.spec.pool == pool:
            return None
        spec = record.spec
        return MigrateOrder(name=name, image=spec.image, from_pool=spec.pool, to_pool=pool)

    def describe(self, order: MigrateOrder) -> list[str]:
        return [f"Move '{order.name}' to '{order.to_pool}'"]

    def find(self, name: str) -> MigrateOrder | None:
        return self.begun.get(name)

    def migrate(self, name: str, pool: str) -> VolumeRecord:
        self._fuse.burn()
        order = self.begun.get(name) or self.plan(name, pool)
        if order is not None:
            self.begun[name] = order
            self._put(name, pool)
            self._fuse.burn()
            if self.fills_up:
                self.abort(name)
                raise GrampusError("The pool fills up.", code="pool-filling")
            if self.fails_half_way:
                raise GrampusError("The copy failed.", code="migration-failed")
            del self.begun[name]
        return self._volumes.get(name)

    def describe_abort(self, name: str) -> list[str]:
        if name not in self.begun:
            raise not_migrating(name)
        return [f"Go back to '{self.begun[name].from_pool}'"]

    def abort(self, name: str) -> VolumeRecord:
        self.describe_abort(name)
        self._fuse.burn()
        self._put(name, self.begun.pop(name).from_pool)
        self._fuse.burn()
        return self._volumes.get(name)

    def _put(self, name: str, pool: str) -> None:
        image = self._volumes.images[name]
        spec = image.record.spec.model_copy(update={"pool": pool})
        image.record = image.record.model_copy(update={"spec": spec})


class FakeKeyRotation:
    """Counts."""

    def __init__(self, volumes: FakeVolumes, fuse: Fuse) -> None:
        self._volumes = volumes
        self._fuse = fuse
        self.rotated: list[str] = []
        self.is_refused = False

    def can_rotate(self, name: str) -> bool:
        self._volumes.get(name)
        return not self.is_refused

    def rotate(self, name: str) -> None:
        self._fuse.burn()
        self.rotated.append(name)
        self._fuse.burn()
