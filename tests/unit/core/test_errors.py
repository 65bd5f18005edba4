from __future__ import annotations

import pytest

from grampus.core.errors import (
    GrampusError,
    NotFoundError,
    RefusedError,
    UsageError,
    closest_name,
    not_found,
)


@pytest.mark.parametrize(
    ("kind", "exit_code", "code"),
    [
        (GrampusError, 1, "failed"),
        (UsageError, 2, "wrong-use"),
        (NotFoundError, 3, "not-found"),
        (RefusedError, 4, "refused"),
    ],
)
def test_class_decides_the_exit_code(kind: type[GrampusError], exit_code: int, code: str) -> None:
    error = kind("It is broken.", "Fix it.")
    assert (error.exit_code, error.code) == (exit_code, code)
    assert (error.problem, error.remedy) == ("It is broken.", "Fix it.")
    assert str(error) == "It is broken. Fix it."
    assert kind("It is broken.", code="special").code == "special"


def test_without_a_remedy_no_space_is_left_behind() -> None:
    assert str(GrampusError("It is broken.")) == "It is broken."


@pytest.mark.parametrize(
    ("wanted", "known", "closest"),
    [
        ("shpo", ["shop", "blog"], "shop"),
        ("shop", ["shop"], "shop"),
        ("zzz", ["shop", "blog"], None),
        ("shop", [], None),
        ("", ["shop"], None),
    ],
)
def test_closest_name(wanted: str, known: list[str], closest: str | None) -> None:
    assert closest_name(wanted, known) == closest
    assert closest_name(wanted, iter(known)) == closest


@pytest.mark.parametrize(
    ("wanted", "known", "remedy"),
    [
        ("shpo", ["blog", "shop"], "Did you mean 'shop'?"),
        ("zzz", ["blog", "shop"], "`grampus db list` shows the available ones."),
        ("zzz", [], "`grampus db list` shows the available ones (none yet)."),
    ],
)
def test_not_found_says_what_to_do(wanted: str, known: list[str], remedy: str) -> None:
    error = not_found("database", wanted, iter(known), list_command="grampus db list")
    assert error.problem == f"There is no database named '{wanted}'."
    assert error.remedy == remedy
    assert error.exit_code == 3
