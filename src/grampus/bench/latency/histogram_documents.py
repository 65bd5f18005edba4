"""The JSON form of a latency histogram, in which archives keep it.

    {"format": "grampus-latency", "version": 1, "operations": 1000, "total_ns": 912345678,
     "fastest_ns": [95100, 95100], "slowest_ns": [7120000, 7120000], "sources": ["fio"],
     "ranges": [[1675, 1, 12], [2, 1, 40], ...]}

`ranges` is sorted. Each entry is: how many buckets its first one lies above that of the entry
before (above 0 for the first entry), how many buckets follow the first one in the range, and how
many operations lie in it. Only ranges with operations are there. `buckets.py` says which latencies
a bucket holds; its layout is a part of version 1. `total_ns` is null where a driver did not say
it; `fastest_ns` and `slowest_ns` are null of an empty histogram.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from grampus.bench.latency.buckets import TOP_BUCKET
from grampus.bench.latency.histogram import HistogramError, LatencyHistogram, Span
from grampus.core.errors import GrampusError
from grampus.core.models import Model

FORMAT = "grampus-latency"
VERSION = 1

Natural = Annotated[int, Field(ge=0, strict=True)]


class _Document(Model):
    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["grampus-latency"]
    version: Literal[1]
    operations: Natural
    total_ns: Natural | None
    fastest_ns: tuple[Natural, Natural] | None
    slowest_ns: tuple[Natural, Natural] | None
    sources: tuple[str, ...]
    ranges: tuple[tuple[Natural, Natural, Natural], ...]


def render_histogram(histogram: LatencyHistogram) -> dict[str, Any]:
    """The histogram as a document of version 1: the same for equal histograms."""
    ranges: list[list[int]] = []
    before = 0
    for (first, last), count in sorted(histogram.ranges.items()):
        ranges.append([first - before, last - first, count])
        before = first
    return {
        "format": FORMAT,
        "version": VERSION,
        "operations": histogram.operations,
        "total_ns": histogram.total_ns,
        "fastest_ns": _render_span(histogram.fastest),
        "slowest_ns": _render_span(histogram.slowest),
        "sources": sorted(histogram.sources),
        "ranges": ranges,
    }


def parse_histogram(document: Mapping[str, Any]) -> LatencyHistogram:
    """The histogram in a document, equal to the one that was rendered.

    Raises GrampusError with code `latency-document` when it is none of version 1, or when it
    contradicts itself.
    """
    try:
        read = _Document.model_validate(document)
        ranges: dict[tuple[int, int], int] = {}
        first = 0
        for gap, further, count in read.ranges:
            first += gap
            if first + further > TOP_BUCKET or (first, first + further) in ranges:
                raise HistogramError("a range is there twice, or beyond the last bucket")
            ranges[first, first + further] = count
        histogram = LatencyHistogram(
            ranges,
            read.total_ns,
            None if read.fastest_ns is None else Span(*read.fastest_ns),
            None if read.slowest_ns is None else Span(*read.slowest_ns),
            frozenset(read.sources),
        )
        if histogram.operations != read.operations:
            raise HistogramError("its ranges do not hold as many operations as it says")
    except (ValidationError, HistogramError) as error:
        reason = str(error).splitlines()[0] if isinstance(error, HistogramError) else _first(error)
        raise GrampusError(
            f"A latency histogram of the archive cannot be read: {reason}.",
            f"Grampus reads {FORMAT} version {VERSION}; measure again if the file is truncated.",
            code="latency-document",
        ) from error
    return histogram


def _render_span(span: Span | None) -> list[int] | None:
    return None if span is None else [span.low_ns, span.high_ns]


def _first(error: ValidationError) -> str:
    fault = error.errors()[0]
    place = ".".join(str(part) for part in fault["loc"])
    return f"{place}: {fault['msg'][:1].lower()}{fault['msg'][1:]}" if place else fault["msg"]
