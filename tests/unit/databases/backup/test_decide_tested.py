from __future__ import annotations

import pytest

from grampus.core.names import require_name
from grampus.databases.backup.decide_tested import (
    decide_problem,
    name_of_scratch,
    parse_checksums,
    render_checksums,
)
from grampus.databases.verify.model import TableCheck

ORDERS, ITEMS = ("shop", "orders"), ("shop", "items")
SOUND = [TableCheck(table="shop.orders", outcome="sound")]
BROKEN = [TableCheck(table="shop.orders", outcome="broken", said="x")]
CASES = [
    (SOUND, {ORDERS: "1"}, {ORDERS: "1"}, None),
    (SOUND, {ORDERS: "1"}, None, None),
    (SOUND, {}, {}, None),
    (BROKEN, {ORDERS: "1"}, {ORDERS: "1"}, "CHECK TABLE found shop.orders broken"),
    (SOUND, {ORDERS: "NULL"}, None, "shop.orders cannot be read"),
    (SOUND, {ORDERS: "1"}, {ORDERS: "2"}, "shop.orders differs"),
    (SOUND, {ORDERS: "1"}, {ORDERS: "1", ITEMS: "2"}, "shop.items is in the snapshot, but not"),
    (SOUND, {ORDERS: "1", ITEMS: "2"}, {ORDERS: "1"}, "shop.items is in the restore, but not"),
]


@pytest.mark.parametrize(("checks", "restored", "original", "problem"), CASES)
def test_what_is_wrong_is_told(
    checks: list[TableCheck],
    restored: dict[tuple[str, str], str],
    original: dict[tuple[str, str], str] | None,
    problem: str | None,
) -> None:
    found = decide_problem(checks, restored, original)
    assert (found is None) if problem is None else (problem in (found or ""))


def test_many_tables_are_told_in_short() -> None:
    restored = {("shop", f"t{n}"): "NULL" for n in range(9)}
    assert (
        decide_problem([], restored, None) == "shop.t0, shop.t1, shop.t2 and 6 more cannot be read."
    )


def test_checksums_are_read_in_order() -> None:
    tables = [ORDERS, ("shop", "a`b.c")]
    assert render_checksums(tables) == "CHECKSUM TABLE `shop`.`orders`, `shop`.`a``b.c`"
    assert parse_checksums(tables, [("shop.orders", "7"), ("shop.a`b.c", "NULL")]) == {
        ORDERS: "7",
        tables[1]: "NULL",
    }


@pytest.mark.parametrize("database", ["a", "a-database-with-the-longest-name"])
def test_scratch_databases_have_names_of_their_own(database: str) -> None:
    names = {name_of_scratch(role, database) for role in ("new", "old")}
    assert len(names) == 2
    assert all(require_name("database", name) for name in names)
