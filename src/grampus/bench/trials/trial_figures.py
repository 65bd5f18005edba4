"""From what a place measured to the figures of a trial, or to the reason why there are none."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from grampus.bench.drivers.client_bound import ClientVerdict
from grampus.bench.drivers.outcome import DriverFailure
from grampus.bench.drivers.together import MAX_OUTSIDE_SHARE, JointSample
from grampus.bench.latency.histogram_documents import render_histogram
from grampus.bench.layers.use import TimeSpan
from grampus.bench.layers.why import decide_why
from grampus.bench.statistics.steadiness import SteadyLimits, decide_measuring
from grampus.bench.trials.place import Measured
from grampus.state.matrix_layers import Why
from grampus.state.matrix_runs import Figures, Spent, TrialSecond

# What one extension measures, in measuring times of the scale. A driver's run cannot be made longer
# while it goes on, so an extension is a run of its own and replaces the shorter one.
EXTENDED_TIMES = 2
# It promises ten minutes: nothing is measured longer there.
SHORT_SCALE = "tiny"


@dataclass(frozen=True)
class SteadyState:
    """Whether the sample was in a steady state; None where it was too short to tell.

    `leave_out_s` at its beginning are warm-up. `may_change`: measuring longer may show it steady.
    """

    steady: bool | None
    reason: str | None
    leave_out_s: int = 0
    may_change: bool = False


def why_no_figure(outcome: JointSample | DriverFailure) -> str | None:
    """Why nothing of `outcome` may be taken for a figure, as a sentence; None: it is one."""
    if isinstance(outcome, DriverFailure):
        return outcome.reason
    series = [number for one in outcome.seconds for number in (one.operations, one.errors)]
    numbers = [outcome.operations_per_s, outcome.errors, outcome.reconnects, *series]
    if not all(math.isfinite(number) and number >= 0 for number in numbers):
        return "The clients' figures are not numbers from 0 on."
    if not outcome.seconds or sum(one.operations for one in outcome.seconds) <= 0:
        return "No client finished anything in the window."
    return None


def decide_steady_state(sample: JointSample, *, measure_s: int) -> SteadyState:
    """Judge the sample's seconds; `measure_s` is the scale's measuring time.

    A sample that is shorter than the test needs (30 s), or too uneven for it, is neither steady nor
    unsteady.
    """
    limits = SteadyLimits()
    limits = SteadyLimits(max_s=max(EXTENDED_TIMES * measure_s, limits.min_s))
    found = decide_measuring([second.operations for second in sample.seconds], limits)
    if found.cause == "short":
        return SteadyState(None, found.reason)
    if found.word == "steady":
        return SteadyState(True, None, found.leave_out_s)
    # Seconds that are too uneven to show a trend do not show one either.
    steady = None if found.cause == "noise" else False
    return SteadyState(steady, found.reason, found.leave_out_s, may_change=found.word == "extend")


def decide_figures(measured: Measured, sample: JointSample, state: SteadyState) -> Figures | str:
    """The figures of `sample` without its warm-up, or a sentence: why there are none."""
    kept = sample.seconds[state.leave_out_s :]
    operations = math.fsum(second.operations for second in kept)
    if not kept or operations <= 0:
        return "No client finished anything after the warm-up."
    operations_per_s = operations / len(kept)
    latency, notes = _decide_latency(sample, operations, state.leave_out_s)
    why = _decide_why(measured, sample, state, operations_per_s)
    client = _decide_client(measured.client, why)
    return Figures(
        loop=measured.loop,
        measured_s=len(kept),
        operations=round(operations),
        operations_per_s=operations_per_s,
        queries_per_s=_times(operations_per_s, measured.queries_per_operation),
        moved_bytes_per_s=_times(operations_per_s, measured.bytes_per_operation),
        errors=math.fsum(second.errors for second in kept),
        reconnects=math.fsum(second.reconnects for second in kept),
        latency=latency,
        client_bound="unknown" if client is None else client.bound,
        evidence=() if client is None else client.evidence,
        steady=state.steady,
        unsteady_reason=state.reason,
        notes=(*sample.notes, *notes),
        osd_device_busy_share=measured.osd_device_busy_share,
        osd_device_latency_ms=measured.osd_device_latency_ms,
        volume_iops=measured.volume_iops,
        provisioned_bytes=measured.provisioned_bytes,
        seconds=tuple(
            TrialSecond(at_s=one.at_s, operations=one.operations, errors=one.errors)
            for one in sample.seconds
        ),
        why=why,
        undeciding=measured.undeciding,
        spent=Spent(load_s=measured.load_s, change_s=measured.change_s, calm_s=measured.calm_s),
    )


def add_spent(first: Measured, second: Measured) -> Measured:
    """The second measuring of a trial, with the time that both took."""
    return replace(
        second,
        load_s=first.load_s + second.load_s,
        change_s=first.change_s + second.change_s,
        calm_s=first.calm_s + second.calm_s,
    )


def _decide_why(
    measured: Measured, sample: JointSample, state: SteadyState, operations_per_s: float
) -> Why | None:
    watched = measured.watched
    if watched is None:
        return None
    window = sample.window
    span = TimeSpan(watched.from_s, float(window.begin_at_s + state.leave_out_s), window.end_at_s)
    return decide_why(
        watched.points,
        watched.subjects,
        span,
        measured.client,
        watched.gaps,
        busy_threads=measured.busy_threads,
        operations_per_s=operations_per_s,
        is_open=measured.loop == "open",
    )


def _decide_client(client: ClientVerdict | None, why: Why | None) -> ClientVerdict | None:
    """The client's own limit is one thing, that it took the machine's cores another."""
    if why is None:
        return client
    if client is not None and client.bound == "yes":
        # Its idle threads waited for what `why` names: a device at its medium's limit.
        is_refuted = client.by_threads_alone and why.bottleneck != "client"
        return ClientVerdict("no", why.evidence[:1]) if is_refuted else client
    if why.bottleneck != "client" or why.confidence == "low":
        return client
    return ClientVerdict("yes", why.evidence[:1])


def _decide_latency(
    sample: JointSample, kept_operations: float, leave_out_s: int
) -> tuple[dict[str, object] | None, list[str]]:
    """The histogram, unless too much of it is of the warm-up: it cannot be cut."""
    document = None if sample.latency is None else render_histogram(sample.latency)
    if not leave_out_s:
        return document, []
    said = f"The first {leave_out_s} s were still warm-up and are left out"
    if document is None:
        return None, [f"{said}."]
    inside = math.fsum(second.operations for second in sample.seconds)
    outside_share = 1 - (1 - sample.outside_share) * kept_operations / inside
    if outside_share > MAX_OUTSIDE_SHARE:
        return None, [f"{said}, and with them all latencies."]
    return document, [f"{said}; the latencies count them."]


def _times(per_s: float, factor: float | None) -> float | None:
    return None if factor is None else per_s * factor
