"""What follows from how the clients of a trial ended."""

from __future__ import annotations

import pytest

from grampus.bench.drivers.outcome import DriverOutput, DriverResult
from grampus.bench.environments.clients import ClientEnd
from grampus.bench.environments.measuring import decide_busy_threads, decide_load_s
from grampus.bench.latency.histogram import (
    LatencyHistogram,
    histogram_of_latencies,
    merge_histograms,
)

NOTHING_SAID = DriverOutput("", "", 0)


def _end(began_at_s: float, ended_at_s: float) -> ClientEnd:
    return ClientEnd("c", NOTHING_SAID, began_at_s - 1, began_at_s, ended_at_s, cpu_s=None)


@pytest.mark.parametrize(
    ("ends", "expected_s"),
    [
        ([], 0),
        ([_end(10, 21)], 11),
        # As long as any of them loads.
        ([_end(10, 21), _end(12, 23)], 13),
        ([_end(12, 15), _end(10, 21)], 11),
    ],
)
def test_the_load_lasts_from_the_first_beginning_to_the_last_end(
    ends: list[ClientEnd], expected_s: float
) -> None:
    assert decide_load_s(ends) == expected_s


def _result(operations: int, latency: LatencyHistogram) -> DriverResult:
    """Of 10 s at full load, behind which the last requests are waited for."""
    return DriverResult(
        driver="rados bench",
        loop="closed",
        operations=operations,
        elapsed_s=14.0,
        seconds=(),
        latency=latency,
    )


def test_threads_that_wait_for_their_last_requests_are_not_idle() -> None:
    """Two clients of 16 threads: 4 operations a second and thread, of 250 ms each."""
    latency = histogram_of_latencies([250_000_000] * 640, source="made")
    busy = decide_busy_threads([_result(640, latency)] * 2, operations_per_s=128)
    assert busy == pytest.approx(32, rel=0.02)


def test_of_a_client_without_latencies_nothing_is_known_of_its_threads() -> None:
    latency = histogram_of_latencies([250_000_000] * 640, source="made")
    results = [_result(640, latency), _result(640, merge_histograms([]))]
    assert decide_busy_threads(results, operations_per_s=128) is None
