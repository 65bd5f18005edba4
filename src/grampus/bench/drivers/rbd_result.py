"""What rbd bench prints (Ceph 16 to 20), made a result.

It says no latency, its total time in whole seconds only, and each second how many I/Os were sent
so far, less those in flight.
"""

from __future__ import annotations

import re

from grampus.bench.drivers.outcome import (
    DriverFailure,
    DriverOutput,
    DriverResult,
    Second,
    classify_exit,
    last_words,
)
from grampus.bench.latency.histogram import HistogramError
from grampus.bench.latency.sources import histogram_from_rbd_bench

_NUMBER = r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_HEAD = re.compile(r"^bench +type \w+ .*?\bio_size (\d+) ", re.MULTILINE)
_ROW = re.compile(rf"^ *(\d+) +(-?\d+) +{_NUMBER} +{_NUMBER}(?: \w+/s)?\s*$", re.MULTILINE)
_END = re.compile(rf"^elapsed: +\d+ +ops: +(\d+) +ops/sec: +{_NUMBER} +bytes/sec: ", re.MULTILINE)
_ERROR = re.compile(r"^(?:rbd: )?((?:read|write) error: .+?)\s*$", re.MULTILINE)


def parse_rbd_bench(output: DriverOutput) -> DriverResult | DriverFailure:
    """The result of a run of `rbd_bench_argv`."""
    error = _ERROR.search(f"{output.stdout}\n{output.stderr}")
    words = last_words(output.stderr) if error is None else error[1]
    failure = classify_exit("rbd bench", output, words)
    if failure is not None:
        return failure
    if error is not None:
        return DriverFailure("failed", f"rbd bench failed: {error[1].rstrip('.')}.")
    head, end = _HEAD.search(output.stdout), _END.search(output.stdout)
    if head is None or end is None:
        return DriverFailure("cut-off", "rbd bench's output ends before its figures.")
    operations, rate_per_s = int(end[1]), float(end[2])
    if not operations or not rate_per_s:
        return DriverFailure("no-operations", "rbd bench finished no I/O.")
    elapsed_s = operations / rate_per_s
    try:
        latency = histogram_from_rbd_bench(operations, elapsed_s=elapsed_s)
    except (HistogramError, OverflowError) as problem:
        return DriverFailure("unreadable", f"rbd bench's output cannot be read: {problem}.")
    return DriverResult(
        driver="rbd bench",
        loop="closed",
        operations=operations,
        elapsed_s=elapsed_s,
        seconds=_seconds(output.stdout),
        latency=latency,
        moved_bytes=operations * int(head[1]),
    )


def _seconds(text: str) -> tuple[Second, ...]:
    seconds: list[Second] = []
    before_s, before = 0.0, 0
    for second, sent, _, _ in _ROW.findall(text):
        ended_s, operations = float(second), max(int(sent), 0)
        if ended_s > before_s:
            seconds.append(Second(ended_s, ended_s - before_s, operations - before))
            before_s, before = ended_s, operations
    return tuple(seconds)
