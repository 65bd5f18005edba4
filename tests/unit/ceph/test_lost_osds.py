"""OSDs of a lost host, as the cluster knows them."""

from __future__ import annotations

from typing import Any

from grampus.ceph.lost_osds import OsdPlace, parse_osds_at


def _osd(number: int, host: str, *, up: int = 1) -> dict[str, Any]:
    addresses = [
        {"type": "v2", "addr": f"{host}:680{number}", "nonce": 7},
        {"type": "v1", "addr": f"{host}:681{number}", "nonce": 7},
    ]
    return {"osd": number, "up": up, "public_addrs": {"addrvec": addresses}}


def test_those_that_are_up_at_exactly_that_address() -> None:
    dump = {
        "osds": [
            _osd(0, "10.0.0.1"),
            _osd(1, "10.0.0.1", up=0),
            _osd(2, "10.0.0.11"),
        ]
    }
    assert parse_osds_at(dump, "10.0.0.1") == [OsdPlace(0, (6800, 6810))]
    assert parse_osds_at({}, "10.0.0.1") == []
