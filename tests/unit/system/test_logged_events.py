from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.system.logged_events import (
    FILE,
    LoggedEvents,
    describe_unexpected,
    select_unexpected,
)


def event(name: str, level: str = "WARNING", pid: int = 1) -> dict[str, Any]:
    return {"event": name, "level": level, "pid": pid}


UNDONE = event("operation.undone")
FAILED = event("command.failed", "ERROR")


@pytest.mark.parametrize(
    ("events", "expected", "unexpected"),
    [
        ([], set(), []),
        ([event("operation.done", "INFO")], set(), []),
        ([UNDONE], set(), [UNDONE]),
        ([UNDONE], {"operation.undone"}, []),
        ([UNDONE], {"operation.closed"}, [UNDONE]),
        # Its test sees that it failed.
        ([UNDONE, FAILED], set(), []),
        ([UNDONE, event("command.refused", "INFO")], set(), []),
        # Another command's end explains nothing.
        ([UNDONE, FAILED | {"pid": 2}], set(), [UNDONE]),
        ([event("controller.event", "ERROR")], set(), [event("controller.event", "ERROR")]),
    ],
)
def test_what_a_command_that_ended_well_warns_of_is_unexpected(
    events: list[dict[str, Any]], expected: set[str], unexpected: list[dict[str, Any]]
) -> None:
    assert select_unexpected(events, expected) == unexpected


def test_what_is_unexpected_is_told_in_one_line() -> None:
    failed = event("operation.failed") | {"kind": "db.create", "error": "It is\nfull."}
    said = describe_unexpected([failed, UNDONE])
    assert said.endswith(
        ": event operation.failed, kind db.create, error It is full.; event operation.undone"
    )


def append(home: Path, *names: str) -> None:
    file = home / FILE
    file.parent.mkdir(exist_ok=True)
    with file.open("a") as opened:
        opened.writelines(json.dumps(event(name)) + "\n" for name in names)


def names_of(logged: LoggedEvents) -> list[str]:
    return [found["event"] for found in logged.read()]


def test_events_are_read_from_where_the_log_was(tmp_path: Path) -> None:
    first = LoggedEvents(tmp_path)
    assert names_of(first) == []
    append(tmp_path, "a", "b")
    second = LoggedEvents(tmp_path)
    append(tmp_path, "c")
    assert names_of(first) == ["a", "b", "c"]
    assert names_of(second) == ["c"]


def test_a_file_renamed_meanwhile_is_read_to_its_end(tmp_path: Path) -> None:
    append(tmp_path, "a")
    logged = LoggedEvents(tmp_path)
    append(tmp_path, "b")
    (tmp_path / FILE).rename(tmp_path / f"{FILE}.1")
    append(tmp_path, "c")
    assert names_of(logged) == ["b", "c"]
