"""What a driver is, and what it is told of a volume."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

from grampus.hosts.port import Host
from grampus.volumes.live import LiveVolume
from grampus.volumes.model import TransportName, VolumeSpec


@dataclass(frozen=True)
class MapRequest:
    """What a driver needs to know of a volume."""

    volume: VolumeSpec
    ceph_user: str
    reference: str  # unique in the lab; marks what is ours
    transport: TransportName = "auto"
    # Before it serves, the driver has to bring an earlier owner's journal into the image.
    is_unapplied: bool = False
    # The volume has, or shall have, a log on the host itself.
    has_local_log: bool = False
    # Of an encrypted volume, for as long as it is mapped; a driver takes no other.
    key_file: PurePosixPath | None = None
    # Unmapped, what its journal holds stays there: the image is about to be removed.
    leaves_journal: bool = False

    @property
    def image(self) -> str:
        """POOL/IMAGE."""
        return f"{self.volume.pool}/{self.volume.image}"


@dataclass(frozen=True)
class Mapped:
    """An image as a block device."""

    device: str
    log_device: str | None = None  # of an external log
    client_address: str | None = None  # address:port/nonce, where the driver itself can say it
    export_path: str | None = None  # the FUSE file under the device
    transport: str | None = None


@dataclass(frozen=True)
class ClientAnswer:
    """What came of asking the client that has an image open; neither: it cannot be asked."""

    is_done: bool = False
    is_silent: bool = False  # the cluster does not answer the client
    said: str = ""  # as the end of a sentence, of one that is silent


class Driver(Protocol):
    """Makes a block device of an image on a host."""

    @property
    def grows_live(self) -> bool:
        """Whether `ensure_grown` can be used."""
        ...

    def ensure_mapped(self, host: Host, request: MapRequest) -> Mapped:
        """The block device, mapped if need be. What is left of a dead mapping is replaced."""
        ...

    def find(self, host: Host, request: MapRequest) -> str | None:
        """The block device if the mapping is there and alive, else None."""
        ...

    def ensure_grown(self, host: Host, request: MapRequest) -> None:
        """Give the living block device the size of the image, `request.volume.size_bytes`."""
        ...

    @property
    def exchanges_live(self) -> bool:
        """Whether `serves`, `close_image`, `open_image` and `ensure_answering` can be used."""
        ...

    def serves(self, host: Host, request: MapRequest) -> bool:
        """Whether the device's server lives, also while the device's users wait.

        Unlike `find` it does not touch the device: whoever does would wait with them.
        """
        ...

    def close_image(self, host: Host, request: MapRequest, *, limit_s: float) -> None:
        """Let go of the image of a living device, whose users wait until `open_image`.

        All that was written is in it. After `limit_s` the driver opens it again by itself. Raises
        GrampusError with code `exchange-failed`; a second time changes nothing.
        """
        ...

    def open_image(self, host: Host, request: MapRequest) -> str | None:
        """Open `request.image`, and let the device's users go on; its client's address.

        Raises GrampusError with code `exchange-failed`: they wait on. A second time changes
        nothing.
        """
        ...

    def ensure_answering(self, host: Host, request: MapRequest) -> None:
        """Let nobody wait for an image that nobody will open any more.

        The last one is opened again; where that cannot be, what waits fails.
        """
        ...

    def draw_down(self, host: Host, request: MapRequest) -> int | None:
        """Leave little of a journal to apply, while requests go on: detaching takes no time then.

        How many bytes it still holds: 0 where there is none, None where nobody says.
        """
        ...

    def drop_flushes(self, host: Host, request: MapRequest) -> None:
        """Have flushes of the volume's device answered before they are done, where that can be.

        Until `ensure_flushed`, a crash may take what was flushed.
        """
        ...

    def ensure_flushed(self, host: Host, request: MapRequest) -> None:
        """All that was written before is durable, and flushes are done again as before
        `drop_flushes`.

        Raises GrampusError with code `no-device` when the volume's device is not there any more.
        """
        ...

    def check_cluster(self, host: Host, request: MapRequest) -> ClientAnswer:
        """Have the client that has the image open ask the cluster whether its lock is its own."""
        ...

    def take_snapshot(self, host: Host, request: MapRequest, snapshot: str) -> ClientAnswer:
        """A snapshot that holds everything flushed, taken by the client that has the image open.

        One of that name is left as it is. Raises GrampusError with code `snapshot-failed`: then
        there is none.
        """
        ...

    def ensure_unmapped(self, host: Host, request: MapRequest) -> None:
        """Take the block device away; it must not be mounted."""
        ...

    def daemon(self, request: MapRequest) -> str | None:
        """The daemon that serves the device, if there is one."""
        ...

    def observe_live(self, host: Host, request: MapRequest) -> LiveVolume | None:
        """How the device does now; None when the driver cannot say."""
        ...

    def observe_clients(self, host: Host, request: MapRequest) -> list[str]:
        """Addresses (address:port/nonce) of the clients that its daemon there was, as far as it
        says so, also of a daemon that has ended."""
        ...
