"""What is watched during a trial, and which layer each of it belongs to. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from grampus.hosts.port import BlockLimit, CpuWait, Usage

# Who uses the machine's CPU; `other` is all that is not there for the load.
Consumer = Literal["client", "server", "volume", "osd", "other"]
_OSD = re.compile(r"^osd[-.]\d+@")
# After the name of a volume: the device with the log of its file system.
LOG = " log"


@dataclass(frozen=True)
class UsageReading:
    """Counters of daemons' control groups, by `DAEMON@HOST`, at a Unix time."""

    at_s: float
    usages: Mapping[str, Usage]
    waits: Mapping[str, CpuWait] = field(default_factory=dict)


@dataclass(frozen=True)
class Subjects:
    """What a trial puts under load.

    All clients together may use `client_cores` of their host. `servers` have the CPUs that each may
    use, by `DAEMON@HOST`; `volumes` are names, with the daemon that serves each (None: the kernel).
    `limits` are those of the OSDs' devices. `machine` is the host that the counters of the whole
    machine are read on. `osd_cores_per_host` is None where the OSDs may use all cores.
    """

    machine: str
    client_cores: float
    threads: int
    servers: Mapping[str, float] = field(default_factory=dict)
    volumes: Mapping[str, str | None] = field(default_factory=dict)
    limits: Mapping[str, BlockLimit] = field(default_factory=dict)
    osd_cores_per_host: float | None = None

    def consumer_of(self, daemon: str) -> Consumer:
        """Of a daemon by `DAEMON@HOST`."""
        if daemon in self.servers:
            return "server"
        if daemon in self.volumes.values():
            return "volume"
        return "osd" if _OSD.match(daemon) else "other"
