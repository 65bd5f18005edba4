"""From counters that were read one after the other to points of series. All pure.

A counter that went back (its daemon or device is a new one), and what only one of two readings
knows, give no value: neither a zero nor a jump.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from grampus.bench.counters import busy_cores
from grampus.bench.drivers.outcome import Second
from grampus.bench.layers.readings import (
    BINLOG_FILES,
    LOG_FILES,
    BlockTimes,
    DiskTimes,
    ProbeReading,
    Served,
    StatusReading,
    Timed,
    Traffic,
)
from grampus.bench.layers.subjects import LOG, Subjects, UsageReading
from grampus.hosts.port import BlockLimit, CpuWait
from grampus.state.matrix_layers import SeriesKind, SeriesPoint

MACHINE = "machine"
# A link that is as good as idle says nothing, and a host may have dozens of them.
QUIET_LINK_BYTES_PER_S = 1024.0


def decide_probe_points(
    host: str, readings: Sequence[ProbeReading], subjects: Subjects
) -> list[SeriesPoint]:
    """What the probe of `host` saw, in the order of time."""
    points: list[SeriesPoint] = []
    for before, after in pairwise(readings):
        elapsed_s = after.at_s - before.at_s
        if elapsed_s <= 0:
            continue
        made = _Points(after.at_s, points)
        made.add("monitor", host, cpu_cores=_rate(before.own_cpu_s, after.own_cpu_s, elapsed_s))
        made.add(
            "client",
            f"clients@{host}",
            cpu_cores=_rate(before.client_cpu_s, after.client_cpu_s, elapsed_s),
            cpu_waiting=_rate(before.client_waited_s, after.client_waited_s, elapsed_s),
        )
        trips_ms = list(after.osd_round_trips_ms.values())
        made.add("network", f"osds@{host}", osd_round_trip_ms=fmean(trips_ms) if trips_ms else None)
        for name, times in after.devices.items():
            if name.endswith(LOG):
                continue
            block = _block_values(before.devices.get(name), times, elapsed_s)
            if name in subjects.volumes:
                log = f"{name}{LOG}"
                if log in after.devices:
                    held = _block_values(before.devices.get(log), after.devices[log], elapsed_s)
                    block = _with_log(block, held)
                served = _served_values(before.volumes.get(name, {}), after.volumes.get(name, {}))
                made.add("volume", name, **block, **served)
            else:
                share = _limit_share(block, subjects.limits.get(name))
                disk = _disk_values(before.disks.get(name), after.disks.get(name), elapsed_s)
                made.add("device", name, **block, limit_share=share, **disk)
        for number, counters in after.osds.items():
            values = _osd_values(before.osds.get(number, {}), counters, elapsed_s)
            made.add("osd", f"osd.{number}", **values)
        for link, traffic in after.network.items():
            made.add_link(f"{link}@{host}", before.network.get(link), traffic, elapsed_s)
        if host == subjects.machine:
            made.add("machine", MACHINE, **_machine_values(before, after))
    return points


def decide_usage_points(readings: Sequence[UsageReading]) -> list[SeriesPoint]:
    """CPU and memory of every daemon's control group, and what the limits of hosts held back."""
    points: list[SeriesPoint] = []
    for before, after in pairwise(readings):
        elapsed_s = after.at_s - before.at_s
        for name, usage in sorted(after.usages.items()):
            earlier = before.usages.get(name)
            if earlier is None or elapsed_s <= 0:
                continue
            cores = _rate(earlier.cpu_us / 1e6, usage.cpu_us / 1e6, elapsed_s)
            _Points(after.at_s, points).add(
                "daemon",
                name,
                cpu_cores=cores,
                memory_bytes=float(usage.memory_bytes),
                **_wait_values(before.waits.get(name), after.waits.get(name), elapsed_s),
            )
        for name in sorted(set(after.waits) - set(after.usages)):
            throttled = _wait_values(before.waits.get(name), after.waits[name], elapsed_s)
            if elapsed_s > 0:
                share = throttled.get("throttled_share")
                _Points(after.at_s, points).add("daemon", name, throttled_share=share)
    return points


def _wait_values(
    before: CpuWait | None, after: CpuWait | None, elapsed_s: float
) -> dict[str, float | None]:
    if before is None or after is None or elapsed_s <= 0:
        return {}
    throttled = _rate(before.throttled_us / 1e6, after.throttled_us / 1e6, elapsed_s)
    return {
        "cpu_waiting": _rate(before.waited_us / 1e6, after.waited_us / 1e6, elapsed_s),
        # The kernel adds up all CPUs on which the group was held back.
        "throttled_share": None if throttled is None else min(throttled, 1.0),
    }


def decide_status_points(
    database: str, readings: Sequence[StatusReading], *, ahead_s: float = 0.0
) -> list[SeriesPoint]:
    """What a server said of itself; its clock is `ahead_s` of ours."""
    points: list[SeriesPoint] = []
    for before, after in pairwise(readings):
        elapsed_s = after.at_s - before.at_s
        if elapsed_s <= 0:
            continue

        def rate(
            name: str,
            before: StatusReading = before,
            after: StatusReading = after,
            elapsed_s: float = elapsed_s,
        ) -> float | None:
            first, last = before.variables.get(name), after.variables.get(name)
            return None if first is None or last is None else _rate(first, last, elapsed_s)

        waiting_ms = rate("innodb_row_lock_time")
        _Points(after.at_s - ahead_s, points).add(
            "innodb",
            database,
            threads_running=after.variables.get("threads_running"),
            row_lock_waits_per_s=rate("innodb_row_lock_waits"),
            row_lock_waiting=None if waiting_ms is None else waiting_ms / 1000,
            log_waits_per_s=rate("innodb_log_waits"),
            log_fsyncs_per_s=rate("innodb_os_log_fsyncs"),
            log_written_bytes_per_s=rate("innodb_os_log_written"),
            log_busy_share=_wait_share(before, after, LOG_FILES, elapsed_s),
            binlog_busy_share=_wait_share(before, after, BINLOG_FILES, elapsed_s),
            buffer_reads_per_s=rate("innodb_buffer_pool_reads"),
            buffer_wait_free_per_s=rate("innodb_buffer_pool_wait_free"),
            dirty_pages=after.variables.get("innodb_buffer_pool_pages_dirty"),
            pages_written_per_s=rate("innodb_pages_written"),
        )
    return points


def decide_client_points(
    client: str, began_at_s: float, seconds: Sequence[Second]
) -> list[SeriesPoint]:
    """What a driver told of itself, second by second."""
    points: list[SeriesPoint] = []
    for second in seconds:
        if second.duration_s > 0:
            _Points(began_at_s + second.ended_s, points).add(
                "client",
                client,
                operations_per_s=second.operations / second.duration_s,
                errors_per_s=second.errors / second.duration_s,
            )
    return points


class _Points:
    """Adds points of one moment to a list, each without the values that are not known."""

    def __init__(self, at_s: float, points: list[SeriesPoint]) -> None:
        self._at_s = at_s
        self._points = points

    def add(self, kind: SeriesKind, name: str, **values: float | None) -> None:
        known = {key: float(f"{one:.6g}") for key, one in values.items() if one is not None}
        if known:
            point = SeriesPoint(at_s=round(self._at_s, 3), kind=kind, name=name, values=known)
            self._points.append(point)

    def add_link(self, name: str, before: Traffic | None, after: Traffic, elapsed_s: float) -> None:
        if before is None:
            return
        received = _rate(before.received_bytes, after.received_bytes, elapsed_s)
        sent = _rate(before.sent_bytes, after.sent_bytes, elapsed_s)
        if received is None or sent is None or max(received, sent) < QUIET_LINK_BYTES_PER_S:
            return
        speed = after.speed_bytes_per_s
        share = None if speed is None else max(received, sent) / speed
        self.add(
            "network",
            name,
            received_bytes_per_s=received,
            sent_bytes_per_s=sent,
            limit_share=share,
        )


def _rate(before: float, after: float, elapsed_s: float) -> float | None:
    return None if after < before else (after - before) / elapsed_s


def _block_values(
    before: BlockTimes | None, after: BlockTimes, elapsed_s: float
) -> dict[str, float | None]:
    if before is None:
        return {}
    reads, writes = after.reads - before.reads, after.writes - before.writes
    read_bytes = after.read_bytes - before.read_bytes
    written_bytes = after.written_bytes - before.written_bytes
    waited_ms, busy_ms = after.waited_ms - before.waited_ms, after.busy_ms - before.busy_ms
    flushes, flush_ms = after.flushes - before.flushes, after.flush_ms - before.flush_ms
    if min(reads, writes, read_bytes, written_bytes, waited_ms, busy_ms, flushes, flush_ms) < 0:
        return {}
    operations = reads + writes
    return {
        "read_iops": reads / elapsed_s,
        "write_iops": writes / elapsed_s,
        "read_bytes_per_s": read_bytes / elapsed_s,
        "write_bytes_per_s": written_bytes / elapsed_s,
        "busy_share": min(busy_ms / 1000 / elapsed_s, 1.0),
        "in_flight": waited_ms / 1000 / elapsed_s,
        "latency_ms": waited_ms / operations if operations else None,
        "flushes_per_s": flushes / elapsed_s,
        "flush_busy_share": min(flush_ms / 1000 / elapsed_s, 1.0),
        "flush_ms": flush_ms / flushes if flushes else None,
    }


def _with_log(
    data: Mapping[str, float | None], log: Mapping[str, float | None]
) -> dict[str, float | None]:
    """What a volume does whose file system has its log on a device of its own.

    A write to the log does what a flush does elsewhere: its sender waits until it is durable.
    """
    added = ("read_iops", "write_iops", "read_bytes_per_s", "write_bytes_per_s", "in_flight")
    values: dict[str, float | None] = {}
    for name in added:
        of_data, of_log = data.get(name), log.get(name)
        if of_data is None or of_log is None:
            return {}
        values[name] = of_data + of_log
    operations = (values["read_iops"] or 0.0) + (values["write_iops"] or 0.0)
    in_flight = values["in_flight"] or 0.0
    return values | {
        "busy_share": max(data.get("busy_share") or 0.0, log.get("busy_share") or 0.0),
        "latency_ms": in_flight * 1000 / operations if operations else None,
        "flushes_per_s": log.get("write_iops"),
        "flush_busy_share": log.get("busy_share"),
        "flush_ms": log.get("latency_ms"),
    }


def _limit_share(block: Mapping[str, float | None], limit: BlockLimit | None) -> float | None:
    """Of the limit that is nearest; None without any.

    Linux counts a flush that has no data as a write too, in a device's statistics: 100 writes a
    second and as many flushes are 200 writes there (6.18, 2026-11-26). They are no writes.
    """
    if limit is None:
        return None
    writes, flushes = block.get("write_iops"), block.get("flushes_per_s")
    if writes is not None and flushes is not None:
        writes = max(0.0, writes - flushes)
    used = (
        (block.get("read_iops"), limit.read_iops),
        (writes, limit.write_iops),
        (block.get("read_bytes_per_s"), limit.read_bytes_per_s),
        (block.get("write_bytes_per_s"), limit.write_bytes_per_s),
    )
    shares = [value / most for value, most in used if value is not None and most]
    return max(shares, default=None)


def _disk_values(
    before: DiskTimes | None, after: DiskTimes | None, elapsed_s: float
) -> dict[str, float | None]:
    """Of an emulated disk; nothing of one that was started anew in between."""
    if before is None or after is None or after.busy_ms < before.busy_ms:
        return {}
    return {
        "model_busy_share": (after.busy_ms - before.busy_ms) / 1000 / elapsed_s,
        "late_share": (after.late_ms - before.late_ms) / 1000 / elapsed_s,
    }


def _served_values(
    before: Mapping[str, Served], after: Mapping[str, Served]
) -> dict[str, float | None]:
    values: dict[str, float | None] = {}
    if after:
        values["served_in_flight"] = float(sum(kind.in_flight for kind in after.values()))
    for name in ("read", "write", "flush"):
        if name in before and name in after:
            count = after[name].count - before[name].count
            sum_us = after[name].sum_us - before[name].sum_us
            values[f"served_{name}_ms"] = sum_us / count / 1000 if count > 0 <= sum_us else None
    return values


def _osd_values(
    before: Mapping[str, int | Timed], after: Mapping[str, int | Timed], elapsed_s: float
) -> dict[str, float | None]:
    def changed(names: Sequence[str]) -> tuple[int, float] | None:
        """How many events of these kinds ended, and the seconds that they took together."""
        pairs = [(before.get(name), after.get(name)) for name in names]
        known = [
            (last.count - first.count, last.sum_s - first.sum_s)
            for first, last in pairs
            if isinstance(first, Timed) and isinstance(last, Timed)
        ]
        if not known or min(map(min, known)) < 0:
            return None
        return sum(count for count, _ in known), math.fsum(sum_s for _, sum_s in known)

    def rate(names: Sequence[str]) -> float | None:
        pairs = [(before.get(name), after.get(name)) for name in names]
        rates = [
            _rate(first, last, elapsed_s)
            for first, last in pairs
            if isinstance(first, int) and isinstance(last, int)
        ]
        known = [one for one in rates if one is not None]
        return math.fsum(known) if known and len(known) == len(rates) else None

    def mean_ms(*names: str) -> float | None:
        found = changed(names)
        return 1000 * found[1] / found[0] if found is not None and found[0] > 0 else None

    def under_way(*names: str) -> float | None:
        found = changed(names)
        return None if found is None else found[1] / elapsed_s

    return {
        "writes_per_s": rate(("op_w", "op_rw")),
        "reads_per_s": rate(("op_r",)),
        "copy_writes_per_s": rate(("subop_w",)),
        "write_ms": mean_ms("op_w_latency", "op_rw_latency"),
        "read_ms": mean_ms("op_r_latency"),
        "copy_write_ms": mean_ms("subop_w_latency"),
        "in_flight": under_way("op_w_latency", "op_rw_latency", "op_r_latency"),
        "copies_in_flight": under_way("subop_w_latency"),
        "device_waiting": under_way("state_aio_wait_lat", "kv_sync_lat", "read_wait_aio_lat"),
        "commit_ms": mean_ms("txc_commit_lat"),
    }


def _machine_values(before: ProbeReading, after: ProbeReading) -> dict[str, float | None]:
    if before.cpu is None or after.cpu is None:
        return {}
    cores = busy_cores(before.cpu, after.cpu)
    total = after.cpu.total_ticks - before.cpu.total_ticks
    waited = after.iowait_ticks - before.iowait_ticks
    stolen = after.cpu.stolen_ticks - before.cpu.stolen_ticks
    # What was stolen could not be used: two cores of which a half is stolen are full at one and a
    # half.
    had = total - max(stolen, 0)
    busy = after.cpu.busy_ticks - before.cpu.busy_ticks
    memory = after.memory
    return {
        "cores": float(after.cpu.cores),
        "cpu_cores": cores,
        "cpu_share": None if cores is None or had <= 0 else busy / had,
        "steal_share": max(stolen, 0) / total if total > 0 else None,
        # The kernel counts it roughly, and it may go back a little.
        "iowait_share": max(waited, 0) / total if total > 0 else None,
        "memory_bytes": None
        if memory is None
        else float(memory.total_bytes - memory.available_bytes),
    }


def _wait_share(
    before: StatusReading, after: StatusReading, name: str, elapsed_s: float
) -> float | None:
    first, last = before.file_wait_s.get(name), after.file_wait_s.get(name)
    return None if first is None or last is None else _rate(first, last, elapsed_s)
