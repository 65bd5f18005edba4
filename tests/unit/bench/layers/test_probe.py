"""What runs on a host during a trial asks daemons wherever their sockets are."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from grampus.bench.layers.probe import (
    SO_TIMESTAMPNS,
    Clients,
    Echo,
    arrival_of,
    echo_request,
    exchange,
    is_echo_reply,
    osd_peers,
)


@pytest.mark.parametrize("length", [1, 200])
def test_a_socket_may_have_a_path_of_any_length(
    length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / ("x" * length)
    place.mkdir()
    monkeypatch.chdir(place)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind("control")
        listener.listen()
        with exchange(str(place / "control"), b"status\n"):
            served, _ = listener.accept()
            with served:
                assert served.recv(64) == b"status\n"
    with pytest.raises(FileNotFoundError):
        exchange(str(place / "no" / "control"), b"status\n")


TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 6500D50A:1A90 6600D50A:1A91 01 00000000:00000000 00:00000000 00000000     0        0 1 1
   1: 6500D50A:B3B4 6600D50A:1D90 01 00000000:00000000 00:00000000 00000000     0        0 1 1
   2: 6500D50A:B3B5 6700D50A:0CE4 01 00000000:00000000 00:00000000 00000000     0        0 1 1
   3: 6500D50A:B3B6 6800D50A:1A90 06 00000000:00000000 00:00000000 00000000     0        0 1 1
   4: 00000000:1A90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1
cut
"""


@pytest.mark.skipif(sys.byteorder != "little", reason="the kernel shows addresses as it keeps them")
def test_hosts_of_osds_are_those_with_connections_to_their_ports():
    # 6801 and 7568 are ports of OSDs, 3300 is a MON's; one connection has ended.
    assert osd_peers(TCP) == ["10.213.0.102"]
    assert osd_peers("") == []


def test_an_echo_request_has_a_correct_checksum():
    packet = echo_request(54321, 65535)
    words = [int.from_bytes(packet[at : at + 2], "big") for at in range(0, len(packet), 2)]
    total = sum(words)
    assert (total >> 16) + (total & 0xFFFF) == 0xFFFF


@pytest.mark.parametrize(
    ("packet", "is_ours"),
    [
        (b"\x45" + 19 * b"\0" + bytes.fromhex("0000000000070009"), True),
        # With options in the header.
        (b"\x46" + 23 * b"\0" + bytes.fromhex("0000000000070009"), True),
        (b"\x45" + 19 * b"\0" + bytes.fromhex("0800000000070009"), False),  # a request
        (b"\x45" + 19 * b"\0" + bytes.fromhex("0000000000080009"), False),  # another process
        (b"\x45" + 19 * b"\0" + bytes.fromhex("0000000000070008"), False),  # an earlier one
        (b"\x45", False),
        (b"", False),
    ],
)
def test_answers_to_an_echo(packet: bytes, is_ours: bool):
    assert is_echo_reply(packet, 7, 9) == is_ours


def test_the_kernel_says_when_a_packet_arrived():
    note = (socket.SOL_SOCKET, SO_TIMESTAMPNS, struct.pack("=qq", 1_796_042_294, 250_000_000))
    assert arrival_of([(0, 8, b"x"), note]) == 1_796_042_294.25
    assert arrival_of([]) == pytest.approx(time.time(), abs=5)


@pytest.mark.skipif(os.geteuid() != 0, reason="raw sockets need root")
def test_a_round_trip_on_this_machine(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("grampus.bench.layers.probe.osd_peers", lambda _text: ["127.0.0.1"])
    with closing(Echo()) as echo:
        took_ms = echo.round_trips_ms()
        assert set(took_ms) == {"127.0.0.1"}
        assert 0 < took_ms["127.0.0.1"] < 300


@pytest.mark.skipif(os.geteuid() != 0, reason="raw sockets need root")
def test_an_answer_that_stays_away_is_late_if_there_was_one_before(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("grampus.bench.layers.probe.osd_peers", lambda _text: ["127.0.0.1"])
    monkeypatch.setattr("grampus.bench.layers.probe.is_echo_reply", lambda *_: False)
    with closing(Echo()) as echo:
        # A host that answers to nobody: the time is not known.
        assert echo.round_trips_ms() == {}
    with closing(Echo()) as echo:
        with monkeypatch.context() as answering:
            answering.setattr("grampus.bench.layers.probe.is_echo_reply", lambda *_: True)
            assert set(echo.round_trips_ms()) == {"127.0.0.1"}
        assert echo.round_trips_ms() == {"127.0.0.1": 300.0}


@pytest.mark.skipif(os.geteuid() != 0, reason="raw sockets need root")
def test_the_table_of_connections_is_read_seldom(monkeypatch: pytest.MonkeyPatch):
    found: list[list[str]] = [[], ["127.0.0.1"], ["127.0.0.1", "127.0.0.2"]]
    asked: list[int] = []

    def look(_text: str) -> list[str]:
        asked.append(1)
        return found[min(len(asked), len(found)) - 1]

    monkeypatch.setattr("grampus.bench.layers.probe.osd_peers", look)
    with closing(Echo()) as echo:
        # A client that has not begun has no connection yet.
        assert echo.round_trips_ms() == {}
        assert set(echo.round_trips_ms()) == set(echo.round_trips_ms()) == {"127.0.0.1"}
        assert len(asked) == 2
        later_s = time.monotonic() + 11
        monkeypatch.setattr("grampus.bench.layers.probe.time.monotonic", lambda: later_s)
        assert set(echo.round_trips_ms()) == {"127.0.0.1", "127.0.0.2"}


def test_without_the_right_to_send_nothing_is_known(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_arguments: object) -> None:
        raise PermissionError

    monkeypatch.setattr(socket, "socket", refuse)
    with closing(Echo()) as echo:
        assert echo.round_trips_ms() == {}


def test_clients_that_share_a_cpu_wait_for_it():
    taskset = shutil.which("taskset")
    if taskset is None or not Path("/proc/self/schedstat").exists():
        pytest.skip("this kernel does not count who waits for a CPU")
    cpu = str(min(os.sched_getaffinity(0)))
    argv = [taskset, "-c", cpu, sys.executable, "-c", "while True: pass"]
    clients = Clients("GRAMPUS_TEST=probe")
    environment = {**os.environ, "GRAMPUS_TEST": "probe"}
    running = [subprocess.Popen(argv, env=environment) for _ in range(2)]
    try:
        waited = threading.Event()
        for _ in range(100):
            ticks, waited_ns = clients.observe()
            if ticks and waited_ns > 100_000_000:
                break
            waited.wait(0.1)
        else:
            pytest.fail(f"{ticks} ticks, {waited_ns} ns of waiting")
    finally:
        for process in running:
            process.kill()
            process.wait()
    # What they used and waited for counts after their end, too.
    assert clients.observe() >= (ticks, waited_ns)
