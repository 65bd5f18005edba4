"""The frame that announces an address."""

from __future__ import annotations

from grampus.hosts.announcing import render_announcement, render_probe


def test_announcement_is_a_request_for_the_own_address() -> None:
    frame = render_announcement("02:00:00:aa:bb:cc", "10.213.0.100")
    mac, ip = bytes.fromhex("020000aabbcc"), bytes([10, 213, 0, 100])
    assert frame[:14] == b"\xff" * 6 + mac + b"\x08\x06"
    assert frame[14:22] == bytes.fromhex("0001080006040001")
    assert frame[22:] == mac + ip + b"\x00" * 6 + ip
    assert len(frame) == 42


def test_a_probe_asks_for_an_address_and_claims_none() -> None:
    """RFC 5227, 2.1.1: a sender address would change the tables of those who hear it."""
    frame = render_probe("02:00:00:aa:bb:cc", "10.213.0.100")
    assert frame[28:32] == bytes(4)
    assert frame[38:42] == bytes([10, 213, 0, 100])
    assert frame[22:28] == bytes.fromhex("020000aabbcc")
