"""Further addresses of a host: on which of its interfaces, and as what. Pure."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import dataclass

from grampus.core.errors import GrampusError


@dataclass(frozen=True)
class AddressPlace:
    """An interface that an address belongs to."""

    interface: str
    mac: str
    prefix_length: int
    is_there: bool  # the host has the address already


def decide_place(shown: str, address: str, *, interface: str, where: str) -> AddressPlace:
    """Where an address belongs, from the output of `ip -json address show`.

    `interface` is the one that the site names; empty: the one whose network has the address.
    Raises GrampusError with code `no-interface`.
    """
    wanted = ipaddress.IPv4Address(address)
    for link in json.loads(shown):
        if interface and link["ifname"].partition("@")[0] != interface:
            continue
        own = [entry for entry in link.get("addr_info", ()) if entry["family"] == "inet"]
        for entry in own:
            # One that this address was given alone says nothing of a network.
            if entry["local"] == address and len(own) > 1:
                continue
            network = ipaddress.IPv4Network(f"{entry['local']}/{entry['prefixlen']}", strict=False)
            if wanted in network or interface:
                is_there = any(other["local"] == address for other in own)
                return AddressPlace(
                    link["ifname"].partition("@")[0], link["address"], entry["prefixlen"], is_there
                )
    named = f"the interface {interface}" if interface else "an interface"
    raise GrampusError(
        f"{where} does not have {named} in the network of {address}.",
        "`grampus site adopt --interface NAME` says which one the databases' addresses belong to; "
        "`ip address` on the host shows its interfaces.",
        code="no-interface",
    )
