"""sysbench's output, whole, cut off anywhere, and with what does not belong in it."""

from __future__ import annotations

import pytest

from grampus.bench.drivers.outcome import DriverFailure, DriverResult, FailureKind, Second
from grampus.bench.drivers.sysbench_result import (
    classify_rate,
    parse_fatal,
    parse_second,
    parse_seconds,
    parse_sysbench,
)
from tests.fakes.sysbench_host import RUN_HEAD, interval_line, run_tail

from ..latency.printed import sysbench_histogram
from .recordings import failure_of, output, recorded, result_of

OLTP = recorded("sysbench-1.0.20-oltp.txt")
CPU = recorded("sysbench-1.0.20-cpu.txt")
RATE = recorded("sysbench-1.0.20-rate.txt")
OVERLOADED = recorded("sysbench-1.0.20-overloaded.txt")
NO_TLS = """FATAL: unable to connect to MySQL server on host '10.0.0.1', port 3306, aborting...
FATAL: error 2026: TLS/SSL error: Hostname verification failed
(last message repeated 1 times)
FATAL: `thread_init' function failed: /usr/share/sysbench/oltp_common.lua:349: connection failed
FATAL: Thread initialization failed!
"""
NO_TABLE = """FATAL: mysql_stmt_prepare() failed
(last message repeated 1 times)
FATAL: MySQL error: 1146 "Table 'sbtest.sbtest5' doesn't exist"
FATAL: `thread_init' function failed: /usr/share/sysbench/oltp_common.lua:284: SQL API error
FATAL: MySQL error: 1146 "Table 'sbtest.sbtest5' doesn't exist"
FATAL: Thread initialization failed!
"""
FATAL = 'FATAL: MySQL error: 2013 "Lost connection to MySQL server during query"\n'


def database_run(*, operations: int = 1638, errors: int = 3, reconnects: int = 1) -> str:
    """A run against a database as sysbench prints it, with a histogram that fits."""
    latencies = [7_730_000, 47_820_000, *[19_570_000] * (operations - 2)][:operations]
    tail = run_tail(tps=408.05, errors=errors, reconnects=reconnects)
    tail = tail[tail.index("\nSQL statistics") :].replace("1638", str(operations))
    lines = [interval_line(second, 408.0) for second in range(1, 5)]
    return "\n".join([RUN_HEAD, *lines, sysbench_histogram(latencies) + tail])


def test_a_run_against_a_database() -> None:
    result = result_of(parse_sysbench(output(database_run())))
    assert (result.driver, result.loop) == ("sysbench", "closed")
    assert (result.operations, result.queries, result.elapsed_s) == (1638, 32760, 4.0142)
    assert (result.errors, result.reconnects) == (3, 1)
    assert result.latency.operations == 1638
    assert result.latency.total_ns == 32_050_380_000
    assert [(s.ended_s, s.duration_s, s.operations, s.threads) for s in result.seconds] == [
        (second, 1, 408, 8) for second in range(1, 5)
    ]


def test_a_recorded_run_against_mysql() -> None:
    result = result_of(parse_sysbench(output(OLTP)))
    assert (result.loop, result.operations, result.elapsed_s) == ("closed", 138, 4.1562)
    assert (result.queries, result.errors, result.reconnects) == (2760, 0, 0)
    p99 = result.latency.percentile(99)
    assert p99 is not None
    # sysbench itself says 539.71.
    assert p99.to_document()["latency_us"] == pytest.approx(539_710, rel=0.014)
    assert result.latency.average_us == pytest.approx(239_190, rel=1e-3)


def test_a_recorded_closed_loop() -> None:
    result = result_of(parse_sysbench(output(CPU)))
    assert (result.loop, result.operations, result.elapsed_s) == ("closed", 91508, 2.0048)
    p99 = result.latency.percentile(99)
    assert p99 is not None
    # sysbench itself says 0.15.
    assert p99.to_document()["latency_us"] == pytest.approx(150, rel=0.04)
    assert result.seconds[0].operations == pytest.approx(50290.28)
    assert (result.queries, result.errors, result.reconnects) == (None, 0, 0)


def test_a_recorded_open_loop_that_kept_its_rate() -> None:
    result = result_of(parse_sysbench(output(RATE)))
    assert result.loop == "open"
    assert [(s.queue_length, s.busy_threads) for s in result.seconds] == [(0, 0), (0, 0)]
    verdict = classify_rate(result, asked_per_s=200)
    assert verdict.kept
    assert verdict.evidence == "197.8/s of 200/s (98.9 %) were done."


def test_a_recorded_open_loop_that_did_not() -> None:
    result = result_of(parse_sysbench(output(OVERLOADED)))
    assert [(s.queue_length, s.busy_threads) for s in result.seconds] == [(18593, 1)]
    # The time in the queue is in it: an event itself takes 0.7 ms.
    assert result.latency.average_us == pytest.approx(965_520, rel=1e-3)
    verdict = classify_rate(result, asked_per_s=20_000)
    assert not verdict.kept
    assert verdict.evidence == (
        "1359.6/s of 20000/s (6.8 %) were done, and 18593 requests were waiting."
    )


def test_a_rate_that_is_missed_without_a_queue_is_missed() -> None:
    result = result_of(parse_sysbench(output(RATE)))
    assert not classify_rate(result, asked_per_s=203).kept


@pytest.mark.parametrize("text", [database_run(), OLTP, CPU, RATE])
def test_cut_off_anywhere_it_is_a_failure_and_never_a_figure(text: str) -> None:
    figures, last = text.index("Latency (ms)"), text.index("execution time (avg/stddev)")
    for end in [*range(0, figures, 97), *range(figures, last)]:
        failure = failure_of(parse_sysbench(output(text[:end])))
        assert failure.kind == "cut-off"
        assert failure.reason.startswith("sysbench")


def test_the_seconds_of_a_client_that_was_killed_can_be_read() -> None:
    text = database_run()
    cut = text[: text.index(interval_line(3, 408.0)) + 20]
    assert [second.ended_s for second in parse_seconds(cut)] == [1, 2]


@pytest.mark.parametrize(
    ("text", "stderr", "returncode", "kind", "words"),
    [
        ("", "", 0, "cut-off", "before its threads had started"),
        (RUN_HEAD, "", 0, "cut-off", "sysbench's output ends before its figures."),
        (database_run(), "", -9, "killed", "sysbench was killed (signal 9)."),
        (database_run(), "", 137, "killed", "sysbench was killed (signal 9)."),
        (database_run(), "", 124, "killed", "did not end in time and was stopped."),
        (database_run() + FATAL, "", 0, "failed", "failed: MySQL error: 2013"),
        ("", FATAL, 1, "failed", "failed: MySQL error: 2013"),
        ("", FATAL, 124, "killed", "was stopped, after: MySQL error: 2013"),
        ("", "", 3, "failed", "ended with code 3 and said nothing of why."),
        (database_run().replace(".", ","), "", 0, "unreadable", "cannot be read (total time"),
        (database_run(operations=0), "", 0, "no-operations", "finished no transaction."),
        (
            database_run().replace("     4.0142s", "     0.0000s"),
            "",
            0,
            "unreadable",
            "ran for no time",
        ),
        (
            database_run().replace(" |", " !"),
            "",
            0,
            "unreadable",
            "histogram cannot be used: sysbench printed no histogram.",
        ),
        (
            database_run().replace("transactions:                        1638", "transactions: 9"),
            "",
            0,
            "unreadable",
            "histogram holds 1638 of 9 transactions.",
        ),
    ],
)
def test_every_failure_has_a_reason(
    text: str, stderr: str, returncode: int, kind: FailureKind, words: str
) -> None:
    failure = failure_of(parse_sysbench(output(text, stderr=stderr, returncode=returncode)))
    assert failure.kind == kind
    assert words in failure.reason


def test_warnings_between_the_lines_are_kept_and_change_nothing() -> None:
    warned = database_run().replace(
        interval_line(2, 408.0), f"WARNING: a warning\n{interval_line(2, 408.0)}\nnoise [ 9s ]"
    )
    result = result_of(parse_sysbench(output(warned, stderr="WARNING: a warning\n")))
    clean = result_of(parse_sysbench(output(database_run())))
    assert result.warnings == ("a warning",)
    assert (result.seconds, result.latency) == (clean.seconds, clean.latency)


def test_a_failure_is_no_result() -> None:
    assert not isinstance(DriverFailure("killed", "x"), DriverResult)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "[ 1s ] thds: 8 tps: 387.51 qps: 7834.00 (r/w/o: 5496.98/1554.02/783.00) "
            "lat (ms,99%): 43.39 err/s: 0.00 reconn/s: 0.00",
            Second(1, 1, 387.51, queries=7834.0, latency_p99_ms=43.39, threads=8),
        ),
        (
            "[ 2s ] thds: 7 tps: 0.00 qps: 3.00 (r/w/o: 1.00/2.00/0.00) "
            "lat (ms,99%): 0.00 err/s: 1.50 reconn/s: 0.25",
            Second(2, 2, 0, 3.0, 0.5, queries=6.0, latency_p99_ms=0.0, threads=7),
        ),
        (
            "[ 3s ] thds: 2 eps: 9.00 lat (ms,99%): 4.00",
            Second(3, 3, 27.0, latency_p99_ms=4.0, threads=2),
        ),
        ("Threads started!", None),
        ("[ 0s ] thds: 8 tps: 1.00 lat (ms,99%): 4.00", None),
        ("[ 1s ] thds: 8 fps: 3.00 lat (ms,99%): 4.00", None),
        ("       0.665 |                                         1", None),
        ("", None),
    ],
)
def test_a_line_of_the_series(line: str, expected: Second | None) -> None:
    assert parse_second(line, after_s=0.0) == expected


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (NO_TLS, "error 2026: TLS/SSL error: Hostname verification failed"),
        (NO_TABLE, "MySQL error: 1146 \"Table 'sbtest.sbtest5' doesn't exist\""),
        ("FATAL: Thread initialization failed!", "Thread initialization failed!"),
    ],
)
def test_the_cause_comes_first_among_fatal_messages(text: str, first: str) -> None:
    messages = parse_fatal(text)
    assert messages[0] == first
    assert len(set(messages)) == len(messages)
