"""Tells the neighbours of a host that it has a new address.

Without that they send to the former host's MAC until their own probes fail, which takes seconds.
Source: RFC 5227, section 3 (ARP Announcement); RFC 826 for the frame.
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


def render_announcement(mac: str, address: str) -> bytes:
    """The Ethernet frame that says `address` is at `mac` (`02:00:...`), to all on the segment."""
    sender = bytes.fromhex(mac.replace(":", ""))
    ip = ipaddress.IPv4Address(address).packed
    arp = struct.pack("!HHBBH", _ETHERNET, _IPV4, len(sender), len(ip), _REQUEST)
    return _BROADCAST + sender + struct.pack("!H", _ARP) + arp + sender + ip + bytes(6) + ip


def announce(interface: str, frame: bytes) -> None:
    """Send the frame out of an interface of this machine, such as a bridge."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind((interface, 0))
        sender.send(frame)


def announce_argv(interface: str, frame: bytes) -> list[str]:
    """The command that sends it out of an interface of the host that runs it."""
    return ["python3", "-c", _SEND, interface, frame.hex()]
