"""Which runs an archive sees, and which one a word names."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.core.errors import NotFoundError
from grampus.state.run_directories import RunDirectories

RUNS = {
    "20260301-a": '{"kind": "ours", "more": 1}',
    "20260302-b": '{"kind": "theirs"}',
    "20260303-c": '{"kind": "ours"}',
    "20260304-d": "{}",
    "20260305-e": "no document",
}


@pytest.fixture
def directories(tmp_path: Path) -> RunDirectories:
    for name, document in RUNS.items():
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").write_text(document)
    (tmp_path / "runs" / "20260306-f").mkdir()
    (tmp_path / "run.json").write_text('{"kind": "ours"}')
    return RunDirectories(tmp_path / "runs", lambda kind: kind == "ours")


def test_an_archive_sees_its_own_kind(directories: RunDirectories) -> None:
    assert directories.run_ids() == ["20260301-a", "20260303-c"]


@pytest.mark.parametrize(
    ("word", "run_id"), [("latest", "20260303-c"), ("20260301-a", "20260301-a")]
)
def test_a_word_names_a_run(directories: RunDirectories, word: str, run_id: str) -> None:
    assert directories.resolve(word) == run_id


@pytest.mark.parametrize("word", ["20260302-b", "20260304-d", "20260306-f", "..", ".", "", "x/y"])
def test_a_word_names_none(directories: RunDirectories, word: str) -> None:
    with pytest.raises(NotFoundError):
        directories.resolve(word)


def test_the_latest_of_none_is_none(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        RunDirectories(tmp_path, lambda kind: True).resolve("latest")
