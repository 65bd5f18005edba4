"""The time that each layer adds to an operation of a load. Pure.

A closed loop of N threads has N operations under way. At any moment each of them is in one layer,
so that by Little's law the mean number in a layer, over the throughput, is the time that the layer
adds to an operation (J. D. C. Little, Operations Research 9(3), 1961). The monitors count what is
under way in each layer: threads on a CPU, threads that wait for one, requests of a device, packets
between hosts. What a thread waits for behind a layer's queue is that layer's time, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from grampus.bench.layers.subjects import Consumer
from grampus.state.matrix_layers import Layer, LayerTime

LAYER_OF: Mapping[Consumer, Layer] = {
    "client": "client",
    "server": "server-cpu",
    "volume": "volume",
    "osd": "osd-cpu",
    "other": "machine",
}


@dataclass(frozen=True)
class CpuUse:
    """Of one consumer: cores at work and threads that waited for one, on average.

    `throttled_share` is of the time, that in which its own CPU limit was used up (0 to 1).
    """

    cores: float = 0.0
    waiting: float = 0.0
    throttled_share: float = 0.0

    @property
    def active(self) -> float:
        """Threads that were on a CPU or wanted one."""
        return self.cores + self.waiting


@dataclass(frozen=True)
class Activity:
    """What was under way on average while a load of `threads` threads ran; None: not known.

    `busy_threads` had an operation under way; the others are the load generator's. `lock_waiting`
    waited for row locks. `has_server`: a database was under load. `volume_busy_share` is the part
    of the time with a request in the volume's queue. `device_waiting` are requests of the OSDs that
    waited for a device, `device_serving` those of them that a device worked on. `network_waiting`
    are requests on the way between hosts. `copies_share` is the part of the OSDs' work that copies
    of other OSDs' writes are: beside the first copy, not after it.
    """

    threads: float
    busy_threads: float | None = None
    operations_per_s: float | None = None
    has_server: bool = False
    cpu: Mapping[Consumer, CpuUse] | None = None
    cores: float = 1.0
    machine_share: float | None = None
    lock_waiting: float | None = None
    volume_busy_share: float | None = None
    device_waiting: float | None = None
    device_serving: float | None = None
    network_waiting: float | None = None
    copies_share: float = 0.0


@dataclass
class _Held:
    """Threads in a layer, and those of them that were queued there."""

    threads: float = 0.0
    queued: float = 0.0


def decide_times(seen: Activity) -> tuple[LayerTime, ...]:
    """The layers by the time that they add, the greatest first; empty where too little is known.

    Shares are of an operation's time and add up to at most 1: what is below a volume stays unknown
    where the OSDs cannot be observed.

    Threads are first counted where they are: with the client while they have no operation under
    way, in the server while it works or wants a CPU, at a lock. The others wait for storage while
    the volume has a request under way. While it has none they wait for InnoDB or, without a server,
    for the load generator, of which one process may have all operations. What waits for storage is
    shared out by what is under way below: queues there grow alike, whatever fills them. Last, what
    waited because all cores of the machine were at work is charged to those who had them.
    """
    cpu = dict(seen.cpu or {})
    if seen.threads <= 0 or not any(use.active for use in cpu.values()):
        return ()
    held = _count_threads(seen, cpu)
    _charge_busy_cores(seen, cpu, held)
    times = [
        _time(layer, one, seen)
        for layer, one in sorted(held.items(), key=lambda item: item[1].threads, reverse=True)
        if one.threads > 0
    ]
    return tuple(times)


def find_waiting_probability(cores: float, share: float) -> float:
    """How likely a thread that becomes ready finds all cores at work, which are so for `share`.

    Erlang's C formula for as many servers as whole cores (A. K. Erlang, 1917).
    """
    servers = max(1, round(cores))
    load = min(max(share, 0.0), 1.0) * servers
    if load >= servers:
        return 1.0
    # Erlang's B by its recurrence, which does not overflow for hundreds of cores.
    blocked = 1.0
    for number in range(1, servers + 1):
        blocked = load * blocked / (number + load * blocked)
    return blocked / (1 - (load / servers) * (1 - blocked))


def _count_threads(seen: Activity, cpu: Mapping[Consumer, CpuUse]) -> dict[Layer, _Held]:
    client = cpu.get("client", CpuUse())
    idle = 0.0 if seen.busy_threads is None else max(seen.threads - seen.busy_threads, 0.0)
    server = cpu.get("server", CpuUse()) if seen.has_server else CpuUse()
    above: dict[Layer, _Held] = {
        "client": _Held(max(client.active, idle), client.waiting),
        "server-cpu": _Held(server.active, server.waiting),
        "innodb": _Held(seen.lock_waiting or 0.0, seen.lock_waiting or 0.0),
    }
    known = math.fsum(one.threads for one in above.values())
    if known > seen.threads:
        _scale(above, seen.threads / known)
    waiting = max(seen.threads - known, 0.0)
    if seen.volume_busy_share is not None:
        # Nothing is asked of storage then: the server's threads wait for one another.
        inside = waiting * (1 - min(seen.volume_busy_share, 1.0))
        layer: Layer = "innodb" if seen.has_server else "client"
        above[layer].threads += inside
        above[layer].queued += inside
        waiting -= inside
    below = _below(seen, cpu)
    under_way = math.fsum(one.threads for one in below.values())
    is_whole = seen.device_waiting is not None and "osd" in cpu
    if under_way > 0 and (is_whole or under_way > waiting):
        _scale(below, waiting / under_way)
    return above | below


def _below(seen: Activity, cpu: Mapping[Consumer, CpuUse]) -> dict[Layer, _Held]:
    """What is under way below the volume's device, each operation once."""
    below: dict[Layer, _Held] = {}
    if volume := cpu.get("volume"):
        below["volume"] = _Held(volume.active, volume.waiting)
    if seen.network_waiting is not None:
        below["network"] = _Held(seen.network_waiting)
    if osd := cpu.get("osd"):
        below["osd-cpu"] = _Held(osd.active, osd.waiting)
    if seen.device_waiting is not None:
        serving = min(seen.device_serving or 0.0, seen.device_waiting)
        below["osd-device"] = _Held(seen.device_waiting, seen.device_waiting - serving)
    in_turn = 1 - min(max(seen.copies_share, 0.0), 1.0)
    _scale({layer: one for layer, one in below.items() if layer.startswith("osd")}, in_turn)
    return below


def _charge_busy_cores(
    seen: Activity, cpu: Mapping[Consumer, CpuUse], held: dict[Layer, _Held]
) -> None:
    """Move what waited for the machine's cores from those who waited to those who had them."""
    if seen.machine_share is None:
        return
    all_busy = find_waiting_probability(seen.cores, seen.machine_share)
    charged = 0.0
    for consumer, use in cpu.items():
        one = held.get(LAYER_OF[consumer])
        if one is None or not use.active:
            continue
        # Who is held back by a limit of its own gets no core however many are idle.
        for_cores = all_busy * (1 - min(use.throttled_share, 1.0)) * use.waiting / use.active
        # A client's idle threads are no threads that want a core. What waits for a load generator
        # without a server waits for the core that this wants.
        wants_none = consumer == "client" and seen.has_server
        active = min(one.threads, use.active) if wants_none else one.threads
        moved = active * for_cores
        one.threads -= moved
        one.queued = max(one.queued - moved, 0.0)
        charged += moved
    used = math.fsum(use.cores for use in cpu.values())
    if charged <= 0 or used <= 0:
        return
    for consumer, use in cpu.items():
        one = held.setdefault(LAYER_OF[consumer], _Held())
        one.threads += charged * use.cores / used
        one.queued += charged * use.cores / used


def _time(layer: Layer, one: _Held, seen: Activity) -> LayerTime:
    ms = 1000 * one.threads / seen.operations_per_s if seen.operations_per_s else None
    return LayerTime(
        layer=layer,
        share=_short(one.threads / seen.threads),
        queued_share=_short(min(one.queued, one.threads) / seen.threads),
        ms=None if ms is None else _short(ms),
    )


def _scale(held: Mapping[Layer, _Held], factor: float) -> None:
    for one in held.values():
        one.threads *= factor
        one.queued *= factor


def _short(value: float) -> float:
    return float(f"{value:.4g}")
