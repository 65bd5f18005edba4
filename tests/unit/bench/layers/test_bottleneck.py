"""Which layer held a trial up, how sure that is, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest

from grampus.bench.drivers.client_bound import ClientVerdict
from grampus.bench.layers.bottleneck import (
    LayerEvidence,
    decide_bottleneck,
    describe_passed_limit,
)
from grampus.bench.layers.confidence import grade
from grampus.state.matrix_layers import LAYER_NAMES, LAYERS, Layer, LayerTime

SEEN: dict[str, Any] = {
    "machine_share": 0.3,
    "server_share": 0.2,
    "lock_waiting": 0.1,
    "log_busy_share": 0.1,
    "volume_busy_share": 0.4,
    "volume_latency_ms": 2.0,
    "osd_share": 0.1,
    "osd_write_ms": 4.0,
    "device": "osd-3@h1",
    "device_busy_share": 0.2,
    "device_limit_share": 0.1,
    "device_latency_ms": 0.5,
    "round_trip_ms": 0.1234,
    "cpu_cores": {"client": 0.1, "server": 0.2, "osd": 0.2, "other": 0.1},
}


def times_of(*shares: tuple[Layer, float], queued: float = 0.0) -> tuple[LayerTime, ...]:
    """Of an operation of 20 ms."""
    return tuple(
        LayerTime(layer=layer, share=share, queued_share=queued * share, ms=20 * share)
        for layer, share in shares
    )


def _seen(**changed: Any) -> LayerEvidence:
    return LayerEvidence(**{"threads": 16, "cores": 2.0, **SEEN, **changed})


@pytest.mark.parametrize("layer", LAYERS)
def test_the_layer_that_adds_most_is_named(layer: Layer):
    other: Layer = "volume" if layer != "volume" else "network"
    found = decide_bottleneck(_seen(times=times_of((layer, 0.7), (other, 0.2))))
    assert (found.word, found.confidence) == (layer, "high")
    name = LAYER_NAMES[layer]
    verb = "take" if name.split()[1] == "devices" else "takes"
    said = f"{name[0].upper()}{name[1:]} {verb} 70 % of an operation's time: 14 of 20 ms."
    assert found.evidence[0] == said
    assert found.evidence[1].startswith("Next: ")
    assert found.evidence[1].endswith(" 20 %.")


def test_what_is_said():
    times = times_of(("osd-cpu", 0.62), ("volume", 0.2), ("client", 0.04), queued=0.5)
    assert decide_bottleneck(_seen(times=times)).evidence == (
        "The CPU of the OSDs takes 62 % of an operation's time: 12.4 of 20 ms, 6.2 ms of it in "
        "queues.",
        "Next: the volume's driver 20 %.",
        "The OSDs of a host used 10 % of the CPU that they may use, and took 4.00 ms for a write.",
        "The machine's 2 cores were at work 30 % of the time: the database's server 0.20, the OSDs "
        "0.20, the load generator 0.10, other programs and the kernel 0.10.",
        "The server used 20 % of its CPU limit.",
    )


@pytest.mark.parametrize(
    ("layer", "changed", "said"),
    [
        (
            "innodb",
            {"lock_waiting": 9.2},
            "On average 9.2 of 16 threads waited for a row lock.",
        ),
        (
            "innodb",
            {"log_busy_share": 0.8, "flushes_per_s": 250.0, "flush_ms": 3.125},
            "The redo log or the binary log was written or flushed 80 % of the time, 250 flushes a "
            "second of 3.12 ms.",
        ),
        (
            "osd-device",
            {"device_busy_share": 0.95, "device_limit_share": 0.97},
            "The device of osd-3@h1 was busy 95 % of the time, 0.50 ms for a request, and did 97 % "
            "of its medium's limit.",
        ),
        ("network", {}, "A packet to an OSD's host and back took 0.123 ms."),
        ("network", {"network_share": 0.93}, "A link carried 93 % of its speed."),
        ("volume", {}, "The volume had requests under way 40 % of the time, 2.00 ms each."),
    ],
)
def test_what_is_known_of_the_named_layer_is_said(layer: Layer, changed: dict[str, Any], said: str):
    found = decide_bottleneck(_seen(times=times_of((layer, 0.9)), **changed))
    assert said in found.evidence[1:]


def test_a_budget_that_was_the_limit_is_said_of_any_layer():
    seen = _seen(times=times_of(("volume", 0.9)), throttled_hosts={"h2": 0.83, "h3": 0.01})
    evidence = decide_bottleneck(seen).evidence
    assert evidence[1] == "The CPU budget of the host h2 was used up 83 % of the time."
    assert not any("h3" in said for said in evidence)


@pytest.mark.parametrize(
    ("shares", "confidence"),
    [
        ([0.9, 0.05], "high"),
        ([0.6, 0.3], "high"),
        ([1.0], "high"),
        ([0.6, 0.35], "medium"),
        ([0.55, 0.1], "medium"),
        ([0.4, 0.26], "medium"),
        ([0.4, 0.3], "low"),
        ([0.3, 0.1], "low"),
    ],
)
def test_how_sure_it_is(shares: list[float], confidence: str):
    assert grade(shares) == confidence


def test_where_layers_are_alike_the_first_is_named_with_a_word_of_doubt():
    times = times_of(("server-cpu", 0.31), ("osd-cpu", 0.27), ("volume", 0.2))
    found = decide_bottleneck(_seen(times=times))
    assert (found.word, found.confidence) == ("server-cpu", "low")
    assert "No layer stands out." in found.evidence


def test_a_load_generator_at_its_limit_is_named_before_all():
    # Nothing beneath it was tested.
    client = ClientVerdict("yes", ("It used all.",))
    found = decide_bottleneck(_seen(client=client, times=times_of(("osd-device", 0.9))))
    assert (found.word, found.confidence) == ("client", "high")
    assert found.evidence[0] == "It used all."


@pytest.mark.parametrize(
    ("client_share", "device_share", "word"),
    [(0.3, 0.6, "osd-device"), (0.6, 0.3, "client")],
)
def test_idle_threads_are_one_layers_time_among_others(
    client_share: float, device_share: float, word: str
):
    shares: list[tuple[Layer, float]] = [("client", client_share), ("osd-device", device_share)]
    shares.sort(key=lambda one: one[1], reverse=True)
    client = ClientVerdict("yes", ("Threads were idle.",), by_threads_alone=True)
    assert decide_bottleneck(_seen(client=client, times=times_of(*shares))).word == word


@pytest.mark.parametrize(
    ("shares", "word"),
    [
        # Of 100 %, 70 % went by where nobody could look.
        ([("volume", 0.2), ("server-cpu", 0.1)], "unknown"),
        ([("server-cpu", 0.6), ("volume", 0.1)], "server-cpu"),
    ],
)
def test_where_most_of_the_time_was_not_observed_no_layer_is_named(
    shares: list[tuple[Layer, float]], word: str
):
    found = decide_bottleneck(_seen(times=times_of(*shares)))
    assert found.word == word
    if word == "unknown":
        assert found.confidence is None
        assert found.evidence[0] == (
            "Layers that could not be observed take 70 % of an operation's time."
        )


def test_too_little_is_known():
    found = decide_bottleneck(LayerEvidence(threads=1, cores=2.0))
    assert (found.word, found.confidence, len(found.evidence)) == ("unknown", None, 1)


@pytest.mark.parametrize(("late", "says"), [(0.0, False), (0.09, False), (0.1, True), (2.5, True)])
def test_an_emulated_disk_that_is_slower_than_its_model_is_told(late: float, says: bool) -> None:
    seen = _seen(late_disk=("osd-3@h1", late), times=times_of(("volume", 0.9)))
    said = describe_passed_limit(seen)
    assert (said is not None) == says
    if said is not None:
        assert said.startswith(f"The emulated disk of osd-3@h1 took {100 * late:.0f} % longer than")
        assert said in decide_bottleneck(seen).evidence


@pytest.mark.parametrize(("share", "passes"), [(None, False), (1.24, False), (1.25, True)])
def test_what_passes_a_mediums_limit_is_told(share: float | None, passes: bool) -> None:
    seen = _seen(device_limit_share=share, times=times_of(("volume", 0.9)))
    said = describe_passed_limit(seen)
    assert (said is not None) == passes
    if said is not None:
        assert said.startswith("The device of osd-3@h1 did 125 % of what its medium is limited to")
        assert said in decide_bottleneck(seen).evidence
