"""The lab's network: a bridge on this machine, and a namespace with one link for each host."""

from __future__ import annotations

import contextlib
import ipaddress
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from grampus.core.clock import Clock
from grampus.core.errors import GrampusError
from grampus.hosts.lab_host import (
    HOST_INTERFACE,
    PartitionName,
    ensure_partition_noted,
    observe_partition,
)
from grampus.hosts.mounts import is_mounted
from grampus.hosts.process import run_command
from grampus.lab.model import LabSpec
from grampus.state.locks import MACHINE_LOCKS, hold_lock_in

# Private (RFC 1918) and in no distribution's defaults; the others are for machines that route
# all of 10.0.0.0/8, as many a VPN does.
LAB_NETWORKS = tuple(
    ipaddress.IPv4Network(network)
    for network in ("10.213.0.0/16", "172.29.0.0/16", "192.168.208.0/20")
)
# A network and the device that it is routed to (none for a route that drops packets).
Route = tuple[ipaddress.IPv4Network, str | None]
NAMESPACES = Path("/run/netns")
# MONs, then OSDs and MGRs (`ms_bind_port_min` to `ms_bind_port_max` of Ceph 17 and later).
CEPH_PORTS = ("3300", "6789", "6800-7568")
_SIDES = ("dport", "sport")
# A token bucket that holds no packet: it drops all of them.
_DROP_ALL = ("root", "tbf", "rate", "8bit", "burst", "1", "limit", "1")
# Behind that of what is local, before that of the main table.
_EXCEPT, _REJECT = "6799", "6800"
# `ip netns add` turns /run/netns into a mount; this file says that it was a lab who caused it.
_NAMESPACES_MADE = Path("/run/grampus/made-run-netns")


def decide_subnet(used: Iterable[ipaddress.IPv4Network]) -> ipaddress.IPv4Network:
    """The first /24 of the lab networks that overlaps none of `used`.

    Raises GrampusError when all are taken.
    """
    taken = list(used)
    for networks in LAB_NETWORKS:
        for subnet in networks.subnets(new_prefix=24):
            if not any(subnet.overlaps(network) for network in taken):
                return subnet
    raise GrampusError(
        f"Every network in {', '.join(map(str, LAB_NETWORKS))} is in use on this machine.",
        "Remove a lab first (`grampus lab down --lab NAME`), or check `ip route show`.",
        code="no-network",
    )


def observe_used_networks() -> list[ipaddress.IPv4Network]:
    """Networks that this machine routes, other than by its default route."""
    return [network for network, _ in _observe_routes()]


def require_subnet_free(spec: LabSpec, routes: Iterable[Route]) -> None:
    """Raise GrampusError if something other than the lab's own bridge has its network.

    A wider route (a VPN's 10.0.0.0/8) does no harm: the lab's own is more specific.
    """
    for network, device in routes:
        if device != spec.bridge and network.subnet_of(spec.network):
            raise GrampusError(
                f"The network {spec.subnet} of the lab '{spec.name}' is in use on this machine: "
                f"{network} is at {device or 'no device'}.",
                "Remove that route (`ip route show table all` shows it), then try again: the "
                "addresses of the MONs cannot change.",
                code="network-taken",
            )


def ensure_network(spec: LabSpec) -> None:
    """The bridge, and every host's namespace with its link and address; no host is cut off.

    Raises GrampusError with code `network-taken`.
    """
    require_subnet_free(spec, _observe_routes())
    _ensure_bridge(spec)
    if not is_mounted(NAMESPACES):
        _NAMESPACES_MADE.parent.mkdir(parents=True, exist_ok=True)
        _NAMESPACES_MADE.touch()
    for host in spec.host_names:
        _ensure_namespace(spec, host)
        ensure_no_partition(spec, host)


def ensure_network_absent(spec: LabSpec) -> None:
    """Remove the namespaces, links and bridge."""
    for host in spec.host_names:
        if _link_exists(spec.host_link(host)):
            _ip("link", "delete", spec.host_link(host))
        if (NAMESPACES / spec.host_namespace(host)).exists():
            _ip("netns", "delete", spec.host_namespace(host))
    if _link_exists(spec.bridge):
        _ip("link", "delete", spec.bridge)
    _tidy_namespaces_directory()


def _observe_routes() -> list[Route]:
    return parse_routes(_ip("-json", "-4", "route", "show", "table", "all"))


def parse_routes(text: str) -> list[Route]:
    """Routes other than default ones, from what `ip -json route show` prints."""
    return [
        (ipaddress.IPv4Network(route["dst"], strict=False), route.get("dev"))
        for route in json.loads(text or "[]")
        if route.get("dst", "default") != "default"
    ]


def set_host_link(spec: LabSpec, host: str, *, up: bool) -> None:
    """Connect a host with the others, or cut it off."""
    _ip("link", "set", spec.host_link(host), "up" if up else "down")


def render_partition_rules(partition: PartitionName) -> list[tuple[str, ...]]:
    """Arguments of `ip rule add`, in the namespace of the host that is to be cut off.

    None for `controller`, since commands come to a lab host without its network; none for one
    direction, which rules cannot tell.
    """
    tcp = ("ipproto", "tcp")
    ceph = [(*tcp, side, ports) for side in _SIDES for ports in CEPH_PORTS]
    match partition:
        case "ceph":
            return [("unreachable", "pref", _REJECT, *match) for match in ceph]
        case "clients":
            exceptions = [("pref", _EXCEPT, *match, "lookup", "main") for match in ceph]
            return [*exceptions, ("unreachable", "pref", _REJECT, *tcp)]
        case "controller" | "incoming" | "outgoing":
            return []


def ensure_partition(spec: LabSpec, host: str, partition: PartitionName) -> None:
    """Cut the host off from that kind of peer, and from no other.

    Rules that match ports reject what the host sends, so that nothing comes about in either
    direction. What the host says to itself passes: an OSD on it goes on hearing its own clients.
    One direction is cut at the end of the link that sends.
    """
    ensure_no_partition(spec, host)
    # First: whoever finds the note heals the host, also if this was killed.
    ensure_partition_noted(spec.run_dir, host, partition)
    for rule in render_partition_rules(partition):
        _rule(spec, host, "add", rule)
    device = _sender(spec, host, partition)
    if device is not None:
        run_command(["tc", *device[0], "qdisc", "replace", "dev", device[1], *_DROP_ALL])


def _sender(
    spec: LabSpec, host: str, partition: PartitionName | None
) -> tuple[tuple[str, ...], str] | None:
    """The end of the host's link that sends what is to be lost: options of `tc`, and its name."""
    match partition:
        case "incoming":
            return (), spec.host_link(host)
        case "outgoing":
            return ("-netns", spec.host_namespace(host)), HOST_INTERFACE
        case _:
            return None


def ensure_no_partition(spec: LabSpec, host: str) -> None:
    """Let the host reach all its peers; its link is another matter."""
    partition = observe_partition(spec.run_dir, host)
    if partition is None:
        return
    if is_mounted(NAMESPACES / spec.host_namespace(host)):
        device = _sender(spec, host, partition)
        if device is not None:
            # It fails where nothing was cut yet.
            run_command(["tc", *device[0], "qdisc", "del", "dev", device[1], "root"], check=False)
        for preference in (_EXCEPT, _REJECT):
            while _rule(spec, host, "del", ("pref", preference)):
                pass
    ensure_partition_noted(spec.run_dir, host, None)


def _ensure_bridge(spec: LabSpec) -> None:
    if not _link_exists(spec.bridge):
        _ip("link", "add", spec.bridge, "type", "bridge")
    _ip("address", "replace", f"{spec.gateway}/{spec.network.prefixlen}", "dev", spec.bridge)
    _ip("link", "set", spec.bridge, "up")


def _ensure_namespace(spec: LabSpec, host: str) -> None:
    namespace, link = spec.host_namespace(host), spec.host_link(host)
    if not is_mounted(NAMESPACES / namespace):
        # A file without a mount is left of an `ip netns add` that was killed, or of a boot that
        # kept /run; a link that is left leads into a namespace that has no name any more.
        (NAMESPACES / namespace).unlink(missing_ok=True)
        if _link_exists(link):
            _ip("link", "delete", link)
        _ip("netns", "add", namespace)
    if not _link_exists(link):
        _ip(
            *("link", "add", link, "type", "veth"),
            *("peer", "name", HOST_INTERFACE, "netns", namespace),
        )
    _ip("link", "set", link, "master", spec.bridge, "up")
    inside = ("-netns", namespace)
    address = f"{spec.host_address(host)}/{spec.network.prefixlen}"
    _ip(*inside, "address", "replace", address, "dev", HOST_INTERFACE)
    _ip(*inside, "link", "set", HOST_INTERFACE, "up")
    _ip(*inside, "link", "set", "lo", "up")


def _rule(spec: LabSpec, host: str, verb: str, arguments: Sequence[str]) -> bool:
    argv = ["ip", "-netns", spec.host_namespace(host), "rule", verb, *arguments]
    return run_command(argv, check=verb == "add").returncode == 0


def _tidy_namespaces_directory() -> None:
    if not _NAMESPACES_MADE.exists():
        return
    if NAMESPACES.exists():
        if any(NAMESPACES.iterdir()):
            return
        if is_mounted(NAMESPACES):
            run_command(["umount", str(NAMESPACES)])
        NAMESPACES.rmdir()
    _NAMESPACES_MADE.unlink()


def _link_exists(name: str) -> bool:
    return (Path("/sys/class/net") / name).exists()


def _ip(*arguments: str) -> str:
    return run_command(["ip", *arguments]).stdout


NETWORKS_LOCK = "grampus-lab-networks"
# Longer than a lab takes from the choice of its network until that is made, or removed.
LOCK_TIMEOUT_S = 60.0


class NetworkLock:
    """Held by one command at a time; the kernel releases it when the process ends.

    A network that was chosen is free until its bridge is there, so between the two no other lab
    may choose, of whichever home. `locks` is the same directory for all homes on a machine.
    """

    def __init__(self, clock: Clock, locks: Path = MACHINE_LOCKS) -> None:
        self._clock = clock
        self._locks = locks
        self._acquired = contextlib.ExitStack()
        self._is_held = False

    def acquire(self) -> None:
        """Wait for the lock, unless it is held already. Raises RefusedError (`busy`)."""
        if not self._is_held:
            self._acquired.enter_context(
                hold_lock_in(self._locks, NETWORKS_LOCK, self._clock, timeout_s=LOCK_TIMEOUT_S)
            )
            self._is_held = True

    def release(self) -> None:
        """Release the lock, if it is held."""
        self._is_held = False
        self._acquired.close()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock to the end of the block."""
        self.acquire()
        try:
            yield
        finally:
            self.release()
