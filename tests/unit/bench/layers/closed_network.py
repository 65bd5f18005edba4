"""Loads whose bottleneck is known: closed queueing networks, solved exactly."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from grampus.bench.layers.subjects import Consumer
from grampus.bench.layers.times import Activity, CpuUse
from grampus.state.matrix_layers import Layer

CPU_LAYERS: Mapping[Layer, Consumer] = {
    "client": "client",
    "server-cpu": "server",
    "volume": "volume",
    "osd-cpu": "osd",
}
LAYERS_OF_A_DATABASE: tuple[Layer, ...] = (
    "client",
    "server-cpu",
    "innodb",
    "volume",
    "osd-cpu",
    "osd-device",
    "network",
)


@dataclass(frozen=True)
class Station:
    """One layer: mean operations in it, and those of them that it works on."""

    in_it: float
    working: float


def solve(demands_ms: Mapping[Layer, float], threads: int) -> tuple[dict[Layer, Station], float]:
    """Stations with one queue each, by exact mean value analysis, and operations a second.

    Source: M. Reiser, S. S. Lavenberg, Journal of the ACM 27(2), 1980.
    """
    in_it = dict.fromkeys(demands_ms, 0.0)
    per_ms = 0.0
    for number in range(1, threads + 1):
        took_ms = {layer: demand * (1 + in_it[layer]) for layer, demand in demands_ms.items()}
        per_ms = number / sum(took_ms.values())
        in_it = {layer: per_ms * took for layer, took in took_ms.items()}
    stations = {
        layer: Station(in_it[layer], per_ms * demand) for layer, demand in demands_ms.items()
    }
    return stations, 1000 * per_ms


def observe(
    stations: Mapping[Layer, Station],
    threads: int,
    operations_per_s: float,
    *,
    noise: random.Random,
    spread: float,
    limit_cores: float = 0.25,
) -> Activity:
    """What monitors see of it: each count is off by a factor, and a host has idle cores.

    Every daemon has a CPU limit, so that one core's worth of work is `limit_cores` at most.
    """

    def seen(value: float) -> float:
        return value * noise.lognormvariate(0.0, spread)

    cpu: dict[Consumer, CpuUse] = {"other": CpuUse(0.2)}
    for layer, consumer in CPU_LAYERS.items():
        if layer in stations:
            one = stations[layer]
            cores = one.working * limit_cores
            cpu[consumer] = CpuUse(cores, seen(max(one.in_it - cores, 0.0)), min(one.working, 0.99))
    device = stations.get("osd-device", Station(0.0, 0.0))
    innodb = stations.get("innodb", Station(0.0, 0.0))
    return Activity(
        threads=threads,
        busy_threads=threads - stations["client"].in_it,
        operations_per_s=operations_per_s,
        has_server="server-cpu" in stations,
        cpu=cpu,
        cores=8.0,
        machine_share=sum(use.cores for use in cpu.values()) / 8,
        lock_waiting=seen(innodb.in_it),
        volume_busy_share=0.99,
        device_waiting=seen(device.in_it),
        device_serving=device.working,
        network_waiting=seen(stations["network"].in_it),
    )
