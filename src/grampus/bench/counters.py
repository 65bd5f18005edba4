"""Counters of daemons, devices and the machine, and the rates between two readings of them.

All functions are pure. A counter that went back (its daemon or device is a new one) and a
subject that is in only one of the two readings give no sample: neither a zero nor a jump.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from grampus.hosts.port import Usage
from grampus.state.runs import ResourceSample

# Linux counts sectors of 512 bytes here, whatever the device's own sector size
# (Documentation/block/stat.rst).
SECTOR_BYTES = 512
MACHINE = "machine"
# An instance is calm below both: an idle mysqld uses about 0.01 cores and writes nothing.
CALM_CPU_CORES = 0.05
CALM_WRITE_IOPS = 10.0


@dataclass(frozen=True)
class BlockCounters:
    """I/O of a block device since it appeared."""

    read_ops: int
    read_bytes: int
    write_ops: int
    write_bytes: int


@dataclass(frozen=True)
class CpuTimes:
    """Clock ticks of all CPUs together since boot. Waiting for I/O is idle, stolen is neither."""

    busy_ticks: int
    total_ticks: int
    cores: int
    stolen_ticks: int = 0  # of the total: other machines of the same hardware had the CPU


@dataclass(frozen=True)
class Memory:
    """The machine's memory. `available` is what could be given out without swapping."""

    total_bytes: int
    available_bytes: int


@dataclass(frozen=True)
class Reading:
    """All counters at one moment. Daemons are keyed by `daemon@host`, volumes by name.

    `devices` are those of daemons that own a whole device (OSDs), by `daemon@host`.
    """

    at_s: float
    monotonic_s: float
    usages: Mapping[str, Usage] = field(default_factory=dict)
    devices: Mapping[str, BlockCounters] = field(default_factory=dict)
    volumes: Mapping[str, BlockCounters] = field(default_factory=dict)
    cpu: CpuTimes | None = None
    memory: Memory | None = None


@dataclass(frozen=True)
class IoRates:
    """I/O per second."""

    read_iops: float
    write_iops: float
    read_bytes_per_s: float
    write_bytes_per_s: float


def parse_block_stat(text: str) -> BlockCounters | None:
    """The counters in a device's `stat` file; None when the text is not one."""
    fields = text.split()
    if len(fields) < 7 or not all(word.isdigit() for word in fields[:7]):
        return None
    return BlockCounters(
        read_ops=int(fields[0]),
        read_bytes=int(fields[2]) * SECTOR_BYTES,
        write_ops=int(fields[4]),
        write_bytes=int(fields[6]) * SECTOR_BYTES,
    )


def add_counters(counters: Sequence[BlockCounters]) -> BlockCounters:
    """Those of several devices together."""
    return BlockCounters(
        read_ops=sum(one.read_ops for one in counters),
        read_bytes=sum(one.read_bytes for one in counters),
        write_ops=sum(one.write_ops for one in counters),
        write_bytes=sum(one.write_bytes for one in counters),
    )


def parse_cpu_times(text: str) -> CpuTimes | None:
    """The machine's ticks in /proc/stat; None when the text is not one (see proc(5))."""
    lines = [line.split() for line in text.splitlines() if line.startswith("cpu")]
    if not lines or lines[0][0] != "cpu" or len(lines[0]) < 8:
        return None
    user, nice, system, idle, iowait, irq, softirq = (int(word) for word in lines[0][1:8])
    steal = int(lines[0][8]) if len(lines[0]) > 8 else 0
    busy = user + nice + system + irq + softirq
    return CpuTimes(
        busy_ticks=busy,
        total_ticks=busy + idle + iowait + steal,
        stolen_ticks=steal,
        cores=max(1, len(lines) - 1),
    )


def parse_memory(text: str) -> Memory | None:
    """The figures in /proc/meminfo; None when they are not there."""
    kib: dict[str, int] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            kib[name] = int(words[0])
    if "MemTotal" not in kib or "MemAvailable" not in kib:
        return None
    return Memory(kib["MemTotal"] * 1024, kib["MemAvailable"] * 1024)


def busy_cores(before: CpuTimes, after: CpuTimes) -> float | None:
    """Cores' worth of work between two readings: share of busy ticks times cores."""
    total = after.total_ticks - before.total_ticks
    busy = after.busy_ticks - before.busy_ticks
    if total <= 0 or busy < 0:
        return None
    return busy / total * after.cores


def block_rates(
    before: BlockCounters | Usage, after: BlockCounters | Usage, elapsed_s: float
) -> IoRates | None:
    """I/O per second between two readings; None when a counter went back."""
    deltas = (
        after.read_ops - before.read_ops,
        after.write_ops - before.write_ops,
        after.read_bytes - before.read_bytes,
        after.write_bytes - before.write_bytes,
    )
    if elapsed_s <= 0 or min(deltas) < 0:
        return None
    reads, writes, read_bytes, write_bytes = (delta / elapsed_s for delta in deltas)
    return IoRates(reads, writes, read_bytes, write_bytes)


def cpu_cores(before: Usage, after: Usage, elapsed_s: float) -> float | None:
    """Cores used by a daemon between two readings; None when its counter went back."""
    delta_us = after.cpu_us - before.cpu_us
    if elapsed_s <= 0 or delta_us < 0:
        return None
    return delta_us / 1e6 / elapsed_s


def decide_samples(before: Reading, after: Reading) -> list[ResourceSample]:
    """One sample for each subject that both readings have.

    A daemon's I/O is that of its own device if it has one, else that of its control group.
    """
    elapsed_s = after.monotonic_s - before.monotonic_s
    samples: list[ResourceSample] = []
    for name, usage in sorted(after.usages.items()):
        earlier = before.usages.get(name)
        cores = None if earlier is None else cpu_cores(earlier, usage, elapsed_s)
        if earlier is None or cores is None:
            continue
        if name in after.devices:
            rates = _rates_of(before.devices, after.devices, name, elapsed_s)
        else:
            rates = block_rates(earlier, usage, elapsed_s)
        samples.append(
            _sample(after.at_s, "daemon", name, rates, cores=cores, memory=usage.memory_bytes)
        )
    for name in sorted(after.volumes):
        rates = _rates_of(before.volumes, after.volumes, name, elapsed_s)
        if rates is not None:
            samples.append(_sample(after.at_s, "volume", name, rates))
    machine_cores = (
        None if before.cpu is None or after.cpu is None else busy_cores(before.cpu, after.cpu)
    )
    if machine_cores is not None:
        used = None
        if after.memory is not None:
            used = after.memory.total_bytes - after.memory.available_bytes
        samples.append(
            _sample(after.at_s, "machine", MACHINE, None, cores=machine_cores, memory=used)
        )
    return samples


def classify_calm(
    before: Usage, after: Usage, elapsed_s: float, *, idle_cores: float = CALM_CPU_CORES
) -> bool:
    """Whether an instance did next to nothing between two readings: it is not flushing.

    `idle_cores` is what doing nothing takes at most.
    """
    cores = cpu_cores(before, after, elapsed_s)
    rates = block_rates(before, after, elapsed_s)
    if cores is None or rates is None:
        return False
    return cores < idle_cores and rates.write_iops < CALM_WRITE_IOPS


def _rates_of(
    before: Mapping[str, BlockCounters],
    after: Mapping[str, BlockCounters],
    name: str,
    elapsed_s: float,
) -> IoRates | None:
    if name not in before or name not in after:
        return None
    return block_rates(before[name], after[name], elapsed_s)


def _sample(
    at_s: float,
    kind: str,
    name: str,
    rates: IoRates | None,
    *,
    cores: float | None = None,
    memory: int | None = None,
) -> ResourceSample:
    return ResourceSample.model_validate(
        {
            "at_s": at_s,
            "kind": kind,
            "name": name,
            "cpu_cores": cores,
            "memory_bytes": memory,
            "read_iops": rates.read_iops if rates else None,
            "write_iops": rates.write_iops if rates else None,
            "read_bytes_per_s": rates.read_bytes_per_s if rates else None,
            "write_bytes_per_s": rates.write_bytes_per_s if rates else None,
        }
    )
