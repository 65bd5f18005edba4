"""The lab's network: a bridge on this machine, and a namespace with one link for each host."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable
from pathlib import Path

from grampus.core.errors import GrampusError
from grampus.hosts.lab_host import HOST_INTERFACE
from grampus.hosts.mounts import is_mounted
from grampus.hosts.process import run_command
from grampus.lab.model import LabSpec

# Private (RFC 1918) and in no distribution's defaults; the others are for machines that route
# all of 10.0.0.0/8, as many a VPN does.
LAB_NETWORKS = tuple(
    ipaddress.IPv4Network(network)
    for network in ("10.213.0.0/16", "172.29.0.0/16", "192.168.208.0/20")
)
# A network and the device that it is routed to (none for a route that drops packets).
Route = tuple[ipaddress.IPv4Network, str | None]
NAMESPACES = Path("/run/netns")
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
        "Take a lab down first (`grampus lab down --lab NAME`), or see `ip route show`.",
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
                "Take that away (`ip route show table all` shows it), then try again: the MONs "
                "keep their addresses for good.",
                code="network-taken",
            )


def ensure_network(spec: LabSpec) -> None:
    """The bridge, and every host's namespace with its link and address.

    Raises GrampusError with code `network-taken`.
    """
    require_subnet_free(spec, _observe_routes())
    _ensure_bridge(spec)
    if not is_mounted(NAMESPACES):
        _NAMESPACES_MADE.parent.mkdir(parents=True, exist_ok=True)
        _NAMESPACES_MADE.touch()
    for host in spec.host_names:
        _ensure_namespace(spec, host)


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


def _tidy_namespaces_directory() -> None:
    if not _NAMESPACES_MADE.exists():
        return
    if NAMESPACES.exists():
        if any(NAMESPACES.iterdir()):
            return
        if is_mounted(NAMESPACES):
            run_command(["umount", str(NAMESPACES)], timeout_s=10)
        NAMESPACES.rmdir()
    _NAMESPACES_MADE.unlink()


def _link_exists(name: str) -> bool:
    return (Path("/sys/class/net") / name).exists()


def _ip(*arguments: str) -> str:
    return run_command(["ip", *arguments], timeout_s=15).stdout
