"""What a test left in Grampus's log: a warning or an error that it did not expect fails it.

A command that ends with an error logs what led to it, and the test that ran it looks at how it
ended. Everything else of these levels has a mark on the test: `@pytest.mark.logs("EVENT")`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

FILE = Path("log") / "grampus.log"
LEVELS = frozenset({"WARNING", "ERROR"})
# The last event of a command that did not end with 0.
ENDS = frozenset({"command.ended", "command.failed", "command.interrupted", "command.refused"})
# What says nothing about a single event.
_COMMON = frozenset({"level", "part", "pid", "lab", "at"})


class LoggedEvents:
    """What is appended to the log of a home from now on."""

    def __init__(self, home: Path) -> None:
        self._file = home / FILE
        self._inode, self._offset = self._place()

    def read(self) -> list[dict[str, Any]]:
        """The events since then; a file that was full has been renamed."""
        inode, _ = self._place()
        if not inode:
            return []
        if inode == self._inode or not self._inode:
            files = [(self._file, self._offset)]
        else:
            files = [(self._file.with_name(f"{FILE.name}.1"), self._offset), (self._file, 0)]
        return [
            json.loads(line)
            for file, offset in files
            for line in file.read_bytes()[offset:].decode().splitlines()
        ]

    def _place(self) -> tuple[int, int]:
        try:
            found = self._file.stat()
        except FileNotFoundError:
            return 0, 0
        return found.st_ino, found.st_size


def select_unexpected(
    events: Sequence[dict[str, Any]], expected: Collection[str]
) -> list[dict[str, Any]]:
    """Warnings and errors of commands that ended well and of those that go on. Pure."""
    failed = {event["pid"] for event in events if event["event"] in ENDS}
    return [
        event
        for event in events
        if event["level"] in LEVELS
        and event["pid"] not in failed
        and event["event"] not in expected
    ]


def describe_unexpected(events: Sequence[dict[str, Any]]) -> str:
    """What was logged, in one line: pytest's summary shows no other line of a failure. Pure."""
    said = "; ".join(
        ", ".join(f"{name} {value}" for name, value in event.items() if name not in _COMMON)
        for event in events
    )
    return f"logged, and not expected (see tests/system/logged_events.py): {' '.join(said.split())}"
