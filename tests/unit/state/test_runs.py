from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from grampus.bench.latency.histogram import MIN_BEYOND
from grampus.core.errors import NotFoundError
from grampus.core.units import LEAST_FOR_P99
from grampus.state.runs import (
    RUN_SCHEMA_VERSION,
    OltpResult,
    OltpSample,
    ResourceSample,
    Run,
    RunArchive,
    Setting,
    WorkloadResult,
    append_lines,
)
from tests.unit.report.made_paths import made_paths_run


def result(tps: float) -> OltpResult:
    return OltpResult(
        tps=tps,
        qps=tps * 20,
        latency_avg_ms=8.5,
        latency_p99_ms=20.25,
        latency_max_ms=31.0,
        transactions=int(tps * 15),
        errors=0,
        measured_s=15.0,
        started_at_s=1005.0,
        ended_at_s=1020.0,
        tps_cov=0.04,
    )


def run(run_id: str) -> Run:
    return Run(
        run_id=run_id,
        suite="oltp",
        lab="default",
        database="demo",
        flavour="mysql",
        started_at_s=1000.0,
        ended_at_s=1040.0,
        threads=8,
        warmup_s=5.0,
        measure_s=15.0,
        dataset_bytes=1024,
        buffer_pool_bytes=512,
        environment=(Setting(group="Ceph", name="Version", value="20.2.4"),),
        workloads=(
            WorkloadResult(name="mix", title="Mix", ceph=result(45.5), local=result(578.0)),
        ),
        warnings=("The machine is small.",),
    )


def sample(at_s: float) -> OltpSample:
    return OltpSample(at_s=at_s, tps=1.5, qps=30.0, latency_p99_ms=4.25, errors_per_s=0.0)


@pytest.fixture
def archive(tmp_path: Path) -> RunArchive:
    return RunArchive(tmp_path / "runs")


def test_a_run_comes_back_as_it_was_saved(archive: RunArchive):
    saved = run("2026-03-01-a")
    assert archive.save(saved) == archive.run_dir("2026-03-01-a")
    assert archive.load("2026-03-01-a") == saved
    assert saved.schema_version == RUN_SCHEMA_VERSION


def test_runs_of_paths_are_kept_beside_the_others(archive: RunArchive):
    paths = made_paths_run("b")
    archive.save(run("a"))
    archive.save(paths)
    assert archive.load("b") == paths
    assert archive.load("latest") == paths
    assert isinstance(archive.load("a"), Run)


def test_a_run_from_before_there_were_kinds_can_be_read(archive: RunArchive):
    file = archive.save(run("a")) / "run.json"
    document = json.loads(file.read_text())
    del document["kind"]
    file.write_text(json.dumps(document))
    assert archive.load("a") == run("a")


@pytest.mark.parametrize("text", ['{"kind": "poem"}', '{"kind": ["paths"]}', "[]", "3", "{"])
def test_what_is_no_run_is_refused(archive: RunArchive, text: str):
    (archive.save(run("a")) / "run.json").write_text(text)
    with pytest.raises(ValidationError):
        archive.load("a")


def test_saving_again_replaces_the_run(archive: RunArchive):
    archive.save(run("a"))
    changed = run("a").model_copy(update={"threads": 16})
    archive.save(changed)
    assert archive.load("a") == changed
    assert archive.run_ids() == ["a"]


def test_runs_are_listed_oldest_first_and_latest_is_the_newest(archive: RunArchive):
    for run_id in ("2026-03-02-b", "2026-03-01-a", "2026-03-10-c"):
        archive.save(run(run_id))
    assert archive.run_ids() == ["2026-03-01-a", "2026-03-02-b", "2026-03-10-c"]
    assert archive.resolve("latest") == "2026-03-10-c"
    assert archive.load("latest").run_id == "2026-03-10-c"


def test_a_run_without_its_manifest_never_finished(archive: RunArchive):
    append_lines(archive.samples_file("stopped", "mix", "ceph"), [sample(1.0)])
    assert archive.run_ids() == []
    with pytest.raises(NotFoundError):
        archive.load("stopped")


@pytest.mark.parametrize(
    ("saved", "wanted", "sentence"),
    [
        ([], "latest", "There is no run named 'latest'. `grampus bench list` shows"),
        (["monday"], "mondya", "Did you mean 'monday'?"),
        (["monday"], "../monday", "There is no run named '../monday'."),
        (["monday"], "", "There is no run named ''."),
    ],
)
def test_an_unknown_run_is_not_found(
    archive: RunArchive, saved: list[str], wanted: str, sentence: str
):
    for run_id in saved:
        archive.save(run(run_id))
    with pytest.raises(NotFoundError) as missing:
        archive.resolve(wanted)
    assert sentence in str(missing.value)


def test_samples_are_appended_line_by_line(archive: RunArchive):
    file = archive.samples_file("a", "mix", "local")
    append_lines(file, [sample(1.0), sample(2.0)])
    append_lines(file, [sample(3.0)])
    assert [one.at_s for one in archive.load_samples("a", "mix", "local")] == [1.0, 2.0, 3.0]
    assert archive.load_samples("a", "mix", "ceph") == []
    assert file.read_text().count("\n") == 3


def test_blank_lines_between_samples_are_skipped(archive: RunArchive):
    file = archive.samples_file("a", "mix", "ceph")
    append_lines(file, [sample(1.0)])
    with file.open("a") as stream:
        stream.write("\n  \n")
    append_lines(file, [sample(2.0)])
    assert [one.at_s for one in archive.load_samples("a", "mix", "ceph")] == [1.0, 2.0]


def test_resources_keep_what_was_measured_and_leave_out_the_rest(archive: RunArchive):
    kept = ResourceSample(at_s=5.0, kind="daemon", name="osd-0@h1", cpu_cores=0.25)
    file = archive.resources_file("a")
    append_lines(file, [kept])
    assert archive.load_resources("a") == [kept]
    assert "memory_bytes" not in file.read_text()
    assert archive.load_resources("other") == []


@pytest.mark.parametrize(
    ("model", "changed"),
    [
        (OltpSample, {"at_s": 1.0, "colour": "red"}),
        (ResourceSample, {"at_s": 1.0, "kind": "rack", "name": "r1"}),
        (ResourceSample, {"kind": "daemon", "name": "osd-0"}),
        (Setting, {"group": "a", "name": "b"}),
    ],
)
def test_fields_outside_the_schema_are_refused(model: type, changed: dict[str, object]):
    with pytest.raises(ValidationError):
        model.model_validate(changed)


def test_values_cannot_be_changed():
    with pytest.raises(ValidationError):
        sample(1.0).tps = 2.0


@pytest.mark.parametrize(("tps", "shown_ms"), [(60.0, None), (66.7, 20.25)])
def test_a_percentile_of_few_transactions_is_not_shown(tps: float, shown_ms: float | None) -> None:
    assert result(tps).shown_p99_ms == shown_ms


def test_as_many_are_beyond_it_as_beyond_any_percentile_that_is_shown() -> None:
    assert LEAST_FOR_P99 == 100 * MIN_BEYOND
