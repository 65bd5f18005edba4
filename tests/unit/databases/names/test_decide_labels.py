from __future__ import annotations

import pytest

from grampus.core.errors import RefusedError, UsageError
from grampus.databases.names.decide_labels import (
    MAX_LABELS,
    decide_labels,
    has_labels,
    parse_changes,
    parse_selectors,
)
from grampus.databases.records import render_labels


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {}),
        (["team=web"], {"team": "web"}),
        (["team=web", "old-"], {"team": "web", "old": None}),
        (["cost-centre=A/4711"], {"cost-centre": "A/4711"}),
        (["a-=x-"], None),
        (["team"], None),
        (["team="], None),
        (["=web"], None),
        (["Team=web"], None),
        (["team=we b"], None),
        (["team=a,b"], None),
        (["team=web", "team-"], None),
        (["-"], None),
    ],
)
def test_changes(words: list[str], expected: dict[str, str | None] | None) -> None:
    if expected is None:
        with pytest.raises(UsageError) as error:
            parse_changes(words)
        assert error.value.code == "invalid-label"
    else:
        assert parse_changes(words) == expected


def test_a_selector_takes_nothing_away() -> None:
    assert parse_selectors(["team=web"]) == {"team": "web"}
    with pytest.raises(UsageError):
        parse_selectors(["team-"])


def test_labels_are_merged_and_sorted() -> None:
    changed = decide_labels({"team": "web", "old": "1"}, {"env": "prod", "old": None, "no": None})
    assert changed == {"env": "prod", "team": "web"}
    assert render_labels(changed) == "env=prod,team=web"


def test_there_are_not_too_many() -> None:
    many = {f"k{number}": "v" for number in range(MAX_LABELS)}
    assert len(decide_labels(many, {"k0": "w"})) == MAX_LABELS
    with pytest.raises(RefusedError) as error:
        decide_labels(many, {"more": "v"})
    assert error.value.code == "too-many-labels"


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [({}, True), ({"team": "web"}, True), ({"team": "db"}, False), ({"env": "prod"}, False)],
)
def test_a_database_is_found_by_all_labels(wanted: dict[str, str], expected: bool) -> None:
    assert has_labels({"team": "web"}, wanted) is expected
