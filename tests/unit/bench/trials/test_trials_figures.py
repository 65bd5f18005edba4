"""What becomes a figure, what does not, and what is said beside it."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from grampus.bench.drivers.client_bound import ClientVerdict
from grampus.bench.drivers.outcome import DriverFailure
from grampus.bench.latency.histogram_documents import parse_histogram
from grampus.bench.layers.subjects import Subjects
from grampus.bench.trials.place import Measured, Watched
from grampus.bench.trials.trial_figures import (
    SteadyState,
    decide_figures,
    decide_steady_state,
    why_no_figure,
)
from grampus.state.matrix_layers import SeriesPoint
from grampus.state.matrix_runs import Figures
from tests.unit.bench.trials.made_place import made_latency, made_sample

STEADY = SteadyState(steady=True, reason=None)


def _noisy(seconds: int, end: float = 100.0, spread: float = 2) -> list[float]:
    source = random.Random(3)  # noqa: S311
    return [100 + (end - 100) * at / seconds + source.gauss(0, spread) for at in range(seconds)]


@pytest.mark.parametrize(
    ("series", "said"),
    [
        ([100.0] * 6, None),
        ([0.0, 0.0, 1.0], None),
        ([0.0] * 6, "No client finished anything in the window."),
        ([], "No client finished anything in the window."),
        ([100.0, math.nan], "The clients' figures are not numbers from 0 on."),
        ([100.0, math.inf], "The clients' figures are not numbers from 0 on."),
        ([100.0, -1.0], "The clients' figures are not numbers from 0 on."),
    ],
)
def test_what_is_no_figure_has_a_reason(series: list[float], said: str | None) -> None:
    assert why_no_figure(made_sample(series)) == said


def test_a_failure_is_its_own_reason() -> None:
    assert why_no_figure(DriverFailure("killed", "fio was killed.")) == "fio was killed."


@pytest.mark.parametrize(
    ("series", "measure_s", "steady", "may_change", "said"),
    [
        ([100.0] * 6, 6, None, False, "6 s are too short to judge."),
        ([100.0] * 29, 60, None, False, "29 s are too short to judge."),
        (_noisy(60), 60, True, False, None),
        (_noisy(30), 30, True, False, None),
        (_noisy(58, end=160), 60, False, True, "rose by"),
        # As long as an extension may be: that was it.
        (_noisy(120, end=160), 60, False, False, "longest allowed"),
        ([0.0] * 50 + [5.0] * 10, 60, False, False, "nothing was done"),
        # Too uneven to show anything.
        (_noisy(40, spread=30), 60, None, True, "so uneven"),
    ],
)
def test_a_steady_state_is_shown_or_there_is_a_reason(
    series: list[float], measure_s: int, steady: bool | None, may_change: bool, said: str | None
) -> None:
    found = decide_steady_state(made_sample(series), measure_s=measure_s)
    assert (found.steady, found.may_change) == (steady, may_change)
    assert (said is None) == (found.reason is None)
    assert said is None or (found.reason is not None and said in found.reason)


def test_the_figures_are_those_of_the_sample() -> None:
    sample = made_sample([100.0, 140.0], latency=made_latency(240), notes=("A note.",))
    measured = Measured(
        sample,
        "open",
        client=ClientVerdict("yes", ("The client used 0.99 of its 1 cores (99 %).",)),
        queries_per_operation=20.0,
        osd_device_busy_share=0.5,
        osd_device_latency_ms=1.5,
        volume_iops=250.0,
        provisioned_bytes=5e9,
    )
    found = decide_figures(measured, sample, STEADY)
    assert isinstance(found, Figures)
    assert (found.loop, found.measured_s, found.operations) == ("open", 2, 240)
    assert (found.operations_per_s, found.queries_per_s) == (120.0, 2400.0)
    assert found.moved_bytes_per_s is None
    assert (found.errors, found.reconnects) == (1.0, 1.0)
    assert found.latency is not None
    assert parse_histogram(found.latency) == made_latency(240)
    assert found.client_bound == "yes"
    assert found.evidence == ("The client used 0.99 of its 1 cores (99 %).",)
    assert (found.steady, found.unsteady_reason, found.notes) == (True, None, ("A note.",))
    assert (found.osd_device_busy_share, found.osd_device_latency_ms) == (0.5, 1.5)
    assert (found.volume_iops, found.provisioned_bytes) == (250.0, 5e9)
    assert [(one.at_s, one.operations) for one in found.seconds] == [(1000, 100.0), (1001, 140.0)]


def test_without_a_verdict_on_the_client_nothing_is_claimed_of_it() -> None:
    sample = made_sample([100.0])
    found = decide_figures(Measured(sample, "closed", bytes_per_operation=4096), sample, STEADY)
    assert isinstance(found, Figures)
    assert (found.client_bound, found.evidence) == ("unknown", ())
    assert (found.moved_bytes_per_s, found.queries_per_s) == (409600, None)
    assert found.latency is None


@pytest.mark.parametrize(
    ("outside_share", "kept", "said"),
    [
        (
            0.0,
            True,
            "The first 10 s were still warm-up and are left out; the latencies count them.",
        ),
        (0.2, False, "The first 10 s were still warm-up and are left out, and with them all"),
    ],
)
def test_warm_up_is_left_out_of_the_figures(outside_share: float, kept: bool, said: str) -> None:
    sample = made_sample(
        [50.0] * 10 + [100.0] * 40, latency=made_latency(4500), outside_share=outside_share
    )
    state = SteadyState(steady=True, reason=None, leave_out_s=10)
    found = decide_figures(Measured(sample, "closed"), sample, state)
    assert isinstance(found, Figures)
    assert (found.operations_per_s, found.measured_s, found.operations) == (100.0, 40, 4000)
    assert found.errors == 0.0  # the only one was in the first second
    assert len(found.seconds) == 50
    assert (found.latency is not None) == kept
    assert found.notes[0].startswith(said)


def test_nothing_after_the_warm_up_is_no_figure() -> None:
    sample = made_sample([50.0] * 10 + [0.0] * 30)
    state = SteadyState(steady=False, reason="It fell.", leave_out_s=10)
    found = decide_figures(Measured(sample, "closed"), sample, state)
    assert found == "No client finished anything after the warm-up."


def _watched(**values: float) -> Watched:
    subjects = Subjects(machine="h1", client_cores=2.0, threads=8, servers={"mysqld-db@h1": 2.0})
    points = [
        SeriesPoint(at_s=999.0 + second, kind=kind, name=name, values={metric: value})
        for second in range(1, 8)
        for kind, name, metric, value in (
            ("machine", "machine", "cpu_share", values.get("machine", 0.99)),
            ("machine", "machine", "cpu_cores", 2 * values.get("machine", 0.99)),
            ("client", "clients@h1", "cpu_cores", values["client"]),
            ("client", "clients@h1", "cpu_waiting", values.get("waiting", 0.0)),
            ("daemon", "mysqld-db@h1", "cpu_cores", values["server"]),
            ("daemon", "mysqld-db@h1", "cpu_waiting", values.get("waiting", 0.0)),
        )
    ]
    return Watched(tuple(points), subjects, from_s=998.0, gaps=("A gap.",))


@pytest.mark.parametrize(
    ("client", "server", "bottleneck", "bound"),
    [(0.5, 1.4, "server-cpu", "no"), (1.2, 0.7, "client", "yes")],
)
def test_who_took_the_cores_is_the_bottleneck(
    client: float, server: float, bottleneck: str, bound: str
) -> None:
    sample = made_sample([100.0] * 6)
    verdict = ClientVerdict("no", ("The client used 60 % of its CPU limit.",))
    watched = _watched(client=client, server=server, waiting=3.0)
    measured = Measured(sample, "closed", client=verdict, watched=watched, busy_threads=8.0)
    figures = decide_figures(measured, sample, STEADY)
    assert isinstance(figures, Figures)
    assert figures.why is not None
    assert (figures.why.bottleneck, figures.client_bound) == (bottleneck, bound)
    assert (figures.evidence == verdict.evidence) == (bound == "no")
    assert figures.why.gaps == ("A gap.",)
    assert (figures.why.from_s, figures.why.measured_from_s, figures.why.to_s) == (998, 1000, 1006)


@pytest.mark.parametrize(("share", "word"), [(0.4, "low"), (0.55, "medium")])
def test_a_load_generator_is_the_limit_where_that_is_clear(share: float, word: str) -> None:
    sample = made_sample([100.0] * 6)
    # Its idle threads are `share` of all; of the others the server has two.
    watched = _watched(client=0.1, server=0.2, waiting=2.3, machine=0.2)
    measured = Measured(sample, "closed", watched=watched, busy_threads=8 * (1 - share))
    figures = decide_figures(measured, sample, STEADY)
    assert isinstance(figures, Figures)
    assert figures.why is not None
    assert (figures.why.bottleneck, figures.why.confidence) == ("client", word)
    assert figures.client_bound == ("unknown" if word == "low" else "yes")


@pytest.mark.parametrize(
    ("waiting", "limit_share", "bound"), [(0.1, 0.5, "yes"), (9.0, 0.5, "no"), (9.0, 1.3, "no")]
)
def test_threads_that_wait_for_a_device_are_not_the_clients(
    waiting: float, limit_share: float, bound: str
) -> None:
    sample = made_sample([100.0] * 6)
    verdict = ClientVerdict("yes", ("Threads were idle.",), by_threads_alone=True)
    watched = _watched(client=0.1, server=0.2)
    point = {"limit_share": limit_share, "busy_share": 0.3, "in_flight": waiting}
    osd = {"cpu_cores": 0.3}
    points = [
        SeriesPoint(at_s=999.0 + second, kind=kind, name="osd-0@h1", values=values)
        for second in range(1, 8)
        for kind, values in (("device", point), ("daemon", osd))
    ]
    watched = replace(watched, points=(*watched.points, *points))
    busy_threads = 2.0 if bound == "yes" else 6.0
    figures = decide_figures(
        Measured(sample, "closed", client=verdict, watched=watched, busy_threads=busy_threads),
        sample,
        STEADY,
    )
    assert isinstance(figures, Figures)
    assert figures.why is not None
    assert figures.client_bound == bound
    assert figures.why.bottleneck == ("client" if bound == "yes" else "osd-device")
    assert (figures.evidence == verdict.evidence) == (bound == "yes")
    assert (figures.why.passed_limit is not None) == (limit_share > 1.25)


def test_why_nothing_may_be_concluded_is_kept() -> None:
    sample = made_sample([100.0] * 6)
    measured = Measured(sample, "closed", undeciding=("It was emulated.",))
    figures = decide_figures(measured, sample, STEADY)
    assert isinstance(figures, Figures)
    assert figures.undeciding == ("It was emulated.",)


def test_what_is_left_out_is_no_evidence() -> None:
    sample = made_sample([100.0] * 6)
    measured = Measured(sample, "closed", watched=_watched(client=0.5, server=1.4))
    figures = decide_figures(measured, sample, SteadyState(True, None, leave_out_s=2))
    assert isinstance(figures, Figures)
    assert figures.why is not None
    assert figures.why.measured_from_s == 1002


def test_without_monitors_nothing_is_said_of_layers() -> None:
    sample = made_sample([100.0] * 6)
    figures = decide_figures(Measured(sample, "closed"), sample, STEADY)
    assert isinstance(figures, Figures)
    assert figures.why is None
