"""What the clients of a database that is lost do, and what is found of it afterwards."""

from __future__ import annotations

import pytest

from tests.proof.sql_load import (
    CREATING,
    PAIRED,
    PREPARED,
    SINGLE,
    XA,
    Found,
    decide_turns,
    find_changes,
    render_rollbacks,
)


@pytest.mark.parametrize(
    ("client", "acknowledged", "ends"),
    [
        *((client, [client], ["'x', 800))"]) for client in SINGLE),
        (PAIRED, [PAIRED], ["insert into ledger.pairs values (9); commit"]),
        (XA, [PREPARED, XA], ["xa end '9'; xa prepare '9'", "xa commit '9'"]),
        (CREATING, [CREATING], ["create table ledger.made_9 (id int primary key)"]),
    ],
)
def test_a_turn_ends_with_what_is_acknowledged(
    client: int, acknowledged: list[int], ends: list[str]
) -> None:
    turns = decide_turns(client, 9)
    assert [turn.as_client for turn in turns] == acknowledged
    assert all(turn.sql.endswith(end) for turn, end in zip(turns, ends, strict=True))


def test_what_a_server_holds() -> None:
    answers = {
        "select client": [["0", "1"], [str(PAIRED), "1"], [str(XA), "3"]],
        "select number": [["1"]],
        "select substring": [["1"], ["2"]],
        "xa recover": [["1", "1", "0", "4"]],
    }

    def sql(statement: str) -> list[list[str]]:
        return next(rows for words, rows in answers.items() if statement.startswith(words))

    found = find_changes(sql)
    assert found.held == {
        (0, 1),
        (PAIRED, 1),
        (XA, 3),
        (PREPARED, 3),
        (PREPARED, 4),
        (CREATING, 1),
        (CREATING, 2),
    }
    assert found.describe_halves() == []
    assert render_rollbacks(found.prepared) == "xa rollback '4'; select 1"


@pytest.mark.parametrize(
    ("paired", "pairs"), [({1, 2}, {1}), ({1}, {1, 2}), (set[int](), {7}), ({7}, set[int]())]
)
def test_half_a_transaction_is_said(paired: set[int], pairs: set[int]) -> None:
    rows = frozenset((PAIRED, number) for number in paired)
    found = Found(rows, frozenset(pairs), frozenset(), frozenset())
    assert found.describe_halves() == ["1 transactions over two tables are there by half"]
