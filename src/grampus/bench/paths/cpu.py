"""CPU time of daemons over spans that are known only afterwards: read often, then interpolated."""

from __future__ import annotations

import re
import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from grampus.core.clock import Clock
from grampus.core.errors import GrampusError
from grampus.hosts.port import Host

# A reading costs about a millisecond of one core.
INTERVAL_S = 0.1
STOP_TIMEOUT_S = 10.0
# A reading can fail, or miss a daemon, while others on the host come and go.
LAST_READINGS = 3
# In a lab of this program the daemons of OSDs bear their number in the cluster, as cephadm's do.
_OSD = re.compile(r"^osd[-.]\d+$")


@dataclass(frozen=True)
class CpuReading:
    """CPU time of each daemon since it began, at a Unix time."""

    at_s: float
    cpu_us: Mapping[str, int]


def cpu_used_us(
    readings: Sequence[CpuReading], daemons: Iterable[str], start_s: float, end_s: float
) -> float | None:
    """CPU time that `daemons` used together from `start_s` to `end_s`.

    Between readings the counters are taken to rise evenly. None when the readings do not span the
    time, or a daemon is missing in one of them.
    """
    total_us = 0.0
    for daemon in daemons:
        counts = [
            (reading.at_s, reading.cpu_us[daemon])
            for reading in readings
            if daemon in reading.cpu_us
        ]
        before, after = _at(counts, start_s), _at(counts, end_s)
        if before is None or after is None or after < before:
            return None
        total_us += after - before
    return total_us


def osd_cpu_used_us(readings: Sequence[CpuReading], start_s: float, end_s: float) -> float | None:
    """CPU time of all OSDs together; None as in `cpu_used_us`, or where no OSD was ever seen."""
    osds = {name for reading in readings for name in reading.cpu_us if _OSD.match(name)}
    return cpu_used_us(readings, sorted(osds), start_s, end_s) if osds else None


def _at(counts: Sequence[tuple[float, int]], at_s: float) -> float | None:
    if not counts or not counts[0][0] <= at_s <= counts[-1][0]:
        return None
    index = bisect_left(counts, at_s, key=lambda count: count[0])
    later_s, later = counts[index]
    if later_s == at_s:
        return float(later)
    earlier_s, earlier = counts[index - 1]
    return earlier + (later - earlier) * (at_s - earlier_s) / (later_s - earlier_s)


class CpuWatch:
    """Reads the counters of a host's daemons in the background, for the length of a block.

    Those of the OSDs on `osd_hosts` are read too. What cannot be read leaves a gap, never an
    error: the figures beside it are still good.
    """

    def __init__(
        self,
        host: Host,
        clock: Clock,
        *,
        osd_hosts: Sequence[Host] = (),
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._host = host
        self._osd_hosts = [other for other in osd_hosts if other.name != host.name]
        self._clock = clock
        self._interval_s = interval_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bench-cpu", daemon=True)
        self.readings: list[CpuReading] = []

    def __enter__(self) -> CpuWatch:
        self._read()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join(timeout=STOP_TIMEOUT_S)
        if kind is None:
            # The last one decides whether the end of the last job is spanned.
            for _ in range(LAST_READINGS):
                self._read()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            self._read()

    def _read(self) -> None:
        own = _observe_cpu_us(self._host)
        if own is None:
            return
        counts: dict[str, int] = {}
        for other in self._osd_hosts:
            theirs = _observe_cpu_us(other) or {}
            counts |= {name: cpu_us for name, cpu_us in theirs.items() if _OSD.match(name)}
        self.readings.append(CpuReading(self._clock.now().timestamp(), counts | own))


def _observe_cpu_us(host: Host) -> dict[str, int] | None:
    try:
        return {name: usage.cpu_us for name, usage in host.observe_usage().items()}
    except (GrampusError, OSError):
        return None
