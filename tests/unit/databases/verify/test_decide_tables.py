from __future__ import annotations

import pytest

from grampus.databases.verify.decide_tables import (
    classify_check,
    decide_checks_at_once,
    parse_tables,
    render_check,
)
from grampus.databases.verify.model import TableOutcome

ORDERS = ("shop", "orders")


def row(kind: str, text: str) -> tuple[str, ...]:
    return ("shop.orders", "check", kind, text)


@pytest.mark.parametrize(
    ("rows", "outcome", "said"),
    [
        ([row("status", "OK")], "sound", ""),
        ([row("status", "Table is already up to date")], "sound", ""),
        # A count of clients that have it open breaks nothing.
        ([row("warning", "1 client is using it"), row("status", "OK")], "sound", ""),
        (
            [
                row("Warning", "InnoDB: Index b contains 99 entries, should be 100"),
                row("error", "Corrupt"),
            ],
            "broken",
            "Corrupt; InnoDB: Index b contains 99 entries, should be 100",
        ),
        ([row("Error", "Out of memory"), row("status", "OK")], "broken", "Out of memory"),
        ([row("status", "Operation failed")], "broken", "Operation failed"),
        ([], "broken", "The check gave no result."),
        (
            [
                row("Error", "Table 'shop.orders' doesn't exist"),
                row("status", "Operation failed"),
            ],
            "unchecked",
            "It was dropped during the check.",
        ),
        (
            [row("note", "The storage engine for the table doesn't support check")],
            "unchecked",
            "The storage engine for the table doesn't support check",
        ),
    ],
)
def test_the_verdict(rows: list[tuple[str, ...]], outcome: TableOutcome, said: str) -> None:
    check = classify_check(ORDERS, rows)
    assert (check.table, check.outcome, check.said) == ("shop.orders", outcome, said)


def test_any_name_comes_through() -> None:
    name = "a`b\tc\nä"
    rows = [(b"shop".hex(), name.encode().hex().upper())]
    assert parse_tables(rows) == [("shop", name)]
    assert render_check(("shop", name)) == "CHECK TABLE `shop`.`a``b\tc\nä` EXTENDED"


@pytest.mark.parametrize(("cpus", "at_once"), [(0.5, 1), (1, 1), (1.9, 1), (2, 2), (4, 4), (32, 4)])
def test_a_server_checks_a_table_for_each_of_its_cpus(cpus: float, at_once: int) -> None:
    assert decide_checks_at_once(cpus) == at_once
