"""Outputs of drivers as they came; `recorded/README.md` says from where."""

from __future__ import annotations

from pathlib import Path

from grampus.bench.drivers.outcome import DriverFailure, DriverOutput, DriverResult

_RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str) -> str:
    return (_RECORDED / name).read_text(encoding="utf-8")


def output(stdout: str, *, stderr: str = "", returncode: int = 0) -> DriverOutput:
    return DriverOutput(stdout, stderr, returncode)


def result_of(outcome: object) -> DriverResult:
    assert isinstance(outcome, DriverResult), outcome
    return outcome


def failure_of(outcome: object) -> DriverFailure:
    assert isinstance(outcome, DriverFailure), outcome
    return outcome
