"""Servers that clients cannot use, restarted or moved without being asked: for the controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from grampus.core.errors import GrampusError
from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.databases.controller.retries import Retries
from grampus.databases.failover.draining import HostMaintenances
from grampus.databases.failover.server_states import decide_server_action
from grampus.databases.failover.server_watch import SeenServer, ServerMemory, ServerWatch
from grampus.databases.layout import server_daemon_name
from grampus.databases.operating import DatabaseOperations
from grampus.databases.service import DatabaseService

RETRY_AFTER_S, MOST_RETRY_S = 15.0, 300.0


@dataclass(frozen=True)
class Cared:
    """What was done about a server; `problem`: why it was not."""

    seen: SeenServer
    host: str  # where the database is now
    problem: GrampusError | None = None


# Begins with servers, and answers with what has been done by now, by database.
BeginCare = Callable[[Mapping[str, SeenServer]], Mapping[str, Cared]]


class ServerCare:
    """What lasts from look to look. It is kept nowhere: a new controller looks anew."""

    def __init__(self) -> None:
        self._memory = ServerMemory()
        self._retries = Retries(RETRY_AFTER_S, MOST_RETRY_S)

    def run(self, operations: DatabaseOperations, begin: BeginCare) -> list[ControllerEvent]:
        """One look at the servers, and an action for each that clients cannot use."""
        seen = ServerWatch(operations, self._memory).look()
        wanted = {
            name: found
            for name, found in seen.items()
            if decide_server_action(found.state) != "none"
        }
        events = [state_event(found) for found in wanted.values()]
        self._retries.keep(wanted)
        resting = self._retries.resting(operations.clock.monotonic_s())
        ended = begin({name: found for name, found in wanted.items() if name not in resting})
        for name, cared in ended.items():
            event = cared_event(cared)
            events.append(event)
            if event.level == "done":
                self._memory.tracks.pop(name, None)  # what was seen before says nothing any more
                self._retries.succeeded(name)
            else:
                self._retries.failed(event, operations.clock.monotonic_s())
        return [*events, *self._retries.events(but=ended)]


def care_for(databases: DatabaseService, maintenances: HostMaintenances, seen: SeenServer) -> Cared:
    """Restart a server that hangs where it is, or move the database to where clients reach it."""
    name = seen.database
    try:
        if decide_server_action(seen.state) == "restart":
            kill_server(databases.operations, name, seen.host)
            databases.start(name)
        else:
            maintenances.switch_over(name, None)
        return Cared(seen, databases.get(name).spec.host)
    except GrampusError as error:
        return Cared(seen, seen.host, error)


def kill_server(operations: DatabaseOperations, name: str, host: str) -> None:
    """End a server that cannot end by itself, if its database is still on `host`.

    It has acknowledged nothing that its volume lacks, so this is a crash. Cut off, the server has
    ended, or runs as before. Raises NotFoundError, RefusedError with code `busy`, and GrampusError.
    """
    with operations.locked(name):
        if operations.ready(name).spec.host == host:
            operations.fleet.host(host).ensure_daemon_absent(server_daemon_name(name), kill=True)


def state_event(seen: SeenServer) -> ControllerEvent:
    """What to say of a server as long as it is in its state."""
    doing = {
        "restart": "Grampus restarts the server.",
        "move": "Grampus moves the database to another host.",
        "none": "",
    }[decide_server_action(seen.state)]
    return ControllerEvent(
        seen.database,
        seen.state.name,
        f"{seen.state.evidence} {doing}",
        "warning",
        {"host": seen.host},
    )


def cared_event(cared: Cared) -> ControllerEvent:
    """What to say of what was done, or not."""
    name, action = cared.seen.database, decide_server_action(cared.seen.state)
    if cared.problem is not None:
        what = "restart the server of" if action == "restart" else "move"
        return ControllerEvent(
            name,
            f"{action}-failed",
            f"Grampus could not {what} {name}: {cared.problem.problem}",
            "failed",
            {"code": cared.problem.code},
            cared.problem.remedy,
        )
    if action == "restart":
        text = f"The server of {name} did not answer clients. It was killed and started again."
        return ControllerEvent(name, "server-restarted", text, "done", {"host": cared.host})
    text = f"The database {name} runs on {cared.host} now, where clients can reach it."
    details = {"host": cared.host, "former_host": cared.seen.host}
    return ControllerEvent(name, "switched-over", text, "done", details)
