from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from grampus.core.errors import NotFoundError, RefusedError
from grampus.databases.names.database_trash import DatabaseTrash
from grampus.databases.names.events import classify_event, decide_former_names
from grampus.databases.names.naming import DatabaseNames
from grampus.databases.users.users import DatabaseUsers
from grampus.state.history import JournaledOperation
from grampus.state.operations import OperationStatus
from grampus.state.warnings import Warned, WarningHistory
from tests.unit.databases.world import LAB, World, database_events

BEGAN = datetime(2026, 11, 22, 1, 0, tzinfo=UTC)


def operation(
    kind: str,
    *,
    spec: dict[str, Any] | None = None,
    status: OperationStatus = "done",
    step: str = "",
    error: str = "",
) -> JournaledOperation:
    changed_at = BEGAN + timedelta(seconds=2)
    return JournaledOperation(
        1, kind, "shop", spec or {}, status, step, error, BEGAN, changed_at, "anna"
    )


@pytest.mark.parametrize(
    ("journaled", "what", "outcome", "reason"),
    [
        (operation("db.stop"), "stop", "done", ""),
        (operation("db.resize", spec={"size_bytes": 2**31}), "resize: 2 GiB", "done", ""),
        (
            operation("db.user-add", spec={"user": "app", "role": "read"}),
            "creation of a user: app",
            "done",
            "",
        ),
        (operation("db.protect", spec={"protected": True}), "change of protection: on", "done", ""),
        (
            operation("db.failover-mode", spec={"failover": "manual"}),
            "change of the failover mode: manual",
            "done",
            "",
        ),
        (
            operation("db.snapshot", spec={"database": "shop", "snapshot": "s1"}),
            "snapshot: s1",
            "done",
            "",
        ),
        (operation("db.rollback", spec={"spec": {}, "snapshot": "s1"}), "rollback: s1", "done", ""),
        (
            operation("db.move", spec={"former_host": "host1", "changed": {"host": "host2"}}),
            "move: host1 to host2",
            "done",
            "",
        ),
        (
            operation("db.clone", spec={"spec": {}, "database": "main"}),
            "creation of the clone: of main",
            "done",
            "",
        ),
        (
            operation(
                "db.parameter",
                spec={
                    "parameter": "max_connections",
                    "changed": {"parameters": {"max_connections": "50"}},
                },
            ),
            "change of a parameter: max_connections = 50",
            "done",
            "",
        ),
        (
            operation(
                "db.parameter", spec={"parameter": "max_connections", "changed": {"parameters": {}}}
            ),
            "change of a parameter: max_connections back to its default",
            "done",
            "",
        ),
        (
            operation(
                "db.parameter",
                spec={"parameter": "x_password", "changed": {"parameters": {"x_password": "pw"}}},
            ),
            "change of a parameter: x_password",
            "done",
            "",
        ),
        (
            operation("volume.migrate", spec={"from_pool": "a", "to_pool": "b"}),
            "migrate of its volume: a to b",
            "done",
            "",
        ),
        (operation("volume.fence"), "fence of its volume", "done", ""),
        (operation("db.of-tomorrow"), "db.of-tomorrow", "done", ""),
        (
            operation("db.start", status="undone", error="The disk is full."),
            "start",
            "undone",
            "The disk is full.",
        ),
        (operation("db.stop", status="running", step="server"), "stop", "cut off", "'server'"),
        (operation("db.stop", status="running"), "stop", "cut off", "before its first step"),
    ],
)
def test_an_operation_in_words(
    journaled: JournaledOperation, what: str, outcome: str, reason: str
) -> None:
    event = classify_event(journaled)
    assert (event.what, event.outcome) == (what, outcome)
    assert reason in event.reason
    assert event.duration_s == 2


def rename(former: str, new: str, status: OperationStatus = "done") -> JournaledOperation:
    spec = {"spec": {"name": former}, "new_name": new}
    return operation("db.rename", spec=spec, status=status)


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([], ["c"]),
        ([rename("b", "c")], ["c", "b"]),
        ([rename("a", "b"), rename("b", "c")], ["c", "b", "a"]),
        ([rename("b", "c"), rename("a", "b")], ["c", "b"]),  # another one was called b later
        ([rename("b", "c", "undone")], ["c"]),
        ([rename("c", "b"), rename("b", "c")], ["c", "b"]),
    ],
)
def test_former_names(operations: list[JournaledOperation], expected: list[str]) -> None:
    assert decide_former_names("c", operations) == expected


def test_a_database_cannot_be_renamed_to_what_it_is_called(world: World) -> None:
    world.create()
    with pytest.raises(RefusedError) as caught:
        DatabaseNames(world.service().operations).rename("demo", "demo")
    assert caught.value.code == "name-taken"


def test_the_history_of_a_database_follows_its_name(world: World) -> None:
    world.create()
    DatabaseUsers(world.service().operations).add("demo", "reports", "read")
    DatabaseNames(world.service().operations).rename("demo", "store")
    trash = DatabaseTrash(world.service().operations)
    trash.trash("store")
    trash.restore("store", name="again")
    found = [event.what.partition(":")[0] for event in database_events(world).of("again")]
    assert found == [
        "creation",
        "creation of a user",
        "renaming",
        "deletion",
        "restore from the trash",
        "start",
    ]
    assert [event.database for event in database_events(world).of("again", last=1)] == ["again"]


def test_a_deleted_database_still_has_its_history(world: World) -> None:
    world.create()
    world.service().delete("demo")
    assert [event.kind for event in database_events(world).of("demo")][-1] == "db.delete"


def test_a_database_that_never_was_is_not_found(world: World) -> None:
    world.create()
    with pytest.raises(NotFoundError, match="dmeo"):
        database_events(world).of("dmeo")


def test_what_was_warned_of_stands_among_what_was_done(world: World) -> None:
    world.create()
    world.clock.sleep(1)
    history = WarningHistory(world.store, LAB, world.clock)
    late = Warned("demo", "archive-late", "warning", "It is late.", "See why.")
    history.change("binlogs", begun=[late])
    world.clock.sleep(60)
    DatabaseNames(world.service().operations).rename("demo", "shop")
    history.change("binlogs", ended=history.known("binlogs"))
    history.change("backups", begun=[Warned("shop", "failed", "failed", "No place.")])
    world.clock.sleep(5)
    found = database_events(world).of("shop")
    assert [event.what for event in found] == [
        "creation: 10 GiB",
        "warning: archive-late",
        "renaming: demo to shop",
        "failed: backups",
    ]
    over, lasting = found[1], found[3]
    assert (over.kind, over.actor, over.outcome) == ("serve.archive-late", "grampus serve", "over")
    assert (over.database, over.reason, over.duration_s) == ("demo", "It is late.", 60.0)
    assert (lasting.outcome, lasting.duration_s) == ("lasts", 5.0)
    assert database_events(world).lasting("shop") == [lasting]
    assert database_events(world).of("shop", last=2) == found[2:]
    world.service().delete("shop")
    world.clock.sleep(1)
    world.create("shop")
    assert database_events(world).lasting("shop") == [], "it was of the former one"
    world.service().delete("shop")
    assert "failed: backups" in [event.what for event in database_events(world).of("shop")]


def test_one_that_came_again_and_again_is_counted(world: World) -> None:
    world.create()
    history = WarningHistory(world.store, LAB, world.clock)
    history.change("job", begun=[Warned("demo", "slow", "warning", "It is slow.")])
    history.change("job", ended=history.known("job"))
    history.change("job", again=history.known("job"))
    assert database_events(world).of("demo")[-1].what == "warning: slow (2 times)"
