"""The monitor of a run: one thread that reads every counter once a second.

A reading costs a few small files a host. Samples go straight to the archive, so memory stays
bounded however long the run is. A subject that cannot be read is a warning, never a failure.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from grampus.bench.counters import (
    BlockCounters,
    CpuTimes,
    Memory,
    Reading,
    add_counters,
    decide_samples,
    parse_block_stat,
    parse_cpu_times,
    parse_memory,
)
from grampus.bench.measured_ports import IoDevice
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError
from grampus.hosts.port import Fleet, Host, Usage
from grampus.state.runs import append_lines

INTERVAL_S = 1.0
# Long enough for a reading under way; a host that hangs must not keep the run from ending.
STOP_TIMEOUT_S = 10.0
# Reasons for gaps that are kept apart; further ones add nothing a reader could use.
MAX_REASONS = 10
_STAT_FILE = PurePosixPath("/proc/stat")
_MEMORY_FILE = PurePosixPath("/proc/meminfo")


class Sampler:
    """Appends samples of all daemons, volumes and the machine to `file`.

    `machine` is the host whose CPU and memory stand for the machine: that of the database.
    """

    def __init__(
        self,
        fleet: Fleet,
        devices: Sequence[IoDevice],
        *,
        machine: str,
        file: Path,
        clock: Clock,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._fleet = fleet
        self._devices = devices
        self._machine = machine
        self._file = file
        self._clock = clock
        self._interval_s = interval_s
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._last: Reading | None = None
        self._failures: dict[str, int] = {}

    def start(self) -> None:
        """Begin sampling in the background."""
        self._thread = threading.Thread(target=self._run, name="bench-sampler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End sampling; no sample is written afterwards unless a host hangs."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=STOP_TIMEOUT_S)
            self._thread = None

    def warnings(self) -> tuple[str, ...]:
        """A sentence for each kind of thing that could not be read, with how often."""
        return tuple(
            f"Resource use is incomplete: {reason} ({times} time{'s' if times > 1 else ''})."
            for reason, times in self._failures.items()
        )

    def sample_once(self) -> None:
        """Read all counters once and append the rates since the reading before."""
        reading = self._observe()
        if self._last is not None:
            try:
                append_lines(self._file, decide_samples(self._last, reading))
            except OSError as error:
                self._note_failure(f"the samples cannot be written ({error.strerror})")
        self._last = reading

    def _run(self) -> None:
        due_s = self._clock.monotonic_s()
        while not self._stopping.is_set():
            self.sample_once()
            # A slow reading skips seconds instead of hurrying after them.
            now_s = self._clock.monotonic_s()
            due_s = max(due_s + self._interval_s, now_s)
            self._stopping.wait(due_s - now_s)

    def _observe(self) -> Reading:
        at_s, monotonic_s = self._clock.now().timestamp(), self._clock.monotonic_s()
        hosts = self._observe_hosts()
        usages: dict[str, Usage] = {}
        for host in hosts.values():
            try:
                found = host.observe_usage()
            except (GrampusError, OSError) as error:
                self._note_failure(f"the daemons of {host.name} cannot be read ({error})")
                continue
            usages.update({f"{name}@{host.name}": usage for name, usage in found.items()})
        cpu, memory = self._observe_machine(hosts.get(self._machine))
        return Reading(
            at_s=at_s,
            monotonic_s=monotonic_s,
            usages=usages,
            devices=self._observe_devices(hosts, "daemon"),
            volumes=self._observe_devices(hosts, "volume"),
            cpu=cpu,
            memory=memory,
        )

    def _observe_hosts(self) -> dict[str, Host]:
        try:
            return {
                host.name: host
                for host in self._fleet.hosts()
                if self._fleet.is_reachable(host.name)
            }
        except GrampusError as error:
            self._note_failure(f"the hosts cannot be listed ({error.problem})")
            return {}

    def _observe_machine(self, host: Host | None) -> tuple[CpuTimes | None, Memory | None]:
        if host is None:
            self._note_failure(f"the host {self._machine} cannot be reached")
            return None, None
        stat, memory = self._read(host, _STAT_FILE), self._read(host, _MEMORY_FILE)
        return parse_cpu_times(stat or ""), parse_memory(memory or "")

    def _observe_devices(self, hosts: dict[str, Host], kind: str) -> dict[str, BlockCounters]:
        found: dict[str, BlockCounters] = {}
        for device in self._devices:
            host = hosts.get(device.host)
            if device.kind != kind or host is None:
                continue
            counters = [self._observe_device(host, device.name, path) for path in device.devices]
            read = [one for one in counters if one is not None]
            if len(read) == len(counters):
                key = f"{device.name}@{device.host}" if kind == "daemon" else device.name
                found[key] = add_counters(read)
        return found

    def _observe_device(self, host: Host, owner: str, path: str) -> BlockCounters | None:
        # /sys/class/block also has partitions, which /sys/block does not.
        stat = PurePosixPath("/sys/class/block", PurePosixPath(path).name, "stat")
        counters = parse_block_stat(self._read(host, stat) or "")
        if counters is None:
            self._note_failure(f"the device {path} of {owner} cannot be read")
        return counters

    def _read(self, host: Host, path: PurePosixPath) -> str | None:
        try:
            return host.read_file(path)
        except (GrampusError, OSError) as error:
            self._note_failure(f"{path} of {host.name} cannot be read ({error})")
            return None

    def _note_failure(self, reason: str) -> None:
        if reason in self._failures or len(self._failures) < MAX_REASONS:
            self._failures[reason] = self._failures.get(reason, 0) + 1
