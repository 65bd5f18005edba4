"""rbd bench's command line and its output made a result, for Ceph 16 to 20."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from grampus.bench.drivers.command import CephClient, bounded_argv
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

RbdDirection = Literal["read", "write"]
RbdPattern = Literal["rand", "seq"]


@dataclass(frozen=True)
class RbdLoad:
    """One run: rbd bench ends after `total_bytes`, it knows no time limit.

    `image_spec` is rbd's own, POOL/[NAMESPACE/]IMAGE.
    """

    client: CephClient
    image_spec: str
    direction: RbdDirection
    pattern: RbdPattern
    io_bytes: int
    concurrency: int
    total_bytes: int
    timeout_s: int


def rbd_bench_argv(load: RbdLoad) -> list[str]:
    """The command of one run. It prints text: rbd bench has no --format."""
    argv = [
        "rbd",
        *load.client.options,
        *load.client.image_settings,
        "bench",
        f"--io-type={load.direction}",
        f"--io-pattern={load.pattern}",
        f"--io-size={load.io_bytes}",
        f"--io-threads={load.concurrency}",
        f"--io-total={load.total_bytes}",
        load.image_spec,
    ]
    return bounded_argv(argv, timeout_s=load.timeout_s)


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
