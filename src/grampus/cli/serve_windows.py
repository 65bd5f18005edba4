"""What `grampus serve` does in the maintenance windows of databases."""

from __future__ import annotations

from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.databases.live.window_restarts import WindowRestarts
from grampus.databases.operating import DatabaseOperations

WINDOWS_EVERY_S = 60.0


def restart_in_windows(
    restarts: WindowRestarts, operations: DatabaseOperations
) -> list[ControllerEvent]:
    """Restart servers whose parameters wait for that, each in its window."""
    events = []
    for restart in restarts.carry_out(operations):
        name, parameters = restart.database, ", ".join(restart.parameters)
        if restart.problem is None:
            text = f"The server of {name} was restarted in its maintenance window: {parameters}."
            events.append(ControllerEvent(name, "window-restarted", text))
        else:
            text = f"The restart of {name} in its maintenance window failed: "
            events.append(
                ControllerEvent(
                    *(name, "window-restart-failed", text + restart.problem.problem, "failed"),
                    {"code": restart.problem.code, "parameters": restart.parameters},
                    restart.problem.remedy,
                )
            )
    return events
