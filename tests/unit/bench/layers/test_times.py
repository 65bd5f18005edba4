"""The time that each layer adds to an operation."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from grampus.bench.layers.subjects import Consumer
from grampus.bench.layers.times import Activity, CpuUse, decide_times, find_waiting_probability
from grampus.state.matrix_layers import Layer
from tests.unit.bench.layers.closed_network import LAYERS_OF_A_DATABASE, observe, solve

QUIET: dict[Consumer, CpuUse] = {
    "client": CpuUse(0.1, 0.1),
    "server": CpuUse(0.3, 0.2),
    "volume": CpuUse(0.2, 0.1),
    "osd": CpuUse(0.3, 0.2),
    "other": CpuUse(0.1),
}
SEEN = Activity(
    threads=8,
    busy_threads=7.8,
    operations_per_s=500.0,
    has_server=True,
    cpu=QUIET,
    cores=8.0,
    machine_share=0.15,
    lock_waiting=0.0,
    volume_busy_share=0.95,
    device_waiting=0.4,
    device_serving=0.3,
    network_waiting=0.05,
)


def _with(**uses: CpuUse) -> dict[str, Any]:
    return {"cpu": {**QUIET, **uses}}


def named(changed: dict[str, Any]) -> Layer:
    return decide_times(replace(SEEN, **changed))[0].layer


CASES: list[tuple[str, Layer, dict[str, Any]]] = [
    ("a load generator at its CPU limit", "client", _with(client=CpuUse(0.1, 6.0, 0.9))),
    ("a load generator that is slow to send", "client", {"busy_threads": 2.0}),
    ("a server at its CPU limit", "server-cpu", _with(server=CpuUse(0.1, 6.0, 0.9))),
    # One process of fio has all operations: they are done long before it sees that.
    (
        "a load generator without a server at its CPU limit",
        "client",
        {
            "has_server": False,
            "busy_threads": 8.0,
            "volume_busy_share": 0.08,
            **_with(client=CpuUse(0.03, 1.7)),
        },
    ),
    ("row locks", "innodb", {"lock_waiting": 5.0}),
    # Neither locks nor storage: the server's threads wait for one another.
    ("waits inside the server", "innodb", {"volume_busy_share": 0.05}),
    ("a driver at its CPU limit", "volume", _with(volume=CpuUse(0.04, 3.0, 0.95))),
    # One thread of it that never rests, on a machine with cores to spare.
    ("a driver with one busy thread", "volume", _with(volume=CpuUse(1.0, 2.0))),
    ("OSDs at their CPU limit", "osd-cpu", _with(osd=CpuUse(0.2, 9.0, 0.9))),
    # The limit is that of the host, which no daemon's counters know of.
    ("OSDs at the limit of their host", "osd-cpu", _with(osd=CpuUse(0.2, 9.0))),
    ("a slow device", "osd-device", {"device_waiting": 9.0, "device_serving": 1.0}),
    ("a slow network", "network", {"network_waiting": 4.0}),
    (
        "other programs",
        "machine",
        {
            "machine_share": 1.0,
            "cores": 2.0,
            "cpu": {
                "client": CpuUse(0.05, 1.0),
                "server": CpuUse(0.1, 3.0),
                "volume": CpuUse(0.05, 1.0),
                "osd": CpuUse(0.2, 4.0),
                "other": CpuUse(1.6),
            },
        },
    ),
    # The process of fio waits for a core, and so does what it has under way.
    (
        "other programs, without a server",
        "machine",
        {
            "has_server": False,
            "busy_threads": 8.0,
            "volume_busy_share": 0.3,
            "machine_share": 1.0,
            "cores": 2.0,
            "cpu": {
                "client": CpuUse(0.05, 0.9),
                "volume": CpuUse(0.05, 1.0),
                "osd": CpuUse(0.1, 2.0),
                "other": CpuUse(1.8),
            },
        },
    ),
    # All cores are at work, and mostly for the OSDs: the server waits for what they have.
    (
        "OSDs that have all cores",
        "osd-cpu",
        {
            "machine_share": 0.97,
            "cores": 2.0,
            "cpu": {
                "client": CpuUse(0.1, 0.5),
                "server": CpuUse(0.3, 4.0),
                "volume": CpuUse(0.2, 1.0),
                "osd": CpuUse(1.3, 4.0),
                "other": CpuUse(0.1),
            },
        },
    ),
]


@pytest.mark.parametrize(("what", "layer", "changed"), CASES, ids=[case[0] for case in CASES])
def test_the_layer_that_adds_most(what: str, layer: Layer, changed: dict[str, Any]):
    assert named(changed) == layer


@pytest.mark.parametrize("share", [0.8, 0.85, 0.88, 0.9, 0.92, 0.99])
def test_no_threshold_changes_what_a_busy_machine_is_called(share: float):
    # 88% and 90% were two different bottlenecks once.
    cpu = {
        "client": CpuUse(0.1, 0.2),
        "server": CpuUse(0.2, 0.8),
        "volume": CpuUse(0.2, 0.8),
        "osd": CpuUse(1.1, 5.0),
        "other": CpuUse(2 * share - 1.6 if share > 0.85 else 0.1),
    }
    assert named({"machine_share": share, "cores": 2.0, "cpu": cpu}) == "osd-cpu"


def test_flash_that_is_always_busy_is_not_the_bottleneck_for_that():
    # 95% busy with one request at a time; the OSDs' CPU takes much more of an operation.
    changed = {**_with(osd=CpuUse(1.5, 3.0)), "device_waiting": 0.95, "device_serving": 0.95}
    assert named(changed) == "osd-cpu"


def test_requests_of_page_cleaners_do_not_make_a_volume_slow():
    # The volume's queue is long for what no transaction waits for: what is under way below counts.
    times = decide_times(replace(SEEN, volume_busy_share=1.0, device_waiting=6.0))
    assert times[0].layer == "osd-device"


def test_stolen_cores_are_those_of_others():
    # Half of two cores was stolen; the rest was at work.
    cpu = {**{who: CpuUse(0.15, 2.0) for who in QUIET}, "other": CpuUse(1.1)}
    assert named({"machine_share": 1.0, "cores": 2.0, "cpu": cpu}) == "machine"


def test_times_are_those_of_an_operation():
    times = decide_times(SEEN)
    assert sum(one.share for one in times) == pytest.approx(1.0, abs=0.002)
    # Eight threads, 500 operations a second: 16 ms each.
    for one in times:
        assert one.ms == pytest.approx(16 * one.share, rel=0.01)
        assert 0 <= one.queued_share <= one.share + 1e-9
    assert [one.share for one in times] == sorted((one.share for one in times), reverse=True)


def test_copies_are_written_beside_the_first_one():
    alone = {one.layer: one.share for one in decide_times(SEEN)}
    copied = {one.layer: one.share for one in decide_times(replace(SEEN, copies_share=0.5))}
    assert copied["osd-cpu"] < alone["osd-cpu"]
    assert copied["osd-device"] < alone["osd-device"]
    assert copied["volume"] > alone["volume"]


def test_of_a_volume_without_a_server():
    seen = replace(SEEN, has_server=False, cpu={**QUIET, "server": CpuUse()})
    layers = {one.layer for one in decide_times(seen)}
    assert not layers & {"server-cpu", "innodb"}


def test_what_cannot_be_observed_is_no_layers_time():
    cpu = {who: use for who, use in QUIET.items() if who != "osd"}
    seen = replace(SEEN, cpu=cpu, device_waiting=None, device_serving=None, network_waiting=None)
    times = decide_times(seen)
    assert sum(one.share for one in times) < 0.5
    assert next(one for one in times if one.layer == "volume").share == pytest.approx(0.3 / 8, 0.1)


@pytest.mark.parametrize(
    "seen", [replace(SEEN, threads=0), replace(SEEN, cpu=None), replace(SEEN, cpu={})]
)
def test_nothing_is_known(seen: Activity):
    assert decide_times(seen) == ()


@pytest.mark.parametrize(
    ("cores", "share", "probability"),
    [
        (1, 0.3, 0.3),  # M/M/1
        (2, 0.5, 1 / 3),
        (4, 0.5, 4 / 23),
        (2, 1.0, 1.0),
        (2, 1.3, 1.0),
        (2, 0.0, 0.0),
        (0.5, 0.5, 0.5),
        (512, 0.5, 0.0),
    ],
)
def test_how_likely_all_cores_are_at_work(cores: float, share: float, probability: float):
    assert find_waiting_probability(cores, share) == pytest.approx(probability, abs=1e-6)


def test_of_synthetic_loads_99_of_100_bottlenecks_are_named():
    """Demands of layers are drawn so that one is at least 1.5 times each of the others."""
    drawn = random.Random(20261130)  # noqa: S311 (repeatable)
    right = trials = 0
    for _ in range(2000):
        threads = drawn.choice((4, 8, 16, 32, 64))
        slow: Layer = drawn.choice(LAYERS_OF_A_DATABASE)
        demands = {layer: drawn.uniform(0.05, 1.0) for layer in LAYERS_OF_A_DATABASE}
        demands[slow] = max(demands.values()) * drawn.uniform(1.5, 6.0)
        stations, operations_per_s = solve(demands, threads)
        seen = observe(stations, threads, operations_per_s, noise=drawn, spread=0.15)
        right += decide_times(seen)[0].layer == slow
        trials += 1
    assert right >= 0.99 * trials, f"{right} of {trials}"
