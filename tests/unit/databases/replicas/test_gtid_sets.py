"""Sets of transactions, as servers write them."""

from __future__ import annotations

import pytest

from grampus.core.errors import GrampusError
from grampus.databases.model import FlavourName
from grampus.databases.replicas.gtid_sets import (
    count_missing,
    has,
    parse_gtid_set,
    parse_rendered,
    render_gtid_set,
    subtract,
    unite,
)

A = "bef9abca-e62e-11f1-b1cd-02fc00000001"
B = "c19a9184-e62e-11f1-9d53-02fc00000001"


@pytest.mark.parametrize(
    ("flavour", "wanted", "there", "missing"),
    [
        ("mysql", "", "", 0),
        ("mysql", f"{A}:1-5", "", 5),
        ("mysql", f"{A}:1-5", f"{A}:1-5", 0),
        ("mysql", f"{A}:1-5", f"{A.upper()}:1-3", 2),
        ("mysql", f"{A}:1-5:7:9-10", f"{A}:2-4", 5),
        ("mysql", f"{A}:1-10", f"{A}:3:5-6:10", 6),
        ("mysql", f"{A}:1-5, {B}:1", f"{A}:1-9", 1),
        ("mysql", f"{A}:1-5:backup:1-2", f"{A}:1-5", 2),
        ("mysql", f"{A}:3", f"{A}:1-2:4-9", 1),
        ("mariadb", "", "", 0),
        ("mariadb", "0-1-5", "", 5),
        ("mariadb", "0-1-5", "0-2-7", 0),  # the last one of the domain, whoever wrote it
        ("mariadb", "0-1-9,4-1-3", "0-1-5", 7),
        ("mariadb", "0-1-9,0-1-9", "0-1-5,0-2-6", 3),  # one is its binary log's, one it was sent
    ],
)
def test_missing_transactions_are_counted(
    flavour: FlavourName, wanted: str, there: str, missing: int
) -> None:
    found = count_missing(parse_gtid_set(flavour, wanted), parse_gtid_set(flavour, there))
    assert found == missing


@pytest.mark.parametrize(
    ("these", "those", "left"),
    [
        (f"{A}:1-5", f"{A}:1-5", ""),
        (f"{A}:1-8", f"{A}:1-5", f"{A}:6-8"),
        (f"{A}:1-8", f"{A}:3-4:6", f"{A}:1-2:5:7-8"),
        (f"{A}:1-5,{B}:1-2", f"{A}:1-9", f"{B}:1-2"),
        (f"{A}:1-5:backup:1-3", f"{A}:1-9:backup:2", f"{A}:backup:1:3"),
        (f"{A}:backup:1-3", f"{A}:1-9", f"{A}:backup:1-3"),
        ("", f"{A}:1", ""),
    ],
)
def test_what_one_has_and_another_lacks(these: str, those: str, left: str) -> None:
    found = subtract(parse_gtid_set("mysql", these), parse_gtid_set("mysql", those))
    assert render_gtid_set(found) == left
    assert parse_rendered(left) == found


def test_what_either_has() -> None:
    united = unite(
        parse_gtid_set("mysql", f"{A}:1-3:7"), parse_gtid_set("mysql", f"{A}:4-5:backup:1,{B}:2")
    )
    assert render_gtid_set(united) == f"{A}:1-5:7,{A}:backup:1,{B}:2"
    assert has(united, A, 7)
    assert has(united, f"{A}:backup", 1)
    assert not has(united, A, 6)


@pytest.mark.parametrize(
    ("flavour", "text"),
    [
        ("mysql", "nonsense"),
        ("mysql", f"{A}:1-x"),
        ("mysql", ":1"),
        ("mariadb", "0-1"),
        ("mariadb", "a-b-c"),
    ],
)
def test_what_names_no_transactions_is_an_error(flavour: FlavourName, text: str) -> None:
    with pytest.raises(GrampusError, match="is not valid"):
        parse_gtid_set(flavour, text)
