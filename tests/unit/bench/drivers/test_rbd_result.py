"""rbd bench's text."""

from __future__ import annotations

import pytest

from grampus.bench.drivers.outcome import DriverResult, FailureKind
from grampus.bench.drivers.rbd_bench import parse_rbd_bench

from .recordings import failure_of, output, recorded, result_of

TEXT = recorded("rbd-bench-20.txt")
# Before Ceph 15 bytes were printed as a plain number.
OLDER = TEXT.replace("37 MiB/s\n", "39107788.80\n")


@pytest.mark.parametrize("text", [TEXT, OLDER])
def test_a_run(text: str) -> None:
    result = result_of(parse_rbd_bench(output(text)))
    assert (result.driver, result.operations) == ("rbd bench", 8192)
    assert result.operations_per_s == pytest.approx(2386.95)
    assert result.elapsed_s == pytest.approx(3.432, abs=0.001)
    assert result.moved_bytes == 8192 * 16384
    assert [(s.ended_s, s.operations) for s in result.seconds] == [(1, 2400), (2, 2384), (3, 2416)]


def test_it_knows_no_latency() -> None:
    latency = result_of(parse_rbd_bench(output(TEXT))).latency
    assert latency.operations == 8192
    assert latency.average_us is None
    assert latency.resolution.coarse_operations == 8192


def test_large_rates_are_printed_with_an_exponent() -> None:
    fast = TEXT.replace("2386.95", "1.2e+06")
    assert result_of(parse_rbd_bench(output(fast))).operations_per_s == pytest.approx(1.2e6)


def test_a_second_in_which_nothing_was_sent_yet_counts_none() -> None:
    slow = TEXT.replace("    1      2400", "    1       -16")
    assert result_of(parse_rbd_bench(output(slow))).seconds[0].operations == 0


def test_cut_off_anywhere_it_is_a_failure_and_never_a_figure() -> None:
    for end in range(TEXT.index("bytes/sec: ")):
        cut = parse_rbd_bench(output(TEXT[:end]))
        assert not isinstance(cut, DriverResult)
        assert cut.kind == "cut-off"


@pytest.mark.parametrize(
    ("text", "stderr", "returncode", "kind", "words"),
    [
        ("", "", 0, "cut-off", "ends before its figures"),
        (TEXT, "", 124, "killed", "rbd bench did not end in time and was stopped."),
        (
            "",
            "rbd: error opening image x: (2) No such file or directory\n",
            2,
            "failed",
            "rbd bench failed: rbd: error opening image x",
        ),
        ("write error: (28) No space left on device\n", "", 28, "failed", "(28) No space left"),
        (TEXT + "read error: (5) Input/output error\n", "", 0, "failed", "read error: (5)"),
        (TEXT.replace("ops: 8192", "ops: 0"), "", 0, "no-operations", "finished no I/O."),
        (TEXT.replace("2386.95", "2386,95"), "", 0, "cut-off", "ends before its figures"),
        (TEXT.replace("2386.95", "1e-320"), "", 0, "unreadable", "cannot be read"),
    ],
)
def test_every_failure_has_a_reason(
    text: str, stderr: str, returncode: int, kind: FailureKind, words: str
) -> None:
    failure = failure_of(parse_rbd_bench(output(text, stderr=stderr, returncode=returncode)))
    assert failure.kind == kind
    assert words in failure.reason
