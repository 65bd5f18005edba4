"""Servers whose parameters wait for a restart, restarted in the maintenance window.

Once in each window: a restart that fails, or after which a parameter still waits, is not repeated
before the next one.
"""

from __future__ import annotations

from dataclasses import dataclass

from grampus.core.errors import GrampusError
from grampus.core.weekly_window import parse_weekly_window
from grampus.databases.live.live_settings import LiveSettings
from grampus.databases.live.parameters import DatabaseParameters
from grampus.databases.model import DatabaseRecord
from grampus.databases.operating import DatabaseOperations


@dataclass(frozen=True)
class WindowRestart:
    """A restart in the window, and why it failed."""

    database: str
    parameters: list[str]  # that waited for it
    problem: GrampusError | None = None


class WindowRestarts:
    """Restarts that are due in the maintenance windows of databases."""

    def __init__(self, operations: DatabaseOperations) -> None:
        self._operations = operations
        self._settings = LiveSettings(operations)
        self._parameters = DatabaseParameters(operations)

    def carry_out(self) -> list[WindowRestart]:
        """Restart each server whose window is open and whose parameters wait for that.

        What another command works on, or whose host cannot be reached, is left for a later look.
        """
        names = self._operations.records.maintenance_windows()
        found = [self._restart(name, window) for name, window in names.items()]
        return [restart for restart in found if restart is not None]

    def _restart(self, name: str, window: str) -> WindowRestart | None:
        operations, now = self._operations, self._operations.clock.now()
        opened_at = parse_weekly_window(window).opened_at(now)
        record = operations.records.find(name)
        if opened_at is None or record is None or not self._can_restart(record):
            return None
        former = record.window_restart_at
        if former is not None and former >= opened_at:
            return None
        try:
            waiting = self._parameters.waiting(record)
        except GrampusError:
            return None  # a server that does not answer is another job's
        if not waiting:
            return None
        # Before the restart: a controller that is killed in it does not begin again and again.
        operations.records.change(name, window_restart_at=now)
        try:
            self._settings.restart(name)
        except GrampusError as error:
            if error.code == "busy":
                operations.records.change(name, window_restart_at=former)
                return None
            return WindowRestart(name, waiting, error)
        return WindowRestart(name, waiting)

    def _can_restart(self, record: DatabaseRecord) -> bool:
        is_running = record.phase == "ready" and record.desired == "running"
        host = record.spec.host
        return is_running and (
            self._operations.fleet.is_reachable(host)
            and record.spec.name not in self._operations.names_at_work()
        )
