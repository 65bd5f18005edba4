"""One trial: clients warm up and measure together, beside the counters of servers and devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from grampus.bench.client import ArmClient
from grampus.bench.drivers.client_bound import (
    ClientVerdict,
    LoadEvidence,
    is_client_bound,
    mean_busy_threads,
)
from grampus.bench.drivers.outcome import DriverFailure, DriverResult, Loop
from grampus.bench.drivers.start import ClockOffset
from grampus.bench.drivers.together import ClientRun, JointSample, merge_clients
from grampus.bench.environments.clients import ClientEnd, ClientLoad, run_together
from grampus.bench.environments.devices import (
    DeviceLoad,
    DeviceTimes,
    decide_device_load,
    decide_operations,
    parse_device_times,
)
from grampus.bench.environments.environment_ports import EnvironmentPorts
from grampus.bench.environments.monitors import Seen, Watch
from grampus.bench.layers.points import decide_client_points
from grampus.bench.layers.subjects import LOG, Subjects
from grampus.bench.matrix.cells import Cell
from grampus.bench.measured_ports import IoDevice
from grampus.bench.trials.place import Measured, Watched
from grampus.core.errors import GrampusError
from grampus.hosts.port import Fleet
from grampus.state.matrix_layers import SeriesPoint

# The window has whole seconds of the clock alone, and a busy sysbench leaves out its last line: of
# so many more than wanted, enough are left for the latencies to be counted (`MAX_OUTSIDE_SHARE`).
WINDOW_EXTRA_S = 3
# For clients that find out how long they have to be.
MAX_WARM_UPS = 4
# All hosts of a lab have the clock of one machine.
SAME_CLOCK = ClockOffset(0.0, 0.0)
# Drivers that answer for what they do (`IoDevice.control_socket`), as daemons of the host.
DRIVER_DAEMONS = ("volumed",)


@dataclass(frozen=True)
class Server:
    """A daemon under load, with the CPUs that it may use."""

    host: str
    daemon: str
    cpus: float


@dataclass(frozen=True)
class TrialLoad:
    """The load of one cell. `clients` makes it for so many seconds; `read` makes a client's end its
    result, and says when its load began.

    `threads` are those of each of `client_count` clients. `warms_up`: a run of its own comes
    before; otherwise the clients see to it themselves. `is_warm` says after it whether it was long
    enough. `databases` are clients of the servers, by the database's name, and `volumes` the names
    of those that the load is on. `note` is for whoever reads the figures;
    `undeciding` are sentences: why no conclusion may rest on them.
    """

    clients: Callable[[int], Sequence[ClientLoad]]
    read: Callable[[ClientEnd], tuple[DriverResult | DriverFailure, float]]
    loop: Loop
    threads: int
    client_count: int = 1
    warms_up: bool = True
    full_threads: int | None = None
    asked_rate_per_s: float | None = None
    servers: tuple[Server, ...] = ()
    databases: Mapping[str, ArmClient] = field(default_factory=dict)
    volumes: tuple[str, ...] = ()
    note: str | None = None
    undeciding: tuple[str, ...] = ()
    bytes_per_operation: float | None = None
    is_warm: Callable[[], bool] = lambda: True


@dataclass(frozen=True)
class _Counters:
    at_s: float
    devices: Mapping[str, DeviceTimes]
    volumes: Mapping[str, DeviceTimes]
    cpu_us: Mapping[Server, int]


def measure_load(
    ports: EnvironmentPorts,
    load: TrialLoad,
    *,
    warmup_s: int,
    measure_s: int,
    cores: float,
    osd_cores: float | None = None,
    monitored: bool = True,
) -> Measured:
    """What came of it, with what the monitors saw unless not `monitored`.

    The load generators may use `cores` of a host, and the OSDs `osd_cores` (None: all of them).

    Raises GrampusError when a host cannot be used; a client that fails does not: it is the outcome.
    """
    from_s = ports.clock.now().timestamp()
    lasts_s = warmup_s + measure_s + WINDOW_EXTRA_S
    devices: Sequence[IoDevice] = ()
    with suppress(GrampusError, OSError):
        devices = list(ports.devices.io_devices())
    subjects = decide_subjects(ports, load, devices, cores=cores, osd_cores=osd_cores)
    watch = Watch(subjects, devices, load.databases, lasts_s)
    points: list[SeriesPoint] = []
    loads: list[float] = []
    with ports.monitors.watching(watch) if monitored else nullcontext(Seen()) as seen:
        watched_devices = WatchedDevices(ports, devices, load.volumes)
        measured = _measure(ports, load, warmup_s, measure_s, cores, watched_devices, points, loads)
    measured = replace(measured, load_s=sum(loads))
    if not monitored:
        return measured
    found = sorted([*seen.points, *points], key=lambda point: point.at_s)
    watched = Watched(tuple(found), watch.subjects, from_s, tuple(seen.gaps))
    return replace(measured, watched=watched)


def decide_subjects(
    ports: EnvironmentPorts,
    load: TrialLoad,
    devices: Sequence[IoDevice],
    *,
    cores: float,
    osd_cores: float | None,
) -> Subjects:
    """What the monitors look at while `load` lasts."""
    drivers = {f"{driver}-{name}": name for name in load.volumes for driver in DRIVER_DAEMONS}
    served = {
        name: f"{daemon}@{device.host}"
        for device in devices
        for daemon, name in drivers.items()
        if device.kind == "volume" and device.name == name and device.control_socket
    }
    return Subjects(
        machine=load.servers[0].host if load.servers else ports.fleet.hosts()[0].name,
        client_cores=cores,
        threads=load.threads * load.client_count,
        servers={f"{one.daemon}@{one.host}": one.cpus for one in load.servers},
        volumes={name: served.get(name) for name in load.volumes},
        limits={
            f"{device.name}@{device.host}": device.limit
            for device in devices
            if device.kind == "daemon" and device.limit is not None
        },
        osd_cores_per_host=osd_cores,
    )


def _measure(
    ports: EnvironmentPorts,
    load: TrialLoad,
    warmup_s: int,
    measure_s: int,
    cores: float,
    watched: WatchedDevices,
    points: list[SeriesPoint],
    loads: list[float],
) -> Measured:
    """Fills `points` with what the clients tell of themselves, `loads` with how long each of their
    runs loaded the servers, in seconds."""
    raw: dict[str, str] = {}
    for _ in range(MAX_WARM_UPS if load.warms_up and warmup_s else 0):
        warm_ups = run_together(load.clients(warmup_s), ports.clock)
        loads.append(decide_load_s(warm_ups))
        failure = _read_warm_ups(load, warm_ups, raw, points)
        if failure is not None:
            return Measured(failure, load.loop, raw=raw)
        if load.is_warm():
            break
    before = _observe(ports, watched, load.servers)
    ends = run_together(load.clients(measure_s + WINDOW_EXTRA_S), ports.clock)
    after = _observe(ports, watched, load.servers)
    loads.append(decide_load_s(ends))
    runs, results = [], []
    for end in ends:
        raw |= _raw(end, "measuring")
        outcome, began_at_s = load.read(end)
        if isinstance(outcome, DriverResult):
            results.append(outcome)
            points += decide_client_points(end.name, began_at_s, outcome.seconds)
        runs.append(ClientRun(end.name, SAME_CLOCK, began_at_s, outcome, threads=load.full_threads))
    joint = merge_clients(runs)
    if isinstance(joint, DriverFailure) or len(results) < len(runs):
        return Measured(joint, load.loop, raw=raw)
    if load.note is not None:
        joint = replace(joint, notes=(*joint.notes, load.note))
    device = decide_device_load(before.devices, after.devices, after.at_s - before.at_s)
    busy_threads = decide_busy_threads(results, measure_s + WINDOW_EXTRA_S)
    client = _judge(load, ends, results, joint, busy_threads, before, after, device, cores)
    operations = sum(result.operations for result in results)
    volume_operations = decide_operations(before.volumes, after.volumes)
    # Not of the time between the readings: clients connect in it, and nothing is done.
    elapsed_s = max(result.elapsed_s for result in results)
    queries = [result.queries for result in results]
    return Measured(
        joint,
        load.loop,
        client=client,
        queries_per_operation=None if None in queries else sum(map(_whole, queries)) / operations,
        bytes_per_operation=load.bytes_per_operation,
        osd_device_busy_share=None if device is None else device.busy_share,
        osd_device_latency_ms=None if device is None else device.latency_ms,
        volume_iops=None if volume_operations is None else volume_operations / elapsed_s,
        undeciding=load.undeciding,
        raw=raw,
        busy_threads=busy_threads,
    )


def decide_load_s(ends: Sequence[ClientEnd]) -> float:
    """Seconds from the first client's load to the last one's end, its last operations and all.

    Of a client that does not say when it began its start counts too.
    """
    if not ends:
        return 0.0
    return max(end.ended_at_s for end in ends) - min(end.began_at_s for end in ends)


def decide_osd_cores(cell: Cell) -> float | None:
    """Cores that the OSDs of a host may use; None: all of them."""
    asked = cell.point.osd_cores_per_host
    return None if asked == "all" else float(asked)


class WatchedDevices:
    """Counters of the devices of the OSDs and of the volumes under load; those that cannot be read
    are left out, and so are volumes that no host has a device of."""

    def __init__(
        self, ports: EnvironmentPorts, devices: Sequence[IoDevice], volumes: Sequence[str]
    ) -> None:
        self._fleet: Fleet = ports.fleet
        self._osds = [one for one in devices if one.kind == "daemon"]
        self._volumes = [one for one in devices if one.kind == "volume" and one.name in volumes]

    def observe_osds(self) -> dict[str, DeviceTimes]:
        """By daemon."""
        return self._observe(self._osds)

    def observe_volumes(self) -> dict[str, DeviceTimes]:
        """By volume and host."""
        return self._observe(self._volumes)

    def _observe(self, devices: Sequence[IoDevice]) -> dict[str, DeviceTimes]:
        times: dict[str, DeviceTimes] = {}
        for device, path in ((one, path) for one in devices for path in one.devices):
            stat = PurePosixPath("/sys/class/block", PurePosixPath(path).name, "stat")
            is_log = path == device.log_device
            with suppress(GrampusError, OSError):
                read = parse_device_times(self._fleet.host(device.host).read_file(stat) or "")
                if read is not None:
                    times[f"{device.name}{LOG if is_log else ''}@{device.host}"] = read
        return times


def _read_warm_ups(
    load: TrialLoad, ends: Sequence[ClientEnd], raw: dict[str, str], points: list[SeriesPoint]
) -> DriverFailure | None:
    """The first failure; that nothing was finished in so short a time is none. Fills `raw` and
    `points`."""
    failures = []
    for end in ends:
        raw |= _raw(end, "warm-up")
        outcome, began_at_s = load.read(end)
        if isinstance(outcome, DriverResult):
            points += decide_client_points(end.name, began_at_s, outcome.seconds)
        elif outcome.kind != "no-operations":
            reason = f"While {end.name} warmed up: {outcome.reason}"
            failures.append(DriverFailure(outcome.kind, reason))
    return failures[0] if failures else None


def _observe(
    ports: EnvironmentPorts, devices: WatchedDevices, servers: Sequence[Server]
) -> _Counters:
    cpu_us: dict[Server, int] = {}
    for host in sorted({server.host for server in servers}):
        with suppress(GrampusError, OSError):
            usages = ports.fleet.host(host).observe_usage()
            cpu_us |= {
                server: usages[server.daemon].cpu_us
                for server in servers
                if server.host == host and server.daemon in usages
            }
    return _Counters(
        ports.clock.monotonic_s(), devices.observe_osds(), devices.observe_volumes(), cpu_us
    )


def _judge(
    load: TrialLoad,
    ends: Sequence[ClientEnd],
    results: Sequence[DriverResult],
    joint: JointSample,
    busy_threads: float | None,
    before: _Counters,
    after: _Counters,
    device: DeviceLoad | None,
    cores: float,
) -> ClientVerdict:
    used_s = [end.cpu_s for end in ends]
    elapsed_s = max(result.elapsed_s for result in results)
    return is_client_bound(
        LoadEvidence(
            cpu_used_cores=None if None in used_s else sum(s or 0.0 for s in used_s) / elapsed_s,
            cpu_limit_cores=cores,
            threads=load.threads * len(ends),
            # In an open loop latencies hold the time in the queue.
            busy_threads=busy_threads if load.asked_rate_per_s is None else None,
            asked_rate_per_s=load.asked_rate_per_s,
            reached_rate_per_s=joint.operations_per_s,
            server_cpu_share=_server_share(load.servers, before, after),
            server_disk_share=None if device is None else device.busy_share,
        )
    )


def decide_busy_threads(results: Sequence[DriverResult], asked_s: float) -> float | None:
    """Requests under way on average while the clients began new ones, which was for `asked_s`;
    None where a client does not tell its latencies, as rbd bench.

    Of operations that last as long as the run this is more than were under way, never less: what is
    waited for at a client's end counts. Over its whole run its threads would seem idle then. So
    they would with the rate of another time than the latencies, if the load slows down.
    """
    averages_us = [result.latency.average_us for result in results]
    known_us = [average_us for average_us in averages_us if average_us is not None]
    if len(known_us) < len(results) or not any(result.operations for result in results):
        return None
    return math.fsum(
        mean_busy_threads(
            operations_per_s=result.operations / min(asked_s, result.elapsed_s),
            average_us=average_us,
        )
        for result, average_us in zip(results, known_us, strict=True)
    )


def _server_share(servers: Sequence[Server], before: _Counters, after: _Counters) -> float | None:
    """That of the busiest server; None when one could not be read, or there is none."""
    elapsed_s = after.at_s - before.at_s
    shares = []
    for server in servers:
        if server not in before.cpu_us or server not in after.cpu_us or elapsed_s <= 0:
            return None
        used_us = after.cpu_us[server] - before.cpu_us[server]
        if used_us < 0:
            return None
        shares.append(used_us / 1_000_000 / elapsed_s / server.cpus)
    return max(shares, default=None)


def _raw(end: ClientEnd, phase: str) -> dict[str, str]:
    return {f"{phase}.{end.name}.txt": f"{end.output.stdout}{end.output.stderr}"}


def _whole(number: int | None) -> int:
    return number or 0
