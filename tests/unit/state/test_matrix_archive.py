"""Runs of matrix suites in the archive: torn lines, full disks, and other kinds of runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.state.matrix_archive import MatrixArchive
from grampus.state.matrix_layers import LayerUse, SeriesPoint, Why
from grampus.state.matrix_runs import (
    Figures,
    MatrixRun,
    Moment,
    PlannedCell,
    PlannedTrial,
    Trial,
    TrialSecond,
)
from grampus.state.runs import RunArchive, Setting
from tests.unit.full_disk import files_of_at_most
from tests.unit.report.made_paths import made_paths_run


def made_run(run_id: str, *, suite: str = "made-layers", scale: str = "tiny") -> MatrixRun:
    return MatrixRun(
        run_id=run_id,
        suite=suite,
        suite_text="name: made-layers\n",
        scale=scale,
        place="lab dev",
        shape_only=True,
        seed=5,
        rounds=2,
        budget_s=None,
        started_at_s=1000.5,
        warmup_s=2,
        measure_s=6,
        cells=(PlannedCell(cell_id="ab", label="update-index", point={"threads": 8, "rate": 0.5}),),
        visits=(PlannedTrial(cell_id="ab", round=1), PlannedTrial(cell_id="ab", round=2)),
        environment=(Setting(group="Ceph", name="Version", value="20.2.4"),),
    )


def made_trial(number: int, *, operations_per_s: float = 100.0) -> Trial:
    figures = Figures(
        loop="closed",
        measured_s=6,
        operations=600,
        operations_per_s=operations_per_s,
        latency={"format": "grampus-latency", "ranges": [[1, 0, 600]]},
        notes=("Größer als\u2028gedacht.\r",),
        seconds=(TrialSecond(at_s=1000, operations=100.0, errors=0.0),),
    )
    return Trial(cell_id="ab", round=number, started_at_s=1.5, ended_at_s=9.5, figures=figures)


@pytest.fixture
def archive(tmp_path: Path) -> MatrixArchive:
    return MatrixArchive(tmp_path / "runs")


def _file(archive: MatrixArchive, run_id: str) -> Path:
    return archive.run_dir(run_id) / "visits.jsonl"


def test_a_run_comes_back_as_it_was_begun_and_ended(archive: MatrixArchive):
    run = made_run("a")
    archive.begin(run)
    assert archive.load("a") == run
    ended = run.model_copy(update={"ended_at_s": 2000.0, "cut_short": "The budget was spent."})
    archive.end(ended)
    assert archive.load("a") == archive.load("latest") == ended


def test_a_run_is_begun_once(archive: MatrixArchive):
    archive.begin(made_run("a"))
    with pytest.raises(RefusedError) as refused:
        archive.begin(made_run("a", scale="full"))
    assert refused.value.code == "exists"
    assert archive.load("a").scale == "tiny"


def test_trials_come_back_in_order_one_a_line(archive: MatrixArchive):
    archive.begin(made_run("a"))
    assert archive.trials("a") == []
    archive.append("a", made_trial(1))
    archive.append("a", made_trial(2))
    assert archive.trials("a") == [made_trial(1), made_trial(2)]
    assert _file(archive, "a").read_bytes().count(b"\n") == 2


def test_a_line_that_was_cut_off_anywhere_is_no_trial_and_does_not_spoil_the_next(
    archive: MatrixArchive,
):
    archive.append("a", made_trial(1))
    first = _file(archive, "a").read_bytes()
    archive.append("a", made_trial(2))
    both = _file(archive, "a").read_bytes()
    for length in range(len(first), len(both)):
        _file(archive, "a").write_bytes(both[:length])
        assert archive.trials("a") == [made_trial(1)]
        archive.append("a", made_trial(2))
        assert _file(archive, "a").read_bytes() == both


def test_nothing_of_a_line_that_was_cut_off_is_left_behind_a_shorter_one(archive: MatrixArchive):
    archive.append("a", made_trial(1))
    first = _file(archive, "a").read_bytes()
    archive.append("a", made_trial(2))
    _file(archive, "a").write_bytes(_file(archive, "a").read_bytes()[:-1])
    short = Trial(cell_id="ab", round=2, started_at_s=1.5, ended_at_s=9.5, marked="It failed.")
    archive.append("a", short)
    line = short.model_dump_json(exclude_none=True).encode() + b"\n"
    assert _file(archive, "a").read_bytes() == first + line


def test_a_first_line_that_was_cut_off_is_none(archive: MatrixArchive):
    archive.append("a", made_trial(1))
    whole = _file(archive, "a").read_bytes()
    for length in (0, 1, len(whole) - 1):
        _file(archive, "a").write_bytes(whole[:length])
        assert archive.trials("a") == []
        archive.append("a", made_trial(1))
        assert archive.trials("a") == [made_trial(1)]


def test_what_could_not_be_read_back_is_not_written(archive: MatrixArchive):
    archive.append("a", made_trial(1))
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValidationError):
            archive.append("a", made_trial(2, operations_per_s=value))
        with pytest.raises(ValidationError):
            archive.begin(made_run("b").model_copy(update={"warmup_s": value}))
    assert archive.trials("a") == [made_trial(1)]
    assert archive.run_ids() == []


def test_moments_are_kept_beside_the_trials(archive: MatrixArchive):
    moments = [Moment(at_s=1.5, what="began"), Moment(at_s=7.25, what="prepared")]
    assert archive.moments("a") == []
    for moment in moments:
        archive.append_moment("a", moment)
    assert archive.moments("a") == moments
    assert archive.trials("a") == []


def test_raw_output_is_kept_by_cell_and_round_and_replaced(archive: MatrixArchive):
    for text in ("first", "zweite Größe"):
        archive.write_raw("a", "ab", 2, "fio.json", text)
    file = archive.run_dir("a") / "raw" / "ab" / "2" / "fio.json"
    assert file.read_text(encoding="utf-8") == "zweite Größe"


@pytest.mark.parametrize("name", ["", ".", "..", "../run.json", "a/b", "/etc/passwd"])
def test_raw_output_stays_where_it_belongs(archive: MatrixArchive, name: str):
    with pytest.raises(ValueError, match="not a valid file name"):
        archive.write_raw("a", "ab", 1, name, "text")


def test_runs_of_all_kinds_share_a_directory(archive: MatrixArchive, tmp_path: Path):
    others = RunArchive(tmp_path / "runs")
    others.save(made_paths_run("b"))
    archive.begin(made_run("a"))
    archive.begin(made_run("c"))
    assert archive.run_ids() == ["a", "c"]
    assert archive.load("latest").run_id == "c"
    assert others.run_ids() == ["b"]
    assert others.load("latest").run_id == "b"
    with pytest.raises(NotFoundError):
        others.load("c")
    with pytest.raises(NotFoundError):
        archive.load("b")


def test_the_newest_run_that_has_not_ended_is_found(archive: MatrixArchive):
    for run_id in ("1", "2", "3"):
        archive.begin(made_run(run_id))
    archive.begin(made_run("4", suite="other"))
    archive.begin(made_run("5", scale="full"))
    archive.end(made_run("3").model_copy(update={"ended_at_s": 2000.0}))
    found = archive.latest_unfinished("made-layers", "tiny")
    assert found is not None
    assert found.run_id == "2"
    assert archive.latest_unfinished("made-layers", "small") is None


def test_a_full_disk_is_told_and_what_was_there_stays(archive: MatrixArchive):
    run = made_run("a")
    archive.begin(run)
    archive.append("a", made_trial(1))
    size_bytes = _file(archive, "a").stat().st_size
    with files_of_at_most(size_bytes + 20):
        for write in (
            lambda: archive.append("a", made_trial(2)),
            lambda: archive.write_raw("a", "ab", 1, "fio.json", "x" * 10_000),
            lambda: archive.end(run.model_copy(update={"cut_short": "x" * 10_000})),
        ):
            with pytest.raises(GrampusError) as failed:
                write()
            assert failed.value.code == "no-space"
            assert "There is no space left" in str(failed.value)
            assert "--resume" in failed.value.remedy
    assert archive.trials("a") == [made_trial(1)]
    assert archive.load("a") == run
    archive.append("a", made_trial(2))
    assert archive.trials("a") == [made_trial(1), made_trial(2)]


def test_a_directory_that_is_none_is_told(tmp_path: Path):
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(GrampusError) as failed:
        MatrixArchive(tmp_path / "runs").begin(made_run("a"))
    assert failed.value.code == "archive-unusable"


def test_series_are_replaced_and_read_back(archive: MatrixArchive):
    archive.begin(made_run("r"))
    assert archive.series("r", "ab", 1) == []
    points = [
        SeriesPoint(at_s=at_s, kind="osd", name="osd.0", values={"write_ms": 2.5})
        for at_s in (1000.5, 1001.5)
    ]
    archive.write_series("r", "ab", 1, [points[0]])
    archive.write_series("r", "ab", 1, points)
    assert archive.series("r", "ab", 1) == points
    assert archive.series("r", "ab", 2) == []
    assert (archive.run_dir("r") / "series" / "ab" / "1.jsonl").read_text().count("\n") == 2


def test_a_trial_says_why(archive: MatrixArchive):
    archive.begin(made_run("r"))
    use = LayerUse(layer="osd-device", share=0.95, peak=1.0, over_time=(None, 0.5))
    why = Why(
        bottleneck="osd-device",
        evidence=("It was busy.",),
        layers=(use,),
        from_s=998,
        measured_from_s=1000,
        to_s=1006,
        throughput=(None, 100.0),
    )
    trial = made_trial(1)
    assert trial.figures is not None
    trial = trial.model_copy(update={"figures": trial.figures.model_copy(update={"why": why})})
    archive.append("r", trial)
    assert archive.trials("r") == [trial]
