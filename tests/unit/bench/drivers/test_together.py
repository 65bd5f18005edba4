"""Several clients' runs as one sample, on one clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from grampus.bench.drivers.outcome import DriverFailure, DriverResult, FailureKind, Loop, Second
from grampus.bench.drivers.start import ClockOffset
from grampus.bench.drivers.together import ClientRun, JointSample, Window, merge_clients
from grampus.bench.latency.histogram import histogram_of_latencies

MS = 10**6


def result(
    rates: Sequence[float],
    *,
    latency_ms: int = 2,
    threads: Sequence[int] | None = None,
    loop: Loop = "closed",
    errors: float = 0.0,
) -> DriverResult:
    """A run of one second for each of `rates`."""
    seconds = tuple(
        Second(
            ended_s=n + 1.0,
            duration_s=1.0,
            operations=rate,
            errors=errors,
            reconnects=errors / 2,
            threads=None if threads is None else threads[n],
        )
        for n, rate in enumerate(rates)
    )
    operations = round(sum(rates))
    return DriverResult(
        driver="sysbench",
        loop=loop,
        operations=operations,
        elapsed_s=float(len(rates)),
        seconds=seconds,
        latency=histogram_of_latencies([latency_ms * MS] * operations, source="known"),
    )


def run(
    name: str,
    outcome: DriverResult | DriverFailure,
    *,
    started_at_s: float = 1000.0,
    clock: ClockOffset = ClockOffset(0.0, 0.0),
    warm_up_s: float = 0.0,
    threads: int | None = None,
) -> ClientRun:
    return ClientRun(name, clock, started_at_s, outcome, warm_up_s, threads)


def sample_of(outcome: JointSample | DriverFailure) -> JointSample:
    assert isinstance(outcome, JointSample), outcome
    return outcome


def test_two_clients_that_ran_together_are_added_up() -> None:
    joint = sample_of(
        merge_clients([run("a", result([100] * 5, errors=2)), run("b", result([50] * 5))])
    )
    assert joint.window == Window(1000, 1005)
    assert [(s.at_s, s.operations) for s in joint.seconds] == [(1000 + n, 150) for n in range(5)]
    assert (joint.operations_per_s, joint.errors, joint.reconnects) == (150, 10, 5)
    assert (joint.outside_share, joint.notes) == (0, ())
    assert joint.latency is not None
    assert joint.latency.operations == 750


def test_percentiles_are_of_all_operations() -> None:
    fast, slow = result([970] * 5, latency_ms=1), result([30] * 5, latency_ms=100)
    joint = sample_of(merge_clients([run("a", fast), run("b", slow)]))
    assert joint.latency is not None
    p50, p99 = joint.latency.percentile(50), joint.latency.percentile(99)
    assert p50 is not None
    assert p99 is not None
    assert p50.to_document()["latency_us"] == pytest.approx(1_000, rel=0.002)
    # The mean of the two clients' would be 50.5 ms.
    assert p99.to_document()["latency_us"] == pytest.approx(100_000, rel=0.002)


WINDOWS: dict[str, tuple[list[ClientRun], Window, list[float]]] = {
    "a client that starts late cuts the beginning": (
        [run("a", result([100] * 10)), run("b", result([10] * 10), started_at_s=1004.0)],
        Window(1004, 1010),
        [110] * 6,
    ),
    "a clock that is ahead is put back": (
        [
            run("a", result([100] * 5)),
            run("b", result([10] * 5), started_at_s=5000.0, clock=ClockOffset(4000.0, 0.0)),
        ],
        Window(1000, 1005),
        [110] * 5,
    ),
    "seconds that do not begin with ours are shared out": (
        [
            run("a", result([100] * 6)),
            run("b", result([0, 40, 40, 80, 80, 80]), started_at_s=1000.25),
        ],
        Window(1001, 1006),
        [130, 140, 170, 180, 180],
    ),
    "the doubt of a clock narrows the window": (
        [run("a", result([10] * 9)), run("b", result([10] * 9), clock=ClockOffset(0.0, 0.2))],
        Window(1001, 1008),
        [20] * 7,
    ),
    "warm-up is not measured": (
        [run("a", result([1, 1, 10, 10, 10, 10]), warm_up_s=2.0), run("b", result([5] * 6))],
        Window(1002, 1006),
        [15] * 4,
    ),
    "threads that come and go are cut at both ends": (
        [
            run("a", result([1, 8, 8, 8, 8, 2], threads=[1, 4, 4, 4, 4, 3]), threads=4),
            run("b", result([5] * 6)),
        ],
        Window(1001, 1005),
        [13] * 4,
    ),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_the_window_is_where_all_were_at_full_load(name: str) -> None:
    runs, window, operations = WINDOWS[name]
    joint = sample_of(merge_clients(runs))
    assert joint.window == window
    assert [second.at_s for second in joint.seconds] == list(
        range(window.begin_at_s, window.end_at_s)
    )
    assert [second.operations for second in joint.seconds] == pytest.approx(operations)
    assert joint.operations_per_s == pytest.approx(sum(operations) / len(operations))
    # In whatever order the clients are named.
    other = sample_of(merge_clients(runs[::-1]))
    assert other.window == window
    assert [second.operations for second in other.seconds] == pytest.approx(operations)


def test_a_line_that_stands_for_two_seconds_is_shared_out_over_both() -> None:
    slow = replace(
        result([60] * 3), seconds=(Second(1.0, 1.0, 60), Second(3.0, 2.0, 120, errors=4))
    )
    joint = sample_of(merge_clients([run("a", slow)]))
    assert [(s.operations, s.errors) for s in joint.seconds] == [(60, 0), (60, 2), (60, 2)]


def test_latencies_from_outside_the_window_are_told_or_left_out() -> None:
    late = run("b", result([10] * 30), started_at_s=1001.0)
    joint = sample_of(merge_clients([run("a", result([10] * 30)), late]))
    assert joint.latency is not None
    assert joint.outside_share == pytest.approx(1 / 30)
    assert joint.notes == (
        "3.3 % of the operations were outside the common window; the latencies count them.",
    )
    later = replace(late, started_at_s=1015.0)
    joint = sample_of(merge_clients([run("a", result([10] * 30)), later]))
    assert joint.latency is None
    assert joint.notes == (
        "50.0 % of the operations were outside the common window; latencies are left out.",
    )


GOOD = run("good", result([100] * 6))


@pytest.mark.parametrize(
    ("runs", "kind", "words"),
    [
        (
            [GOOD, run("dead", DriverFailure("killed", "sysbench was killed (signal 9)."))],
            "killed",
            "Client dead has no figures: sysbench was killed (signal 9).",
        ),
        (
            [GOOD, run("b", result([9] * 6, threads=[4, 4, 3, 4, 4, 4]), threads=4)],
            "failed",
            "Client b had 3 of 4 threads 3 s after its start.",
        ),
        (
            [GOOD, run("b", result([9] * 6, threads=[3] * 6), threads=4)],
            "cut-off",
            "Client b was at full load in no second.",
        ),
        ([GOOD, run("b", result([]))], "cut-off", "at full load in no second"),
        ([GOOD, run("b", result([9] * 6), warm_up_s=6.0)], "cut-off", "in no second"),
        (
            [GOOD, run("b", result([9] * 6), started_at_s=1004.0)],
            "cut-off",
            "together for 2 s, which is less than 3 s (the last to begin: b; the first to end: "
            "good).",
        ),
        ([GOOD, run("b", result([9] * 6), started_at_s=2000.0)], "cut-off", "together for 0 s"),
        ([GOOD, run("b", result([9] * 6, loop="open"))], "unreadable", "no common figure"),
        ([run("a", result([0] * 6)), run("b", result([0] * 6))], "no-operations", "No client"),
        ([], "no-operations", "There was no client."),
    ],
)
def test_what_makes_no_sample_says_why(
    runs: list[ClientRun], kind: FailureKind, words: str
) -> None:
    for order in (runs, runs[::-1]):
        outcome = merge_clients(order)
        assert isinstance(outcome, DriverFailure), outcome
        assert outcome.kind == kind
        assert words in outcome.reason
