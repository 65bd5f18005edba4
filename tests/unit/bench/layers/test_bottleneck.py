"""Which layer held a trial up."""

from __future__ import annotations

from typing import Any

import pytest

from grampus.bench.drivers.client_bound import ClientVerdict
from grampus.bench.layers.bottleneck import (
    LayerEvidence,
    decide_bottleneck,
    describe_passed_limit,
)

IDLE: dict[str, Any] = {
    "machine_share": 0.3,
    "server_share": 0.2,
    "lock_waiting": 0.1,
    "flush_busy_share": 0.1,
    "volume_busy_share": 0.4,
    "volume_in_flight": 1.0,
    "volume_latency_ms": 2.0,
    "osd_share": 0.1,
    "device_busy_share": 0.2,
    "device_limit_share": 0.1,
    "cpu_cores": {"client": 0.1, "server": 0.2, "osd": 0.2, "other": 0.1},
}


def _seen(**changed: Any) -> LayerEvidence:
    return LayerEvidence(**{"threads": 16, "cores": 2.0, **IDLE, **changed})


CORES = {"client": 0.3, "server": 0.4, "volume": 0.2, "osd": 0.4, "other": 0.1}
CASES: list[tuple[str, dict[str, Any], str]] = [
    ("client", {"client": ClientVerdict("yes", ("It used all.",))}, "It used all."),
    # Nothing beneath a client at its limit was tested.
    (
        "client",
        {"client": ClientVerdict("yes", ("It used all.",)), "device_busy_share": 1.0},
        "It used all.",
    ),
    # Threads that wait for a device at its medium's limit are none that the client keeps idle.
    (
        "osd-device",
        {
            "client": ClientVerdict("yes", ("Threads were idle.",), by_threads_alone=True),
            "device_limit_share": 0.9,
        },
        "The device of an OSD did 90 % of what its medium is limited to.",
    ),
    (
        "client",
        {
            "client": ClientVerdict("yes", ("Threads were idle.",), by_threads_alone=True),
            "device_limit_share": 0.89,
        },
        "Threads were idle.",
    ),
    (
        "osd-device",
        {"device": "osd-3@h1", "device_limit_share": 0.97, "device_busy_share": 0.3},
        "The device of osd-3@h1 did 97 % of what its medium is limited to.",
    ),
    (
        "osd-device",
        {"device": "osd-3@h1", "device_limit_share": 1.19},
        "The device of osd-3@h1 did 119 % of what its medium is limited to.",
    ),
    (
        "osd-device",
        {"device": "osd-3@h1", "device_limit_share": 1.99},
        "The device of osd-3@h1 did 199 % of what its medium is limited to, so something "
        "passes by the limit and it is not such a medium.",
    ),
    (
        "osd-device",
        {"device": "osd-3@h1", "device_busy_share": 0.9, "device_limit_share": None},
        "The device of osd-3@h1 was busy 90 % of the time.",
    ),
    # What is above a device at its limit waits for it.
    (
        "osd-device",
        {
            **{"device": "osd-3@h1", "device_busy_share": 0.95, "device_limit_share": 0.5},
            **{"machine_share": 0.97, "osd_share": 1.0},
        },
        "The device of osd-3@h1 was busy 95 % of the time.",
    ),
    # Flash that is always busy may carry many more requests: its part of an operation tells.
    (
        "none",
        {"device_busy_share": 0.95, "device_limit_share": 0.06},
        "No layer was at its limit",
    ),
    *[
        (
            word,
            {
                **{"device": "osd-3@h1", "device_busy_share": 0.95, "device_limit_share": 0.06},
                # Reads come from the OSD's cache, and say nothing of the device.
                **{"device_latency_ms": device_ms, "osd_write_ms": 4.0, "osd_read_ms": 0.1},
            },
            said,
        )
        for device_ms, word, said in (
            (0.2, "none", "No layer was at its limit"),
            (2.0, "osd-device", "The device of osd-3@h1 was busy 95 % of the time."),
        )
    ],
    ("network", {"network_share": 0.93}, "A link carried 93 % of what it can."),
    (
        "osd-cpu",
        {"osd_share": 0.92},
        "The OSDs of a host used 92 % of the CPU that they may use.",
    ),
    ("server-cpu", {"server_share": 0.99}, "The database's server used 99 % of its CPU limit."),
    *[
        (
            layer,
            {"machine_share": 0.96, "cpu_cores": {**CORES, who: 0.9}},
            f"The machine's 2 cores were at work 96 % of the time, most for {words}: 0.90 cores",
        )
        for layer, who, words in (
            ("client", "client", "the load generator"),
            ("server-cpu", "server", "the database's server"),
            ("volume", "volume", "the volume's driver"),
            ("osd-cpu", "osd", "the OSDs"),
            ("machine", "other", "all else on it"),
        )
    ],
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
        "innodb",
        {"flush_busy_share": 0.7},
        "A flush of the volume was under way 70 % of the time: commits wait for it.",
    ),
    (
        "volume",
        {"flush_busy_share": 0.7, "server_share": None},
        "A flush of the volume was under way 70 % of the time: writers wait for it.",
    ),
    (
        "volume",
        {"volume_in_flight": 15.4},
        "On average 15.4 requests were in the volume's queue, 2.00 ms each, of 16 threads.",
    ),
    ("none", {}, "No layer was at its limit: requests took the time that they take."),
]


@pytest.mark.parametrize(("word", "changed", "said"), CASES)
def test_the_layer_and_the_deciding_evidence(word: str, changed: dict[str, Any], said: str):
    found = decide_bottleneck(_seen(**changed))
    assert found.word == word
    assert found.evidence[0].startswith(said)
    assert len(found.evidence) > 1


@pytest.mark.parametrize(
    "changed",
    [
        {"device_busy_share": 0.89, "device_limit_share": 0.89},
        {"osd_share": 0.89},
        {"server_share": 0.89},
        {"network_share": 0.89},
        {"machine_share": 0.89, "cpu_cores": {"client": 1.7}},
        {"lock_waiting": 7.9},
        {"flush_busy_share": 0.59},
        {"log_busy_share": 0.59},
        {"volume_in_flight": 11.1},
        # Of one thread, one request under way is no queue before its volume is always busy.
        {"threads": 1, "volume_in_flight": 0.95},
        {"client": ClientVerdict("unknown", ())},
    ],
)
def test_just_below_a_limit_nothing_is_named(changed: dict[str, Any]):
    assert decide_bottleneck(_seen(**changed)).word == "none"


def test_what_decides_is_not_told_twice():
    found = decide_bottleneck(
        _seen(device_busy_share=0.95, device_limit_share=None, device="osd-0@h1")
    )
    assert sum("busy" in sentence for sentence in found.evidence) == 1
    found = decide_bottleneck(_seen(machine_share=0.95, cpu_cores=CORES))
    assert sum("cores were at work" in sentence for sentence in found.evidence) == 1


def test_too_little_is_known():
    found = decide_bottleneck(LayerEvidence(threads=1, cores=2.0))
    assert (found.word, len(found.evidence)) == ("unknown", 1)


UNSEEN: dict[str, Any] = {
    "server_share": None,
    "osd_share": None,
    "device_busy_share": None,
    "device_limit_share": None,
}


@pytest.mark.parametrize(
    ("changed", "word", "said"),
    [
        ({}, "unknown", "The OSDs could not be observed, and nothing else was at its limit."),
        ({"network_share": 0.95}, "network", "A link carried 95 % of what it can."),
        ({"osd_share": 0.1}, "none", "No layer was at its limit"),
        ({"device_busy_share": 0.1}, "none", "No layer was at its limit"),
    ],
)
def test_where_osds_could_not_be_observed_the_layer_is_known_only_if_another_one_is_at_its_limit(
    changed: dict[str, Any], word: str, said: str
):
    found = decide_bottleneck(_seen(**{**UNSEEN, **changed}))
    assert found.word == word
    assert found.evidence[0].startswith(said)


@pytest.mark.parametrize(("share", "passes"), [(None, False), (1.24, False), (1.25, True)])
def test_what_passes_a_mediums_limit_is_told(share: float | None, passes: bool) -> None:
    said = describe_passed_limit(_seen(device="osd-3@h1", device_limit_share=share))
    assert (said is not None) == passes
    if said is not None:
        assert said.startswith("The device of osd-3@h1 did 125 % of what its medium is limited to")
