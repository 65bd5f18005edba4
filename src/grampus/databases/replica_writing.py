"""Replicas that a killed command left open for writes are closed again (INV-40).

`administrator.writing_to` notes, with the id of the database, that it switches `super_read_only`
off. The next command, or `grampus serve`, switches it on again. A start does so by itself.
"""

from __future__ import annotations

from grampus.core.errors import GrampusError
from grampus.databases.administrator import observer_of
from grampus.databases.instance import observe_daemon_state
from grampus.databases.layout import server_daemon_name
from grampus.databases.model import OpenedReplica
from grampus.databases.step_ports import StepPorts

LOCK_SQL = "SET SESSION lock_wait_timeout = 2; SET GLOBAL super_read_only = ON"


def close_opened(ports: StepPorts, opened: OpenedReplica) -> list[str]:
    """A replica that a cut-off command could write to takes writes from its primary alone again.

    In sentences; nothing while a command is at it, or its host cannot be reached.
    """
    name = opened.name
    try:
        with ports.writing_lock(name, 0.0):
            record = ports.records.find(name)
            if record is None or record.id != opened.id or record.spec.replica_of is None:
                ports.records.remove_opened(name)  # another one, or a promoted one
                return []
            spec = record.spec
            if not ports.fleet.is_reachable(spec.host):
                return []
            host = ports.fleet.host(spec.host)
            if observe_daemon_state(host, server_daemon_name(name)) == "running":
                observer_of(ports, spec).query(LOCK_SQL)
            ports.records.remove_opened(name)
    except GrampusError as error:
        if error.code == "busy":
            return []
        return [f"The replica {name} could not be made read-only again for Grampus: {error}"]
    return [
        f"A command was interrupted while it wrote to the replica {name}. The replica is "
        "read-only again."
    ]
