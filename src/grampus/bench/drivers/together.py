"""What several clients measured at once, made one sample on one clock.

The sample's seconds are those in which all clients were at full load. A client's second rarely
begins with one of ours: its operations are shared out over ours by how long it overlaps each.
Histograms cannot be cut: they hold a client's whole run, and the sample says how much of that lay
outside its window, or holds none when it is too much.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from grampus.bench.drivers.outcome import DriverFailure, DriverResult, Second
from grampus.bench.drivers.start import ClockOffset
from grampus.bench.latency.histogram import LatencyHistogram, merge_histograms

# Of the operations in the histograms, those from outside the window may be this many.
MAX_OUTSIDE_SHARE = 0.25
MIN_WINDOW_S = 3


@dataclass(frozen=True)
class ClientRun:
    """One client's part. `started_at_s` is when its load began, in Unix time of its own clock.

    Its first `warm_up_s` seconds are not measured. `threads` is how many of them are full load;
    None for a driver that does not say how many run.
    """

    client: str
    clock: ClockOffset
    started_at_s: float
    outcome: DriverResult | DriverFailure
    warm_up_s: float = 0.0
    threads: int | None = None


@dataclass(frozen=True)
class Window:
    """Whole seconds of our clock (Unix time), in which all clients were at full load."""

    begin_at_s: int
    end_at_s: int

    @property
    def duration_s(self) -> int:
        return self.end_at_s - self.begin_at_s


@dataclass(frozen=True)
class SampleSecond:
    """What all clients did together in the second that begins at `at_s` (Unix time)."""

    at_s: int
    operations: float
    errors: float
    reconnects: float


@dataclass(frozen=True)
class JointSample:
    """The clients' figures as one. `latency` is None when it would tell of another time.

    `operations_per_s` is of the window; `outside_share` is the part of the histogram's operations
    that is not. `notes` are sentences for whoever reads the figures.
    """

    window: Window
    seconds: tuple[SampleSecond, ...]
    operations_per_s: float
    errors: float
    reconnects: float
    latency: LatencyHistogram | None
    outside_share: float
    notes: tuple[str, ...]


def merge_clients(
    runs: Sequence[ClientRun], *, min_window_s: int = MIN_WINDOW_S
) -> JointSample | DriverFailure:
    """One sample of all `runs`, or the reason why there is none.

    A client without figures fails the sample: the others had the cluster to themselves from then
    on. So does one that lost threads in the middle, and a window shorter than `min_window_s`.
    """
    results: list[tuple[ClientRun, DriverResult]] = []
    for run in runs:
        if isinstance(run.outcome, DriverFailure):
            reason = f"Client {run.client} has no figures: {run.outcome.reason}"
            return DriverFailure(run.outcome.kind, reason)
        results.append((run, run.outcome))
    loops = {result.loop for _, result in results}
    if len(loops) > 1:
        return DriverFailure(
            "unreadable", "Clients of an open and of a closed loop make no common figure."
        )
    window = decide_window(runs, min_window_s=min_window_s)
    if isinstance(window, DriverFailure):
        return window
    seconds = _seconds_in(window, results)
    inside = sum(second.operations for second in seconds)
    if inside <= 0:
        return DriverFailure("no-operations", "No client finished anything in the window.")
    counted = sum(result.operations for _, result in results)
    outside_share = min(max(1 - inside / counted, 0.0), 1.0)
    kept = outside_share <= MAX_OUTSIDE_SHARE
    notes = []
    if outside_share >= 0.001:
        said = f"{100 * outside_share:.1f} % of the operations were outside the common window"
        notes.append(
            f"{said}; the latencies count them." if kept else f"{said}; latencies are left out."
        )
    return JointSample(
        window=window,
        seconds=seconds,
        operations_per_s=inside / window.duration_s,
        errors=sum(second.errors for second in seconds),
        reconnects=sum(second.reconnects for second in seconds),
        latency=merge_histograms(result.latency for _, result in results) if kept else None,
        outside_share=outside_share,
        notes=tuple(notes),
    )


def decide_window(
    runs: Sequence[ClientRun], *, min_window_s: int = MIN_WINDOW_S
) -> Window | DriverFailure:
    """The whole seconds in which all `runs` were at full load, whatever their clocks' errors."""
    begins: list[float] = []
    ends: list[float] = []
    for run in runs:
        span = _full_load(run)
        if isinstance(span, DriverFailure):
            return span
        begin_s, end_s = span
        ours_s = run.started_at_s - run.clock.offset_s
        begins.append(ours_s + begin_s + run.clock.error_s)
        ends.append(ours_s + end_s - run.clock.error_s)
    if not begins:
        return DriverFailure("no-operations", "There was no client.")
    window = Window(math.ceil(max(begins)), math.floor(min(ends)))
    if window.duration_s < min_window_s:
        late = runs[begins.index(max(begins))].client
        early = runs[ends.index(min(ends))].client
        return DriverFailure(
            "cut-off",
            f"All clients were at full load together for {max(window.duration_s, 0)} s, which is "
            f"less than {min_window_s} s (the last to begin: {late}; the first to end: {early}).",
        )
    return window


def _full_load(run: ClientRun) -> tuple[float, float] | DriverFailure:
    """From when to when the client was at full load, in seconds since its load began."""
    if isinstance(run.outcome, DriverFailure):
        return DriverFailure(run.outcome.kind, f"Client {run.client}: {run.outcome.reason}")
    warm = [
        second
        for second in run.outcome.seconds
        if second.ended_s - second.duration_s >= run.warm_up_s - 1e-6
    ]
    full = [second for second in warm if _is_full(second, run.threads)]
    if not full:
        return DriverFailure("cut-off", f"Client {run.client} was at full load in no second.")
    begin_s, end_s = full[0].ended_s - full[0].duration_s, full[-1].ended_s
    for second in warm:
        if begin_s < second.ended_s < end_s and not _is_full(second, run.threads):
            return DriverFailure(
                "failed",
                f"Client {run.client} had {second.threads} of {run.threads} threads "
                f"{second.ended_s:.0f} s after its start.",
            )
    return begin_s, end_s


def _is_full(second: Second, threads: int | None) -> bool:
    return threads is None or second.threads is None or second.threads >= threads


def _seconds_in(
    window: Window, results: Sequence[tuple[ClientRun, DriverResult]]
) -> tuple[SampleSecond, ...]:
    operations = [0.0] * window.duration_s
    errors = [0.0] * window.duration_s
    reconnects = [0.0] * window.duration_s
    for run, result in results:
        ours_s = run.started_at_s - run.clock.offset_s - window.begin_at_s
        for second in result.seconds:
            begin_s, end_s = ours_s + second.ended_s - second.duration_s, ours_s + second.ended_s
            for at in range(max(math.floor(begin_s), 0), min(math.ceil(end_s), window.duration_s)):
                share = (min(end_s, at + 1) - max(begin_s, at)) / second.duration_s
                operations[at] += share * second.operations
                errors[at] += share * second.errors
                reconnects[at] += share * second.reconnects
    return tuple(
        SampleSecond(window.begin_at_s + at, *figures)
        for at, figures in enumerate(zip(operations, errors, reconnects, strict=True))
    )
