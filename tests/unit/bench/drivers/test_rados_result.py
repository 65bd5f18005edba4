"""rados bench's JSON and text."""

from __future__ import annotations

import pytest

from grampus.bench.drivers.outcome import DriverResult, FailureKind
from grampus.bench.drivers.rados_result import parse_object_prefix, parse_rados_bench

from .recordings import failure_of, output, recorded, result_of

JSON = recorded("rados-bench-20.json")
TEXT = recorded("rados-bench-20.txt")


def test_a_write_in_json() -> None:
    result = result_of(parse_rados_bench(output(JSON)))
    assert (result.driver, result.operations, result.elapsed_s) == ("rados bench", 330, 3.15)
    assert result.operations_per_s == pytest.approx(104.76, abs=0.01)
    assert result.moved_bytes == 330 * 4194304
    assert [(s.ended_s, s.operations) for s in result.seconds] == [(1, 105), (2, 0), (3, 210)]
    assert result.latency.average_us == pytest.approx(148_512)
    p99, highest = result.latency.percentile(99), result.latency.percentile(100)
    assert p99 is not None
    assert highest is not None
    # It prints no histogram: the 99th percentile is somewhere.
    assert p99.to_document()["latency_us"] is None
    assert p99.describe() == "between 21.1 ms and 512 ms"
    assert highest.describe() == "512 ms"


def test_a_read_in_text() -> None:
    result = result_of(parse_rados_bench(output(TEXT)))
    assert (result.operations, result.elapsed_s) == (2700, 3.01245)
    assert [s.operations for s in result.seconds] == [900, 900, 900]
    assert result.latency.average_us == pytest.approx(17_502)


def test_lines_with_a_time_before_them_are_the_same() -> None:
    # As `--show-time` prints them.
    timed = "".join(f"2026-11-22T12:00:00.5+0000 {line}\n" for line in TEXT.splitlines())
    assert parse_rados_bench(output(timed)) == parse_rados_bench(output(TEXT))


def test_an_older_release_has_a_colon_in_a_key() -> None:
    older = JSON.replace('"max_latency"', '"max_latency:"')
    assert parse_rados_bench(output(older)) == parse_rados_bench(output(JSON))


def test_numbers_may_be_numbers() -> None:
    numbers = JSON.replace('"330"', "330").replace('"3.150000"', "3.15")
    assert parse_rados_bench(output(numbers)) == parse_rados_bench(output(JSON))


def test_what_is_printed_after_the_figures_is_not_looked_at() -> None:
    more = f"{JSON}Cleaning up (deleting benchmark objects)\nRemoved 330 objects\n"
    assert parse_rados_bench(output(more)) == parse_rados_bench(output(JSON))


@pytest.mark.parametrize(
    ("text", "prefix"),
    [
        (JSON, "benchmark_data_h1_4711"),
        (JSON[:250], "benchmark_data_h1_4711"),
        ("hints = 1\nObject prefix: benchmark_data_h2_12\n", "benchmark_data_h2_12"),
        (
            "2026-11-22T12:00:00.5+0000 Object prefix: benchmark_data_h2_12\n",
            "benchmark_data_h2_12",
        ),
        (TEXT, None),
    ],
)
def test_the_prefix_of_a_write_survives_its_being_cut_off(text: str, prefix: str | None) -> None:
    assert parse_object_prefix(text) == prefix


@pytest.mark.parametrize("text", [JSON, TEXT])
def test_cut_off_anywhere_it_is_a_failure_and_never_a_figure(text: str) -> None:
    # Of JSON the last character is the line end.
    for end in range(len(text) - 1):
        cut = parse_rados_bench(output(text[:end]))
        assert not isinstance(cut, DriverResult), text[:end][-40:]
        assert cut.kind in ("cut-off", "unreadable")


@pytest.mark.parametrize(
    ("text", "stderr", "returncode", "kind", "words"),
    [
        ("hints = 1\n", "", 0, "cut-off", "ends before its figures"),
        (JSON, "", 137, "killed", "rados bench was killed (signal 9)."),
        (
            "hints = 1\n",
            "Must write data before running a read benchmark!\nerror during benchmark: (2) No\n",
            1,
            "failed",
            "Must write data before running a read benchmark!; error during benchmark: (2) No.",
        ),
        (
            JSON,
            "benchmark_data_h1_1_object3 is not correct!\n",
            1,
            "failed",
            "read 1 objects with wrong content.",
        ),
        (
            JSON.replace('made":"330"', 'made":"0"'),
            "",
            0,
            "no-operations",
            "rados bench finished no write.",
        ),
        (JSON.replace('"3.150000"', '"0.000000"'), "", 0, "unreadable", "ran for no time"),
        (JSON.replace('"3.150000"', '"nan"'), "", 0, "unreadable", "ran for no time"),
        (JSON.replace('"0.512345"', '"0,512345"'), "", 0, "unreadable", "cannot be read"),
        (JSON.replace('"0.512345"', '"inf"'), "", 0, "unreadable", "cannot be read"),
        (JSON.replace('"0.021098"', '"9999.0"'), "", 0, "unreadable", "cannot be read"),
        (JSON.replace('"0.148512"', "null"), "", 0, "unreadable", "cannot be read"),
        (JSON.replace('"min_latency"', '"x"'), "", 0, "cut-off", "(min_latency)"),
        (JSON.replace('[{"sec"', '["x",{"sec"'), "", 0, "unreadable", "cannot be read"),
    ],
)
def test_every_failure_has_a_reason(
    text: str, stderr: str, returncode: int, kind: FailureKind, words: str
) -> None:
    failure = failure_of(parse_rados_bench(output(text, stderr=stderr, returncode=returncode)))
    assert failure.kind == kind
    assert words in failure.reason
