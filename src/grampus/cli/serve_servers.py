"""What `grampus serve` does for servers that ended and should run."""

from __future__ import annotations

from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.databases.failed_servers import FailedServer, FailedServers
from grampus.databases.server_end import advise_on_end, explain_end

SERVERS_EVERY_S = 5.0


def restart_servers(servers: FailedServers) -> list[ControllerEvent]:
    """Start failed servers again, with back-off; warn of each server until it runs."""
    return [event for one in servers.carry_out() for event in _events_of(one)]


def _events_of(one: FailedServer) -> list[ControllerEvent]:
    failure, name = one.failure, one.database
    text = f"The server of {name} ended: {explain_end(failure.end)}."
    details = {
        "reason": failure.end.kind,
        "since": failure.since,
        "restarts": failure.restarts,
        "next_restart": failure.next_at,
    }
    remedy = advise_on_end(failure.end, name)
    if one.is_restarted:
        done = f"The server of {name} was started again."
        return [
            # A warning, so that it is kept with the database: over at the next look.
            ControllerEvent(name, "server-failed", text, "warning", details, remedy),
            ControllerEvent(name, "server-restarted", done, "done", details),
        ]
    if failure.problem:
        text += f" The server could not be started again: {failure.problem}"
    if one.why_not:
        text += f" The server is not started again: {one.why_not}"
    return [ControllerEvent(name, "server-failed", text, "failed", details, remedy)]
