"""Databases moved to another host: a planned switch, with a short pause for writers."""

from __future__ import annotations

from dataclasses import dataclass

from grampus.databases.host_addresses import on_host, require_port_free
from grampus.databases.live.move_steps import MOVE, Move
from grampus.databases.model import DatabaseRecord
from grampus.databases.operating import DatabaseOperations
from grampus.databases.planning import observe_machine
from grampus.databases.replicas.repointing import repoint_after_change
from grampus.databases.request import CreateRequest, require_machine_holds
from grampus.hosts.port import HostUnreachableError


@dataclass(frozen=True)
class Moved:
    """A database that was moved, and how long nobody could write to it; None: it did not run."""

    record: DatabaseRecord
    former_host: str
    pause_ms: int | None


class DatabaseMoves:
    """Moves databases between hosts."""

    def __init__(self, operations: DatabaseOperations) -> None:
        self._operations = operations

    def move(self, name: str, host: str) -> Moved | None:
        """Run the database on `host` from now on, at the same address or at that of the host.

        None: it is there already. On failure it runs where it did. Raises NotFoundError,
        RefusedError with code `not-ready`, `too-big` or `port-in-use`, HostUnreachableError when
        either host is away, and GrampusError with code `no-volumed` or `no-driver` when `host`
        cannot serve its write path.
        """
        with self._operations.locked(name):
            self._operations.settle(name)
            move = self._plan(name, host)
            if move is None:
                return None
            if not self._operations.runner.is_planning:
                self._operations.require_cleared(name, move.changed.host)
            self._operations.run(MOVE, move)
            record = self._operations.records.get(name)
        repoint_after_change(self._operations, name)
        pause_ms = record.last_move_pause_ms if move.running else None
        return Moved(record, move.former_host, pause_ms)

    def _plan(self, name: str, host: str) -> Move | None:
        """None: it is there already."""
        record = self._operations.ready(name)
        spec = record.spec
        target = self._operations.fleet.host(host)
        if host == spec.host:
            return None
        if not self._operations.fleet.is_reachable(host):
            raise HostUnreachableError(
                f"The host {host} cannot be reached.",
                f"Choose another host, or start {host} again.",
            )
        self._operations.require_reachable(spec.host, name)
        request = CreateRequest(
            name=name,
            size_bytes=spec.size_bytes,
            memory_bytes=spec.memory_bytes,
            cpus=spec.cpus,
        )
        require_machine_holds(request, observe_machine(target), host)
        self._operations.volumes.require_served(host, spec.write_path, spec.encryption)
        require_port_free(target, spec)
        return Move(
            changed=on_host(spec, target),
            former_host=spec.host,
            former_address=spec.address,
            running=record.desired == "running",
        )
