"""Grampus writes to a replica that runs, and it takes writes from nobody else, also afterwards.

MySQL's `super_read_only` keeps Grampus out too, so it is switched off meanwhile. That is noted with
the id of the database before: what a killed process left off is switched on again by the next
command or by `grampus serve` (INV-40). A start switches it on by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from grampus.core.errors import GrampusError
from grampus.databases.administrator import (
    Administrator,
    observer_of,
    writing_as_administrator,
)
from grampus.databases.instance import observe_daemon_state
from grampus.databases.layout import server_daemon_name
from grampus.databases.model import DatabaseSpec, OpenedReplica
from grampus.databases.step_ports import StepPorts

LOCK_SQL = "SET SESSION lock_wait_timeout = 2; SET GLOBAL super_read_only = ON"


@contextmanager
def writing_to(
    ports: StepPorts, spec: DatabaseSpec, administrator: Administrator
) -> Iterator[None]:
    """Meanwhile Grampus's administrator may write to the server of that database, replica or not.

    Raises RefusedError with code `busy` when another command writes to the replica, and what
    `Administrator.query` raises.
    """
    if spec.replica_of is None or spec.flavour != "mysql":
        yield
        return
    name, record = spec.name, ports.records.find(spec.name)
    with ports.writing_lock(name, 10.0):
        opened = OpenedReplica(name=name, id="" if record is None else record.id)
        ports.records.put_opened(opened)
        with writing_as_administrator(administrator, is_replica=True):
            yield
        ports.records.remove_opened(name)


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
    return [f"A command was cut off while it wrote to the replica {name}: it is read-only again."]
