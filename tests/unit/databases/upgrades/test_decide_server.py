from __future__ import annotations

import pytest

from grampus.core.errors import RefusedError, UsageError
from grampus.databases.model import FlavourName
from grampus.databases.upgrades.decide_server import (
    choose_version,
    parse_version,
    require_upgrade,
)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("9.7.4-2", (9, 7, 4)),
        ("11.8.6-MariaDB-0+deb13u1", (11, 8, 6)),
        ("10.11", (10, 11)),
        ("", ()),
        ("unknown", ()),
    ],
)
def test_a_version_is_the_numbers_that_it_begins_with(text: str, version: tuple[int, ...]) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [(None, "11.8"), ("10.11", "10.11"), ("10.11.14", "10.11"), ("11", "11.8"), ("11.8", "11.8")],
)
def test_the_newest_server_unless_another_is_asked_for(asked: str | None, chosen: str) -> None:
    assert choose_version("mariadb", asked, ["10.11", "11.8"]) == chosen


@pytest.mark.parametrize(
    ("asked", "known", "words"),
    [
        ("10.1", ["10.11", "11.8"], "Did you mean 10.11"),
        ("newest", ["10.11", "11.8"], "Choose one of 11.8, 10.11"),
        (None, [], "Add an image"),
    ],
)
def test_a_server_that_is_not_there(asked: str | None, known: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        choose_version("mariadb", asked, known)
    assert caught.value.code == "unknown-version"


@pytest.mark.parametrize(
    ("flavour", "have", "want"),
    [
        ("mariadb", "10.11.14-MariaDB-0+deb12u2", "11.8"),
        ("mariadb", "11.8.6-MariaDB-0+deb13u1", "11.8"),
        ("mysql", "9.7.4-2", "9.7"),
        ("mysql", "8.4.3", "9.7"),
        ("mysql", "9.1.0", "9.7"),
        ("mysql", "8.0.40", "8.4"),
    ],
)
def test_what_may_open_the_data(flavour: FlavourName, have: str, want: str) -> None:
    require_upgrade("shop", flavour, have, want)


@pytest.mark.parametrize(
    ("flavour", "have", "want", "code"),
    [
        ("mariadb", "11.8.6-MariaDB", "10.11", "downgrade"),
        ("mysql", "9.7.4-2", "8.4", "downgrade"),
        ("mysql", "8.0.40", "9.7", "version-between"),
    ],
)
def test_what_may_not(flavour: FlavourName, have: str, want: str, code: str) -> None:
    with pytest.raises(RefusedError) as caught:
        require_upgrade("shop", flavour, have, want)
    assert caught.value.code == code
