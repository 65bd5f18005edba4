from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from grampus.core.errors import UsageError
from grampus.state.operations import OperationJournal
from grampus.state.retention import (
    KEPT_OF_SUBJECT,
    KeptSubjects,
    OperationRetention,
    parse_kept_days,
)
from grampus.state.store import Store
from tests.fakes.clock import FakeClock

LAB = "t"
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
INSERT = (
    "INSERT INTO operations (kind, lab, subject, spec, status, step, error, started_at, changed_at)"
    " VALUES (?, ?, ?, '{}', ?, '', '', ?, ?)"
)


def put(
    store: Store,
    subject: str,
    *,
    kind: str = "db.stop",
    status: str = "done",
    lab: str = LAB,
    at: datetime = LONG_AGO,
    times: int = 1,
) -> None:
    row = (kind, lab, subject, status, at.isoformat(), at.isoformat())
    with store.transaction() as connection:
        connection.executemany(INSERT, [row] * times)


def left(store: Store) -> list[tuple[str, str, str]]:
    with store.transaction() as connection:
        rows = connection.execute(
            "SELECT lab, subject, kind FROM operations ORDER BY id"
        ).fetchall()
    return [tuple(row) for row in rows]


def make(store: Store) -> tuple[OperationRetention, FakeClock]:
    clock = FakeClock()
    return OperationRetention(store, LAB, clock), clock


def kept() -> KeptSubjects:
    return KeptSubjects({"shop"}, ("db.rename",))


def test_what_is_old_goes_unless_it_did_not_end_or_is_of_something_that_is_still_there(
    store: Store,
) -> None:
    retention, clock = make(store)
    put(store, "gone")
    put(store, "gone", status="undone")
    put(store, "gone", status="running")
    put(store, "gone", status="undoing")
    put(store, "gone", at=clock.now() - timedelta(days=1))
    put(store, "gone", lab="elsewhere")
    put(store, "shop")
    put(store, "gone")  # the last one of all
    assert retention.forget(kept, days=90, most=100) == (2, True)
    assert [entry[:2] for entry in left(store)] == [
        (LAB, "gone"),
        (LAB, "gone"),
        (LAB, "gone"),
        ("elsewhere", "gone"),
        (LAB, "shop"),
        (LAB, "gone"),
    ]
    unfinished = OperationJournal(store, clock).unfinished(LAB)
    assert [operation.status for operation in unfinished] == ["running", "undoing"]


def test_what_is_still_there_keeps_its_last_operations_and_what_it_was_called(
    store: Store,
) -> None:
    retention, _ = make(store)
    put(store, "shop", kind="db.rename")
    put(store, "shop", kind="db.create")
    put(store, "shop", times=KEPT_OF_SUBJECT)
    put(store, "other")
    assert retention.forget(kept, days=90, most=1000) == (1, True)
    kinds = [kind for _, subject, kind in left(store) if subject == "shop"]
    assert kinds == ["db.rename"] + ["db.stop"] * KEPT_OF_SUBJECT


def test_a_number_is_never_given_twice(store: Store) -> None:
    retention, clock = make(store)
    put(store, "gone", times=5)
    retention.forget(kept, days=90, most=100)
    with store.transaction() as connection:
        last = connection.execute("SELECT max(id) AS last FROM operations").fetchone()["last"]
    assert OperationJournal(store, clock).begin("db.stop", LAB, "shop", {}).id == last + 1 == 6


def test_a_command_looks_at_few_and_the_next_one_goes_on(store: Store) -> None:
    retention, clock = make(store)
    put(store, "shop", times=3)  # these are kept, and not looked at again and again
    put(store, "gone", times=5)
    found = [retention.forget(kept, days=90, most=2) for _ in range(4)]
    assert found == [(0, False), (1, False), (2, False), (1, True)]
    assert not retention.is_due()
    clock.sleep(86_400)
    assert retention.is_due()


def test_a_clock_that_was_put_back_delays_nothing(store: Store) -> None:
    retention, clock = make(store)
    retention.forget(kept, days=90, most=10)
    late = OperationRetention(store, LAB, clock)
    with store.transaction() as connection:
        later = (clock.now() + timedelta(days=400)).isoformat()
        connection.execute("UPDATE pruned SET ended_at = ?", (later,))
    assert late.is_due()


@pytest.mark.parametrize(("given", "days"), [("", 90), ("1", 1), ("365", 365)])
def test_days_are_read(given: str, days: int) -> None:
    assert parse_kept_days({"GRAMPUS_KEEP_OPERATIONS_DAYS": given}) == days


@pytest.mark.parametrize("given", ["0", "-1", "ninety", "1.5", "99999999", "²"])
def test_what_is_no_number_of_days_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match="GRAMPUS_KEEP_OPERATIONS_DAYS"):
        parse_kept_days({"GRAMPUS_KEEP_OPERATIONS_DAYS": given})
