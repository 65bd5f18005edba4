"""The frame that announces an address."""

from __future__ import annotations

from grampus.hosts.announcing import render_announcement


def test_announcement_is_a_request_for_the_own_address() -> None:
    frame = render_announcement("02:00:00:aa:bb:cc", "10.213.0.100")
    mac, ip = bytes.fromhex("020000aabbcc"), bytes([10, 213, 0, 100])
    assert frame[:14] == b"\xff" * 6 + mac + b"\x08\x06"
    assert frame[14:22] == bytes.fromhex("0001080006040001")
    assert frame[22:] == mac + ip + b"\x00" * 6 + ip
    assert len(frame) == 42
