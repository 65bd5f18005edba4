"""What operations under load are held to."""

from __future__ import annotations

import pytest

from grampus.bench.drivers.outcome import Second as Sysbench
from tests.proof.operations.__main__ import choose
from tests.proof.operations.accounts import (
    Ran,
    decide_before,
    decide_may_go,
    decide_must_go,
    decide_times_s,
)
from tests.proof.operations.catalogue import OPERATIONS, Place, Promise
from tests.proof.operations.commit_watch import Acknowledged, longest_wait_s
from tests.proof.operations.outcome import (
    SizeTried,
    Tried,
    decide_broken,
    merge_tried,
    render_page,
    render_took,
)
from tests.proof.operations.restored_rows import Restored, TableDigest, find_differing
from tests.proof.operations.steady_load import Ended, LoadDuring, Second, decide_load_during

ENDED = [Ended(1.0, "before"), Ended(3.0, "late"), Ended(9.0, "after")]
CALM = LoadDuring(10.0, 20.0, 0, 0, [])


def tried(**changes: object) -> Tried:
    values = {
        "name": "snapshot",
        "took_s": 2.0,
        "committed": 50,
        "longest_wait_s": 0.4,
        "failed": 0,
        "load": CALM,
        "missing": 0,
        "said": "",
        **changes,
    }
    return Tried(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "promise", "said"),
    [
        ({}, Promise(pause_s=1.0), []),
        ({"longest_wait_s": 1.2}, Promise(pause_s=1.0), ["a pause of 1.20 s, above 1 s"]),
        ({"longest_wait_s": 9.0}, Promise(), []),
        ({"took_s": 11.0}, Promise(most_s=10.0), ["it took 11.0 s, above 10 s"]),
        ({"missing": 2}, Promise(is_online=False), ["2 acknowledged commits are lost"]),
        ({"failed": 1}, Promise(), ["1 queries failed or had to connect anew"]),
        ({"load": LoadDuring(1, 1, 2, 4, [])}, Promise(), ["6 queries failed"]),
        (
            {"load": LoadDuring(1, 1, 0, 0, ["FATAL: no"])},
            Promise(),
            ["sysbench ended: FATAL: no"],
        ),
        (
            {"failed": 1, "load": LoadDuring(1, 1, 2, 4, ["FATAL: no"])},
            Promise(is_online=False),
            [],
        ),
        ({"said": "error: no"}, Promise(), ["it failed: error: no"]),
        ({"each_s": [4.0, 5.0, 90.0]}, Promise(p50_s=5.0), []),
        ({"each_s": [4.0, 5.2, 5.3]}, Promise(p50_s=5.0), ["half of them took 5.2 s, above 5 s"]),
        ({"each_s": []}, Promise(p50_s=5.0), ["none of its commands was timed"]),
        ({"kept_back": 3}, Promise(is_online=False), ["3 commits from after the snapshot"]),
    ],
)
def test_what_is_promised_is_held_to(
    changes: dict[str, object], promise: Promise, said: list[str]
) -> None:
    broken = decide_broken(tried(**changes), promise)
    assert len(broken) == len(said)
    assert all(text.startswith(start) for text, start in zip(broken, said, strict=True))


@pytest.mark.parametrize(
    ("began_s", "ended_s", "longest_s"),
    [(0.0, 10.0, 5.0), (0.0, 1.5, 1.0), (3.0, 4.0, 5.0), (7.5, 9.0, 1.0), (20.0, 30.0, 0.0)],
)
def test_a_wait_counts_when_it_reaches_into_the_time_asked_for(
    began_s: float, ended_s: float, longest_s: float
) -> None:
    rows = [Acknowledged(n, at_s) for n, at_s in enumerate((0.0, 1.0, 2.0, 7.0, 8.0, 9.0))]
    assert longest_wait_s(rows, began_s, ended_s) == longest_s


def test_the_seconds_of_an_operation_are_put_together() -> None:
    def second(at_s: float, errors: float) -> Second:
        return Second(at_s, Sysbench(at_s, 1.0, 10.0, errors, latency_p99_ms=10.0 * at_s))

    seconds = [second(1.0, 5), second(2.0, 1), second(3.0, 0), second(9.0, 7)]
    assert decide_load_during(seconds, ENDED, 1.5, 2.5) == LoadDuring(10.0, 30.0, 1, 0, ["late"])
    assert decide_load_during([], [], 1.5, 2.5) == LoadDuring(0.0, 0.0, 0, 0, [])


def test_each_operation_is_a_command_of_that_database() -> None:
    place = Place("shop", "h2", "/backups", "other", 2**30)
    names = [operation.name for operation in OPERATIONS]
    assert len(set(names)) == len(names)
    for operation in OPERATIONS:
        commands = operation.commands(place)
        for command in commands:
            if command != ("serve", "--once"):
                assert command[0] == "db"
                assert "shop" in command[2] or "shop" in command[3], command
            assert "{" not in "".join(command)
        assert any(command[: len(operation.timed)] == operation.timed for command in commands)


def test_what_stops_the_server_has_a_bound_unless_it_takes_as_long_as_there_is_data() -> None:
    unbounded = [
        operation.name
        for operation in OPERATIONS
        if operation.promise.pause_s is None and operation.promise.most_s is None
    ]
    assert unbounded == ["rollback to a snapshot"]


def test_a_rollback_comes_before_the_backups_whose_history_it_would_end() -> None:
    names = [operation.name for operation in OPERATIONS]
    assert names.index("rollback to a snapshot") < names.index("full backup")
    (rollback,) = [one for one in OPERATIONS if one.goes_back]
    first, second = rollback.commands(Place("shop", "h2", "/b", "other", 2**30))[:2]
    assert (first[2], second[2]) == ("create", "rollback")


ROWS = [Acknowledged(n, float(n)) for n in range(10)]
SNAPSHOT = Ran(("db", "snapshot", "create"), 2.0, 3.0)
ROLLBACK = Ran(("db", "snapshot", "rollback"), 5.5, 7.5)


def test_a_rollback_may_take_what_came_after_its_snapshot_and_must_take_some_of_it() -> None:
    assert decide_may_go(ROWS, SNAPSHOT, ROLLBACK) == {2, 3, 4, 5, 6, 7}
    assert decide_must_go(ROWS, SNAPSHOT, ROLLBACK) == {3, 4, 5}
    assert decide_before(ROWS, 2.0) == {0, 1}


def test_commands_are_timed_by_how_they_begin() -> None:
    ran = [Ran(("db", "create", "x"), 1.0, 2.5), Ran(("db", "delete", "x"), 2.5, 9.0)]
    assert decide_times_s(ran, ("db", "create")) == [1.5]
    assert decide_times_s(ran, ("db", "move")) == []
    assert decide_times_s(ran, ()) == []


@pytest.mark.parametrize(
    ("each_s", "text"),
    [
        ([], "2.0 of 10 s"),
        ([1.5], "2.0 of 10 s, 1.5 s of them"),
        ([1.0, 3.0, 2.0], "2.0 of 10 s; each p50 2.0 of 5 s, at most 3.0 s"),
    ],
)
def test_the_page_says_how_long_each_took(each_s: list[float], text: str) -> None:
    assert render_took(tried(each_s=each_s), Promise(most_s=10.0, p50_s=5.0)) == text


def test_page_says_what_was_not_tried_to_the_end() -> None:
    page = render_page([], {}, ["5 GiB"])
    assert page.endswith("\n## A database of 5 GiB\n\nNot tried to the end yet.\n")
    assert "Not tried" not in render_page([], {})


def test_page_has_a_row_an_operation_and_says_what_was_broken() -> None:
    promises = {"snapshot": Promise(pause_s=1.0), "move": Promise()}
    rows = [tried(), tried(name="move", missing=3)]
    compared = [
        Restored("a moment", 9.0, 100, (), ""),
        Restored("the latest", 8.0, 100, ("sbtest.sbtest1",), ""),
    ]
    page = render_page([SizeTried("200 MiB", rows, compared, {"CPUs": "2", "at": "x"})], promises)
    assert "| a moment | 9.0 s | 100 | the same rows |" in page
    assert "| the latest | 8.0 s | 100 | differs in sbtest.sbtest1 |" in page
    assert "**1 of 2 kept what they promise.**" in page
    assert "| snapshot | 2.0 s | 50 | 0.40 of 1 s | 0 | 10.0 | 20 ms | 0 | kept |" in page
    assert "3 acknowledged commits are lost" in page
    assert page.endswith("\nCPUs 2; at x.\n")


ORDER = ("snapshot", "clone", "move")


def of_size(*names: str, date: str = "one", took_s: float = 2.0) -> SizeTried:
    rows = [tried(name=name, took_s=took_s) for name in names]
    return SizeTried("200 MiB", rows, [], {"date": date})


@pytest.mark.parametrize(
    ("former", "now", "names", "took_s", "again"),
    [
        (None, of_size("clone"), ["clone"], [2.0], {}),
        (of_size(*ORDER), of_size(*ORDER, took_s=3.0), [*ORDER], [3.0] * 3, {}),
        (
            of_size("snapshot", "move"),
            of_size("clone", "move", date="two", took_s=3.0),
            [*ORDER],
            [2.0, 3.0, 3.0],
            {"clone": "two", "move": "two"},
        ),
        # A trial that goes on is kept after each operation.
        (of_size("snapshot"), of_size("snapshot", "clone"), ["snapshot", "clone"], [2.0] * 2, {}),
    ],
)
def test_a_trial_of_a_few_operations_replaces_those_alone(
    former: SizeTried | None,
    now: SizeTried,
    names: list[str],
    took_s: list[float],
    again: dict[str, str],
) -> None:
    merged = merge_tried(former, now, ORDER)
    assert [one.name for one in merged.tried] == names
    assert [one.took_s for one in merged.tried] == took_s
    assert merged.again == again


def test_page_says_what_was_tried_apart_and_what_not_yet() -> None:
    promises = {name: Promise() for name in ORDER}
    merged = merge_tried(of_size("snapshot"), of_size("move", date="two"), ORDER)
    page = render_page([merged], promises)
    assert "on another database that was made alike: move (two)." in page
    assert page.endswith("Not tried yet: clone.\n")


@pytest.mark.parametrize(
    ("found", "differing"),
    [
        ({"a": TableDigest(2, "x"), "b": TableDigest(0, "y")}, ()),
        ({"a": TableDigest(2, "x")}, ("b",)),
        (
            {"a": TableDigest(2, "z"), "b": TableDigest(0, "y"), "c": TableDigest(1, "q")},
            ("a", "c"),
        ),
        ({"a": TableDigest(3, "x"), "b": TableDigest(0, "y")}, ("a",)),
    ],
)
def test_tables_with_other_rows_are_found(
    found: dict[str, TableDigest], differing: tuple[str, ...]
) -> None:
    assert find_differing({"a": TableDigest(2, "x"), "b": TableDigest(0, "y")}, found) == differing


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("clone", ["clone"]),
        ("restore test,clone", ["clone", "full backup", "restore test"]),
        ("-full backup,restore test", ["restore test"]),
    ],
)
def test_what_needs_a_backup_has_one_made_unless_that_is_left_out(
    wanted: str, names: list[str]
) -> None:
    assert [one.name for one in choose(wanted)] == names
