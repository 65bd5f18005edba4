"""Results outlive what ends the proof."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.proof.results import Result, ResultLog, ensure_same_proof

ONE = Result(1, "cache", "lose-host", "within-lag", "2026-11-21T22:00:00+00:00", 31.5, lost=2)


def test_results_come_back_after_a_line_was_cut_off(tmp_path: Path) -> None:
    log = ResultLog(tmp_path / "crashes.jsonl")
    assert log.load() == []
    two = replace(ONE, number=2, verdict="violated", reasons=("it is gone",))
    log.append(two)
    log.file.write_text(log.file.read_text() + '{"number": 3, "wri')
    log.append(ONE)
    assert log.load() == [ONE, two]
    assert [one.is_good for one in log.load()] == [True, False]


def test_another_program_begins_another_proof(tmp_path: Path) -> None:
    directory = tmp_path / "crashes"
    mine, other = {"seed": 1, "volumed": "a"}, {"seed": 1, "volumed": "b"}
    assert not ensure_same_proof(directory, mine, "now")
    log = ResultLog(directory / "crashes.jsonl")
    log.append(ONE)
    assert ensure_same_proof(directory, mine, "later")
    assert log.load() == [ONE]
    assert not ensure_same_proof(directory, other, "then")
    assert log.load() == []
    assert ResultLog(directory / "earlier" / "then" / "crashes.jsonl").load() == [ONE]
