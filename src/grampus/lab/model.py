"""What a lab is: its spec, and everything that follows from the spec alone."""

from __future__ import annotations

import hashlib
import ipaddress
import re
import uuid
from pathlib import Path

from pydantic import ConfigDict

from grampus.core.errors import UsageError
from grampus.core.models import Model
from grampus.core.units import GIB
from grampus.hosts.media import MediaName
from grampus.state.home import Home

DEFAULT_LAB = "default"
DATABASE_POOL = "databases"
LAB_RECORD = "lab"
MON_COUNT = 3
MGR_COUNT = 2
MIN_HOSTS = 3  # three copies, no two on one host
MAX_HOSTS = 9
MAX_OSDS_PER_HOST = 8
MIN_OSD_SIZE_BYTES = 4 * GIB
FIRST_HOST_ADDRESS = 11
FIRST_DATABASE_ADDRESS = 100
LAST_DATABASE_ADDRESS = 249


class LabSpec(Model):
    """A lab, with everything decided that bringing it up needs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    tag: str  # names the lab's links, namespaces and control groups on this machine
    image_id: str
    image_name: str
    host_count: int
    osds_per_host: int
    media: MediaName
    osd_size_bytes: int
    subnet: str  # such as 10.213.0.0/24
    fsid: str
    copies: int = 3
    min_size: int = 2
    is_secure: bool = False  # the cluster's messages are encrypted
    osd_host_count: int | None = None  # the first so many hosts have OSDs; None: all

    @property
    def network(self) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Network(self.subnet)

    @property
    def gateway(self) -> str:
        """The address of this machine on the lab's bridge."""
        return str(self.network[1])

    @property
    def bridge(self) -> str:
        return f"gr-{self.tag}"

    @property
    def cgroup_path(self) -> str:
        return f"/grampus/{self.tag}"

    @property
    def run_dir(self) -> Path:
        """What need not survive a reboot: runc's own state."""
        return Path("/run/grampus") / self.tag

    @property
    def host_names(self) -> list[str]:
        return [f"h{number}" for number in range(1, self.host_count + 1)]

    @property
    def mon_hosts(self) -> list[str]:
        return self.host_names[:MON_COUNT]

    @property
    def mgr_hosts(self) -> list[str]:
        return self.host_names[:MGR_COUNT]

    @property
    def osd_hosts(self) -> list[str]:
        return self.host_names[: self.osd_host_count]

    @property
    def other_hosts(self) -> list[str]:
        """Hosts without OSDs."""
        return self.host_names[len(self.osd_hosts) :]

    @property
    def osd_count(self) -> int:
        return len(self.osd_hosts) * self.osds_per_host

    def host_address(self, host: str) -> str:
        """The address of `h1`, `h2`, ..."""
        return str(self.network[FIRST_HOST_ADDRESS + int(host[1:]) - 1])

    def host_namespace(self, host: str) -> str:
        """The name of the host's network namespace under /run/netns."""
        return f"grampus-{self.tag}-{host}"

    def host_link(self, host: str) -> str:
        """The end of the host's link that stands on the bridge (at most 15 characters)."""
        return f"gr-{self.tag}-{host}"

    def database_addresses(self) -> list[str]:
        """Addresses that databases may take."""
        return [
            str(self.network[number])
            for number in range(FIRST_DATABASE_ADDRESS, LAST_DATABASE_ADDRESS + 1)
        ]

    def osd_uuid(self, host: str, slot: int | str) -> str:
        """An OSD has the same UUID whenever it is asked: so `ceph osd new` can be repeated."""
        return str(uuid.uuid5(uuid.UUID(self.fsid), f"{host}/{slot}"))


def lab_tag(home: Home, name: str) -> str:
    """Five hexadecimal digits that keep labs of different homes apart on one machine."""
    return hashlib.sha256(f"{home.root}\0{name}".encode()).hexdigest()[:5]


# What needs no quoting in an overlay's mount options (`,` and `:` part them, `\` escapes), in
# the mount table (white space is escaped there) and in Ceph's own configuration.
_USABLE = re.compile(r"/[A-Za-z0-9_./@+-]*")


def require_usable_home(root: Path) -> Path:
    """Return `root` if a lab can live below it. Raises UsageError otherwise."""
    if _USABLE.fullmatch(str(root)) is None:
        raise UsageError(
            f"{str(root)!r} is not a valid directory for a lab: mounts do not support such a path.",
            "Set GRAMPUS_HOME to a path of letters, digits and the characters _ . - + @ only.",
            code="unusable-home",
        )
    return root
