"""A host of the lab: a network namespace, and one container that stands for the machine itself.

Commands run inside that container (*the host container*), which is privileged and sees the
host's data directory at the path that it has on this machine; so do the daemons' binds, and so
a path means the same to Grampus, to commands and to daemons.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, get_args

from grampus.core.clock import Clock, wait_until
from grampus.core.errors import GrampusError, not_found
from grampus.core.streams import ByteReader, ByteWriter
from grampus.hosts.announcing import announce, render_announcement
from grampus.hosts.cgroups import Cgroups
from grampus.hosts.command_server.client import CommandServers
from grampus.hosts.containers import HOST_CONTAINER, Containers, observe_block_device
from grampus.hosts.loop_devices import (
    ensure_no_loop_devices_below,
    is_below,
    observe_attached_loops,
)
from grampus.hosts.mounts import ensure_shared_bind, ensure_unmounted_below, mounts_below
from grampus.hosts.port import (
    COMMAND_TIMEOUT_S,
    WHOLE_HOST,
    Bind,
    BlockLimit,
    CommandResult,
    CpuWait,
    DaemonSpec,
    DaemonStatus,
    Host,
    HostUnreachableError,
    Limits,
    RunningCommand,
    Usage,
)
from grampus.hosts.process import run_command
from grampus.state.home import ensure_same, read_if_there, require_below, write_owned

HOST_INTERFACE = "eth0"
# Daemons that serve what OSDs stand on begin with it: they end after all others.
DISK_DAEMON_PREFIX = "disk-"
# What a lab host can be cut off from while its link is up: the cluster, the clients of its
# databases, whoever runs commands on it, or all packets of one direction, seen from the host.
PartitionName = Literal["ceph", "clients", "controller", "incoming", "outgoing"]
# Commands come to a lab host without its network, so it is Grampus that obeys these.
_CUT_FROM_GRAMPUS: tuple[PartitionName, ...] = ("controller", "incoming", "outgoing")


@dataclass(frozen=True)
class LabHostPlace:
    """Where a lab host lives on this machine."""

    name: str
    address: str
    prefix_length: int
    directory: Path  # holds data/ and daemons/
    network_namespace: str  # name under /run/netns
    link: str  # the end of its link that stands outside the namespace
    runc_root: Path
    cgroup_path: str  # of the lab, such as /grampus/3f2a


class LabHost:
    """A `Host` in a network namespace of this machine."""

    def __init__(
        self, place: LabHostPlace, image_root: Callable[[str | None], Path], clock: Clock
    ) -> None:
        self._place = place
        self._clock = clock
        self._cgroups = Cgroups(f"{place.cgroup_path}/{place.name}")
        self._containers = Containers(
            directory=place.directory / "daemons",
            runc_root=place.runc_root,
            prefix=place.name,
            hostname=place.name,
            network_namespace=f"/run/netns/{place.network_namespace}",
            cgroup_path=f"{place.cgroup_path}/{place.name}",
            image_root=image_root,
            clock=clock,
        )
        containers = self._containers
        self._commands = CommandServers(
            # Without a reference to this object: it goes, and its servers with it, when nobody
            # uses it any more, and not at the next collection of cycles.
            lambda argv: containers.exec_argv(HOST_CONTAINER, argv, ends_by_itself=True),
            where=place.name,
        )

    @property
    def name(self) -> str:
        return self._place.name

    @property
    def address(self) -> str:
        return self._place.address

    @property
    def data_dir(self) -> PurePosixPath:
        return PurePosixPath(self._place.directory / "data")

    def ensure_up(self) -> None:
        """Start the host container; the network namespace must be there."""
        # A benchmark that was killed may have left one, and daemons would not start below it.
        self._cgroups.set_cpu_quota("", None)
        data = Path(self.data_dir)
        ensure_shared_bind(data)
        for below in ("etc-ceph", "var-lib-ceph", "run-ceph"):
            (data / below).mkdir(exist_ok=True)
        self._containers.ensure_running(
            DaemonSpec(
                name=HOST_CONTAINER,
                argv=("tini", "--", "sleep", "infinity"),
                binds=(
                    Bind(str(data), str(data), shared=True),
                    Bind(str(data / "etc-ceph"), "/etc/ceph"),
                    Bind(str(data / "var-lib-ceph"), "/var/lib/ceph"),
                    Bind(str(data / "run-ceph"), "/run/ceph"),
                ),
                limits=Limits(),
                privileged=True,
            )
        )

    def is_up(self) -> bool:
        """Whether the host container runs (a killed host's does not)."""
        return self._containers.is_running(HOST_CONTAINER)

    def is_linked(self) -> bool:
        """Whether the host's link to the others is up (a cut-off host's is not)."""
        flags = Path(f"/sys/class/net/{self._place.link}/flags")
        try:
            return bool(int(flags.read_text(), 16) & 1)  # IFF_UP
        except FileNotFoundError:
            return False

    def observe_partition(self) -> PartitionName | None:
        """From what alone the host is cut off while its link is up; None: from nothing."""
        return observe_partition(self._place.runc_root.parent, self.name)

    def close(self) -> None:
        """End the processes that wait for the next command. A later command starts them again."""
        self._commands.close()

    def stop_all(self, *, kill: bool) -> None:
        """End every container of this host, the host container last; what they keep stays."""
        self._commands.close()
        self._stop_daemons(kill=kill)
        self._stop(HOST_CONTAINER, kill=True)

    def cut_power(self) -> None:
        """End everything at once, and leave what a power cut leaves: files, nothing attached.

        Repeatable. Raises GrampusError with code `timeout` when a mount is kept busy from
        outside the host.
        """
        self._commands.close()
        self._stop_daemons(kill=True)
        self._drop_further_addresses()
        # While the host container lives, every loop device can still be told by its file's path.
        self._clear()
        self._stop(HOST_CONTAINER, kill=True)
        wait_until(
            self._clock,
            self._clear,
            what=f"the mounts of {self.name} to be removed",
            remedy=f"`fuser -vm {self._place.directory}` shows the processes that use them.",
            timeout_s=60,
        )

    def _clear(self) -> bool:
        """Unmount and detach what can be; whether nothing is mounted any more.

        A loop device holds the FUSE file under it, and its file system holds the loop device:
        hence mounts, loop devices, and the rest of the mounts.
        """
        directory = self._place.directory
        sources = {mount.source for mount in mounts_below(directory / "data" / "volumes")}
        known = [
            loop
            for loop in observe_attached_loops()
            if loop.device in sources or is_below(loop, directory=str(directory), file_ids=())
        ]
        with contextlib.suppress(GrampusError):
            ensure_unmounted_below(directory)
        files = list(directory.glob("data/*/*.img"))
        ensure_no_loop_devices_below(directory, files=files, known=known)
        with contextlib.suppress(GrampusError):
            ensure_unmounted_below(directory)
        return not mounts_below(directory)

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout_s: float = COMMAND_TIMEOUT_S,
        check: bool = True,
        daemon: str | None = None,
    ) -> CommandResult:
        self._require_reachable()
        if daemon is None:
            return self._commands.run(argv, stdin=stdin, timeout_s=timeout_s, check=check)
        return self._containers.run(daemon, argv, stdin=stdin, timeout_s=timeout_s, check=check)

    def spawn(self, argv: Sequence[str], *, stdin: str | None = None) -> RunningCommand:
        self._require_reachable()
        return self._containers.spawn(HOST_CONTAINER, argv, stdin=stdin)

    def reading(self, argv: Sequence[str]) -> AbstractContextManager[ByteReader]:
        self._require_reachable()
        return self._containers.reading(HOST_CONTAINER, argv)

    def writing(self, argv: Sequence[str]) -> AbstractContextManager[ByteWriter]:
        self._require_reachable()
        return self._containers.writing(HOST_CONTAINER, argv)

    def kill_daemon(self, name: str) -> None:
        """End a daemon with SIGKILL, and leave its container as a crash would."""
        self._stop(name, kill=True)

    def terminal_argv(self, argv: Sequence[str], *, daemon: str, tty: bool) -> list[str]:
        self._require_reachable()
        return self._containers.exec_argv(daemon, argv, tty=tty)

    def write_file(
        self, path: PurePosixPath, content: str, *, mode: int = 0o644, uid: int = 0, gid: int = 0
    ) -> None:
        write_owned(self._writable(path), content, mode=mode, uid=uid, gid=gid)

    def ensure_copy(self, source: Path, path: PurePosixPath, *, mode: int = 0o644) -> None:
        ensure_same(source, self._writable(path), mode=mode)

    def read_file(self, path: PurePosixPath) -> str | None:
        return read_if_there(path)

    def ensure_daemon(self, spec: DaemonSpec) -> None:
        self._require_reachable()
        self._containers.ensure_running(spec)

    def ensure_daemon_absent(self, name: str, *, kill: bool = False) -> None:
        self._containers.ensure_absent(name, kill=kill, stop_signal="TERM", timeout_s=60)

    def restart_daemon(self, name: str) -> None:
        """End the daemon and start it again as it was started the last time.

        Raises GrampusError with code `daemon-absent` for one that is not there.
        """
        self._require_reachable()
        self._containers.restart(name, stop_signal="TERM", timeout_s=60)

    def set_limits(self, name: str, limits: Limits) -> None:
        self._require_reachable()
        self._containers.set_limits(name, limits)

    def observe_cpu_quotas(self) -> dict[str, float]:
        """Cores that the host (as `""`) and its daemons may use; those without a limit are left
        out.
        """
        names = ["", *(path.name for path in (self._place.directory / "daemons").glob("*"))]
        quotas = {name: self._cgroups.observe_cpu_quota(name) for name in sorted(names)}
        return {name: cores for name, cores in quotas.items() if cores is not None}

    def set_cpu_quota(self, daemon: str, cores: float | None) -> None:
        """Limit a daemon that runs, or (as `""`) all of the host together; None: no limit."""
        self._cgroups.set_cpu_quota(daemon, cores)

    def set_block_limit(self, daemon: str, limit: BlockLimit) -> None:
        """Limit a daemon that runs on one of its block devices, from now on.

        Raises HostUnreachableError, and GrampusError when there is no such device.
        """
        self._require_reachable()
        device = observe_block_device(limit.device)
        self._cgroups.set_block_limit(daemon, f"{device.major}:{device.minor}", limit)

    def observe_daemons(self) -> list[DaemonStatus]:
        return [status for status in self._containers.observe() if status.name != HOST_CONTAINER]

    def observe_daemon(self, name: str) -> DaemonStatus | None:
        return self._containers.observe_one(name)

    def daemon_log(self, name: str, *, last_lines: int = 20) -> str:
        return self._containers.log(name, last_lines=last_lines)

    def observe_usage(self) -> dict[str, Usage]:
        names = (path.name for path in (self._place.directory / "daemons").glob("*"))
        usages = {name: self._cgroups.observe_usage(name) for name in names}
        return {
            name: usage
            for name, usage in sorted(usages.items())
            if usage is not None and name != HOST_CONTAINER
        }

    def observe_cpu_waits(self, daemons: Collection[str]) -> dict[str, CpuWait]:
        waits = {name: self._cgroups.observe_cpu_wait(name) for name in daemons}
        if self._cgroups.observe_cpu_quota("") is not None:
            waits[WHOLE_HOST] = self._cgroups.observe_cpu_wait("")
        return {name: wait for name, wait in waits.items() if wait is not None}

    def ensure_address(self, address: str) -> None:
        self._ip("address", "replace", f"{address}/{self._place.prefix_length}")
        # This machine may still hold the address at another host's MAC.
        run_command(["ip", "neighbour", "flush", "to", address], check=False)
        # So may the other hosts.
        shown = json.loads(self._ip("-json", "link", "show"))
        bridge = Path(f"/sys/class/net/{self._place.link}/master").resolve().name
        announce(bridge, render_announcement(shown[0]["address"], address))

    def ensure_address_absent(self, address: str) -> None:
        listed = self._ip("-brief", "address", "show", subject_only=True)
        if f" {address}/" in listed:
            self._ip("address", "delete", f"{address}/{self._place.prefix_length}")

    def _drop_further_addresses(self) -> None:
        """Those of databases: a machine that lost its power comes back without them."""
        (shown,) = json.loads(self._ip("-json", "address", "show"))
        for entry in shown["addr_info"]:
            if entry["family"] == "inet" and entry["local"] != self.address:
                self._ip("address", "delete", f"{entry['local']}/{entry['prefixlen']}")

    def _writable(self, path: PurePosixPath) -> Path:
        return require_below(path, Path(self.data_dir), self.name)

    def _ip(self, *arguments: str, subject_only: bool = False) -> str:
        argv = ["ip", "-netns", self._place.network_namespace, *arguments]
        if not subject_only:
            argv += ["dev", HOST_INTERFACE]
        return run_command(argv, where=self.name).stdout

    def _stop_daemons(self, *, kill: bool) -> None:
        running = [status.name for status in self.observe_daemons() if status.state == "running"]
        disks = [name for name in running if name.startswith(DISK_DAEMON_PREFIX)]
        try:
            self._stop_all_of([name for name in running if name not in disks], kill=kill)
        finally:
            # Killed: what they have answered is in their files, and nothing stands on them now.
            self._stop_all_of(disks, kill=True)

    def _stop_all_of(self, names: Sequence[str], *, kill: bool) -> None:
        with ThreadPoolExecutor(max_workers=8) as pool:
            # Not `map`: at the first failure it cancels what has not begun.
            stops = [pool.submit(self._stop, name, kill=kill) for name in names]
        for stop in stops:
            stop.result()

    def _stop(self, name: str, *, kill: bool) -> None:
        self._containers.stop(name, kill=kill, stop_signal="TERM", timeout_s=60)

    def _require_reachable(self) -> None:
        if not self.is_linked():
            raise HostUnreachableError(
                f"The host {self.name} cannot be reached: its link is down.",
                "`grampus lab fault heal` reconnects it.",
            )
        if self.observe_partition() in _CUT_FROM_GRAMPUS:
            raise HostUnreachableError(
                f"The host {self.name} cannot be reached: it is cut off from Grampus.",
                "`grampus lab fault heal` reconnects it.",
            )
        if not self.is_up():
            raise HostUnreachableError(
                f"The host {self.name} is down.",
                "`grampus lab up` or `grampus lab fault heal` starts it.",
            )


def observe_partition(run_dir: Path, host: str) -> PartitionName | None:
    """What is noted of a host: see `LabHost.observe_partition`."""
    try:
        noted = _partition_note(run_dir, host).read_text()
    except FileNotFoundError:
        return None
    # One that was killed as it noted it had cut nothing yet.
    return next((name for name in get_args(PartitionName) if name == noted), None)


def ensure_partition_noted(run_dir: Path, host: str, partition: PartitionName | None) -> None:
    """Note it for `observe_partition`; a reboot forgets it, as it does the network."""
    note = _partition_note(run_dir, host)
    if partition is None:
        note.unlink(missing_ok=True)
    else:
        run_dir.mkdir(parents=True, exist_ok=True)
        note.write_text(partition)


def _partition_note(run_dir: Path, host: str) -> Path:
    return run_dir / f"partition-{host}"


class LabFleet:
    """The hosts of one lab; a `Fleet`."""

    def __init__(self, hosts: Sequence[LabHost], database_addresses: Sequence[str]) -> None:
        self._hosts = {host.name: host for host in hosts}
        self._database_addresses = tuple(database_addresses)

    def hosts(self) -> list[Host]:
        return list(self.lab_hosts())

    def lab_hosts(self) -> list[LabHost]:
        """The hosts with what only a lab host has."""
        return [self._hosts[name] for name in sorted(self._hosts)]

    def host(self, name: str) -> Host:
        return self.lab_host(name)

    def lab_host(self, name: str) -> LabHost:
        """The lab host named `name`. Raises NotFoundError."""
        if name not in self._hosts:
            raise not_found("host", name, self._hosts, list_command="grampus lab status")
        return self._hosts[name]

    def is_reachable(self, name: str) -> bool:
        host = self.lab_host(name)
        is_cut_off = host.observe_partition() in _CUT_FROM_GRAMPUS
        return host.is_linked() and not is_cut_off and host.is_up()

    def reaches_cluster(self, name: str) -> bool:
        return self.is_reachable(name) and self.lab_host(name).observe_partition() != "ceph"

    def database_addresses(self) -> Sequence[str]:
        return self._database_addresses

    def database_ports(self) -> Sequence[int]:
        return ()  # its databases have floating addresses

    def find_address_holder(self, address: str) -> str | None:
        del address
        return None  # nobody else is in this network

    def close(self) -> None:
        """End what waits on the hosts for the next command; the fleet can still be used."""
        for host in self._hosts.values():
            host.close()
