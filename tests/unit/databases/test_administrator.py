"""What the administrator's client is told, and what its errors become."""

from __future__ import annotations

import pytest

from grampus.databases.administrator import classify_failure
from grampus.hosts.port import CommandResult


@pytest.mark.parametrize(
    ("stderr", "number", "said"),
    [
        (
            "ERROR 1238 (HY000) at line 1: Variable 'x' is a read only variable\n",
            1238,
            "Variable 'x' is a read only variable",
        ),
        ("ERROR 2002 (HY000): Can't connect (111)", 2002, "Can't connect (111)"),
        ("warning\nexec failed: no such file.\n", None, "exec failed: no such file"),
        ("", None, "code 1"),
    ],
)
def test_failures(stderr: str, number: int | None, said: str) -> None:
    error = classify_failure("SET GLOBAL x = 1", CommandResult(("mysql",), 1, "", stderr))
    assert (error.number, error.said, error.code) == (number, said, "statement-failed")
    assert "SET GLOBAL x = 1" in error.problem
