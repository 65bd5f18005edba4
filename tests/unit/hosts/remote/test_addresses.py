"""On which interface of a host a further address belongs."""

from __future__ import annotations

import json

import pytest

from grampus.core.errors import GrampusError
from grampus.hosts.remote.addresses import AddressPlace, decide_place

LO = {
    "ifname": "lo",
    "address": "00:00:00:00:00:00",
    "addr_info": [{"family": "inet", "local": "127.0.0.1", "prefixlen": 8}],
}
ETH0 = {
    "ifname": "eth0@if7",
    "address": "02:00:00:00:00:01",
    "addr_info": [
        {"family": "inet6", "local": "fe80::1", "prefixlen": 64},
        {"family": "inet", "local": "10.0.5.11", "prefixlen": 24},
        {"family": "inet", "local": "10.0.5.100", "prefixlen": 24},
    ],
}
ETH1 = {
    "ifname": "eth1",
    "address": "02:00:00:00:00:02",
    "addr_info": [{"family": "inet", "local": "192.168.7.2", "prefixlen": 26}],
}


@pytest.mark.parametrize(
    ("address", "interface", "expected"),
    [
        ("10.0.5.101", "", AddressPlace("eth0", "02:00:00:00:00:01", 24, False)),
        ("10.0.5.100", "", AddressPlace("eth0", "02:00:00:00:00:01", 24, True)),
        ("192.168.7.60", "", AddressPlace("eth1", "02:00:00:00:00:02", 26, False)),
        # A network of its own, on the interface that the site names.
        ("172.16.0.9", "eth1", AddressPlace("eth1", "02:00:00:00:00:02", 26, False)),
    ],
)
def test_an_address_belongs_to_the_interface_of_its_network(
    address: str, interface: str, expected: AddressPlace
) -> None:
    shown = json.dumps([LO, ETH0, ETH1])
    assert decide_place(shown, address, interface=interface, where="db1") == expected


@pytest.mark.parametrize(("address", "interface"), [("10.9.9.9", ""), ("10.0.5.101", "eth9")])
def test_a_host_without_such_a_network_is_named(address: str, interface: str) -> None:
    with pytest.raises(GrampusError, match="db1") as found:
        decide_place(json.dumps([LO, ETH0]), address, interface=interface, where="db1")
    assert found.value.code == "no-interface"
