"""Hosts that are worked on: in maintenance, and drained of their databases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from grampus.core.errors import GrampusError
from grampus.databases.failover.decide_failover import decide_targets
from grampus.databases.live.moving import DatabaseMoves, Moved
from grampus.databases.model import HostMaintenance
from grampus.databases.operating import DatabaseOperations
from grampus.databases.planning import observe_loads
from grampus.hosts.port import HostUnreachableError


@dataclass(frozen=True)
class Drained:
    """A database that was to leave its host."""

    database: str
    outcome: Moved | GrampusError | None  # None: it had left the host before


class HostMaintenances:
    """Puts hosts in maintenance, and moves their databases away."""

    def __init__(self, operations: DatabaseOperations, moves: DatabaseMoves) -> None:
        self._operations = operations
        self._moves = moves

    def begin(self, host: str, reason: str = "") -> HostMaintenance:
        """The host in maintenance; one that is stays as it is, unless another reason is given.

        Raises NotFoundError.
        """
        operations = self._operations
        operations.fleet.host(host)
        known = operations.records.all_maintenance().get(host)
        if known is not None and reason in ("", known.reason):
            return known
        since = operations.clock.now() if known is None else known.since
        begun = HostMaintenance(host=host, since=since, reason=reason)
        operations.runner.propose(lambda: [f"Put {host} in maintenance"])
        operations.records.put_maintenance(begun)
        return begun

    def end(self, host: str) -> bool:
        """The host used again; whether it was in maintenance. Raises NotFoundError."""
        operations = self._operations
        operations.fleet.host(host)
        if host not in operations.records.all_maintenance():
            return False
        operations.runner.propose(lambda: [f"End the maintenance of {host}"])
        operations.records.remove_maintenance(host)
        return True

    def drain(self, host: str, reason: str = "") -> list[Drained]:
        """Put the host in maintenance, and move every database to another host, one by one.

        A database that cannot be moved stays, and the others are moved. Raises NotFoundError,
        RefusedError with code `no-host`, HostUnreachableError.
        """
        operations = self._operations
        operations.fleet.host(host)
        names = sorted(name for name, at in operations.records.hosts().items() if at == host)
        if names:
            if not operations.fleet.is_reachable(host):
                raise HostUnreachableError(
                    f"The host {host} cannot be reached, so its databases cannot be moved.",
                    "If it is lost, `grampus serve` or `grampus db failover NAME` runs its "
                    "databases on other hosts.",
                )
            first = self.choose_target(host)
            operations.runner.propose(
                lambda: [
                    f"Put {host} in maintenance",
                    *(
                        f"Move {name} to another host (the first one to {first})"
                        if name == names[0]
                        else f"Move {name} to another host"
                        for name in names
                    ),
                ]
            )
        self.begin(host, reason)
        return [self._drain(host, name, f"{i} of {len(names)}") for i, name in enumerate(names, 1)]

    def switch_over(self, name: str, to: str | None) -> Moved | None:
        """Run the database on `to`, or on the host with the fewest databases except its own.

        Raises what `DatabaseMoves.move` raises, and RefusedError with code `no-host`.
        """
        if to is None:
            to = self.choose_target(self._operations.records.get(name).spec.host)
        return self._moves.move(name, to)

    def choose_target(self, former: str) -> str:
        """Where a database of the host `former` goes. Raises RefusedError with code `no-host`."""
        loads = observe_loads(self._operations.records, self._operations.fleet)
        return decide_targets(loads, former, None)[0]

    def _drain(self, host: str, name: str, count: str) -> Drained:
        operations = self._operations

        def move() -> Moved | None:
            record = operations.records.find(name)
            if record is None or record.spec.host != host:
                return None
            target = self.choose_target(host)
            operations.progress.phase(f"moving {name} to {target} ({count})")
            return self._moves.move(name, target)

        return Drained(name, _outcome_of(move))


def _outcome_of(move: Callable[[], Moved | None]) -> Moved | GrampusError | None:
    try:
        return move()
    except GrampusError as error:
        return error
