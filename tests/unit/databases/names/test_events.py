from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from grampus.core.errors import NotFoundError, RefusedError
from grampus.databases.names.events import DatabaseEvents, classify_event, decide_former_names
from grampus.databases.names.naming import DatabaseNames
from grampus.databases.names.trash import DatabaseTrash
from grampus.databases.users.users import DatabaseUsers
from grampus.state.history import JournaledOperation, OperationHistory
from grampus.state.operations import OperationStatus
from tests.unit.databases.world import LAB, World

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


def events(world: World) -> DatabaseEvents:
    records = world.service().operations.records
    return DatabaseEvents(records, OperationHistory(world.store, LAB))


@pytest.mark.parametrize(
    ("journaled", "what", "outcome", "reason"),
    [
        (operation("db.stop"), "stop", "done", ""),
        (operation("db.resize", spec={"size_bytes": 2**31}), "resize: 2 GiB", "done", ""),
        (
            operation("db.user-add", spec={"user": "app", "role": "read"}),
            "making of a user: app",
            "done",
            "",
        ),
        (operation("db.protect", spec={"protected": True}), "change of protection: on", "done", ""),
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
            "making of the clone: of main",
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
    found = [event.what.partition(":")[0] for event in events(world).of("again")]
    assert found == [
        "creation",
        "making of a user",
        "renaming",
        "deletion",
        "return from the trash",
        "start",
    ]
    assert [event.database for event in events(world).of("again", last=1)] == ["again"]


def test_a_deleted_database_still_has_its_history(world: World) -> None:
    world.create()
    world.service().delete("demo")
    assert [event.kind for event in events(world).of("demo")][-1] == "db.delete"


def test_a_database_that_never_was_is_not_found(world: World) -> None:
    world.create()
    with pytest.raises(NotFoundError, match="dmeo"):
        events(world).of("dmeo")
