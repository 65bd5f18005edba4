"""The records of a site: its cluster, its hosts, its machines and its epoch."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from datetime import datetime
from pathlib import Path

from pydantic import ConfigDict, Field

from grampus.core.errors import UsageError
from grampus.core.models import Model
from grampus.state.home import Home

SITE_RECORD = "site"
SITE_HOST_RECORD = "site-host"
EPOCH_RECORD = "controller-epoch"
MACHINE_RECORD = "site-machine"
DEFAULT_POOL = "databases"
DEFAULT_USER = "grampus"
# Where Grampus keeps its things on a host of a site, below a directory for each site.
HOST_ROOT = "/var/lib/grampus"
# What need not survive a restart of this machine. A path of a socket has at most 107 characters.
RUN_DIRECTORY = Path("/run/grampus")
# A server has a second port, 10,000 above its own, and Linux gives ports from 32768 on to outgoing
# connections.
FIRST_PORT, LAST_PORT, MOST_PORTS = 1024, 22_767, 1000
_PORTS = re.compile(r"(?P<first>\d{1,5})-(?P<last>\d{1,5})", re.ASCII)
_RANGE = re.compile(r"(?P<first>\d+\.\d+\.\d+\.\d+)-(?P<last>\d+)", re.ASCII)


class SiteSpec(Model):
    """A site, as it was adopted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    tag: str  # names the site's units and directories on its hosts
    fsid: str  # of its cluster
    user: str  # the cephx user of Grampus, without `client.`
    pool: str  # of new databases, unless they ask for another, and of the state
    image_name: str
    # The host image of new hosts, and of Ceph's commands on this machine. A host that was not
    # upgraded since has another one (`image_of`).
    image_id: str
    image_digest: str  # of its files (`image_scripts.digest_argv`)
    addresses: str = ""  # such as 10.0.5.100-199; no database without them or ports
    interface: str = ""  # of the hosts, for these addresses; empty: the one in their network
    further_pools: tuple[str, ...] = ()  # that databases may be in, too
    ports: str = ""  # such as 13300-13399, of the hosts' own addresses; never beside `addresses`
    address_hook: str = ""  # a program's absolute path; empty: none

    @property
    def pools(self) -> tuple[str, ...]:
        """All pools of the site; the one of new databases is the first."""
        return (self.pool, *self.further_pools)

    @property
    def host_directory(self) -> str:
        """Where Grampus keeps the site's things on each host."""
        return f"{HOST_ROOT}/{self.tag}"

    def image_of(self, host: SiteHostSpec) -> str:
        """The id of the image that a host has."""
        return host.image_id or self.image_id

    def database_addresses(self) -> list[str]:
        """Addresses that databases may take."""
        return parse_address_range(self.addresses) if self.addresses else []

    def database_ports(self) -> list[int]:
        """Ports of the hosts' own addresses that databases may take."""
        return parse_port_range(self.ports) if self.ports else []


class SiteHostSpec(Model):
    """A host of a site, and how commands reach it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    address: str  # its IPv4 address as the cluster sees it
    ssh_user: str
    ssh_address: str
    ssh_port: int = 22
    identity: str | None = None  # a private key's file on the machine that Grampus runs on
    labels: dict[str, str] = Field(default_factory=dict)
    is_ready: bool = False  # all that it needs is there; until then nothing runs on it
    # What it has of Grampus, as `HostParts`. Empty: an earlier release added it, with the image of
    # the site.
    image_id: str = ""
    image_digest: str = ""
    parts_format: int = 1
    version: str = ""  # of the Grampus that added it, or upgraded it last


class ControllerEpoch(Model):
    """One epoch of a site, and who began it; see `epochs.py`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    number: int
    id: str  # no two have the same
    machine: str
    machine_id: str
    since: datetime
    why: str = ""  # it began


class SiteMachine(Model):
    """A machine that works on a site, by the id of its copy of the state."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    joined_at: datetime
    home: str  # its GRAMPUS_HOME


def site_tag(fsid: str, name: str) -> str:
    """Five hexadecimal digits that keep sites apart on one host.

    They are the same on every machine that adopts the cluster under this name: whoever continues
    its work finds what runs on the hosts.
    """
    return hashlib.sha256(f"{fsid}\0{name}".encode()).hexdigest()[:5]


def site_directory(home: Home, name: str) -> Path:
    """Where this machine keeps the cluster's configuration, the key, and the hosts' SSH keys."""
    return home.root / "sites" / name


def connection_directory(site: SiteSpec) -> Path:
    """Where the sockets of the shared connections to a site's hosts are."""
    return RUN_DIRECTORY / f"ssh-{site.tag}"


def parse_address_range(text: str) -> list[str]:
    """The IPv4 addresses of `10.0.5.100-199`, in order. Raises UsageError."""
    found = _RANGE.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        first = ipaddress.IPv4Address(found["first"])
        count = int(found["last"]) - int(first) % 256 + 1
        if not 1 <= count <= 256 or int(found["last"]) > 255:
            raise ValueError
    except ValueError:
        raise UsageError(
            f"'{text}' is not a range of addresses.",
            "Give the first address and the last number, such as 10.0.5.100-199.",
            code="bad-addresses",
        ) from None
    return [str(first + number) for number in range(count)]


def parse_port_range(text: str) -> list[int]:
    """The TCP ports of `13300-13399`, in order. Raises UsageError."""
    found = _PORTS.fullmatch(text)
    ports = range(int(found["first"]), int(found["last"]) + 1) if found else range(0)
    if not ports:
        raise UsageError(
            f"'{text}' is not a range of ports.",
            "Give the first and the last port, such as 13300-13399.",
            code="bad-ports",
        )
    if ports[0] < FIRST_PORT or ports[-1] > LAST_PORT or len(ports) > MOST_PORTS:
        raise UsageError(
            f"The ports {text} cannot be used for databases.",
            f"Give at most {MOST_PORTS} ports from {FIRST_PORT} to {LAST_PORT}, such as "
            "13300-13399. Each server has a second port for Grampus, 10000 above its own.",
            code="bad-ports",
        )
    return list(ports)
