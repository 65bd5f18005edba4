"""What daemons and clients of a cluster send: readable on the wire, or not (`lab up --secure`)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.conftest import make_lab
from tests.system.command_line import CommandLine

pytestmark = [pytest.mark.integration, pytest.mark.exhaustive]

MARKER = "squid-ink-on-the-wire"
ALL_PROTOCOLS = 3  # ETH_P_ALL, linux/if_ether.h
CREATE = ("db", "create", "inked", "--size", "1G", "--memory", "512M", "--cpus", "0.5")


@pytest.fixture(scope="module")
def secure_lab() -> Iterator[CommandLine]:
    """A lab whose messages are encrypted."""
    yield from make_lab("test-secure", "--secure")


class Listener:
    """Counts a text in all that crosses one link, while it is used as a context."""

    def __init__(self, link: str, text: str) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
        self._socket.bind((link, 0))
        self._socket.settimeout(0.2)
        self._text = text.encode()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._listen)
        self.bytes_heard = 0
        self.seen = 0

    def __enter__(self) -> Listener:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._socket.close()

    def _listen(self) -> None:
        while not self._over.is_set():
            try:
                packet = self._socket.recv(1 << 17)
            except TimeoutError:
                continue
            self.bytes_heard += len(packet)
            self.seen += packet.count(self._text)


def heard(lab: CommandLine) -> tuple[int, int]:
    """Bytes on the links of h1, and how often the marker was in them, while rows were written."""
    lab.ok(*CREATE, "--host", "h1", "--write-path", "direct")
    try:
        lab.sql("inked", "create database m; create table m.t (a varchar(4000))")
        with Listener(f"gr-{lab.tag}-h1", MARKER) as listener:
            for _ in range(5):
                lab.sql("inked", f"insert into m.t values (repeat('{MARKER}-', 100))")
            # With the write path direct each commit is on all copies by now.
        return listener.bytes_heard, listener.seen
    finally:
        lab.ok("db", "delete", "inked", "--now", "--yes")


def test_rows_can_be_read_on_the_wire_of_an_ordinary_cluster(lab: CommandLine) -> None:
    sent, seen = heard(lab)
    assert sent > 4096
    assert seen > 100


def test_rows_cannot_be_read_on_the_wire_of_a_secure_one(secure_lab: CommandLine) -> None:
    assert secure_lab.json("lab", "status")["health"] == "HEALTH_OK"
    sent, seen = heard(secure_lab)
    assert sent > 4096
    assert seen == 0
