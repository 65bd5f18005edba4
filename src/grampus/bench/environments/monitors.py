"""The monitors of a trial: a probe on each host, the servers' status, the daemons' CPU.

A probe is one process a host that prints a line a second, the status of a server one client for the
whole trial, and the daemons' control groups are read by one thread here. What they take of the
throughput is measured by `suites/checks/harness-cost.yaml`. What cannot be read is a gap that is
told, never a failure.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib import resources
from pathlib import PurePosixPath
from typing import Protocol

from grampus.bench.client import ArmClient
from grampus.bench.environments.clients import mark_of
from grampus.bench.layers.points import (
    decide_probe_points,
    decide_status_points,
    decide_usage_points,
)
from grampus.bench.layers.readings import (
    parse_probe_line,
    parse_status_rows,
    status_statements,
)
from grampus.bench.layers.subjects import LOG, Subjects, UsageReading
from grampus.bench.measured_ports import IoDevice
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError
from grampus.hosts.port import CpuWait, Fleet, Host, RunningCommand, Usage
from grampus.state.matrix_layers import SeriesPoint

INTERVAL_S = 1.0
# The longest a trial lasts beside its load: a monitor that nobody ends has ended by then.
SPARE_S = 30.0
STOP_TIMEOUT_S = 5.0
OSD_SOCKETS = "/run/ceph"
# Between two sleeps it is not found.
END_TRIES = 5
_FIND_SLEEPER = (
    "select id from information_schema.processlist where info like 'do sleep(%' "
    "and user = substring_index(user(), '@', 1);\n"
)
_PROGRAM = resources.files("grampus.bench.layers").joinpath("probe.py")


@dataclass(frozen=True)
class Watch:
    """What the monitors of one trial look at.

    `databases` are clients of the servers under load, by the database's name. The load lasts at
    most about `lasts_s`.
    """

    subjects: Subjects
    devices: Sequence[IoDevice]
    databases: Mapping[str, ArmClient]
    lasts_s: float


@dataclass
class Seen:
    """What the monitors saw; complete once they have ended. `gaps` are sentences."""

    points: list[SeriesPoint] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)


class Monitors(Protocol):
    """What watches a trial."""

    def watching(self, watch: Watch) -> AbstractContextManager[Seen]:
        """A context: its value is filled when the block ends. Raises nothing of its own."""
        ...


class HostMonitors:
    """`Monitors` on the hosts of a fleet.

    `unseen` says of a fleet without the cluster's hosts that these cannot be watched, as a
    sentence; None: the daemons of the cluster are on its hosts.
    """

    def __init__(self, fleet: Fleet, clock: Clock, *, unseen: str | None = None) -> None:
        self._fleet = fleet
        self._clock = clock
        self._unseen = unseen

    @contextmanager
    def watching(self, watch: Watch) -> Iterator[Seen]:
        """See `Monitors`."""
        seen = Seen(gaps=[] if self._unseen is None else [self._unseen])
        parts: list[_Part] = []
        with ExitStack() as stack:
            stack.callback(_finish_all, parts, seen)
            hosts = [host for host in self._fleet.hosts() if self._fleet.is_reachable(host.name)]
            if self._unseen is None:
                parts.append(_Daemons(hosts, self._clock, watch.subjects))
            # OSDs of another cluster may be on this machine, and some of this one's say too little.
            sockets = OSD_SOCKETS if self._unseen is None else None
            parts += [_Probe(host, watch, sockets) for host in hosts]
            parts += [_Status(name, one, watch) for name, one in watch.databases.items()]
            for part in parts:
                _start(part, seen)
            yield seen
        seen.points.sort(key=lambda point: point.at_s)


class _Part(Protocol):
    what: str

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def points(self) -> list[SeriesPoint]: ...


def _start(part: _Part, seen: Seen) -> None:
    try:
        part.start()
    except (GrampusError, OSError) as error:
        seen.gaps.append(f"{part.what} could not be watched: {error}")


def _finish_all(parts: Sequence[_Part], seen: Seen) -> None:
    """All at once: some take a moment to end."""
    with ThreadPoolExecutor(max_workers=max(len(parts), 1)) as pool:
        for done in [pool.submit(_finish, part, seen) for part in parts]:
            done.result()


def _finish(part: _Part, seen: Seen) -> None:
    try:
        part.stop()
        points = part.points()
    except (GrampusError, OSError) as error:
        seen.gaps.append(f"{part.what} could not be read: {error}")
        return
    if not points:
        seen.gaps.append(f"{part.what} said nothing of itself.")
    seen.points.extend(points)


class _Probe:
    """The probe of one host."""

    def __init__(self, host: Host, watch: Watch, osd_sockets: str | None) -> None:
        self.what = f"The host {host.name}"
        self._host = host
        self._watch = watch
        self._osd_sockets = osd_sockets
        self._running: RunningCommand | None = None
        self._lines: list[str] = []
        self._reader: threading.Thread | None = None

    def start(self) -> None:
        argv = probe_argv(self._host, self._watch, self._osd_sockets)
        self._running = self._host.spawn(argv)
        self._reader = _in_background("bench-probe", self._read, self._running)

    def stop(self) -> None:
        if self._running is not None:
            self._running.terminate()
        if self._reader is not None:
            self._reader.join(timeout=STOP_TIMEOUT_S)

    def points(self) -> list[SeriesPoint]:
        parsed = [parse_probe_line(line) for line in list(self._lines)]
        readings = [reading for reading in parsed if reading is not None]
        return decide_probe_points(self._host.name, readings, self._watch.subjects)

    def _read(self, running: RunningCommand) -> None:
        # Whoever ends it may close what is being read.
        with suppress(GrampusError, OSError, ValueError):
            self._lines.extend(running.lines())


def probe_argv(host: Host, watch: Watch, osd_sockets: str | None = OSD_SOCKETS) -> list[str]:
    """The command of the probe on `host`; it bears the mark of the clients, to be ended with them
    by whoever comes after a killed run. `osd_sockets` is None where it shall ask no OSD."""
    devices = {
        (device.name if device.kind == "volume" else f"{device.name}@{host.name}"): device
        for device in watch.devices
        if device.host == host.name
        and (device.kind == "daemon" or device.name in watch.subjects.volumes)
    }
    asked = {
        "mark": mark_of(host),
        "interval_s": INTERVAL_S,
        "lasts_s": watch.lasts_s + SPARE_S,
        "machine": host.name == watch.subjects.machine,
        "devices": {
            name: PurePosixPath(path).name
            for watched, one in devices.items()
            for name, path in _paths(watched, one).items()
        },
        "osd_sockets": osd_sockets,
        "volumed_sockets": _sockets(devices, "volume"),
        "disk_sockets": _sockets(devices, "daemon"),
    }
    program = _PROGRAM.read_text(encoding="utf-8")
    return ["env", mark_of(host), "python3", "-c", program, json.dumps(asked)]


def _sockets(devices: Mapping[str, IoDevice], kind: str) -> dict[str, str]:
    return {
        name: one.control_socket
        for name, one in devices.items()
        if one.control_socket and one.kind == kind
    }


def _paths(name: str, device: IoDevice) -> dict[str, str]:
    """The device, and the one with its log, if there is any."""
    log = {} if device.log_device is None else {f"{name}{LOG}": device.log_device}
    return {name: device.device} | log


class _Status:
    """One server's status variables, by one client of its own that sleeps in between."""

    def __init__(self, database: str, client: ArmClient, watch: Watch) -> None:
        self.what = f"The server of {database}"
        self._database = database
        self._client = client
        self._lasts_s = watch.lasts_s
        self._rows: list[list[str]] = []
        self._failure: GrampusError | None = None
        self._reader: threading.Thread | None = None

    def start(self) -> None:
        self._reader = _in_background("bench-status", self._read)

    def stop(self) -> None:
        if self._reader is None:
            return
        # As long as it sleeps by itself; then it is ended, which its user may do to its own.
        self._reader.join(timeout=INTERVAL_S)
        for _ in range(END_TRIES):
            if not self._reader.is_alive():
                break
            for row in self._client.query(_FIND_SLEEPER):
                self._client.query(f"kill {int(row[0])};\n")
            self._reader.join(timeout=INTERVAL_S)
        if self._failure is not None:
            raise self._failure

    def points(self) -> list[SeriesPoint]:
        return decide_status_points(self._database, parse_status_rows(self._rows))

    def _read(self) -> None:
        times = max(2, math.ceil(self._lasts_s / INTERVAL_S))
        try:
            self._rows = self._client.gather(
                status_statements(times, INTERVAL_S), timeout_s=self._lasts_s + SPARE_S
            )
        except GrampusError as error:
            self._failure = error


class _Daemons:
    """CPU and memory of all daemons, read here."""

    what = "CPU and memory of the daemons"

    def __init__(self, hosts: Sequence[Host], clock: Clock, subjects: Subjects) -> None:
        self._hosts = hosts
        self._clock = clock
        self._subjects = subjects
        self._stopping = threading.Event()
        self._readings: list[UsageReading] = []
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = _in_background("bench-daemons", self._run)

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=STOP_TIMEOUT_S)

    def points(self) -> list[SeriesPoint]:
        return decide_usage_points(list(self._readings))

    def _run(self) -> None:
        while True:
            self._readings.append(self._observe())
            if self._stopping.wait(INTERVAL_S):
                # What came since the last whole second counts too.
                self._readings.append(self._observe())
                return

    def _of_the_load(self, host: str, daemons: Collection[str]) -> list[str]:
        """What waits in them is a part of an operation's time."""
        consumers = {name: self._subjects.consumer_of(f"{name}@{host}") for name in daemons}
        return [name for name, consumer in consumers.items() if consumer != "other"]

    def _observe(self) -> UsageReading:
        at_s = self._clock.now().timestamp()
        usages: dict[str, Usage] = {}
        waits: dict[str, CpuWait] = {}
        for host in self._hosts:
            # One reading less: a host that stays away is told of by its probe.
            with suppress(GrampusError, OSError):
                found = host.observe_usage()
                usages |= {f"{name}@{host.name}": usage for name, usage in found.items()}
                waited = host.observe_cpu_waits(self._of_the_load(host.name, found))
                waits |= {f"{name}@{host.name}": wait for name, wait in waited.items()}
        return UsageReading(at_s, usages, waits)


def _in_background(name: str, act: Callable[..., None], *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=act, args=arguments, name=name, daemon=True)
    thread.start()
    return thread
