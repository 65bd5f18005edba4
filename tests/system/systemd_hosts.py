"""Hosts that Grampus did not create: Debian 12 with systemd and sshd, reached by SSH alone.

Each has PID, mount, network, UTS, IPC and control group namespaces of its own, and a disk of its
own (an overlay of one root, built once). It shares the kernel and the loop devices of this machine,
so a power cut (`end`) loses memory and processes, but nothing that was written.

    with SystemdHosts(
        directory, root_cache=cache, bridge="br0", addresses={"s1": "10.213.0.31"},
        prefix_length=24, gateway=None,
    ) as hosts:
        hosts.run("s1", "systemctl", "is-system-running")

Needs root, version 2 of control groups or the hybrid layout, and an address of this machine's on
the bridge.
"""

from __future__ import annotations

import hashlib
import socket
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from grampus.core.clock import SystemClock
from grampus.core.progress import SilentProgress
from grampus.hosts.cgroups import Cgroups
from grampus.lab.images.cache import HostImages
from grampus.state.home import Home
from tests.system.machine import tag_of, wait_for
from tests.system.systemd_host_disk import HostDisk, make_key

SCRIPTS = Path(__file__).with_name("systemd_host")
IMAGE = "systemd-host"
BOOT_TIMEOUT_S = 120.0
MAX_LINK_LENGTH = 15
_NAMESPACES = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup")
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


class CgroupTree(NamedTuple):
    """Where a tree of control groups is mounted, and how to mount it once more."""

    target: Path
    type: str
    options: str


class SystemdHosts:
    """Hosts by name, with their IPv4 addresses on `bridge`: running between enter and exit.

    `directory` holds their disks, and what tells them from hosts of other tests is its path: one
    process at a time may use it. `root_cache` may be shared by several, but is no GRAMPUS_HOME: its
    image looks unused there, since only the hosts see their mounts of it.
    """

    def __init__(
        self,
        directory: Path,
        *,
        root_cache: Path,
        bridge: str,
        addresses: Mapping[str, str],
        prefix_length: int,
        gateway: str | None,
    ) -> None:
        self._directory = directory.resolve()
        self._root_cache = root_cache.resolve()
        self._bridge = bridge
        self._addresses = dict(addresses)
        self._prefix_length = prefix_length
        self._gateway = gateway
        self._tag = tag_of(self._directory, IMAGE)
        self._trees = parse_cgroup_trees(Path("/proc/self/mountinfo").read_text())
        self._root = Path()
        self._booted: dict[str, subprocess.Popen[bytes]] = {}
        self._to_close = ExitStack()
        self.identity = self._directory / "identity"
        for name in self._addresses:
            assert len(self.link(name)) <= MAX_LINK_LENGTH, f"{name} is too long for a link's name"

    def __enter__(self) -> SystemdHosts:
        """Boot all hosts, with new disks, and wait until each lets users in."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._remove_leftovers()
        images = HostImages(Home(self._root_cache), SCRIPTS, SystemClock())
        self._root = images.ensure(IMAGE, SilentProgress()).root
        make_key(self.identity, comment="tests")
        key = self.identity.with_suffix(".pub").read_text()
        with ExitStack() as undo:
            for name in self._addresses:
                undo.callback(self._disk(name).remove)
                undo.callback(self.end, name)
                self._disk(name).make(self._root, name, key)
                self._log(name).unlink(missing_ok=True)
                self._start(name)
            for name in self._addresses:
                self._wait_until_up(name)
            self._to_close = undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End all hosts and remove their disks; what their consoles said stays."""
        self._to_close.close()

    @property
    def names(self) -> list[str]:
        """The hosts' names, in the order of their addresses."""
        return list(self._addresses)

    def address(self, name: str) -> str:
        """The host's IPv4 address."""
        return self._addresses[name]

    def host_key(self, name: str) -> str:
        """The host's public key as a line of known_hosts has it: type and key."""
        return self._disk(name).host_key()

    def pid(self, name: str) -> int:
        """The host's process 1, as this machine numbers it."""
        return int(_children(self._booted[name].pid)[0])

    def data(self, name: str) -> Path:
        """The host's /var/lib/grampus on this machine."""
        return self._disk(name).data

    def run(self, name: str, *argv: str, timeout_s: float = 60) -> str:
        """What a command prints on the host, past SSH; it must succeed."""
        finished = self._run(name, *argv, timeout_s=timeout_s)
        said = f"code {finished.returncode}: {finished.stdout[-2000:]}{finished.stderr[-2000:]}"
        assert finished.returncode == 0, f"{' '.join(argv)} on {name}: {said}"
        return finished.stdout

    def boot(self, name: str) -> None:
        """Switch on a host whose power was cut, and wait until it lets users in."""
        assert name not in self._booted, f"{name} is running"
        self._start(name)
        self._wait_until_up(name)

    def end(self, name: str) -> None:
        """Cut the power of a host: all of it ends at once. Nothing happens when it is off."""
        groups = Cgroups(f"{self._group}/{name}")
        pids = groups.pids()
        loops = self._disk(name).loops_over_own_mounts(pids)
        process = self._booted.pop(name, None)
        if process is not None and not pids:
            process.kill()  # ended already, or so early that it is in no group yet
        groups.ensure_absent(SystemClock())
        if process is not None:
            process.wait(30)  # it ends when it has reaped process 1
        self._disk(name).ensure_loops_detached(loops)
        # The link goes with its namespace, but some time later.
        link = self.link(name)
        subprocess.run(["ip", "link", "delete", link], capture_output=True, timeout=30, check=False)
        wait_for(lambda: link not in _link_names(), f"the link {link} to go")

    @property
    def _group(self) -> str:
        return f"grampus-{self._tag}"

    def _disk(self, name: str) -> HostDisk:
        return HostDisk(self._directory / name)

    def link(self, name: str) -> str:
        """The end of the host's link that is on this machine."""
        return f"gr-{self._tag}-{name}"

    def _mac(self, name: str) -> str:
        """The same after each boot: others have it in their tables."""
        digest = hashlib.sha256(f"{self._tag} {name}".encode()).digest()
        return ":".join(f"{byte:02x}" for byte in (0x02, *digest[:5]))

    def _remove_leftovers(self) -> None:
        """What a test run that was killed left of hosts in this directory."""
        groups = [path for tree in self._trees for path in (tree.target / self._group).glob("*/")]
        links = [name for name in _link_names() if name.startswith(self.link(""))]
        names = {path.name for path in groups} | {name.split("-", 2)[2] for name in links}
        for name in sorted({*names, *self._addresses}):
            self.end(name)
            self._disk(name).remove()

    def _start(self, name: str) -> None:
        groups = [tree.target / self._group / name for tree in self._trees]
        for group in groups:
            group.mkdir(parents=True, exist_ok=True)
            for made in (group.parent, group):
                _make_usable(made, is_only_tree=len(groups) == 1)
        environment = {
            "PATH": _PATH,
            "LINK": self.link(name),
            "BRIDGE": self._bridge,
            "MAC": self._mac(name),
            "ADDRESS": f"{self._addresses[name]}/{self._prefix_length}",
            "GATEWAY": self._gateway or "",
            "ROOT": str(self._root),
            "DISK": str(self._disk(name).directory),
            "HOST_GROUPS": " ".join(map(str, groups)),
            "CGROUP_MOUNTS": "\n".join(" ".join(map(str, tree)) for tree in self._trees),
        }
        with self._log(name).open("ab") as log:
            self._booted[name] = subprocess.Popen(
                ["unshare", "--net", "sh", "-eu", str(SCRIPTS / "boot.sh"), "network"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _wait_until_up(self, name: str) -> None:
        def is_up() -> bool:
            code = self._booted[name].poll()
            assert code is None, f"{name} ended with {code}: {self._log(name).read_text()[-2000:]}"
            if not answers_ssh(self._addresses[name]):
                return False
            state = self._run(name, "systemctl", "is-system-running").stdout.strip()
            return state in ("running", "degraded")

        wait_for(is_up, f"{name} to be up (see {self._log(name)})", BOOT_TIMEOUT_S)

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def _run(
        self, name: str, *argv: str, timeout_s: float = 60
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["nsenter", f"--target={self.pid(name)}", *_NAMESPACES, *argv],
            env={"PATH": _PATH, "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )


def parse_cgroup_trees(mountinfo: str) -> list[CgroupTree]:
    """The trees of control groups of a machine, from its /proc/self/mountinfo."""
    trees = []
    for line in mountinfo.splitlines():
        mount, _, source = line.partition(" - ")
        target, (kind, _, options) = Path(mount.split()[4]), source.split()
        if kind == "cgroup2":
            trees.append(CgroupTree(target, kind, "rw"))
        elif kind == "cgroup":
            # The other options belong to the tree, which is there: release_agent, xattr.
            words = [word for word in options.split(",") if word.startswith("name=")]
            words = ["none", *words] if words else target.name.split(",")
            trees.append(CgroupTree(target, kind, ",".join(words)))
    return trees


def _make_usable(group: Path, *, is_only_tree: bool) -> None:
    """Version 1: a new group has no CPUs. Version 2: it has the controllers enabled above it."""
    if (group / "cpuset.cpus").exists() and not is_only_tree:
        for name in ("cpuset.cpus", "cpuset.mems"):
            (group / name).write_text((group.parent / name).read_text())
    if is_only_tree:
        controllers = (group.parent / "cgroup.controllers").read_text().split()
        enabled = " ".join(f"+{controller}" for controller in controllers)
        (group.parent / "cgroup.subtree_control").write_text(enabled)


def answers_ssh(address: str) -> bool:
    """Whether a machine's sshd answers."""
    try:
        with socket.create_connection((address, 22), timeout=5) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _link_names() -> set[str]:
    return {path.name for path in Path("/sys/class/net").iterdir()}
