"""Where tests operate databases: a lab, or a site on hosts that Grampus did not create.

`GRAMPUS_TESTS_ON=site` puts every test that takes a `place` on a site. The cluster of the site is
that of the lab, which the site knows by ceph.conf and a key of few rights. Faults have the same
names in both: those of `grampus lab fault`.
"""

from __future__ import annotations

import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from grampus.hosts.lab_host import PartitionName
from grampus.lab.network import render_partition_rules
from tests.system.command_line import CommandLine
from tests.system.lab_machine import LabMachine, wait_for_health
from tests.system.leftovers import cluster_inventory, site_inventory
from tests.system.machine import wait_for
from tests.system.site_machines import LabCluster, Site, own_site

ON_SITE = os.environ.get("GRAMPUS_TESTS_ON", "lab") == "site"
SITE = "test-site"
Cut = PartitionName | Literal["all"]
LAB_HOSTS, SITE_HOSTS = ("h1", "h2", "h3"), ("s1", "s2", "s3")
# What a host sends is rejected; a bucket of traffic control that holds no packet drops it.
_RULE = ("rule", "add", "unreachable", "pref", "6800")
_KEEPALIVE = (
    "net.ipv4.tcp_keepalive_time=2",
    "net.ipv4.tcp_keepalive_intvl=1",
    "net.ipv4.tcp_keepalive_probes=3",
)
_DROP_ALL = ("root", "tbf", "rate", "8bit", "burst", "1", "limit", "1")


class Place(ABC):
    """Hosts of databases, their cluster, and faults of both.

    `line` has the commands on databases; `cluster` those on the lab that the cluster belongs to.
    """

    def __init__(self, line: CommandLine, cluster: CommandLine, hosts: tuple[str, ...]) -> None:
        self.line = line
        self.cluster = cluster
        self.hosts = hosts

    def ceph(self, *argv: str) -> str:
        """What a command prints that is run with the key of the cluster's administrator."""
        return LabMachine(self.cluster, "h1").ok(*argv)

    def clients(self, database: str) -> LabMachine:
        """A machine in the network of the database's host, for clients: it stays up.

        A connection to a lost host ends there after seconds, as docs/guide/host-lost.md advises.
        """
        host = self.host_of(database)
        name = next(name for name in LAB_HOSTS[::2] if name != host)
        _do("nsenter", f"--net={lab_network(self.cluster, name)}", "sysctl", "-qw", *_KEEPALIVE)
        return LabMachine(self.cluster, name)

    def host_of(self, database: str) -> str:
        """The name of the database's host."""
        host = self.line.json("db", "show", database)["host"]
        assert isinstance(host, str)
        return host

    def daemons(self) -> dict[str, str]:
        """The host of each daemon of a database or volume that runs, by its name."""
        return {
            daemon["name"]: host
            for host in self.hosts
            for daemon in self.line.json("host", "show", host)["daemons"]
            if daemon["state"] == "running"
        }

    @abstractmethod
    def run(self, host: str, *argv: str) -> str:
        """What a command prints on a host of databases; it must succeed."""

    @abstractmethod
    def network_of(self, host: str) -> Path:
        """The network namespace of a host, as a file of this machine."""

    @abstractmethod
    def limits_of(self, daemon: str) -> tuple[int, int]:
        """The memory that a daemon may take, in bytes, and the uid of its user on its host."""

    @abstractmethod
    def data_of(self, host: str) -> Path:
        """The directory of a host, on this machine, below which files of its databases are."""

    @abstractmethod
    def cut(self, host: str, peers: Cut) -> None:
        """Cut a host from these peers, or one direction of its packets."""

    @abstractmethod
    def end(self, host: str) -> None:
        """Cut the power of a host."""

    def kill(self, daemon: str) -> None:
        """SIGKILL the process of a daemon of a database or volume, and wait until it has ended.

        The kernel may take seconds to free the memory of a process whose CPU time is limited.
        """
        self.signal(daemon, "KILL")
        wait_for(lambda: daemon not in self.daemons(), f"the end of {daemon}", 60)

    def signal(self, daemon: str, name: str) -> None:
        """Send a signal, such as STOP, to the process of a daemon of a database or volume."""
        self.process(daemon)(name)

    @abstractmethod
    def process(self, daemon: str) -> Callable[[str], None]:
        """What sends signals to the process of a daemon, also once its host is cut off.

        A process that has ended takes none.
        """

    @property
    @abstractmethod
    def control_groups(self) -> str:
        """What is in the name of each control group of a daemon, as this machine names it."""

    @abstractmethod
    def inventory(self) -> dict[str, Any]:
        """What databases and volumes have left, to compare before and after."""

    @abstractmethod
    def heal(self) -> None:
        """Every host up and connected, and the cluster healthy."""


class LabPlace(Place):
    """A lab."""

    def __init__(self, lab: CommandLine) -> None:
        super().__init__(lab, lab, LAB_HOSTS)

    def run(self, host: str, *argv: str) -> str:
        return LabMachine(self.line, host).ok(*argv)

    def network_of(self, host: str) -> Path:
        return lab_network(self.line, host)

    def limits_of(self, daemon: str) -> tuple[int, int]:
        pid = LabMachine(self.line, self.daemons()[daemon]).daemons()[daemon]
        found = set()
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for file in ("memory.limit_in_bytes", "memory.max"):
                for root in ("/sys/fs/cgroup", f"/sys/fs/cgroup/{controllers}"):
                    limit = Path(f"{root}{path}/{file}")
                    if limit.exists() and limit.read_text().strip().isdigit():
                        found.add(int(limit.read_text()))
        uid = Path(f"/proc/{pid}/status").read_text().split("Uid:")[1].split()[0]
        return min(found), int(uid)

    def data_of(self, host: str) -> Path:
        return LabMachine(self.line, host).data

    def cut(self, host: str, peers: Cut) -> None:
        self.line.ok("lab", "fault", "partition", host, "--from", peers, "--force")

    def end(self, host: str) -> None:
        self.line.ok("lab", "fault", "kill-host", host, "--force")

    def process(self, daemon: str) -> Callable[[str], None]:
        pid = LabMachine(self.line, self.daemons()[daemon]).daemons()[daemon]

        def send(name: str) -> None:
            with suppress(ProcessLookupError):
                os.kill(pid, getattr(signal, f"SIG{name}"))

        return send

    @property
    def control_groups(self) -> str:
        return f"/{self.line.tag}/"

    def inventory(self) -> dict[str, Any]:
        return cluster_inventory(self.line)

    def heal(self) -> None:
        self.line.ok("lab", "fault", "heal")
        wait_for_health(self.line)


class SitePlace(Place):
    """A site with three hosts; its cluster is that of a lab."""

    def __init__(self, site: Site, cluster: CommandLine) -> None:
        super().__init__(site.line, cluster, SITE_HOSTS)
        self.site = site
        self._ended: set[str] = set()
        self._cut: dict[str, list[list[str]]] = {}  # how to undo it, by host

    def run(self, host: str, *argv: str) -> str:
        return self.site.hosts.run(host, *argv)

    def network_of(self, host: str) -> Path:
        return Path(f"/proc/{self.site.hosts.pid(host)}/ns/net")

    def limits_of(self, daemon: str) -> tuple[int, int]:
        host = self.daemons()[daemon]
        shown = self.site.show(host, daemon, "MemoryMax", "MainPID")
        uid = self.run(host, "stat", "--format", "%u", f"/proc/{shown['MainPID']}")
        return int(shown["MemoryMax"]), int(uid)

    def data_of(self, host: str) -> Path:
        return self.site.data_of(host)

    def cut(self, host: str, peers: Cut) -> None:
        link, undo = self.site.hosts.link(host), self._cut.setdefault(host, [])
        inside = ["nsenter", f"--net={self.network_of(host)}"]
        match peers:
            case "all":
                _do("ip", "link", "set", link, "down")
                undo.append(["ip", "link", "set", link, "up"])
            case "incoming":
                self._limit(["tc"], link, undo)
            case "outgoing":
                self._limit([*inside, "tc"], "eth0", undo)
            case "controller":  # it comes by SSH alone
                _do(*inside, "ip", *_RULE, "ipproto", "tcp", "sport", "22")
                undo.append([*inside, "ip", "rule", "delete", "pref", "6800"])
            case _:
                for rule in render_partition_rules(peers):
                    _do(*inside, "ip", "rule", "add", *rule)
                    preference = rule[rule.index("pref") + 1]
                    undo.append([*inside, "ip", "rule", "delete", "pref", preference])

    def end(self, host: str) -> None:
        self._cut.pop(host, None)
        self.site.hosts.end(host)
        self._ended.add(host)

    def process(self, daemon: str) -> Callable[[str], None]:
        host = self.daemons()[daemon]
        pid = self.site.show(host, daemon, "MainPID")["MainPID"]

        def send(name: str) -> None:
            with suppress(AssertionError):  # it has ended, with its host or without
                self.run(host, "kill", f"-{name}", pid)

        return send

    @property
    def control_groups(self) -> str:
        return f"/grampus-{self.site.tag}-"

    def inventory(self) -> dict[str, Any]:
        return site_inventory(self.site)

    def heal(self) -> None:
        for commands in self._cut.values():
            while commands:
                _do(*commands.pop())
        while self._ended:
            self.site.hosts.boot(self._ended.pop())
        self.cluster.ok("lab", "fault", "heal")
        wait_for_health(self.cluster)

    def _limit(self, tc: list[str], device: str, undo: list[list[str]]) -> None:
        _do(*tc, "qdisc", "replace", "dev", device, *_DROP_ALL)
        undo.append([*tc, "qdisc", "delete", "dev", device, "root"])


def lab_network(lab: CommandLine, host: str) -> Path:
    """The network namespace of a lab's host, as a file of this machine."""
    return Path(f"/run/netns/grampus-{lab.tag}-{host}")


def _do(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True, timeout=30)


@contextmanager
def own_place(lab: CommandLine, files: Path) -> Iterator[Place]:
    """The lab, or a new site on its cluster, gone afterwards; `files` is an empty directory."""
    if not ON_SITE:
        yield LabPlace(lab)
        return
    with site_place(lab, CommandLine(SITE), files) as place:
        yield place


@contextmanager
def site_place(lab: CommandLine, line: CommandLine, files: Path) -> Iterator[SitePlace]:
    """A new site on the lab's cluster, gone afterwards; `files` is an empty directory."""
    machines = line.home / "machines"
    with own_site(line, LabCluster(lab), files, machines, SITE_HOSTS) as site:
        yield SitePlace(site, lab)
