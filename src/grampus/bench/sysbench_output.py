"""What sysbench 1.0.20 prints, read without any I/O.

Its percentile comes from a histogram with logarithmic buckets, each 1.8 % wider than the one
before, so a percentile is exact to about 2 %.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from grampus.core.errors import GrampusError

STARTED_LINE = "Threads started!"
_NUMBER = r"(-?\d+(?:\.\d+)?)"
_INTERVAL = re.compile(
    rf"\[ {_NUMBER}s \] thds: (\d+) tps: {_NUMBER} qps: {_NUMBER} "
    rf"\(r/w/o: {_NUMBER}/{_NUMBER}/{_NUMBER}\) lat \(ms,99%\): {_NUMBER} "
    rf"err/s:? {_NUMBER} reconn/s: {_NUMBER}"
)
_SUMMARY = {
    "reads": re.compile(r"^\s+read:\s+(\d+)\s*$", re.MULTILINE),
    "writes": re.compile(r"^\s+write:\s+(\d+)\s*$", re.MULTILINE),
    "others": re.compile(r"^\s+other:\s+(\d+)\s*$", re.MULTILINE),
    "transactions": re.compile(r"^\s+transactions:\s+(\d+)\s+\(", re.MULTILINE),
    "queries": re.compile(r"^\s+queries:\s+(\d+)\s+\(", re.MULTILINE),
    "tps": re.compile(rf"^\s+transactions:\s+\d+\s+\({_NUMBER} per sec\.\)", re.MULTILINE),
    "qps": re.compile(rf"^\s+queries:\s+\d+\s+\({_NUMBER} per sec\.\)", re.MULTILINE),
    "errors": re.compile(r"^\s+ignored errors:\s+(\d+)\s+\(", re.MULTILINE),
    "reconnects": re.compile(r"^\s+reconnects:\s+(\d+)\s+\(", re.MULTILINE),
    "total_time_s": re.compile(rf"^\s+total time:\s+{_NUMBER}s\s*$", re.MULTILINE),
    "latency_min_ms": re.compile(rf"^\s+min:\s+{_NUMBER}\s*$", re.MULTILINE),
    "latency_avg_ms": re.compile(rf"^\s+avg:\s+{_NUMBER}\s*$", re.MULTILINE),
    "latency_max_ms": re.compile(rf"^\s+max:\s+{_NUMBER}\s*$", re.MULTILINE),
    "latency_p99_ms": re.compile(rf"^\s+99th percentile:\s+{_NUMBER}\s*$", re.MULTILINE),
}
_FATAL = re.compile(r"^\s*(?:FATAL|ALERT):\s*(.+?)\s*$")
# Said beside the cause in every failure: where in sysbench it happened, not why.
_NO_CAUSE = re.compile(
    r"^(?:`[\w.]+' function failed|Thread initialization failed|unable to connect to "
    r"|mysql_stmt_\w+\(\) failed$)"
)


class SysbenchError(GrampusError):
    """sysbench failed or printed something that cannot be read."""

    default_code = "sysbench-failed"


@dataclass(frozen=True)
class Interval:
    """One line of sysbench's periodic report. `elapsed_s` counts from its start."""

    elapsed_s: float
    threads: int
    tps: float
    qps: float
    latency_p99_ms: float
    errors_per_s: float
    reconnects_per_s: float


@dataclass(frozen=True)
class Summary:
    """sysbench's final block, over the whole run."""

    reads: int
    writes: int
    others: int
    queries: int
    transactions: int
    tps: float
    qps: float
    errors: int
    reconnects: int
    total_time_s: float
    latency_min_ms: float
    latency_avg_ms: float
    latency_max_ms: float
    latency_p99_ms: float


def parse_interval(line: str) -> Interval | None:
    """The periodic report in `line`, or None when it is another line."""
    match = _INTERVAL.match(line)
    if match is None:
        return None
    elapsed, threads, tps, qps, _, _, _, latency, errors, reconnects = match.groups()
    return Interval(
        elapsed_s=float(elapsed),
        threads=int(threads),
        tps=float(tps),
        qps=float(qps),
        latency_p99_ms=float(latency),
        errors_per_s=float(errors),
        reconnects_per_s=float(reconnects),
    )


def parse_summary(text: str) -> Summary:
    """The final block in the output of a run with `--percentile=99`.

    Raises SysbenchError when the block or one of its figures is missing.
    """
    found = {name: pattern.search(text) for name, pattern in _SUMMARY.items()}
    missing = sorted(name for name, match in found.items() if match is None)
    if missing:
        raise SysbenchError(
            f"sysbench ended without its final figures ({', '.join(missing)}).",
            "Read its output in the run's raw directory; Grampus reads sysbench 1.0.20.",
            code="sysbench-output",
        )
    figures = {name: float(match[1]) for name, match in found.items() if match is not None}
    return Summary(
        reads=int(figures["reads"]),
        writes=int(figures["writes"]),
        others=int(figures["others"]),
        queries=int(figures["queries"]),
        transactions=int(figures["transactions"]),
        tps=figures["tps"],
        qps=figures["qps"],
        errors=int(figures["errors"]),
        reconnects=int(figures["reconnects"]),
        total_time_s=figures["total_time_s"],
        latency_min_ms=figures["latency_min_ms"],
        latency_avg_ms=figures["latency_avg_ms"],
        latency_max_ms=figures["latency_max_ms"],
        latency_p99_ms=figures["latency_p99_ms"],
    )


def parse_fatal(text: str) -> tuple[str, ...]:
    """The distinct FATAL and ALERT messages in `text`, in order, causes before consequences."""
    messages: dict[str, None] = {}
    for line in text.splitlines():
        match = _FATAL.match(line)
        if match is not None:
            messages.setdefault(match[1])
    return tuple(sorted(messages, key=lambda message: bool(_NO_CAUSE.match(message))))


def describe_failure(what: str, returncode: int, texts: Iterable[str]) -> SysbenchError | None:
    """The error for a sysbench run that failed, in sysbench's own words; None when it did not.

    `what` names the run. A FATAL message counts as failure whatever the exit code.
    """
    messages = parse_fatal("\n".join(texts))
    if returncode == 0 and not messages:
        return None
    # coreutils' timeout, which bounds every sysbench run, ends with 124 (137 after KILL).
    if returncode in (124, 137) and not messages:
        words = "it did not end in time and was stopped"
    else:
        words = messages[0].rstrip(".") if messages else f"it ended with code {returncode}"
    return SysbenchError(
        f"sysbench failed during {what}: {words}.",
        "See whether the database is up and healthy (grampus db show), then run it again.",
    )
