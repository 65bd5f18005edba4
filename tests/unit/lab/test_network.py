from __future__ import annotations

import json
from ipaddress import IPv4Network

import pytest

from grampus.core.errors import GrampusError
from grampus.lab.network import (
    LAB_NETWORKS,
    Route,
    decide_subnet,
    parse_routes,
    require_subnet_free,
)

from .test_model import make_spec

SPEC = make_spec()
OURS = "gr-1a2b3"


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        ([], "10.213.0.0/24"),
        (["192.168.1.0/24"], "10.213.0.0/24"),
        (["10.213.0.0/24"], "10.213.1.0/24"),
        (["10.213.0.7/32"], "10.213.1.0/24"),
        (["10.213.0.0/23"], "10.213.2.0/24"),
        (["10.213.1.0/24"], "10.213.0.0/24"),
        (["10.0.0.0/8"], "172.29.0.0/24"),
        (["10.0.0.0/8", "172.16.0.0/12"], "192.168.208.0/24"),
    ],
)
def test_first_free_subnet(used: list[str], expected: str) -> None:
    assert decide_subnet(map(IPv4Network, used)) == IPv4Network(expected)


def test_no_free_subnet_is_a_clear_error() -> None:
    with pytest.raises(GrampusError, match=r"10\.213\.0\.0/16.*is in use") as caught:
        decide_subnet(LAB_NETWORKS)
    assert "lab down" in caught.value.remedy


def test_every_candidate_is_private() -> None:
    assert all(network.is_private for network in LAB_NETWORKS)


def test_routes_from_what_ip_prints() -> None:
    text = json.dumps(
        [
            {"dst": "default", "gateway": "10.0.0.1", "dev": "eth0"},
            {"dst": "10.0.0.0/24", "dev": "eth0"},
            {"type": "local", "dst": "10.0.0.5", "dev": "eth0"},
            {"type": "blackhole", "dst": "10.99.0.0/16"},
        ]
    )
    assert parse_routes(text) == [
        (IPv4Network("10.0.0.0/24"), "eth0"),
        (IPv4Network("10.0.0.5/32"), "eth0"),
        (IPv4Network("10.99.0.0/16"), None),
    ]
    assert parse_routes("") == []


@pytest.mark.parametrize(
    ("network", "device", "is_free"),
    [
        ("10.213.7.0/24", OURS, True),
        ("10.213.7.1/32", OURS, True),
        ("10.213.8.0/24", "docker0", True),
        ("10.0.0.0/8", "tun0", True),
        ("10.213.7.0/24", "docker0", False),
        ("10.213.7.0/24", "gr-99999", False),
        ("10.213.7.13/32", "tun0", False),
        ("10.213.7.128/25", None, False),
    ],
    ids=["own", "own-address", "beside", "vpn", "docker", "other-lab", "address", "blackhole"],
)
def test_recorded_subnet_must_be_free_of_others(
    network: str, device: str | None, is_free: bool
) -> None:
    routes: list[Route] = [(IPv4Network("192.168.0.0/16"), "eth0"), (IPv4Network(network), device)]
    if is_free:
        require_subnet_free(SPEC, routes)
        return
    with pytest.raises(GrampusError) as caught:
        require_subnet_free(SPEC, routes)
    assert caught.value.code == "network-taken"
    assert str(IPv4Network(network)) in caught.value.problem
    assert (device or "no device") in caught.value.problem
