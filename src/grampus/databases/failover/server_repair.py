"""Servers that clients cannot use, restarted or moved without being asked: for the controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from grampus.core.errors import GrampusError
from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.databases.controller.retries import Retries
from grampus.databases.failover.host_maintenance import HostMaintenances
from grampus.databases.failover.server_states import ServerStateName, decide_server_action
from grampus.databases.failover.server_watch import SeenServer, ServerMemory, ServerWatch
from grampus.databases.layout import server_daemon_name
from grampus.databases.operating import DatabaseOperations
from grampus.databases.service import DatabaseService

# What is wrong is the driver of the volume.
DRIVER_STATES: tuple[ServerStateName, ...] = ("volume-stuck", "driver-ended", "driver-failed")
RETRY_AFTER_S, MOST_RETRY_S = 15.0, 300.0


@dataclass(frozen=True)
class Repair:
    """What was done about a server; `problem`: why it was not."""

    seen: SeenServer
    host: str  # where the database is now
    problem: GrampusError | None = None


# Begins with servers, and answers with what has been done by now, by database.
BeginRepairs = Callable[[Mapping[str, SeenServer]], Mapping[str, Repair]]


class ServerRepairs:
    """What lasts from look to look. It is kept nowhere: a new controller looks anew."""

    def __init__(self) -> None:
        self._memory = ServerMemory()
        self._retries = Retries(RETRY_AFTER_S, MOST_RETRY_S)

    def run(self, operations: DatabaseOperations, begin: BeginRepairs) -> list[ControllerEvent]:
        """One look at the servers, and an action for each that clients cannot use."""
        seen = ServerWatch(operations, self._memory).look()
        wanted = {
            name: found
            for name, found in seen.items()
            if decide_server_action(found.state) != "none"
        }
        manual = {name for name, found in wanted.items() if _is_manual(operations, found)}
        events = [state_event(found, is_manual=name in manual) for name, found in wanted.items()]
        self._retries.keep(wanted)
        resting = self._retries.resting(operations.clock.monotonic_s())
        due = wanted.keys() - resting - manual
        ended = begin({name: found for name, found in wanted.items() if name in due})
        for name, repair in ended.items():
            event = repair_event(repair)
            events.append(event)
            if event.level == "done":
                self._memory.tracks.pop(name, None)  # what was seen before says nothing any more
                self._retries.succeeded(name)
            else:
                self._retries.failed(event, operations.clock.monotonic_s())
        return [*events, *self._retries.events(but=ended)]


def repair_server(
    databases: DatabaseService, maintenances: HostMaintenances, seen: SeenServer
) -> Repair:
    """Restart a server that hangs where it is, or move the database to where clients reach it."""
    name = seen.database
    try:
        if decide_server_action(seen.state) == "restart":
            if seen.state.name in DRIVER_STATES:
                ensure_useless_driver_absent(databases.operations, name, seen.host)
            else:
                ensure_hung_server_absent(databases.operations, name, seen.host)
            databases.start(name)
        else:
            maintenances.switch_over(name, None)
        return Repair(seen, databases.get(name).spec.host)
    except GrampusError as error:
        return Repair(seen, seen.host, error)


def ensure_hung_server_absent(operations: DatabaseOperations, name: str, host: str) -> None:
    """End a server that cannot end by itself, if its database is on `host` and it hangs still.

    Another command may have restarted it until the lock was free. What it has acknowledged is on
    its volume, so this is a crash. Raises NotFoundError, RefusedError with code `busy`, and
    GrampusError.
    """
    with operations.locked(name):
        is_there = operations.ready(name).spec.host == host
        if is_there and ServerWatch(operations, ServerMemory()).is_still_hung(name):
            operations.fleet.host(host).ensure_daemon_absent(server_daemon_name(name), kill=True)


def _is_manual(operations: DatabaseOperations, seen: SeenServer) -> bool:
    """Whether its user decides: a restart leaves the database where it is, a move does not."""
    record = operations.records.find(seen.database)
    moves = decide_server_action(seen.state) == "move"
    return moves and record is not None and record.spec.failover == "manual"


def ensure_useless_driver_absent(operations: DatabaseOperations, name: str, host: str) -> None:
    """End a volume's driver that does not answer, if its database is on `host` and it is still so.

    One that has ended by itself leaves a server without a disk, which the start replaces.

    First the driver: a server that waits for its disk cannot end. Starting the database fences the
    driver's client before the image is opened again. Raises as `ensure_hung_server_absent`.
    """
    with operations.locked(name):
        is_there = operations.ready(name).spec.host == host
        if is_there and ServerWatch(operations, ServerMemory()).is_driver_still_useless(name):
            operations.volumes.end_driver(name)


def state_event(seen: SeenServer, *, is_manual: bool = False) -> ControllerEvent:
    """What to say of a server as long as it is in its state."""
    doing = {
        "restart": "Grampus restarts the database.",
        "move": "Grampus moves the database to another host.",
        "none": "",
    }[decide_server_action(seen.state)]
    remedy = ""
    if is_manual:
        doing = f"The failover of {seen.database} is manual."
        remedy = f"`grampus db switchover {seen.database}` moves it to another host."
    return ControllerEvent(
        seen.database,
        seen.state.name,
        f"{seen.state.evidence} {doing}",
        "warning",
        {"host": seen.host},
        remedy,
    )


def repair_event(repair: Repair) -> ControllerEvent:
    """What to say of what was done, or not."""
    name, action = repair.seen.database, decide_server_action(repair.seen.state)
    if repair.problem is not None:
        what = "restart" if action == "restart" else "move"
        return ControllerEvent(
            name,
            f"{action}-failed",
            f"Grampus could not {what} {name}: {repair.problem.problem}",
            "failed",
            {"code": repair.problem.code},
            repair.problem.remedy,
        )
    if action == "restart":
        match repair.seen.state.name:
            case "driver-ended":
                text = f"The driver of the volume of {name} had ended. {name} was started again."
            case "driver-failed":
                text = f"The driver of the volume of {name} had failed. It was replaced, and "
                text += f"{name} started again."
            case "volume-stuck":
                text = f"The driver of the volume of {name} did not answer. It was killed, and "
                text += f"{name} started again."
            case _:
                text = f"The server of {name} did not answer. It was killed, and {name} started "
                text += "again."
        return ControllerEvent(name, "server-restarted", text, "done", {"host": repair.host})
    text = f"The database {name} runs on {repair.host} now, where clients can reach it."
    details = {"host": repair.host, "former_host": repair.seen.host}
    return ControllerEvent(name, "switched-over", text, "done", details)
