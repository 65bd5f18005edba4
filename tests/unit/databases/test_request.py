from __future__ import annotations

import pytest

from grampus.core.errors import RefusedError, UsageError
from grampus.core.units import GIB, MIB, TIB
from grampus.databases.request import (
    CreateRequest,
    MachineSize,
    require_machine_holds,
    require_request,
    suggest_name,
)


def request(**wishes: object) -> CreateRequest:
    return CreateRequest(**{"name": "demo", "size_bytes": 10 * GIB, **wishes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Demo",
        "1demo",
        "demo_1",
        "a--b",
        "-demo",
        "demo-",
        "../etc",
        "a/b",
        "a;rm -rf",
        "x'; drop",
        "d\ne",
        "d\x00",
        "démo",
        "a" * 33,
        "root",
        "mysql",
        "local-demo",
        "init-demo",
        "demo ",
    ],
)
def test_hostile_and_reserved_names_are_wrong_use(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        require_request(request(name=name))
    assert caught.value.code == "invalid-name"


@pytest.mark.parametrize("name", ["a", "demo", "demo-1", "a" * 32, "local", "shop-local"])
def test_good_names(name: str) -> None:
    assert require_request(request(name=name)) == "mysql"


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("My_Shop", "my-shop"),
        ("1st", "st"),
        ("demo-", "demo"),
        ("../etc/passwd", "etc-passwd"),
        ("a" * 40, "a" * 32),
        ("123", None),
        ("", None),
    ],
)
def test_a_name_close_to_what_was_written(text: str, suggestion: str | None) -> None:
    assert suggest_name(text) == suggestion


def test_the_error_says_the_suggestion() -> None:
    with pytest.raises(UsageError, match="Did you mean 'my-shop'"):
        require_request(request(name="My_Shop"))


@pytest.mark.parametrize(
    ("wishes", "code"),
    [
        ({"size_bytes": GIB - 1}, "too-small"),
        ({"size_bytes": 257 * TIB}, "too-big"),
        ({"size_bytes": -1}, "too-small"),
        ({"memory_bytes": 256 * MIB - 1}, "too-small"),
        ({"cpus": 0.0}, "too-small"),
        ({"cpus": 0.09}, "too-small"),
        ({"cpus": float("nan")}, "too-small"),
        ({"flavour": "postgres"}, "unknown-flavour"),
        ({"flavour": "MySQL"}, "unknown-flavour"),
    ],
)
def test_sizes_and_flavours_out_of_bounds(wishes: dict[str, object], code: str) -> None:
    with pytest.raises(UsageError) as caught:
        require_request(request(**wishes))
    assert caught.value.code == code


def test_a_misspelt_flavour_gets_a_suggestion() -> None:
    with pytest.raises(UsageError, match="Did you mean 'mariadb'"):
        require_request(request(flavour="MariaDb"))


@pytest.mark.parametrize(
    ("wishes", "fits"),
    [
        ({"memory_bytes": 2 * GIB, "cpus": 2.0}, True),
        ({"memory_bytes": 2 * GIB + 1}, False),
        ({"cpus": 2.1}, False),
        ({"cpus": float("inf")}, False),
    ],
)
def test_a_machine_holds_no_more_than_it_has(wishes: dict[str, object], fits: bool) -> None:
    machine = MachineSize(memory_bytes=2 * GIB, cpus=2)
    if fits:
        require_machine_holds(request(**wishes), machine, "h1")
        return
    with pytest.raises(RefusedError) as caught:
        require_machine_holds(request(**wishes), machine, "h1")
    assert caught.value.code == "too-big"
