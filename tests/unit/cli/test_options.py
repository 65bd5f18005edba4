"""What several commands share."""

from __future__ import annotations

import pytest

from grampus.cli.options import in_lab


@pytest.mark.parametrize(
    ("lab", "variable", "typed"),
    [
        ("default", None, "grampus db list"),
        ("test", None, "grampus db list --lab test"),
        ("test", "test", "grampus db list"),
        ("default", "test", "grampus db list --lab default"),
        ("default", "", "grampus db list"),
    ],
)
def test_a_command_to_type_next_finds_the_same_lab(
    monkeypatch: pytest.MonkeyPatch, lab: str, variable: str | None, typed: str
) -> None:
    monkeypatch.delenv("GRAMPUS_LAB", raising=False)
    if variable is not None:
        monkeypatch.setenv("GRAMPUS_LAB", variable)
    assert in_lab("grampus db list", lab) == typed
