"""What runs on a host during a trial: once a second all counters that it can see, as one line.

Started as `python3 -c` with this file's text and one argument, a JSON object:

    {"mark": "NAME=VALUE", "interval_s": 1, "lasts_s": 60, "machine": true,
     "devices": {"NAME": "loop3"}, "osd_sockets": "/run/ceph",
     "volumed_sockets": {"VOLUME": "PATH"}, "disk_sockets": {"NAME": "PATH"}}

`osd_sockets` is the directory of the OSDs' admin sockets (null: none is asked), and `mark` is in
the environment of the clients. Each line is a JSON object of raw counters; `readings.py` says what
is in it. What cannot be read is left out, never an error. It ends by itself after `lasts_s`, and
when nobody reads its output any more. It needs nothing but a Python of 3.9 or later.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

TIMEOUT_S = 0.5
MAX_ANSWER_BYTES = 4 * 1024 * 1024
# Ceph's ms_bind_port_min and ms_bind_port_max by default.
OSD_PORTS = (6800, 7568)
# A few hosts show the network of all.
MAX_PEERS = 8
PEERS_S = 10.0
ECHOES = 3
ECHO_TIMEOUT_S = 0.3
SLOW_ECHO_S = 0.02
ESTABLISHED = "01"
# Linux, asm-generic/socket.h: Python has no name for it.
SO_TIMESTAMPNS = 35
OSD_LOGGERS = {
    # A write under a condition, such as an append to a journal, counts as `rw`.
    "osd": (
        "op_w",
        "op_rw",
        "op_r",
        "subop_w",
        "op_w_latency",
        "op_rw_latency",
        "op_r_latency",
        "subop_w_latency",
    ),
    "bluestore": ("txc_commit_lat", "state_aio_wait_lat", "kv_sync_lat", "read_wait_aio_lat"),
}


class Clients:
    """CPU time of the processes that bear the mark, and how long their threads waited for a CPU;
    ours is none of them."""

    def __init__(self, mark: str) -> None:
        self._mark = b"\0" + mark.encode() + b"\0"
        self._seen: dict[str, bool] = {}
        self._ticks: dict[str, int] = {}
        self._waited_ns: dict[str, int] = {}

    def observe(self) -> tuple[int, int]:
        """Ticks and waiting in ns of all so far, also of those that have ended since."""
        pids = {path.name for path in Path("/proc").iterdir() if path.name.isdigit()}
        for pid in set(self._seen) - pids:
            del self._seen[pid]
        for pid in pids - set(self._seen):
            self._seen[pid] = int(pid) != os.getpid() and self._is_marked(pid)
        for pid in [pid for pid, marked in self._seen.items() if marked]:
            fields = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
            if len(fields) > 19:
                # With the start time: a later process may have the same number.
                process = f"{pid} {fields[19]}"
                self._ticks[process] = int(fields[11]) + int(fields[12])
                waited_ns = sum(map(waited_of, Path(f"/proc/{pid}/task").glob("*/schedstat")))
                self._waited_ns[process] = max(waited_ns, self._waited_ns.get(process, 0))
        return sum(self._ticks.values()), sum(self._waited_ns.values())

    def _is_marked(self, pid: str) -> bool:
        try:
            content = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False
        return self._mark in b"\0" + content


def read(path: str) -> str:
    """The text of a file; nothing when it cannot be read."""
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def waited_of(schedstat: Path) -> int:
    """How long a thread was ready to run and had no CPU, in ns; 0 where nobody counts it."""
    fields = read(str(schedstat)).split()
    return int(fields[1]) if len(fields) == 3 else 0


class Echo:
    """Round trips to the hosts of OSDs, by ICMP echo (RFC 792), over one socket.

    The peers are those that this host has connections with at the ports of OSDs. Their kernels
    answer, so that no daemon of theirs is in the time.
    """

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._sequence = 0
        self._reached: set[str] = set()
        self._peers: list[str] = []
        self._peers_until_s = 0.0
        try:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        except OSError:
            pass  # nobody may send it here: the time is not known

    def close(self) -> None:
        """Give the socket back."""
        if self._socket is not None:
            self._socket.close()

    def round_trips_ms(self) -> dict[str, float]:
        """By address, without those that did not answer in time.

        The shortest of a few: what this process itself waited for a CPU is no time of the network.
        An answer that does not come from a host that gave some before is as late as was waited.
        """
        if not self._peers or time.monotonic() > self._peers_until_s:
            # The kernel goes through its whole table of connections for this: 1.4 ms.
            self._peers = osd_peers(read("/proc/net/tcp"))[:MAX_PEERS]
            self._peers_until_s = time.monotonic() + PEERS_S
        shortest: dict[str, float] = {}
        for _ in range(ECHOES):
            began_s = time.monotonic()
            for address, took_ms in self._round_trip().items():
                shortest[address] = min(took_ms, shortest.get(address, took_ms))
            # Whatever is slow now shows at once, and other counters wait for this.
            if time.monotonic() - began_s > SLOW_ECHO_S:
                break
        return shortest

    def _round_trip(self) -> dict[str, float]:
        if self._socket is None:
            return {}
        sent: dict[str, float] = {}
        answered: dict[str, float] = {}
        self._sequence = (self._sequence + 1) % 65536
        identity = os.getpid() % 65536
        for address in self._peers:
            try:
                sent[address] = time.time()
                self._socket.sendto(echo_request(identity, self._sequence), (address, 0))
            except OSError:
                del sent[address]
        until_s = time.monotonic() + ECHO_TIMEOUT_S
        while len(answered) < len(sent) and time.monotonic() < until_s:
            left_s = max(0.0, until_s - time.monotonic())
            ready, _, _ = select.select([self._socket], [], [], left_s)
            if not ready:
                break
            try:
                packet, notes, _, (address, _) = self._socket.recvmsg(256, 64)
            except OSError:
                continue
            if is_echo_reply(packet, identity, self._sequence) and address in sent:
                answered.setdefault(address, 1000 * (arrival_of(notes) - sent[address]))
        self._reached |= set(answered)
        late = {one: 1000 * ECHO_TIMEOUT_S for one in sent if one in self._reached}
        return {**late, **answered}


def arrival_of(notes: list[tuple[int, int, bytes]]) -> float:
    """When the kernel received a packet (Unix time), however late this process looks at it."""
    for level, kind, content in notes:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS) and len(content) >= 16:
            seconds, nanoseconds = struct.unpack("=qq", content[:16])
            return float(seconds + nanoseconds / 1e9)
    return time.time()


def osd_peers(text: str) -> list[str]:
    """From /proc/net/tcp: the addresses that this host has connections with at OSDs' ports."""
    found = set()
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 4 or fields[3] != ESTABLISHED:
            continue
        address, _, port = fields[2].partition(":")
        if OSD_PORTS[0] <= int(port, 16) <= OSD_PORTS[1]:
            found.add(socket.inet_ntoa(struct.pack("=I", int(address, 16))))
    return sorted(found)


def echo_request(identity: int, sequence: int) -> bytes:
    """An ICMP echo request without data."""
    words = (0x0800, 0, identity, sequence)
    total = sum(words)
    total = (total >> 16) + (total & 0xFFFF)
    return struct.pack(">4H", words[0], ~(total + (total >> 16)) & 0xFFFF, *words[2:])


def is_echo_reply(packet: bytes, identity: int, sequence: int) -> bool:
    """Whether an IPv4 packet is the answer to that `echo_request`."""
    begins = 4 * (packet[0] & 15) if packet else 0
    if len(packet) < begins + 8:
        return False
    kind, _, answered, numbered = struct.unpack(">4H", packet[begins : begins + 8])
    return (kind, answered, numbered) == (0, identity, sequence)


def exchange(path: str, request: bytes) -> socket.socket:
    """A connection over which `request` was sent. Raises OSError."""
    place, name = os.path.split(path)
    # Through the directory's descriptor: a socket's path holds at most 107 bytes (unix(7)).
    directory = os.open(place, os.O_PATH | os.O_DIRECTORY)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(TIMEOUT_S)
        connection.connect(f"/proc/self/fd/{directory}/{name}")
        connection.sendall(request)
    except OSError:
        connection.close()
        raise
    finally:
        os.close(directory)
    return connection


def receive(connection: socket.socket, size: int) -> bytes:
    """So many bytes. Raises OSError when there are fewer."""
    content = bytearray()
    while len(content) < size:
        chunk = connection.recv(size - len(content))
        if not chunk:
            raise OSError("the answer ended early")
        content += chunk
    return bytes(content)


def ask_osd(path: str, logger: str) -> Any:
    """One logger of an OSD's perf counters. Raises OSError and ValueError."""
    request = json.dumps({"prefix": "perf dump", "logger": logger, "format": "json"})
    with exchange(path, request.encode() + b"\0") as connection:
        (size,) = struct.unpack(">I", receive(connection, 4))
        if size > MAX_ANSWER_BYTES:
            raise OSError("the answer is too long")
        return json.loads(receive(connection, size))


def osd_counters(path: str) -> dict[str, Any]:
    """Those of OSD_LOGGERS that it has."""
    found: dict[str, Any] = {}
    for logger, names in OSD_LOGGERS.items():
        try:
            counters = ask_osd(path, logger).get(logger, {})
        except (OSError, ValueError, struct.error, AttributeError):
            continue
        found.update({name: counters[name] for name in names if name in counters})
    return found


def volumed_counters(path: str) -> Any:
    """The statistics of a volumed by kind of request, without their histograms; None: no answer."""
    try:
        kinds = ask_volumed(path, "statistics")["kinds"]
        return {
            name: {
                "in_flight": kind["in_flight"],
                "count": kind["latency_us"]["count"],
                "sum_us": kind["latency_us"]["sum"],
            }
            for name, kind in kinds.items()
        }
    except (OSError, ValueError, KeyError, TypeError):
        return None


def disk_counters(path: str) -> Any:
    """How long an emulated disk worked by its model, and longer than that; None: no answer."""
    try:
        disk = ask_volumed(path, "status")["emulated_disk"]
        return {"busy_ms": disk["busy_ms"], "late_ms": disk["late_ms"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def ask_volumed(path: str, command: str) -> Any:
    """What a volumed answers. Raises OSError, ValueError and KeyError."""
    request = json.dumps({"version": 1, "command": command}).encode() + b"\n"
    with exchange(path, request) as connection:
        content = bytearray()
        while not content.endswith(b"\n") and len(content) < MAX_ANSWER_BYTES:
            chunk = connection.recv(65536)
            if not chunk:
                break
            content += chunk
    return json.loads(content)["result"]


def link_speeds() -> dict[str, int]:
    """The speed in Mbit/s of every link that is a real device."""
    speeds = {}
    for path in Path("/sys/class/net").glob("*"):
        if (path / "device").exists():
            text = read(f"{path}/speed").strip()
            if text.isdigit() and int(text) > 0:
                speeds[path.name] = int(text)
    return speeds


def observe(
    asked: dict[str, Any], clients: Clients, echo: Echo, speeds: dict[str, int]
) -> dict[str, Any]:
    """All counters now."""
    ticks, waited_ns = clients.observe()
    reading: dict[str, Any] = {
        "at_s": time.time(),
        "own_cpu_s": time.process_time(),
        "client_ticks": ticks,
        "client_waited_ns": waited_ns,
        "ticks_per_s": os.sysconf("SC_CLK_TCK"),
        "devices": {
            name: read(f"/sys/class/block/{device}/stat")
            for name, device in asked["devices"].items()
        },
        "network": read("/proc/net/dev"),
        "link_speeds": speeds,
        "osd_round_trips_ms": echo.round_trips_ms(),
    }
    if asked["machine"]:
        reading["stat"] = read("/proc/stat").partition("intr ")[0]
        reading["memory"] = read("/proc/meminfo")[:200]
    osds = {}
    sockets = asked["osd_sockets"]
    for path in sorted(Path(sockets).glob("*osd.*.asok")) if sockets else ():
        name = path.name.partition("osd.")[2].partition(".")[0]
        osds[name] = osd_counters(str(path))
    reading["osds"] = osds
    served = {name: volumed_counters(path) for name, path in asked["volumed_sockets"].items()}
    reading["volumes"] = {name: kinds for name, kinds in served.items() if kinds is not None}
    disks = {name: disk_counters(path) for name, path in asked["disk_sockets"].items()}
    reading["disks"] = {name: disk for name, disk in disks.items() if disk is not None}
    return reading


def main() -> None:
    """Read once a second until it is time to end."""
    asked = json.loads(sys.argv[1])
    clients, echo, speeds = Clients(asked["mark"]), Echo(), link_speeds()
    began_s = due_s = time.monotonic()
    while time.monotonic() < began_s + asked["lasts_s"]:
        try:
            sys.stdout.write(json.dumps(observe(asked, clients, echo, speeds)) + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            # Python would complain about what it cannot write at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return
        now_s = time.monotonic()
        # A slow reading skips seconds instead of hurrying after them.
        due_s = max(due_s + asked["interval_s"], now_s)
        time.sleep(max(0.0, due_s - now_s))


if __name__ == "__main__":
    main()
