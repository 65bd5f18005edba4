"""A lab of fakes whose volumes fill up, and whose servers can be made read-only."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from grampus.ceph.fullness import PoolRoom
from grampus.core.errors import RefusedError
from grampus.core.units import GIB
from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.databases.growth.growth import DatabaseGrowth
from grampus.databases.growth.growth_rule import GrowthRule
from grampus.databases.growth.guard import GrowthGuard
from grampus.volumes.model import VolumeSpec
from tests.fakes.clock import FakeClock
from tests.fakes.hosts import FakeFleet
from tests.fakes.interruption import Fuse
from tests.fakes.mysql_host import MysqlDaemon, MysqlHost
from tests.fakes.volumes import FakeVolumes
from tests.unit.databases.world import ADDRESSES, World

RULE = GrowthRule(when_percent=80, step_percent=25, up_to_bytes=20 * GIB)


class FillingHost(MysqlHost):
    """A host that says how full its volumes are, and whose servers know `read_only`."""

    def __init__(self, name: str, fuse: Fuse) -> None:
        super().__init__(name, fuse)
        self.mounts = ""  # what `findmnt` prints
        self.read_only: dict[str, bool] = {}  # by daemon
        self.stuck: set[str] = set()  # daemons whose commits do not end

    def play(self, argv: list[str], stdin: str | None, daemon: str | None) -> tuple[int, str]:
        if argv[0] == "findmnt":
            return (0, self.mounts) if self.mounts else (1, "")
        return super().play(argv, stdin, daemon)

    def _administrator(self, argv: Sequence[str], daemon: MysqlDaemon | None) -> tuple[int, str]:
        if daemon is None or daemon.state != "running":
            return 255, "no such container"
        name, statement = daemon.spec.name, argv[-1]
        if statement == "SELECT @@GLOBAL.read_only":
            return 0, f"{int(self.read_only.get(name, False))}\n"
        change = re.search(r"SET GLOBAL (?:super_)?read_only = (ON|OFF)$", statement)
        if change is None:
            return super()._administrator(argv, daemon)
        if change[1] == "ON" and name in self.stuck:
            assert "lock_wait_timeout" in statement, "it would wait for ever"
            return 1, "ERROR 1205 (HY000) at line 1: Lock wait timeout exceeded; try restarting"
        with self.changing():
            self.read_only[name] = change[1] == "ON"
        return 0, ""


class FillingVolumes(FakeVolumes):
    """Volumes of which some cannot grow."""

    def __init__(self, fleet: FakeFleet, fuse: Fuse, clock: FakeClock) -> None:
        super().__init__(fleet, fuse, clock)
        self.ungrowable: set[str] = set()

    def plan_resize(self, name: str, size_bytes: int) -> VolumeSpec:
        if name in self.ungrowable:
            raise RefusedError("It is attached through nbd.", code="cannot-grow")
        return super().plan_resize(name, size_bytes)


class GrowthWorld(World):
    """A world of volumes that fill up. Time passes from look to look."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.filling = {name: FillingHost(name, self.fuse) for name in ("h1", "h2")}
        self.hosts = dict(self.filling)
        self.fleet = FakeFleet(list(self.hosts.values()), ADDRESSES)
        self.volumes: FillingVolumes = FillingVolumes(self.fleet, self.fuse, self.clock)
        self.room = PoolRoom(
            "databases", available_bytes=100 * GIB, until_nearly_full_bytes=90 * GIB
        )
        self.rooms_asked = 0
        self.used_bytes: dict[str, int] = {}
        self.guard = GrowthGuard()

    def growth(self) -> DatabaseGrowth:
        return DatabaseGrowth(self.service().operations, self._observe_room)

    def use(self, used_bytes: int, name: str = "demo") -> None:
        """So much is on the file system from now on."""
        self.used_bytes[name] = used_bytes
        self._show_mounts()

    def look(self, *, after_s: float = 5.0) -> list[ControllerEvent]:
        """The guard's next look."""
        self.clock.sleep(after_s)
        self._show_mounts()
        return self.guard.run(self.growth())

    def is_read_only(self, name: str = "demo") -> bool:
        return any(host.read_only.get(f"mysqld-{name}", False) for host in self.filling.values())

    def size_bytes(self, name: str = "demo") -> int:
        return self.volumes.get(name).spec.size_bytes

    def inventory(self) -> dict[str, list[str]]:
        """As the world's, with rules, guards and who may write."""
        records = self.service().operations.records.all()
        return {
            **super().inventory(),
            "growth": [f"{name}:{r.growth}:{r.guard}:{r.spec}" for name, r in records.items()],
            "read-only": [f"{name}:{self.is_read_only(name)}" for name in records],
            "facts": [
                f"{n}:{image.lasting_facts}" for n, image in sorted(self.volumes.images.items())
            ],
        }

    def _observe_room(self, pool: str) -> PoolRoom:
        assert pool == self.room.pool
        self.rooms_asked += 1
        return self.room

    def _show_mounts(self) -> None:
        for host in self.filling.values():
            host.mounts = ""
        for name, used_bytes in self.used_bytes.items():
            attachment = self.volumes.get(name).attachment
            if attachment is not None:
                size_bytes = self.size_bytes(name)
                self.filling[attachment.host].mounts += (
                    f"{attachment.mount_path} {attachment.device} {size_bytes} "
                    f"{size_bytes - used_bytes}\n"
                )
