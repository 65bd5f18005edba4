"""Servers restarted in the maintenance window: their parameters, or a newer host image, wait.

Once in each window: a restart that fails, or after which a parameter still waits, is not repeated
before the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from grampus.core.errors import GrampusError
from grampus.core.weekly_window import parse_weekly_window
from grampus.databases.layout import server_daemon_name
from grampus.databases.live.live_settings import LiveSettings
from grampus.databases.live.parameters import DatabaseParameters
from grampus.databases.model import DatabaseRecord
from grampus.databases.operating import DatabaseOperations

# What waits for a restart beside parameters.
NEWER_IMAGE = "newer host image"


@dataclass(frozen=True)
class WindowRestart:
    """A restart in the window, and why it failed."""

    database: str
    parameters: list[str]  # that waited for it; NEWER_IMAGE: the host has a newer image
    problem: GrampusError | None = None


class WindowRestarts:
    """Restarts that are due in the maintenance windows of databases; it outlasts a look."""

    def __init__(self) -> None:
        self._failed: dict[str, WindowRestart] = {}  # whose parameters wait still

    def carry_out(self, operations: DatabaseOperations) -> list[WindowRestart]:
        """Restart each server whose window is open and whose parameters wait for that.

        A restart that failed is told again by each look as long as its parameters wait. What
        another command works on, or whose host cannot be reached, is left for a later look.
        """
        windows = operations.records.maintenance_windows()
        self._failed = {name: one for name, one in self._failed.items() if name in windows}
        found = [self._look_after(operations, name, window) for name, window in windows.items()]
        return [restart for restart in found if restart is not None]

    def _look_after(
        self, operations: DatabaseOperations, name: str, window: str
    ) -> WindowRestart | None:
        record = operations.records.find(name)
        if record is None or not _can_restart(operations, record):
            return self._failed.get(name)
        is_due = _is_due(record, window, operations.clock.now())
        if not is_due and name not in self._failed:
            return None  # no server is asked for nothing
        try:
            waiting = DatabaseParameters(operations).waiting(record)
            if runs_older_image(operations, record):
                waiting = [*waiting, NEWER_IMAGE]
        except GrampusError:
            return self._failed.get(name)  # a server that does not answer is another job's
        if not waiting:
            self._failed.pop(name, None)
            return None
        if not is_due:
            return self._failed.get(name)
        restart = _restart(operations, record, waiting)
        if restart is not None and restart.problem is not None:
            self._failed[name] = restart
        elif restart is not None:
            self._failed.pop(name, None)
        return restart


def runs_older_image(operations: DatabaseOperations, record: DatabaseRecord) -> bool:
    """Whether the server, or the driver of its volume, began before its host was upgraded."""
    name = record.spec.name
    host = operations.fleet.host(record.spec.host)
    server = host.observe_daemon(server_daemon_name(name))
    return (server is not None and server.is_outdated) or operations.volumes.has_older_driver(name)


def _is_due(record: DatabaseRecord, window: str, now: datetime) -> bool:
    """Whether the window is open, and there was no restart since it opened."""
    opened_at = parse_weekly_window(window).opened_at(now)
    former = record.window_restart_at
    return opened_at is not None and (former is None or former < opened_at)


def _can_restart(operations: DatabaseOperations, record: DatabaseRecord) -> bool:
    is_running = record.phase == "ready" and record.desired == "running"
    return (
        is_running
        and operations.fleet.is_reachable(record.spec.host)
        and record.spec.name not in operations.names_at_work()
    )


def _restart(
    operations: DatabaseOperations, record: DatabaseRecord, waiting: list[str]
) -> WindowRestart | None:
    """None: another command works on the database."""
    name, now = record.spec.name, operations.clock.now()
    # Before the restart: a controller that is killed in it does not begin again and again.
    operations.records.change(name, window_restart_at=now)
    try:
        LiveSettings(operations).restart(name)
    except GrampusError as error:
        if error.code == "busy":
            operations.records.change(name, window_restart_at=record.window_restart_at)
            return None
        return WindowRestart(name, waiting, error)
    return WindowRestart(name, waiting)
