from __future__ import annotations

import itertools
import json
import math

import pytest

from grampus.report.figures import MISSING
from grampus.report.page import clock_zero_s, describe_page, run_bands
from grampus.report.render import render_payload

from .made_runs import STARTED_AT_S, MadeRun, made_result, made_run, made_workload


def page_of(made: MadeRun, max_points: int = 600):
    return describe_page(made.run, made.samples, made.resources, max_points=max_points)


def test_a_run_fills_every_part_of_the_page():
    page = page_of(made_run())
    assert page.started == "2026-03-01 14:05:09 UTC"
    assert {fact.name: fact.value for fact in page.facts} == {
        "Suite": "oltp-short",
        "Database": "demo (mysql)",
        "Lab or site": "default",
        "Started": "2026-03-01 14:05:09 UTC",
        "Took": "2 min 38 s",
        "Client threads": "8",
        "Warm-up and measuring": "5 s and 15 s",
        "Data set": "236 MiB",
        "Buffer pool": "48 MiB",
    }
    assert [card.share for card in page.cards] == ["20%", "7.8%", "3.4%"]
    assert next(group.title for group in page.environment) == "Machine"
    assert len(page.warnings) == 2
    assert [len(workload.figures) for workload in page.workloads] == [2, 2, 2]
    assert len(page.resources) == 6
    assert page.errors is None


def test_results_hold_both_arms_and_their_ratio():
    ceph, local, ratio = page_of(made_run()).results[1].rows
    # Of 675 transactions, six were slower than the 99th percentile.
    assert ceph.cells == ("45.0", "900", "178", MISSING, "642", "675", "0", "9.0%")
    assert local.cells == ("578", "11,560", "13.8", "31.0", "68.2", "8,670", "0", "4.0%")
    assert ratio.cells == ("0.078", "0.078", "13", MISSING, "9.4", "", "", "")


def test_bands_follow_one_another_and_include_the_warm_up():
    made = made_run()
    bands = run_bands(made.run, made.samples, clock_zero_s(made.run, made.resources))
    assert [(band.number, band.arm) for band in bands] == [
        (number, arm) for number in (1, 2, 3) for arm in ("ceph", "local")
    ]
    assert (bands[0].from_s, bands[0].to_s) == (21.0, 40.0)
    assert bands[0].when == "0:21 to 0:40"
    assert all(one.to_s < next_.from_s for one, next_ in itertools.pairwise(bands))


@pytest.mark.parametrize(
    ("started_at_s", "ended_at_s"), [(0.0, 0.0), (100.0, 100.0), (math.nan, 5.0), (9.0, 5.0)]
)
def test_an_arm_without_sane_times_has_no_band(started_at_s, ended_at_s):
    result = made_result(started_at_s=started_at_s, ended_at_s=ended_at_s)
    run = made_run().run.model_copy(update={"workloads": (made_workload(result, result),)})
    assert run_bands(run, {}, 0.0) == ()


def test_the_clock_counts_from_the_run_else_from_the_first_sample():
    made = made_run()
    assert clock_zero_s(made.run, made.resources) == STARTED_AT_S
    unknown = made.run.model_copy(update={"started_at_s": 0.0})
    assert clock_zero_s(unknown, made.resources) == made.resources[0].at_s
    assert clock_zero_s(unknown, []) == 0.0


def test_raw_files_are_relative_and_counted():
    page = page_of(made_run())
    files = {file.path: file.content for file in page.raw_files}
    assert files["samples/point-select.ceph.jsonl"] == "20 samples, one a second"
    assert files["resources.jsonl"].endswith("samples of resource use")
    assert not [path for path in files if path.startswith("/")]


def test_every_chart_has_a_text_alternative_with_figures():
    page = page_of(made_run())
    figure = page.workloads[0].figures[0]
    assert figure.alternative.startswith("Throughput over time, in transactions/s: Ceph ")
    assert [row.label for row in figure.rows] == ["Ceph", "Local disk"]
    assert all(one.rows and one.alternative for one in page.resources)


def test_long_runs_are_reduced_and_the_page_says_so():
    page = page_of(made_run(measure_s=115), max_points=30)
    throughput, latency = page.workloads[0].figures
    assert throughput.note == "One point is the mean of up to 4 samples."
    assert latency.note == "One point is the highest of up to 4 samples."
    assert len(page.payload["pairs"][0]["lines"][0]["x"]) == 30
    assert page.payload["grid"]["bins"] == 30
    assert {len(one["y"]) for one in page.payload["resources"][0]["series"]} == {30}


def test_a_run_with_nothing_in_it_still_has_a_page():
    made = made_run(shapes=(), warnings=())
    page = describe_page(made.run, {}, [], max_points=600)
    assert page.headline == "This run holds no finished workload."
    assert page.results == page.bands == page.resources == ()
    assert page.payload == {"pairs": [], "resources": [], "grid": None, "bands": []}


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf, -math.inf, -1.0, 1e308])
def test_no_figure_can_break_the_page(value):
    fields = ("tps", "qps", "latency_avg_ms", "latency_p99_ms", "latency_max_ms", "measured_s")
    times = ("started_at_s", "ended_at_s", "tps_cov")
    result = made_result(**dict.fromkeys((*fields, *times), value))
    made = made_run()
    run = made.run.model_copy(
        update={
            "workloads": (made_workload(result, result),),
            "started_at_s": value,
            "ended_at_s": value,
        }
    )
    sample = made.samples["read-write"]["ceph"][0]
    odd = [
        sample.model_copy(update={"tps": value, "latency_p99_ms": value}),
        sample.model_copy(update={"at_s": value}),
    ]
    resource = made.resources[0]
    resources = [
        resource.model_copy(update={"cpu_cores": value, "read_iops": value}),
        resource.model_copy(update={"at_s": value}),
    ]
    page = describe_page(run, {"read-write": {"ceph": odd}}, resources, max_points=600)
    text = render_payload(page.payload) + repr(page)
    assert json.loads(render_payload(page.payload))
    assert "nan" not in text.lower().split()
    assert "inf" not in text.lower().split()
