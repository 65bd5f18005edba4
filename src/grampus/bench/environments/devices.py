"""What block devices did between two readings of their kernel counters. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceTimes:
    """A block device's I/Os and times in ms since it appeared."""

    operations: int
    waited_ms: int  # the sum over its reads and writes
    busy_ms: int  # while it had any under way


@dataclass(frozen=True)
class DeviceLoad:
    """Of the OSDs' devices: the busiest one's share (0 to 1), and the mean latency of all."""

    busy_share: float
    latency_ms: float | None  # None without any I/O


def parse_device_times(text: str) -> DeviceTimes | None:
    """The counters in a device's `stat` (Linux, Documentation/block/stat.rst); None: it is none."""
    fields = text.split()
    if len(fields) < 11 or not all(field.isdigit() for field in fields[:11]):
        return None
    reads, read_ms, writes, write_ms, busy_ms = (int(fields[at]) for at in (0, 3, 4, 7, 9))
    return DeviceTimes(reads + writes, read_ms + write_ms, busy_ms)


def decide_device_load(
    before: Mapping[str, DeviceTimes], after: Mapping[str, DeviceTimes], elapsed_s: float
) -> DeviceLoad | None:
    """None when a device is in one reading only, a counter went back, or there is no device."""
    if elapsed_s <= 0 or not before or set(before) != set(after):
        return None
    operations = waited_ms = 0
    shares = []
    for name, first in before.items():
        last = after[name]
        done = last.operations - first.operations
        waited = last.waited_ms - first.waited_ms
        busy = last.busy_ms - first.busy_ms
        if min(done, waited, busy) < 0:
            return None
        operations += done
        waited_ms += waited
        shares.append(min(busy / 1000 / elapsed_s, 1.0))
    return DeviceLoad(max(shares), waited_ms / operations if operations else None)


def decide_operations(
    before: Mapping[str, DeviceTimes], after: Mapping[str, DeviceTimes]
) -> int | None:
    """Reads and writes of all devices; None as `decide_device_load`."""
    if not before or set(before) != set(after):
        return None
    done = [after[name].operations - first.operations for name, first in before.items()]
    return None if min(done) < 0 else sum(done)
