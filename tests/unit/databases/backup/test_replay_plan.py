"""Up to where logs are applied for a moment: the table of rules, and sets of transactions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from grampus.core.errors import GrampusError
from grampus.databases.backup.gtid_tally import GtidTally
from grampus.databases.backup.replay_plan import (
    ReplayPlan,
    decide_expected,
    decide_replay,
    decide_rounds,
    require_executed,
)
from grampus.databases.replicas.gtid_sets import intersect, subtract, unite

from .made_binlogs import SERVER, begin, transaction

MOMENT = datetime(2026, 11, 27, 4, 0, 0, tzinfo=UTC)
Log = tuple[dict[str, tuple[int, int]], list[tuple[int, float]]]


def written(previous: dict[str, tuple[int, int]], commits: list[tuple[int, float]]) -> bytes:
    """Numbers of transactions, and how many seconds after the moment they were committed."""
    made = [transaction(n, MOMENT + timedelta(seconds=s)) for n, s in commits]
    return begin(previous) + b"".join(made)


def decide(*logs: Log, cut_bytes: int = 0) -> ReplayPlan:
    contents = [written(*log) for log in logs]
    if cut_bytes:
        contents[-1] = contents[-1][:-cut_bytes]

    def read(content: bytes) -> Iterator[bytes]:
        yield content

    return decide_replay(
        (
            (f"binlog.{n:06d}", len(content), lambda content=content: read(content))  # type: ignore[misc]
            for n, content in enumerate(contents, start=1)
        ),
        MOMENT,
        "shop",
    )


def upto(last: int) -> dict[str, tuple[int, int]]:
    return {SERVER: (1, last)}


CASES = [
    ("all of it", [({}, [(1, -2.0), (2, -1.0)])], 2, 0),
    ("the moment itself is left out", [({}, [(1, -0.000001), (2, 0.0)])], 1, 0),
    ("nothing before it", [({}, [(1, 1.0)])], 0, 0),
    ("the next log is past it", [({}, [(1, -1.0)]), (upto(1), [(2, 1.0)])], 1, 0),
    ("clock set back", [({}, [(1, -1.0), (2, 5.0), (3, -0.5), (4, 1.0)])], 3, 1),
    ("and in the next log", [({}, [(1, 9.0), (2, 5.0)]), (upto(2), [(3, -0.5), (4, 2.0)])], 3, 2),
    ("not after an hour", [({}, [(1, -1.0), (2, 3601.0), (3, -0.5)])], 1, 0),
]


@pytest.mark.parametrize(
    ("logs", "last", "out_of_order"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_logs_are_applied_up_to_the_last_commit_before_the_moment(
    logs: list[Log], last: int, out_of_order: int
) -> None:
    plan = decide(*logs)
    assert plan.transactions == ({SERVER: ((1, last),)} if last else {})
    assert (plan.count, plan.out_of_order) == (last, out_of_order)
    assert not intersect(plan.transactions, plan.later)


def test_log_ends_behind_the_last_transaction_that_counts() -> None:
    (file,) = decide(({}, [(1, -2.0), (2, -1.0), (3, 1.0)])).files
    assert file.end_bytes == len(written({}, [(1, -2.0), (2, -1.0)]))


GAPS = [
    ("lost log", [({}, [(1, -9.0)]), (upto(2), [(3, -8.0)])]),
    ("reset", [(upto(4), [(5, -9.0)]), ({}, [(1, -8.0)])]),
    ("the same again", [({}, [(1, -9.0), (2, -8.0), (1, -7.0)])]),
]


@pytest.mark.parametrize("logs", [gap[1] for gap in GAPS], ids=[gap[0] for gap in GAPS])
def test_logs_that_do_not_follow_one_another_are_refused(logs: list[Log]) -> None:
    with pytest.raises(GrampusError) as caught:
        decide(*logs)
    assert caught.value.code == "archive-gap"


def test_transaction_that_is_archived_by_half_is_refused() -> None:
    with pytest.raises(GrampusError, match="in the middle"):
        decide(({}, [(1, -9.0), (2, -8.0)]), cut_bytes=5)
    assert decide(({}, [(1, -9.0), (2, 8.0)]), cut_bytes=5).count == 1


def test_backup_must_lead_to_the_logs_and_hold_nothing_later() -> None:
    plan = decide((upto(4), [(5, -9.0), (6, 1.0)]))
    assert decide_expected(plan, {SERVER: ((1, 4),)}, "shop/1", "shop") == {SERVER: ((1, 5),)}
    for executed, code in [
        ({SERVER: ((1, 3),)}, "archive-gap"),
        ({SERVER: ((1, 6),)}, "backup-too-late"),
    ]:
        with pytest.raises(GrampusError) as caught:
            decide_expected(plan, executed, "shop/1", "shop")
        assert caught.value.code == code


@pytest.mark.parametrize(
    "executed", [{SERVER: ((1, 4),)}, {SERVER: ((1, 6),)}, {"other": ((1, 1),)}]
)
def test_other_transactions_than_expected_are_refused(
    executed: dict[str, tuple[tuple[int, int], ...]],
) -> None:
    require_executed({SERVER: ((1, 5),)}, {SERVER: ((1, 2), (3, 5))}, "shop")
    with pytest.raises(GrampusError) as caught:
        require_executed({SERVER: ((1, 5),)}, executed, "shop")
    assert caught.value.code == "replay-incomplete"


def test_rounds_hold_some_logs_and_only_what_is_new() -> None:
    logs = [(upto(n - 1) if n > 1 else {}, [(n, n - 9.0)]) for n in range(1, 6)]
    plan = decide(*logs)
    size = plan.files[1].end_bytes
    rounds = decide_rounds(plan.files, {SERVER: ((1, 1),)}, most_bytes=2 * size)
    assert [[file.name[-1] for file in files] for files in rounds] == [["2", "3"], ["4", "5"]]
    one_by_one = decide_rounds(plan.files, {}, most_bytes=1)
    assert [len(files) for files in one_by_one] == [1] * 5


@pytest.mark.parametrize("seed", range(20))
def test_sets_are_as_sets_of_numbers_are(seed: int) -> None:
    choose = random.Random(seed)  # noqa: S311 - a test's choice
    numbers: list[set[int]] = []
    sets = []
    for _ in range(2):
        tally, chosen = GtidTally(), set[int]()
        for _ in range(choose.randrange(40)):
            number = choose.randrange(1, 60)
            tally.add("s", number)
            chosen.add(number)
        assert tally.count == len(chosen)
        assert all(tally.has("s", number) == (number in chosen) for number in range(61))
        numbers.append(chosen)
        sets.append(tally.transactions)
    for found, wanted in [
        (unite(*sets), numbers[0] | numbers[1]),
        (subtract(*sets), numbers[0] - numbers[1]),
        (intersect(*sets), numbers[0] & numbers[1]),
    ]:
        spelled = {n for first, last in found.get("s", ()) for n in range(first, last + 1)}
        assert spelled == wanted
