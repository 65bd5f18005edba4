"""What `bench` needs from the parts beside it, as ports that a test can stand in for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from grampus.databases.model import DatabaseRecord, Endpoint
from grampus.hosts.port import BlockLimit
from grampus.state.runs import Setting


class DatabasePort(Protocol):
    """The databases of one lab or cluster."""

    def get(self, name: str) -> DatabaseRecord:
        """The database's record. Raises NotFoundError."""
        ...

    def endpoint(self, name: str) -> Endpoint:
        """How to reach the database's instance, as a user who may create a schema."""
        ...

    def ensure_local_instance(self, name: str) -> Endpoint:
        """Start the scratch instance of `name`: same settings, data on the host's own disk."""
        ...

    def ensure_local_instance_absent(self, name: str) -> None:
        """Stop the scratch instance; its data may stay for the next run."""
        ...


@dataclass(frozen=True)
class IoDevice:
    """A block device whose I/O belongs to a daemon (an OSD) or to a volume.

    `device` is its path on `host`, such as /dev/loop3. `limit` is what it is limited to.
    `control_socket` is that of the volumed which serves the volume, or the emulated disk below an
    OSD (a path on the host). `log_device` has the log of the volume's file system, if that is on a
    device of its own: each write to it is durable.
    """

    kind: Literal["daemon", "volume"]
    name: str
    host: str
    device: str
    limit: BlockLimit | None = None
    control_socket: str | None = None
    log_device: str | None = None

    @property
    def devices(self) -> list[str]:
        """All devices whose I/O is its own."""
        return [self.device, *([] if self.log_device is None else [self.log_device])]


class DevicesPort(Protocol):
    """Which block devices stand for what."""

    def io_devices(self) -> list[IoDevice]:
        """The devices of the OSDs and of the attached volumes."""
        ...


class FactsPort(Protocol):
    """What is known of the cluster that no instance or host can say by itself."""

    def facts(self) -> list[Setting]:
        """Versions, pool, copies, volume driver, OSDs, media and limits."""
        ...
