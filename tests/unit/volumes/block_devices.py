"""What a host in memory has of block devices: who serves images, and what leads to them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath as Path

from tests.fakes.hosts import FakeDaemon

from .cluster import FSID, Client


@dataclass(kw_only=True)
class Daemon(FakeDaemon):
    """A qemu-storage-daemon or a volumed: one image, exported as one file."""

    image: str
    export: Path
    size_bytes: int = 0  # as it serves it
    socket: Path | None = None  # of a volumed
    transport: str = ""
    write_path: str = "direct"
    local: Path | None = None  # a volumed's directory on the host
    client: Client | None = None


@dataclass
class Loop:
    file: Path
    reference: str
    server: Daemon
    size_bytes: int = 0
    offset_bytes: int = 0  # in the file
    is_durable: bool = False  # each write to it is so when it is answered


@dataclass
class Mapping:
    """A krbd or nbd device."""

    kind: str
    number: int
    image: str
    fsid: str = FSID
    client: Client | None = None
