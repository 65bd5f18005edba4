"""fio's JSON+ and its logs, as fio 3.41 printed them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from grampus.bench.drivers.fio_result import parse_fio_jobs, parse_iops_logs
from grampus.bench.drivers.outcome import DriverFailure, DriverResult, FailureKind
from grampus.bench.latency.sources import histogram_from_fio

from .recordings import failure_of, output, recorded, result_of

TEXT = recorded("fio-3.41.json")
LOGS = {
    "mixed": [recorded("fio-3.41_iops.1.log"), recorded("fio-3.41_iops.2.log")],
    "logged": [recorded("fio-3.41_iops.3.log")],
}


def parsed(text: str = TEXT, **how: Any) -> Mapping[str, DriverResult | DriverFailure]:
    jobs = parse_fio_jobs(output(text, **how), LOGS)
    assert isinstance(jobs, dict), jobs
    return jobs


def changed(job: int, **values: Any) -> str:
    document = json.loads(TEXT)
    document["jobs"][job] |= values
    return json.dumps(document)


def test_copies_of_a_job_are_one_result() -> None:
    jobs = parsed()
    assert list(jobs) == ["mixed", "mixed/read", "mixed/write", "logged"]
    mixed = result_of(jobs["mixed"])
    assert (mixed.driver, mixed.loop, mixed.operations) == ("fio", "closed", 160)
    assert mixed.elapsed_s == 2.002
    assert mixed.moved_bytes == 160 * 4096
    assert [(s.ended_s, s.operations) for s in mixed.seconds] == [(1, 80)]
    documents = json.loads(TEXT)["jobs"][:2]
    sums = [
        histogram_from_fio(job[side]["lat_ns"]).total_ns or 0
        for job in documents
        for side in ("read", "write")
    ]
    assert mixed.latency.operations == 160
    assert mixed.latency.total_ns == sum(sums)


def test_directions_are_told_apart_where_there_are_two() -> None:
    jobs = parsed()
    reads, writes = result_of(jobs["mixed/read"]), result_of(jobs["mixed/write"])
    assert (reads.operations, writes.operations) == (80, 80)
    assert reads.latency.operations == writes.latency.operations == 80
    assert "logged/write" not in jobs


def test_flushes_have_a_histogram_of_their_own() -> None:
    logged = result_of(parsed()["logged"])
    assert (logged.operations, logged.latency.operations, logged.flush.operations) == (60, 60, 60)
    assert result_of(parsed()["mixed"]).flush.operations == 0


def test_warnings_before_the_document_are_kept() -> None:
    text = f"note: both iodepth >= 1 and synchronous I/O engine are selected\n{TEXT}\nmore\n"
    assert result_of(parsed(text)["logged"]).warnings == (
        "note: both iodepth >= 1 and synchronous I/O engine are selected",
    )


def test_a_job_that_failed_leaves_the_others() -> None:
    jobs = parsed(changed(2, error=5))
    assert failure_of(jobs["logged"]).reason == "fio met error 5 in job logged."
    assert result_of(jobs["mixed"]).operations == 160


def test_a_copy_that_failed_fails_its_job() -> None:
    assert failure_of(parsed(changed(1, error=28))["mixed"]).kind == "failed"


@pytest.mark.parametrize(
    ("values", "kind", "words"),
    [
        ({"write": {"total_ios": 0, "runtime": 0}}, "no-operations", "finished no I/O"),
        (
            {
                "write": {
                    "total_ios": 5,
                    "runtime": 9,
                    "io_bytes": 1,
                    "lat_ns": {"N": 0, "min": 0, "max": 0, "mean": 0},
                }
            },
            "unreadable",
            "measured no latencies in job logged",
        ),
    ],
)
def test_a_job_without_figures_says_why(
    values: dict[str, Any], kind: FailureKind, words: str
) -> None:
    failure = failure_of(parsed(changed(2, **values))["logged"])
    assert failure.kind == kind
    assert words in failure.reason


def test_cut_off_anywhere_it_is_a_failure_and_never_a_figure() -> None:
    for end in range(0, len(TEXT.rstrip()), 61):
        failure = failure_of(parse_fio_jobs(output(TEXT[:end]), LOGS))
        assert failure.kind == "cut-off"


@pytest.mark.parametrize(
    ("text", "stderr", "returncode", "kind", "words"),
    [
        ("", "", 0, "cut-off", "ends before its figures"),
        ("", "", 137, "killed", "fio was killed (signal 9)."),
        (
            TEXT,
            "\nfio: terminating on signal 15\n",
            124,
            "killed",
            "did not end in time and was stopped, after: fio: terminating on signal 15.",
        ),
        (
            '{"jobs": []}',
            "rados_conf_read_file failed.\nfio_rbd_connect failed.\n",
            1,
            "failed",
            "fio failed: rados_conf_read_file failed.; fio_rbd_connect failed.",
        ),
        ('{"jobs": []}', "", 0, "no-operations", "fio ran no job."),
        ('{"jobs": [{}]}', "", 0, "unreadable", "KeyError: 'jobname'"),
        ('{"jobs": 3}', "", 0, "unreadable", "TypeError"),
        (TEXT.replace('"bins"', '"binz"'), "", 0, "unreadable", "json does not"),
        (TEXT.replace('"N": 60', '"N": 61'), "", 0, "unreadable", "61 latencies and 60"),
    ],
)
def test_every_failure_has_a_reason(
    text: str, stderr: str, returncode: int, kind: FailureKind, words: str
) -> None:
    failure = failure_of(parse_fio_jobs(output(text, stderr=stderr, returncode=returncode), LOGS))
    assert failure.kind == kind
    assert words in failure.reason


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], []),
        ([""], []),
        (["11000, 5, 0, 0, 0\n12001, 7, 0, 0, 0\n"], [(1, 5), (2, 7)]),
        (["11000, 5, 0, 0, 0\n11000, 6, 1, 0, 0\n"], [(1, 11)]),
        # What ended before the ramp, and lines cut off.
        (["9000, 5, 0, 0, 0\n11000, 5, 0, 0, 0\n120"], [(1, 5)]),
        # A second that one copy did not log would look slow.
        (["11000, 5, 0, 0\n12000, 5, 0, 0\n", "11020, 5, 0, 0\n"], [(1, 10)]),
    ],
)
def test_logs(texts: list[str], expected: list[tuple[int, int]]) -> None:
    seconds = parse_iops_logs(texts, started_at_ms=10_000)
    assert [(second.ended_s, second.operations) for second in seconds] == expected
