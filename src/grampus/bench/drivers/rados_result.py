"""What rados bench prints (Ceph 16 to 20), made a result, from its JSON or its text.

JSON's figures are strings, and a line `hints = 1` comes before it. Older releases call a key
`max_latency:`, with the colon. The standard deviations are not read: the one of the I/O rate is
printed with the wrong format. Rows come each second and count from the start; what is drained at
the end is in the final figures alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from grampus.bench.drivers.outcome import (
    DriverFailure,
    DriverOutput,
    DriverResult,
    Second,
    classify_exit,
    last_words,
)
from grampus.bench.latency.histogram import HistogramError
from grampus.bench.latency.sources import histogram_from_rados_bench

_PREFIX = re.compile(r'(?:"object_prefix":\s*"|^(?:\S+ )?Object prefix: )([^"\s]+)', re.MULTILINE)
# `--show-time` puts a time before each line.
_ROW = re.compile(r"^(?:\d{4}-\S+)? *(\d+) +\d+ +\d+ +(\d+) +\S+ +\S+ +\S+ +\S+\s*$", re.MULTILINE)
# With its line end: a number that was cut off would be another number.
_FIGURE = re.compile(r"^(?:\d{4}-\S+ )?([A-Z][\w ()/]+?): +(\S+) *\r?\n", re.MULTILINE)
_WRONG_CONTENT = re.compile(r"^\S+ is not correct!\s*$", re.MULTILINE)
# Names in the text, without their units, and the keys of JSON.
_TEXT_KEYS = {
    "Total time run": "total_time_run",
    "Total writes made": "total_writes_made",
    "Total reads made": "total_reads_made",
    "Write size": "write_size",
    "Read size": "read_size",
    "Average Latency": "average_latency",
    "Max latency": "max_latency",
    "Min latency": "min_latency",
}


def parse_rados_bench(output: DriverOutput) -> DriverResult | DriverFailure:
    """The result of a run of `rados_bench_argv`, or of one without `--format=json`."""
    wrong = len(_WRONG_CONTENT.findall(output.stderr))
    if wrong:
        return DriverFailure("failed", f"rados bench read {wrong} objects with wrong content.")
    failure = classify_exit("rados bench", output, last_words(output.stderr))
    if failure is not None:
        return failure
    try:
        figures, seconds = _read(output.stdout)
        mode = "write" if "total_writes_made" in figures else "read"
        operations = int(figures[f"total_{mode}s_made"])
        elapsed_s = float(figures["total_time_run"])
        if not operations:
            return DriverFailure("no-operations", f"rados bench finished no {mode}.")
        if not 0 < elapsed_s < float("inf"):
            return DriverFailure("unreadable", "rados bench says that it ran for no time.")
        return DriverResult(
            driver="rados bench",
            loop="closed",
            operations=operations,
            elapsed_s=elapsed_s,
            seconds=seconds,
            latency=histogram_from_rados_bench(
                operations,
                min_s=float(figures["min_latency"]),
                max_s=float(figures["max_latency"]),
                average_s=float(figures["average_latency"]),
            ),
            moved_bytes=operations * int(figures[f"{mode}_size"]),
        )
    except json.JSONDecodeError:
        return DriverFailure("cut-off", "rados bench's output ends before its figures.")
    except KeyError as error:
        missing = str(error.args[0])
        return DriverFailure(
            "cut-off", f"rados bench's output ends before its figures ({missing})."
        )
    except (HistogramError, OverflowError, ValueError, TypeError, AttributeError) as error:
        return DriverFailure("unreadable", f"rados bench's output cannot be read: {error}.")


def parse_object_prefix(text: str) -> str | None:
    """What the names of a write's objects begin with, from its output, whole or cut off."""
    match = _PREFIX.search(text)
    return None if match is None else match[1]


def _read(text: str) -> tuple[Mapping[str, Any], tuple[Second, ...]]:
    begin = text.find("{")
    if begin < 0:
        rows = [(float(second), int(finished)) for second, finished in _ROW.findall(text)]
        figures = {
            _TEXT_KEYS[name.removesuffix("(s)")]: value
            for name, value in _FIGURE.findall(text)
            if name.removesuffix("(s)") in _TEXT_KEYS
        }
        return figures, _seconds(rows)
    # Whatever is printed after the document (cleaning up) is not looked at.
    document, _ = json.JSONDecoder().raw_decode(text[begin:])
    rows = [(float(row["sec"]), int(row["finished"])) for row in document.get("datas", ())]
    return {str(key).rstrip(":"): value for key, value in document.items()}, _seconds(rows)


def _seconds(rows: Iterable[tuple[float, int]]) -> tuple[Second, ...]:
    seconds: list[Second] = []
    before_s, before = 0.0, 0
    for ended_s, finished in rows:
        if ended_s > before_s:
            seconds.append(Second(ended_s, ended_s - before_s, finished - before))
            before_s, before = ended_s, finished
    return tuple(seconds)
