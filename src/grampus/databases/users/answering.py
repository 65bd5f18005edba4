"""A server that answers, for work on its accounts that was cut off and is resumed."""

from __future__ import annotations

from grampus.databases.instance import observe_daemon_state
from grampus.databases.layout import server_daemon_name
from grampus.databases.lifecycle import bring_up
from grampus.databases.model import DatabaseSpec
from grampus.databases.step_ports import StepPorts


def ensure_answering(ports: StepPorts, spec: DatabaseSpec) -> None:
    """The server of a database that shall run, started if its host went away meanwhile."""
    host = ports.fleet.host(spec.host)
    if observe_daemon_state(host, server_daemon_name(spec.name)) != "running":
        bring_up(ports, spec)
