"""What `fio --output-format=json+` prints and logs (fio 3.30 to 3.41), made results."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from grampus.bench.drivers.outcome import (
    DriverFailure,
    DriverOutput,
    DriverResult,
    Second,
    classify_exit,
    last_words,
)
from grampus.bench.latency.histogram import (
    HistogramError,
    LatencyHistogram,
    merge_histograms,
)
from grampus.bench.latency.sources import histogram_from_fio

# "1795349565541, 201, 0, 0, 0": Unix time in ms at the end of the second, I/Os, direction, ...
_LOG_LINE = re.compile(r"^(\d+), *(\d+), *[012],[\d, x]*$", re.MULTILINE)
_DIRECTIONS = ("read", "write")


def parse_fio_jobs(
    output: DriverOutput, logs: Mapping[str, Sequence[str]]
) -> dict[str, DriverResult | DriverFailure] | DriverFailure:
    """The result of each job by name, its copies merged; or the reason why there is none.

    A job that reads and writes has `NAME` for both, `NAME/read` and `NAME/write`. `logs` are the
    texts of `iops_logs`; without them, or for one direction, there is no series.
    """
    begin = output.stdout.find("{")
    said = output.stdout if begin < 0 else output.stdout[:begin]
    failure = classify_exit("fio", output, last_words(f"{said}\n{output.stderr}"))
    if failure is not None:
        return failure
    if begin < 0:
        return DriverFailure("cut-off", "fio's output ends before its figures.")
    try:
        # What follows the document is not looked at.
        document, _ = json.JSONDecoder().raw_decode(output.stdout[begin:])
    except json.JSONDecodeError:
        return DriverFailure("cut-off", "fio's output ends before its figures.")
    warnings = tuple(line.strip() for line in said.splitlines() if line.strip())
    try:
        copies: dict[str, list[Mapping[str, Any]]] = {}
        for job in document["jobs"]:
            copies.setdefault(str(job["jobname"]), []).append(job)
        results: dict[str, DriverResult | DriverFailure] = {}
        for name, jobs in copies.items():
            results |= _read_job(name, jobs, logs.get(name, ()), warnings)
    except (HistogramError, KeyError, ValueError, TypeError, AttributeError) as error:
        return DriverFailure(
            "unreadable", f"fio's output cannot be read ({type(error).__name__}: {error})."
        )
    if not results:
        return DriverFailure("no-operations", "fio ran no job.")
    return results


def parse_iops_logs(texts: Iterable[str], *, started_at_ms: int) -> tuple[Second, ...]:
    """Each second's I/Os of a job's copies and directions together.

    `started_at_ms` (Unix time) is when its ramp ended. Lines cut off are passed over, and so are
    seconds that not all copies logged: they were cut off, too.
    """
    copies: list[dict[int, float]] = []
    for text in texts:
        seconds: dict[int, float] = {}
        for ended, operations in _LOG_LINE.findall(text):
            second = round((int(ended) - started_at_ms) / 1000)
            if second >= 1:
                seconds[second] = seconds.get(second, 0.0) + float(operations)
        copies.append(seconds)
    if not copies:
        return ()
    complete = set.intersection(*(set(seconds) for seconds in copies))
    return tuple(
        Second(float(second), 1.0, sum(seconds[second] for seconds in copies))
        for second in sorted(complete)
    )


def _read_job(
    name: str, jobs: Sequence[Mapping[str, Any]], logs: Sequence[str], warnings: tuple[str, ...]
) -> dict[str, DriverResult | DriverFailure]:
    codes = [int(job["error"]) for job in jobs if job["error"]]
    if codes:
        return {name: DriverFailure("failed", f"fio met error {codes[0]} in job {name}.")}
    sides = {
        direction: _read_side(jobs, direction)
        for direction in _DIRECTIONS
        if any(int(job[direction]["total_ios"]) for job in jobs)
    }
    elapsed_s = max((side.elapsed_s for side in sides.values()), default=0.0)
    if not sides or not elapsed_s:
        return {name: DriverFailure("no-operations", f"fio finished no I/O in job {name}.")}
    if any(not side.latency.operations for side in sides.values()):
        return {name: DriverFailure("unreadable", f"fio measured no latencies in job {name}.")}
    moved = [side.moved_bytes or 0 for side in sides.values()]
    # fio sets `job_start` anew when the ramp ends (fio 3.41, compared with the times in its log).
    started_at_ms = max(int(job["job_start"]) for job in jobs)
    whole = DriverResult(
        driver="fio",
        loop="closed",
        operations=sum(side.operations for side in sides.values()),
        elapsed_s=elapsed_s,
        seconds=parse_iops_logs(logs, started_at_ms=started_at_ms),
        latency=merge_histograms(side.latency for side in sides.values()),
        errors=sum(int(job.get("total_err", 0)) for job in jobs),
        moved_bytes=sum(moved),
        flush=merge_histograms(_flushes(job) for job in jobs),
        warnings=warnings,
        started_at_s=started_at_ms / 1000,
    )
    results: dict[str, DriverResult | DriverFailure] = {name: whole}
    if len(sides) > 1:
        results |= {
            f"{name}/{direction}": replace(side, warnings=warnings)
            for direction, side in sides.items()
        }
    return results


def _read_side(jobs: Sequence[Mapping[str, Any]], direction: str) -> DriverResult:
    sides = [job[direction] for job in jobs]
    return DriverResult(
        driver="fio",
        loop="closed",
        operations=sum(int(side["total_ios"]) for side in sides),
        elapsed_s=max(float(side["runtime"]) for side in sides) / 1000,
        seconds=(),
        latency=merge_histograms(histogram_from_fio(side["lat_ns"]) for side in sides),
        moved_bytes=sum(int(side["io_bytes"]) for side in sides),
    )


def _flushes(job: Mapping[str, Any]) -> LatencyHistogram:
    return histogram_from_fio(job.get("sync", {}).get("lat_ns", {}))
