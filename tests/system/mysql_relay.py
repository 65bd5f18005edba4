"""A relay in front of a MySQL server, which can hide that the server offers TLS.

    python mysql_relay.py ADDRESS PORT pass|strip

Listens on a free port of 127.0.0.1, prints it, and ends with its standard input.
"""

from __future__ import annotations

import socket
import sys
import threading

# Capability flag CLIENT_SSL (2048) of the server's first packet: MySQL client/server protocol 4.1,
# "Protocol::HandshakeV10". It is in the second byte of the lower two bytes of flags.
_SSL_IN_SECOND_BYTE = 0x08
# Before the flags, from the end of the server's version on: its zero byte, the thread's id, the
# first part of the challenge and a filler.
_FROM_VERSION_TO_FLAGS = 1 + 4 + 8 + 1
_HEADER_AND_PROTOCOL = 5


def without_tls(handshake: bytes) -> bytes:
    """The server's first packet as a server without TLS would send it."""
    changed = bytearray(handshake)
    flags = changed.index(0, _HEADER_AND_PROTOCOL) + _FROM_VERSION_TO_FLAGS
    changed[flags + 1] &= ~_SSL_IN_SECOND_BYTE
    return bytes(changed)


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while chunk := source.recv(65536):
            target.sendall(chunk)
    except OSError:
        pass  # the other one has closed
    finally:
        for one in (source, target):
            one.close()


def _serve(client: socket.socket, address: tuple[str, int], *, strips: bool) -> None:
    server = socket.create_connection(address, timeout=30)
    handshake = server.recv(65536)
    client.sendall(without_tls(handshake) if strips else handshake)
    threading.Thread(target=_copy, args=(client, server), daemon=True).start()
    _copy(server, client)


def _accept(listener: socket.socket, address: tuple[str, int], *, strips: bool) -> None:
    while True:
        client, _ = listener.accept()
        serving = {"strips": strips}
        threading.Thread(target=_serve, args=(client, address), kwargs=serving, daemon=True).start()


def main(argv: list[str]) -> None:
    address = (argv[0], int(argv[1]))
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)  # noqa: T201 - read by whoever started it
    accepting = {"strips": argv[2] == "strip"}
    threading.Thread(
        target=_accept, args=(listener, address), kwargs=accepting, daemon=True
    ).start()
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1:])
