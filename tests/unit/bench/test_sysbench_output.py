"""sysbench's lines, as 1.0.20 printed them."""

from __future__ import annotations

import pytest

from grampus.bench.sysbench_output import (
    Interval,
    SysbenchError,
    describe_failure,
    parse_fatal,
    parse_interval,
    parse_summary,
)
from tests.fakes.sysbench_host import run_output

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


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "[ 1s ] thds: 8 tps: 387.51 qps: 7834.00 (r/w/o: 5496.98/1554.02/783.00) "
            "lat (ms,99%): 43.39 err/s: 0.00 reconn/s: 0.00",
            Interval(1, 8, 387.51, 7834.0, 43.39, 0.0, 0.0),
        ),
        (
            "[ 12s ] thds: 7 tps: 0.00 qps: 3.00 (r/w/o: 1.00/2.00/0.00) "
            "lat (ms,99%): 0.00 err/s: 1.50 reconn/s: 0.25",
            Interval(12, 7, 0.0, 3.0, 0.0, 1.5, 0.25),
        ),
        ("Threads started!", None),
        ("[ 1s ] thds: 8 fps: 3.00 lat (ms,99%): 4.00", None),
        ("       0.665 |                                         1", None),
        ("", None),
    ],
)
def test_interval_lines(line: str, expected: Interval | None) -> None:
    assert parse_interval(line) == expected


def test_summary_is_read_from_the_final_block_only() -> None:
    summary = parse_summary("\n".join(run_output(4, tps=408.02, errors=3, reconnects=1)))
    assert (summary.reads, summary.writes, summary.others) == (22932, 6552, 3276)
    assert (summary.transactions, summary.tps) == (1638, 408.02)
    assert (summary.queries, summary.qps) == (32760, 8160.41)
    assert (summary.errors, summary.reconnects) == (3, 1)
    assert summary.total_time_s == 4.0142
    assert summary.latency_min_ms == 7.73
    assert summary.latency_avg_ms == 19.57
    assert summary.latency_p99_ms == 38.25
    assert summary.latency_max_ms == 47.82


def test_an_output_cut_off_says_what_is_missing() -> None:
    whole = run_output(4)
    cut = whole[: whole.index("Latency (ms):")]
    with pytest.raises(SysbenchError) as caught:
        parse_summary("\n".join(cut))
    assert "latency_p99_ms" in caught.value.problem
    assert "transactions" not in caught.value.problem


def test_the_95th_percentile_is_not_taken_for_the_99th() -> None:
    text = "\n".join(run_output(4)).replace("99th percentile", "95th percentile")
    with pytest.raises(SysbenchError, match="latency_p99_ms"):
        parse_summary(text)


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


@pytest.mark.parametrize(
    ("returncode", "stderr", "problem"),
    [
        (0, "", None),
        # `prepare` can end with 0 after a FATAL message.
        (0, NO_TABLE, "sysbench failed during the test: MySQL error: 1146"),
        (1, NO_TLS, "sysbench failed during the test: error 2026: TLS/SSL error"),
        (3, "", "it ended with code 3"),
        (124, "", "it did not end in time"),
    ],
)
def test_failures_are_told_in_sysbenchs_own_words(
    returncode: int, stderr: str, problem: str | None
) -> None:
    failure = describe_failure("the test", returncode, ("", stderr))
    if problem is None:
        assert failure is None
    else:
        assert failure is not None
        assert problem in failure.problem
