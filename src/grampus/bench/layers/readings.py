"""What the monitors of a trial print, as counters. All pure; what is not understood is left out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grampus.bench.counters import (
    SECTOR_BYTES,
    CpuTimes,
    Memory,
    parse_cpu_times,
    parse_memory,
)


@dataclass(frozen=True)
class BlockTimes:
    """A block device's I/Os and times in ms since it appeared.

    `waited_ms` sums over reads and writes, `busy_ms` counts while any was under way. Flushes are 0
    in kernels that do not count them (before 5.5).
    """

    reads: int
    read_bytes: int
    writes: int
    written_bytes: int
    waited_ms: int
    busy_ms: int
    flushes: int = 0
    flush_ms: int = 0


@dataclass(frozen=True)
class Served:
    """Requests of one kind in a volumed: under way, and ended since its image was opened."""

    in_flight: int
    count: int
    sum_us: float


@dataclass(frozen=True)
class Timed:
    """A counter of an OSD with the time that its events took."""

    count: int
    sum_s: float


@dataclass(frozen=True)
class Traffic:
    """Bytes of a link since it appeared; `speed_bytes_per_s` is None of one that is not real."""

    received_bytes: int
    sent_bytes: int
    speed_bytes_per_s: float | None = None


@dataclass(frozen=True)
class DiskTimes:
    """How long an emulated disk has worked by its model, and how much longer it took."""

    busy_ms: float
    late_ms: float


@dataclass(frozen=True)
class ProbeReading:
    """What the probe of one host read at one moment.

    `osds` are by number, with counts and timed counters by Ceph's own names; `volumes` by name,
    then by kind of request; `disks` are emulated ones, called as `devices` are; `network` by link.
    None: it could not be read, or was not asked for.
    """

    at_s: float
    own_cpu_s: float
    client_cpu_s: float
    client_waited_s: float = 0.0
    devices: Mapping[str, BlockTimes] = field(default_factory=dict)
    osds: Mapping[str, Mapping[str, int | Timed]] = field(default_factory=dict)
    volumes: Mapping[str, Mapping[str, Served]] = field(default_factory=dict)
    disks: Mapping[str, DiskTimes] = field(default_factory=dict)
    network: Mapping[str, Traffic] = field(default_factory=dict)
    osd_round_trips_ms: Mapping[str, float] = field(default_factory=dict)
    cpu: CpuTimes | None = None
    iowait_ticks: int = 0
    memory: Memory | None = None


@dataclass(frozen=True)
class StatusReading:
    """Status variables of a server, and the time (s) that files of a kind took, at a Unix time."""

    at_s: float
    variables: Mapping[str, float]
    file_wait_s: Mapping[str, float] = field(default_factory=dict)


def parse_probe_line(line: str) -> ProbeReading | None:
    """A line of `probe.py`; None when it is none, such as one that was cut off."""
    try:
        content = json.loads(line)
        ticks_per_s = float(content["ticks_per_s"])
        speeds = content.get("link_speeds", {})
        return ProbeReading(
            at_s=float(content["at_s"]),
            own_cpu_s=float(content["own_cpu_s"]),
            client_cpu_s=float(content["client_ticks"]) / ticks_per_s,
            client_waited_s=float(content.get("client_waited_ns", 0)) / 1e9,
            devices={
                name: times
                for name, text in content["devices"].items()
                if (times := parse_block_times(text)) is not None
            },
            osds={name: _parse_osd(counters) for name, counters in content["osds"].items()},
            volumes={name: _parse_served(kinds) for name, kinds in content["volumes"].items()},
            disks={
                name: DiskTimes(float(disk["busy_ms"]), float(disk["late_ms"]))
                for name, disk in content.get("disks", {}).items()
            },
            network=parse_network(content["network"], speeds),
            osd_round_trips_ms={
                address: float(took_ms)
                for address, took_ms in content.get("osd_round_trips_ms", {}).items()
            },
            cpu=parse_cpu_times(content.get("stat", "")),
            iowait_ticks=_parse_iowait(content.get("stat", "")),
            memory=parse_memory(content.get("memory", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None


def parse_block_times(text: str) -> BlockTimes | None:
    """A device's `stat` (Linux, Documentation/block/stat.rst); None: it is none."""
    fields = text.split()
    if len(fields) < 11 or not all(one.isdigit() for one in fields):
        return None
    numbers = [int(one) for one in fields]
    has_flushes = len(numbers) >= 17
    return BlockTimes(
        reads=numbers[0],
        read_bytes=numbers[2] * SECTOR_BYTES,
        writes=numbers[4],
        written_bytes=numbers[6] * SECTOR_BYTES,
        waited_ms=numbers[3] + numbers[7],
        busy_ms=numbers[9],
        flushes=numbers[15] if has_flushes else 0,
        flush_ms=numbers[16] if has_flushes else 0,
    )


def parse_network(text: str, speeds_mbit: Mapping[str, int]) -> dict[str, Traffic]:
    """The links in /proc/net/dev but the loopback, with the speeds of those that are real."""
    found = {}
    for line in text.splitlines():
        name, colon, rest = line.partition(":")
        words = rest.split()
        if not colon or len(words) < 9 or name.strip() == "lo":
            continue
        speed = speeds_mbit.get(name.strip())
        found[name.strip()] = Traffic(
            int(words[0]), int(words[8]), None if speed is None else speed * 1e6 / 8
        )
    return found


def parse_status_rows(rows: list[list[str]]) -> list[StatusReading]:
    """The answers to `status_statements`, in order; an unfinished one at the end is left out.

    Each begins with a row `at` and ends with a row `end`.
    """
    readings: list[StatusReading] = []
    at_s: float | None = None
    variables: dict[str, float] = {}
    waits: dict[str, float] = {}
    for row in rows:
        if len(row) < 2:
            continue
        name, value = row[0], row[1]
        number = _number(value)
        if name == "at":
            at_s, variables, waits = number, {}, {}
        elif name == "end" and at_s is not None:
            readings.append(StatusReading(at_s, variables, waits))
            at_s = None
        elif number is not None and name.startswith("wait/"):
            waits[name] = number / 1e12  # picoseconds
        elif number is not None:
            variables[name.lower()] = number
    return readings


# Of SHOW GLOBAL STATUS; names that one flavour does not have are left out by the server.
STATUS_VARIABLES = (
    "Threads_running",
    "Innodb_row_lock_waits",
    "Innodb_row_lock_time",
    "Innodb_log_waits",
    "Innodb_os_log_fsyncs",
    "Innodb_os_log_written",
    "Innodb_buffer_pool_reads",
    "Innodb_buffer_pool_wait_free",
    "Innodb_buffer_pool_pages_dirty",
    "Innodb_pages_written",
)
LOG_FILES = "wait/io/file/innodb/innodb_log_file"
BINLOG_FILES = "wait/io/file/sql/binlog"


_FILE_WAITS = (
    "select event_name, sum_timer_wait from "
    "performance_schema.events_waits_summary_global_by_event_name where event_name in "
    "('wait/io/file/innodb/innodb_log_file', 'wait/io/file/sql/binlog');\n"
)


def status_statements(times: int, interval_s: float) -> str:
    """SQL that reads the status so many times, with sleeps between: one client for a trial."""
    names = ", ".join(f"'{name}'" for name in STATUS_VARIABLES)
    one = (
        "select 'at', unix_timestamp(now(6));\n"
        f"show global status where variable_name in ({names});\n"
        f"{_FILE_WAITS}"
        "select 'end', 0;\n"
    )
    return f"do sleep({interval_s:g});\n".join([one] * times)


def _parse_osd(counters: Mapping[str, Any]) -> dict[str, int | Timed]:
    found: dict[str, int | Timed] = {}
    for name, value in counters.items():
        if isinstance(value, Mapping):
            found[name] = Timed(int(value["avgcount"]), float(value["sum"]))
        else:
            found[name] = int(value)
    return found


def _parse_served(kinds: Mapping[str, Any]) -> dict[str, Served]:
    return {
        name: Served(int(kind["in_flight"]), int(kind["count"]), float(kind["sum_us"]))
        for name, kind in kinds.items()
    }


def _parse_iowait(stat: str) -> int:
    words = stat.split("\n", 1)[0].split()
    return int(words[5]) if len(words) > 5 and words[0] == "cpu" else 0


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
