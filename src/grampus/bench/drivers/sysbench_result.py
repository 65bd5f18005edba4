"""What sysbench 1.0.20 prints, made a result.

With `--rate` a latency begins when its event was due: 2,724 events of 0.7 ms each, asked for at
20,000/s of one thread, had an average latency of 966 ms. So the time in the queue is in the
histogram; beside it sysbench prints how long the queue is each second.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from grampus.bench.drivers.outcome import (
    DriverFailure,
    DriverOutput,
    DriverResult,
    Second,
    classify_exit,
)
from grampus.bench.latency.histogram import HistogramError
from grampus.bench.latency.sources import histogram_from_sysbench

STARTED_LINE = "Threads started!"
# Below it the rate that was asked for was not kept.
RATE_KEPT = 0.98
# More waiting requests than come in this time: the queue had not been worked off.
QUEUE_KEPT_S = 0.1

_NUMBER = r"(-?\d+(?:\.\d+)?)"
# Scripts of databases print tps and what follows it, the others eps.
_INTERVAL = re.compile(
    rf"^\[ {_NUMBER}s \] thds: (\d+) [te]ps: {_NUMBER} (?:qps: {_NUMBER} )?.*?"
    rf"lat \(ms,\d+%\): {_NUMBER}(?: err/s:? {_NUMBER} reconn/s: {_NUMBER})?\s*$"
)
_QUEUE = re.compile(rf"^\[ {_NUMBER}s \] queue length: (\d+),? concurrency: (\d+)\s*$")
_FATAL = re.compile(r"^\s*(?:FATAL|ALERT):\s*(.+?)\s*$", re.MULTILINE)
# Said beside the cause in every failure: where in sysbench it happened, not why.
_NO_CAUSE = re.compile(
    r"^(?:`[\w.]+' function failed|Thread initialization failed|unable to connect to "
    r"|mysql_stmt_\w+\(\) failed$)"
)
_RATE = re.compile(r"^Target transaction rate: (\d+)/sec\s*$", re.MULTILINE)
_WARNING = re.compile(r"^\s*WARNING: (.+?)\s*$", re.MULTILINE)
_EVENTS = re.compile(r"^ +(?:transactions:|total number of events:) +(\d+)(?: |$)", re.MULTILINE)
_FIGURES = {
    "total time": re.compile(rf"^ +total time: +{_NUMBER}s\s*$", re.MULTILINE),
    "lowest latency": re.compile(rf"^ +min: +{_NUMBER}\s*$", re.MULTILINE),
    "highest latency": re.compile(rf"^ +max: +{_NUMBER}\s*$", re.MULTILINE),
    "sum of latencies": re.compile(rf"^ +sum: +{_NUMBER}\s*$", re.MULTILINE),
}
# All figures come before it, so that none of them can have been cut off.
_LAST_LINE = "execution time (avg/stddev):"
_QUERIES = re.compile(r"^ +queries: +(\d+) ", re.MULTILINE)
_ERRORS = re.compile(r"^ +ignored errors: +(\d+) ", re.MULTILINE)
_RECONNECTS = re.compile(r"^ +reconnects: +(\d+) ", re.MULTILINE)


@dataclass(frozen=True)
class RateVerdict:
    """Whether an open loop sent what it was asked for. `evidence` is a sentence."""

    kept: bool
    reached_share: float
    evidence: str


def parse_sysbench(output: DriverOutput) -> DriverResult | DriverFailure:
    """The result of a run of `sysbench_argv`."""
    failure = classify_sysbench_end(output)
    if failure is not None:
        return failure
    text = output.stdout
    figures = {name: pattern.search(text) for name, pattern in _FIGURES.items()}
    events = _EVENTS.search(text)
    missing = [name for name, match in figures.items() if match is None]
    if STARTED_LINE not in text:
        return DriverFailure("cut-off", "sysbench ended before its threads had started.")
    if _LAST_LINE not in text:
        return DriverFailure("cut-off", "sysbench's output ends before its figures.")
    if events is None or missing:
        what = ", ".join(["number of events"] * (events is None) + missing)
        return DriverFailure("unreadable", f"sysbench's figures cannot be read ({what}).")
    operations = int(events[1])
    if not operations:
        return DriverFailure("no-operations", "sysbench finished no transaction.")
    values = {name: float(match[1]) for name, match in figures.items() if match is not None}
    if values["total time"] <= 0:
        return DriverFailure("unreadable", "sysbench says that it ran for no time.")
    try:
        latency = histogram_from_sysbench(
            text,
            min_ms=values["lowest latency"],
            max_ms=values["highest latency"],
            sum_ms=values["sum of latencies"],
        )
    except HistogramError as error:
        return DriverFailure("unreadable", f"sysbench's histogram cannot be used: {error}.")
    if latency.operations != operations:
        return DriverFailure(
            "unreadable",
            f"sysbench's histogram holds {latency.operations} of {operations} transactions.",
        )
    queries = _QUERIES.search(text)
    return DriverResult(
        driver="sysbench",
        loop="open" if _RATE.search(text) else "closed",
        operations=operations,
        elapsed_s=values["total time"],
        seconds=parse_seconds(text),
        latency=latency,
        errors=_count(_ERRORS, text),
        reconnects=_count(_RECONNECTS, text),
        queries=None if queries is None else int(queries[1]),
        warnings=tuple(dict.fromkeys(_WARNING.findall(f"{text}\n{output.stderr}"))),
    )


def classify_sysbench_end(output: DriverOutput) -> DriverFailure | None:
    """The failure of a sysbench that has ended, in its own words; None when it did not fail.

    A fatal message is a failure whatever the exit code: sysbench can end with 0 after one.
    """
    fatal = parse_fatal(f"{output.stdout}\n{output.stderr}")
    words = fatal[0] if fatal else None
    failure = classify_exit("sysbench", output, words)
    if failure is None and words is not None:
        return DriverFailure("failed", f"sysbench failed: {words.rstrip('.')}.")
    return failure


def parse_fatal(text: str) -> tuple[str, ...]:
    """The distinct FATAL and ALERT messages in `text`, in order, causes before consequences."""
    messages = dict.fromkeys(_FATAL.findall(text))
    return tuple(sorted(messages, key=lambda message: bool(_NO_CAUSE.match(message))))


def parse_second(line: str, *, after_s: float) -> Second | None:
    """The figures of a line of the series, of the time since `after_s`; None of another line."""
    match = _INTERVAL.match(line)
    if match is None:
        return None
    ended, threads, rate, queries, latency, errors, reconnects = match.groups()
    ended_s = float(ended)
    duration_s = ended_s - after_s
    if duration_s <= 0:
        return None
    return Second(
        ended_s=ended_s,
        duration_s=duration_s,
        operations=float(rate) * duration_s,
        errors=float(errors or 0) * duration_s,
        reconnects=float(reconnects or 0) * duration_s,
        queries=None if queries is None else float(queries) * duration_s,
        latency_p99_ms=float(latency),
        threads=int(threads),
    )


def parse_seconds(text: str) -> tuple[Second, ...]:
    """The series in what sysbench printed, whole or cut off; lines of others are passed over."""
    lines = text.splitlines()
    queues = {
        float(queue[1]): (int(queue[2]), int(queue[3]))
        for line in lines
        if (queue := _QUEUE.match(line)) is not None
    }
    seconds: list[Second] = []
    for line in lines:
        second = parse_second(line, after_s=seconds[-1].ended_s if seconds else 0.0)
        if second is not None:
            waiting, busy = queues.get(second.ended_s, (None, None))
            seconds.append(replace(second, busy_threads=busy, queue_length=waiting))
    return tuple(seconds)


def classify_rate(result: DriverResult, *, asked_per_s: float) -> RateVerdict:
    """Whether the run kept the rate that it was asked for; latencies of one that did not are
    those of a queue that grows, and depend on how long it was measured.
    """
    share = result.operations_per_s / asked_per_s
    waiting = [s.queue_length for s in result.seconds if s.queue_length is not None][-1:]
    said = f"{result.operations_per_s:.1f}/s of {asked_per_s:g}/s ({100 * share:.1f} %) were done"
    if waiting and waiting[0] > QUEUE_KEPT_S * asked_per_s:
        return RateVerdict(False, share, f"{said}, and {waiting[0]} requests were waiting.")
    if share < RATE_KEPT:
        return RateVerdict(False, share, f"{said}.")
    return RateVerdict(True, share, f"{said}.")


def _count(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.search(text)
    return 0 if match is None else int(match[1])
