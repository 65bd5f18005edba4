"""fio's JSON, as fio 3.41 printed it, and what may be wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grampus.bench.latency.percentile import Percentile
from grampus.bench.paths.fio_output import FioError, describe_fio_failure, parse_fio

RECORDED = (Path(__file__).parent / "recorded" / "fio-3.41.json").read_text(encoding="utf-8")


def changed(**values: Any) -> str:
    """The recorded output with keys of its first job changed."""
    document = json.loads(RECORDED[RECORDED.index("{") :])
    document["jobs"][0] |= values
    return json.dumps(document)


def test_a_read() -> None:
    point = parse_fio(RECORDED, what="x")["16k-randread-qd1"]
    assert (point.operations, point.runtime_s) == (106, 0.011)
    assert point.iops == pytest.approx(9636.36, abs=0.01)
    assert point.bytes_per_s == 157882181
    assert point.started_at_s == 1795274018.087
    assert point.latency.operations == 106
    assert point.latency.average_us == pytest.approx(92.77, abs=0.01)
    # As its "min" and "max" say, which are no buckets.
    assert point.latency.percentile(0.1) == Percentile(0.1, low_ns=62_311, high_ns=62_311)
    assert point.latency.percentile(100) == Percentile(100, low_ns=470_989, high_ns=470_989)
    assert point.flush.operations == 0


def test_a_write_with_a_flush_has_two_histograms() -> None:
    point = parse_fio(RECORDED, what="x")["4k-write-fsync"]
    assert (point.operations, point.latency.operations, point.flush.operations) == (1, 1, 1)
    assert point.latency.average_us == pytest.approx(95.76)
    assert point.flush.average_us == pytest.approx(7907.091)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cannot be read"),
        ("fio: engine rbd not loadable", "cannot be read"),
        ('{"jobs": [{}]}', "cannot be read (KeyError: 'jobname')"),
        (changed(error=5), "fio met error 5 during round 1, 16k-randread-qd1."),
        (changed(read={"total_ios": 0, "runtime": 0}), "fio finished no I/O"),
        (
            changed(
                read={
                    "total_ios": 1,
                    "runtime": 9,
                    "iops": 1,
                    "bw_bytes": 1,
                    "lat_ns": {"N": 1, "mean": 3.0},
                }
            ),
            "fio counted 1 latencies and 0 in its bins",
        ),
    ],
)
def test_what_is_wrong_is_said(text: str, words: str) -> None:
    with pytest.raises(FioError) as caught:
        parse_fio(text, what="round 1")
    assert words in caught.value.problem


def test_a_failure_is_told_in_fios_words() -> None:
    error = describe_fio_failure("round 1", 1, "fio_rbd_connect failed.\n{...", "")
    assert error.problem == "fio failed during round 1: fio_rbd_connect failed."
    assert "code 3" in describe_fio_failure("round 1", 3, "", "").problem
