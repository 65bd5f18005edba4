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

# 10.213.0.0/16 is private (RFC 1918) and in no distribution's defaults.
LAB_NETWORKS = ipaddress.IPv4Network("10.213.0.0/16")
NAMESPACES = Path("/run/netns")
# `ip netns add` turns /run/netns into a mount; this file says that it was a lab who caused it.
_NAMESPACES_MADE = Path("/run/grampus/made-run-netns")


def decide_subnet(used: Iterable[ipaddress.IPv4Network]) -> ipaddress.IPv4Network:
    """The first /24 of the lab networks that overlaps none of `used`.

    Raises GrampusError when all are taken.
    """
    taken = list(used)
    for subnet in LAB_NETWORKS.subnets(new_prefix=24):
        if not any(subnet.overlaps(network) for network in taken):
            return subnet
    raise GrampusError(
        f"Every network in {LAB_NETWORKS} is in use on this machine.",
        "Take a lab down first: `grampus lab down --lab NAME`.",
    )


def observe_used_networks() -> list[ipaddress.IPv4Network]:
    """Networks that this machine routes, other than by its default route."""
    routes = json.loads(_ip("-json", "-4", "route", "show", "table", "all") or "[]")
    return [
        ipaddress.IPv4Network(route["dst"], strict=False)
        for route in routes
        if route.get("dst", "default") != "default"
    ]


def ensure_network(spec: LabSpec) -> None:
    """The bridge, and every host's namespace with its link and address."""
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
    if not (NAMESPACES / namespace).exists():
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
    if not _NAMESPACES_MADE.exists() or any(NAMESPACES.iterdir()):
        return
    if is_mounted(NAMESPACES):
        run_command(["umount", str(NAMESPACES)], timeout_s=10)
    NAMESPACES.rmdir()
    _NAMESPACES_MADE.unlink()


def _link_exists(name: str) -> bool:
    return (Path("/sys/class/net") / name).exists()


def _ip(*arguments: str) -> str:
    return run_command(["ip", *arguments], timeout_s=15).stdout
