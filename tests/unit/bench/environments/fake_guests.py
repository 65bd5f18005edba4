"""Virtual machines of databases' servers, as environments see them."""

from __future__ import annotations

from grampus.core.errors import RefusedError
from grampus.databases.model import DatabaseSpec
from grampus.hosts.port import DaemonSpec
from tests.fakes.hosts import FakeDaemon, FakeHost
from tests.fakes.interruption import Fuse


class FakeEnvironmentGuests:
    """Virtual machines on h1, each with the parameters that its server was started with."""

    def __init__(self, fuse: Fuse, host: FakeHost, stopped: set[str]) -> None:
        """`stopped` are the databases without a server, as they are known at each moment."""
        self._fuse = fuse
        self._host = host
        self._stopped = stopped
        self.has_image = False
        self.running: dict[str, dict[str, str]] = {}
        self.starts: list[str] = []
        self.emulated = "It was emulated."

    def ensure_image(self) -> None:
        self._fuse.burn()
        self.has_image = True

    def ensure_serving(self, spec: DatabaseSpec) -> None:
        assert self.has_image, "a trial would wait for it"
        if self.running.get(spec.name) == spec.parameters:
            return
        if spec.name not in self._stopped:
            raise RefusedError(f"The volume '{spec.name}' is attached to h1.")
        self.running[spec.name] = dict(spec.parameters)
        self.starts.append(spec.name)
        name = f"vm-{spec.name}"
        self._host.daemons[name] = FakeDaemon(DaemonSpec(name, ()))

    def ensure_absent(self, name: str) -> None:
        self._fuse.burn()
        if self.running.pop(name, None) is not None:
            del self._host.daemons[f"vm-{name}"]
        self._fuse.burn()

    def note(self, host: str) -> str | None:
        assert host == "h1"
        return self.emulated
