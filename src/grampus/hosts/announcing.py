"""Tells the neighbours of a host that it has a new address, and asks them who has one.

Without an announcement they send to the former host's MAC until their own probes fail, which takes
seconds. Source: RFC 5227, sections 2.1.1 (ARP Probe) and 3 (ARP Announcement); RFC 826 for the
frame.
"""

from __future__ import annotations

import ipaddress
import socket
import struct

_BROADCAST = b"\xff" * 6
_ARP = 0x0806
_ETHERNET, _IPV4, _REQUEST = 1, 0x0800, 1
# For a host elsewhere: the interface and the frame in hexadecimal digits.
_SEND = """
import socket, sys
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
    sender.bind((sys.argv[1], 0))
    sender.send(bytes.fromhex(sys.argv[2]))
"""
# The interface, the probe, and the address, both in hexadecimal digits: the MAC of who has it.
# Sent twice, since one frame may be lost. A kernel answers within milliseconds, also on a busy
# machine; RFC 5227 waits for seconds because its machines have just come to the segment.
# What a sender says of itself is at bytes 22 to 32.
_ASK = """
import socket, sys, time
interface, probe, address = sys.argv[1], bytes.fromhex(sys.argv[2]), bytes.fromhex(sys.argv[3])
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806)) as asking:
    asking.bind((interface, 0x0806))
    for _ in range(2):
        asking.send(probe)
        until_s = time.monotonic() + 0.15
        while (left_s := until_s - time.monotonic()) > 0:
            asking.settimeout(left_s)
            try:
                frame = asking.recv(2048)
            except TimeoutError:
                break
            if frame[28:32] == address and frame[22:28] != probe[22:28]:
                print(frame[22:28].hex(":"))
                sys.exit()
"""


def render_announcement(mac: str, address: str) -> bytes:
    """The Ethernet frame that says `address` is at `mac` (`02:00:...`), to all on the segment."""
    return _render_request(mac, address, said_to_have=address)


def render_probe(mac: str, address: str) -> bytes:
    """The Ethernet frame with which `mac` asks who has `address`, without saying what it has."""
    return _render_request(mac, address, said_to_have="0.0.0.0")  # noqa: S104 - no bind


def _render_request(mac: str, address: str, *, said_to_have: str) -> bytes:
    sender = bytes.fromhex(mac.replace(":", ""))
    target = ipaddress.IPv4Address(address).packed
    own = ipaddress.IPv4Address(said_to_have).packed
    arp = struct.pack("!HHBBH", _ETHERNET, _IPV4, len(sender), len(target), _REQUEST)
    return _BROADCAST + sender + struct.pack("!H", _ARP) + arp + sender + own + bytes(6) + target


def announce(interface: str, frame: bytes) -> None:
    """Send the frame out of an interface of this machine, such as a bridge."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind((interface, 0))
        sender.send(frame)


def announce_argv(interface: str, frame: bytes) -> list[str]:
    """The command that sends it out of an interface of the host that runs it."""
    return ["python3", "-c", _SEND, interface, frame.hex()]


def ask_argv(interface: str, mac: str, address: str) -> list[str]:
    """The command whose output is the MAC of another machine that has the address, if one has."""
    packed = ipaddress.IPv4Address(address).packed
    return ["python3", "-c", _ASK, interface, render_probe(mac, address).hex(), packed.hex()]
