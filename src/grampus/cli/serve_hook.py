"""`grampus serve --hook`: a program of the user's that gets each event of the controller."""

from __future__ import annotations

from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.hosts.process import require_program, run_command

HOOK_TIMEOUT_S = 30.0


class HookProgram:
    """Runs the program for each event, with the event on its standard input."""

    job = "hook"
    remedy = "Run the program by hand with an event from `grampus serve --format json`."

    def __init__(self, program: str, *, timeout_s: float = HOOK_TIMEOUT_S) -> None:
        """Raises GrampusError with code `program-missing`."""
        require_program(program)
        self._program = program
        self._timeout_s = timeout_s
        self.subject = f"The hook {program}"

    def deliver(self, event: ControllerEvent, document: str) -> None:
        """Run it to its end. Raises GrampusError."""
        run_command(
            [self._program],
            stdin=document + "\n",
            timeout_s=self._timeout_s,
            env={
                "GRAMPUS_EVENT_DATABASE": event.database,
                "GRAMPUS_EVENT_KIND": event.kind,
                "GRAMPUS_EVENT_LEVEL": event.level,
            },
        )
