"""A site: somebody's cluster with a key of few rights, and hosts that Grampus did not create.

The hosts are machines of their own with systemd, reached by SSH alone (`systemd_hosts.py`). Their
directories are looked at by tests only: Grampus knows nothing of them.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from tests.system.command_line import CHECKOUT, CommandLine
from tests.system.lab_machine import LabMachine
from tests.system.systemd_hosts import SystemdHosts

NAME = "shop"  # the database that most tests work on
# The last numbers of the hosts' addresses, in the network of the lab, and those of databases.
FIRST_HOST, DATABASES = 31, "240-249"

_LOOK_FOR_REST = """
    find /var/lib/grampus -mindepth 1 -maxdepth 1
    awk '$5 != "/var/lib/grampus" && index($5, "/var/lib/grampus/") == 1' /proc/mounts
    awk 'index($5, "/var/lib/grampus/") == 1 { print $5 }' /proc/self/mountinfo
    systemctl list-units --all --plain --no-legend 'grampus-*'
    ip -4 -brief address show eth0 | tr ' ' '\\n' | grep / | tail -n +2
    losetup --list --noheadings --output BACK-FILE | grep "^/var/lib/grampus/$1/" || true
"""


class OwnedCluster(Protocol):
    """A cluster of somebody, in the network of its site's hosts."""

    @property
    def bridge(self) -> str: ...

    @property
    def network(self) -> str:
        """The first three numbers of its addresses; this machine has one of them."""

    def ok(self, *argv: str) -> str:
        """What a command prints there, with the key of an administrator; it must succeed."""


class LabCluster:
    """The cluster of a lab, as an `OwnedCluster`."""

    def __init__(self, lab: CommandLine) -> None:
        self._machine = LabMachine(lab, "h1")
        self.bridge = f"gr-{lab.tag}"
        argv = ["ip", "-4", "-o", "address", "show", self.bridge]
        shown = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        found = re.search(r"inet (\d+\.\d+\.\d+)\.\d+/", shown)
        assert found is not None, shown
        self.network = found[1]

    def ok(self, *argv: str) -> str:
        """As `LabMachine.ok`, on its first host."""
        return self._machine.ok(*argv)


@dataclass
class Site:
    """The site, its hosts and its cluster."""

    line: CommandLine
    hosts: SystemdHosts
    cluster: OwnedCluster
    files: Path
    connections: set[Path]  # of other sites on this machine, which were there before
    tag: str = ""  # of the site, once it has a host
    begun_s: float = field(default_factory=time.monotonic)  # before the cluster was adopted

    def data_of(self, host: str) -> Path:
        """The directory of a host, on this machine, below which files of its databases are."""
        return self.hosts.data(host) / self.tag / "data"

    def add(self, host: str, *options: str, user: str = "root") -> None:
        """Add one of the hosts; a user other than root has the sudo rule of the guide."""
        place = f"{user}@{self.hosts.address(host)}"
        identity = str(self.hosts.identity)
        self.line.ok("host", "add", host, "--ssh", place, "--identity", identity, *options)

    def rows(self) -> int:
        """How many rows the database's table has."""
        return int(self.line.sql(NAME, "SELECT COUNT(*) FROM d.t")[0][0])

    def insert(self) -> None:
        """One more row, which the server has acknowledged when this returns."""
        self.line.ok("db", "connect", NAME, "-e", "INSERT INTO d.t () VALUES ()")

    def leave_s1(self) -> None:
        """The database is on s2."""
        if self.host_of(NAME) != "s2":
            self.line.ok("db", "move", NAME, "--host", "s2")

    def host_of(self, name: str) -> str:
        found = self.line.json("db", "show", name)["host"]
        assert isinstance(found, str)
        return found

    def services(self, host: str) -> set[str]:
        """The daemons of the site whose services run on a host."""
        listed = self.hosts.run(
            host, "systemctl", "list-units", "--plain", "--no-legend", "grampus-*.service"
        )
        found = re.findall(r"^grampus-[0-9a-f]{5}-(\S+)\.service", listed, re.MULTILINE)
        return {str(name) for name in found}

    def show(self, host: str, daemon: str, *properties: str) -> dict[str, str]:
        """Properties of a daemon's service."""
        shown = self.hosts.run(
            host, "systemctl", "show", f"--property={','.join(properties)}", f"grampus-*-{daemon}.*"
        )
        return dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)

    def left_on(self, host: str) -> str:
        """What is there of Grampus on a host."""
        return self.hosts.run(host, *self.look_for_rest)

    @property
    def look_for_rest(self) -> tuple[str, ...]:
        """The command for a host that prints what is there of Grampus: mounts, files, services,
        addresses, loop devices."""
        return ("sh", "-c", _LOOK_FOR_REST, "left", self.tag)


def new_home(beside: Path) -> Path:
    """A GRAMPUS_HOME with the images of another one, and nothing else."""
    home = beside.with_name("site-home")
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    (home / "images").symlink_to(beside / "images")
    return home


@contextmanager
def joined_machine(site: Site) -> Iterator[Site]:
    """The site on a second machine, which has joined it with a file from the first one."""
    home = site.line.home / "second-machine"
    home.mkdir()
    (home / "images").symlink_to(site.line.home / "images")
    line = CommandLine(site.line.lab, home)
    made = Site(line, site.hosts, site.cluster, site.files, site.connections, site.tag)
    key = home / "join"
    try:
        site.line.ok("site", "key", line.lab, "--to", str(key))
        line.ok("site", "join", "--from", str(key))
        yield made
        line.ok("site", "forget", line.lab, "--yes")
        assert not (home / "sites").exists()
    finally:
        shutil.rmtree(home)


def connection_directories() -> set[Path]:
    """Where shared connections to hosts of any site are."""
    return set(Path("/run/grampus").glob("ssh-*"))


@contextmanager
def files_of_cluster(
    cluster: OwnedCluster, line: CommandLine, directory: Path, of_pools: Sequence[str]
) -> Iterator[Path]:
    """ceph.conf and a keyring, as the owner of a cluster hands them over."""
    (directory / "ceph.conf").write_text(cluster.ok("cat", "/etc/ceph/ceph.conf"))
    caps = line.json("site", "caps", line.lab, *of_pools)
    create = shlex.split(caps["create"].replace("\\\n", ""))
    keyring = cluster.ok(*create[: create.index("-o")])
    (directory / "keyring").write_text(keyring)
    try:
        yield directory
    finally:
        cluster.ok("ceph", "auth", "rm", "client.grampus")


@contextmanager
def own_site(
    line: CommandLine,
    cluster: OwnedCluster,
    files: Path,
    machines: Path,
    names: Sequence[str],
    *,
    pools: Sequence[str] = ("databases",),
    users: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Site]:
    """A site on the cluster with new hosts of these names; all of it goes afterwards.

    `pools` are there already; `users` are those who log in to hosts, root elsewhere. `files` is an
    empty directory for what the owner of a cluster hands over; `machines` is that of the hosts'
    disks. Raises AssertionError when something of the site is left at the end.
    """
    network = cluster.network
    before = connection_directories()
    with ExitStack() as stack:
        of_pools = [word for pool in pools for word in ("--pool", pool)]
        stack.enter_context(files_of_cluster(cluster, line, files, of_pools))
        hosts = stack.enter_context(
            SystemdHosts(
                machines,
                root_cache=CHECKOUT / "build" / "systemd-hosts",
                bridge=cluster.bridge,
                addresses={name: f"{network}.{FIRST_HOST + n}" for n, name in enumerate(names)},
                prefix_length=24,
                gateway=None,
            )
        )
        site = Site(line, hosts, cluster, files, before)
        # The commands of the guide: no test prepares anything else.
        conf, keyring = str(files / "ceph.conf"), str(files / "keyring")
        line.ok(
            *("site", "adopt", line.lab, "--conf", conf, "--keyring", keyring),
            *("--addresses", f"{network}.{DATABASES}", *of_pools),
        )
        for number, name in enumerate(names):
            site.add(name, "--label", f"rack={'abc'[number]}", user=users.get(name, "root"))
        site.tag = hosts.run(names[0], "ls", "/var/lib/grampus").strip()
        yield site
        end_site(site, names)


def end_site(site: Site, names: Sequence[str]) -> None:
    """All of it goes, with the commands that a user has for it, and nothing is left."""
    line = site.line
    for name in [one["name"] for one in line.json("db", "list")["databases"]]:
        line.ok("db", "delete", name, "--now", "--yes")
    for volume in [one["name"] for one in line.json("volume", "list")["volumes"]]:
        line.ok("volume", "delete", volume, "--yes")
    for host in names:
        line.ok("host", "remove", host, "--yes")
    line.ok("site", "forget", line.lab, "--yes")
    assert {host: site.left_on(host) for host in names} == dict.fromkeys(names, "")
    assert not (line.home / "sites" / line.lab).exists()
    assert connection_directories() <= site.connections
    objects = site.cluster.ok("rados", "--pool", "databases", "ls")
    assert f"grampus.{line.lab}." not in objects
    users = site.cluster.ok("ceph", "auth", "ls")
    assert f"\nclient.grampus.{line.lab}" not in users
    assert line.lab not in site.cluster.ok("ceph", "config-key", "ls")
