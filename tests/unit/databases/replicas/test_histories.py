"""Binary logs of a primary and of its replica, compared by what was committed when."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from grampus.core.errors import GrampusError
from grampus.databases.replicas.gtid_sets import parse_gtid_set, render_gtid_set
from grampus.databases.replicas.histories import (
    Commit,
    decide_lost,
    decide_verdict,
    first_of_each_source,
    parse_begun,
    parse_log,
)

A = "bef9abca-e62e-11f1-b1cd-02fc00000001"


def test_what_was_read_of_a_log() -> None:
    text = f"begun 261127 3:51:38\nstart\ncommit {A.upper()}:7 17\ncommit {A}:backup:1 18\nend\n"
    head = parse_log("binlog.000003", text)
    assert (head.key, head.is_start) == ("binlog.000003 261127 3:51:38", True)
    assert [(one.source, one.number) for one in head.commits] == [(A, 7), (f"{A}:backup", 1)]
    assert head.commits[0].stamp < head.commits[1].stamp
    assert parse_begun(head.begun) == datetime(2026, 11, 27, 3, 51, 38, tzinfo=UTC)


def test_a_log_of_mariadb() -> None:
    text = "begun 261127 3:51:38\ncommit 0-1-96 261127 9:59:59\ncommit 0-1-97 261127 10:00:00\nend"
    head = parse_log("binlog.000003", text)
    assert not head.is_start
    assert [(one.source, one.number) for one in head.commits] == [("0", 96), ("0", 97)]
    assert head.commits[0].stamp < head.commits[1].stamp


@pytest.mark.parametrize("text", ["", "begun 261127 3:51:38\n", "end\n", f"commit {A}:1 5\nend\n"])
def test_a_log_that_was_not_read_to_its_end_is_an_error(text: str) -> None:
    with pytest.raises(GrampusError) as caught:
        parse_log("binlog.000003", text)
    assert caught.value.code == "unreadable-log"


@pytest.mark.parametrize(
    ("firsts", "holds", "of_replica", "verdict"),
    [
        ([("", 7, 70)], f"{A}:1-6", {}, "same"),
        ([("", 7, 70)], f"{A}:1-9", {("", 7): 70}, "same"),
        ([("", 7, 70)], f"{A}:1-9", {("", 7): 60}, "differs"),
        ([("", 7, 70)], f"{A}:1-9", {}, "unknown"),
        ([("", 7, 70), (":backup", 1, 71)], f"{A}:1-9", {("", 7): 70}, "same"),
        ([("", 7, 70), (":backup", 1, 71)], f"{A}:1-9:backup:1", {("", 7): 70}, "unknown"),
        (
            [("", 7, 70), (":backup", 1, 71)],
            f"{A}:1-9:backup:1",
            {("", 7): 70, (":backup", 1): 50},
            "differs",
        ),
        ([], f"{A}:1-9", {}, "same"),
    ],
)
def test_whether_histories_agree(
    firsts: list[tuple[str, int, int]],
    holds: str,
    of_replica: dict[tuple[str, int], int],
    verdict: str,
) -> None:
    commits = [Commit(f"{A}{tag}", number, f"{stamp:020}") for tag, number, stamp in firsts]
    stamps = {(f"{A}{tag}", n): f"{stamp:020}" for (tag, n), stamp in of_replica.items()}
    assert decide_verdict(commits, parse_gtid_set("mysql", holds), stamps) == verdict


def test_the_first_one_of_each_source() -> None:
    commits = [Commit("a", 7, "1"), Commit("a", 8, "2"), Commit("b", 1, "3"), Commit("a", 9, "4")]
    assert [one.number for one in first_of_each_source(commits)] == [7, 1]


def test_lost_is_what_was_committed_before_its_number_was_given_again() -> None:
    first = Commit(A, 7, "70")
    replica = [
        Commit(A, 6, "50"),
        Commit(A, 7, "60"),
        Commit(A, 8, "61"),
        Commit(A, 9, "72"),  # of the primary after its start
        Commit(f"{A}:backup", 3, "61"),
    ]
    assert render_gtid_set(decide_lost([first], replica)) == f"{A}:7-8"
