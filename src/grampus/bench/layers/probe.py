"""What runs on a host during a trial: once a second all counters that it can see, as one line.

Started as `python3 -c` with this file's text and one argument, a JSON object:

    {"mark": "NAME=VALUE", "interval_s": 1, "lasts_s": 60, "machine": true,
     "devices": {"NAME": "loop3"}, "osd_sockets": "/run/ceph",
     "volumed_sockets": {"VOLUME": "PATH"}}

`osd_sockets` is the directory of the OSDs' admin sockets (null: none is asked), and `mark` is in
the environment of the clients. Each line is a JSON object of raw counters; `readings.py` says what
is in it. What cannot be read is left out, never an error. It ends by itself after `lasts_s`, and
when nobody reads its output any more. It needs nothing but a Python of 3.9 or later.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

TIMEOUT_S = 0.5
MAX_ANSWER_BYTES = 4 * 1024 * 1024
OSD_LOGGERS = {
    "osd": (
        "op_w",
        "op_r",
        "subop_w",
        "op_w_latency",
        "op_r_latency",
        "subop_w_latency",
    ),
    "bluestore": ("txc_commit_lat", "state_kv_queued_lat", "kv_commit_lat"),
}


class Clients:
    """CPU time of the processes that bear the mark; ours is none of them."""

    def __init__(self, mark: str) -> None:
        self._mark = b"\0" + mark.encode() + b"\0"
        self._seen: dict[str, bool] = {}
        self._ended_ticks = 0
        self._ticks: dict[str, int] = {}

    def ticks(self) -> int:
        """Of all so far, also of those that have ended since."""
        pids = {path.name for path in Path("/proc").iterdir() if path.name.isdigit()}
        for pid in set(self._seen) - pids:
            del self._seen[pid]
            self._ended_ticks += self._ticks.pop(pid, 0)
        for pid in pids - set(self._seen):
            self._seen[pid] = int(pid) != os.getpid() and self._is_marked(pid)
        for pid in [pid for pid, marked in self._seen.items() if marked]:
            fields = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
            if len(fields) > 12:
                self._ticks[pid] = int(fields[11]) + int(fields[12])
        return self._ended_ticks + sum(self._ticks.values())

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
    request = b'{"version":1,"command":"statistics"}\n'
    try:
        with exchange(path, request) as connection:
            content = bytearray()
            while not content.endswith(b"\n") and len(content) < MAX_ANSWER_BYTES:
                chunk = connection.recv(65536)
                if not chunk:
                    break
                content += chunk
        kinds = json.loads(content)["result"]["kinds"]
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


def link_speeds() -> dict[str, int]:
    """The speed in Mbit/s of every link that is a real device."""
    speeds = {}
    for path in Path("/sys/class/net").glob("*"):
        if (path / "device").exists():
            text = read(f"{path}/speed").strip()
            if text.isdigit() and int(text) > 0:
                speeds[path.name] = int(text)
    return speeds


def observe(asked: dict[str, Any], clients: Clients, speeds: dict[str, int]) -> dict[str, Any]:
    """All counters now."""
    reading: dict[str, Any] = {
        "at_s": time.time(),
        "own_cpu_s": time.process_time(),
        "client_ticks": clients.ticks(),
        "ticks_per_s": os.sysconf("SC_CLK_TCK"),
        "devices": {
            name: read(f"/sys/class/block/{device}/stat")
            for name, device in asked["devices"].items()
        },
        "network": read("/proc/net/dev"),
        "link_speeds": speeds,
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
    return reading


def main() -> None:
    """Read once a second until it is time to end."""
    asked = json.loads(sys.argv[1])
    clients, speeds = Clients(asked["mark"]), link_speeds()
    began_s = due_s = time.monotonic()
    while time.monotonic() < began_s + asked["lasts_s"]:
        try:
            sys.stdout.write(json.dumps(observe(asked, clients, speeds)) + "\n")
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
