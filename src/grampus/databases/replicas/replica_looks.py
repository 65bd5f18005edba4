"""How replicas are: what their servers and their primaries' say now."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from grampus.core.errors import GrampusError
from grampus.databases.administrator import Administrator, NoAnswerError, observer_of
from grampus.databases.model import DatabaseRecord, DatabaseSpec, DatabaseStatus
from grampus.databases.replicas.comparing import Asks, observe_ahead
from grampus.databases.replicas.decide_replicas import ReplicaStanding, decide_standing
from grampus.databases.replicas.gtid_sets import count, parse_gtid_set, subtract, unite
from grampus.databases.replicas.replica_work import observe_position, observe_replication
from grampus.databases.replicas.replication_sql import Position, Replication
from grampus.databases.service import DatabaseService

# Servers that are looked at side by side: one that hangs is waited for once, not once for each.
_LOOKS_AT_ONCE = 8


@dataclass(frozen=True)
class ReplicaView:
    """A replica as it stands."""

    record: DatabaseRecord
    standing: ReplicaStanding


class ReplicaLooks:
    """Looks at replicas and their primaries; changes nothing."""

    def __init__(self, databases: DatabaseService) -> None:
        self._databases = databases
        self._ports = databases.operations.ports

    def position_of(self, primary: str | None, asks: Asks = observer_of) -> Position | None:
        """Where the primary is; None when it cannot be asked."""
        if primary is None:
            return None
        try:
            if self._databases.show(primary).status != "running":
                return None
            return observe_position(self._asked(primary, asks))
        except GrampusError:
            return None

    def views(self, names: Sequence[str], primary: Position | None) -> list[ReplicaView]:
        """Those replicas of one primary, whose position was asked before. Raises NotFoundError."""
        if len(names) == 1:
            return [self.view(names[0], primary)]
        with ThreadPoolExecutor(max_workers=min(len(names), _LOOKS_AT_ONCE)) as pool:
            return list(pool.map(lambda name: self.view(name, primary), names))

    def view(self, name: str, primary: Position | None, asks: Asks = observer_of) -> ReplicaView:
        """One replica, whose primary's position was asked before. Raises NotFoundError."""
        view = self._databases.show(name)
        return ReplicaView(view.record, self._standing(view.record, view.status, primary, asks))

    def _standing(
        self, record: DatabaseRecord, status: DatabaseStatus, primary: Position | None, asks: Asks
    ) -> ReplicaStanding:
        spec = record.spec
        replication = own = None
        if status == "running":
            try:
                administrator = self._asked(spec.name, asks)
                replication = observe_replication(administrator)
                own = observe_position(administrator)
            except NoAnswerError as error:
                return ReplicaStanding("no-answer", problem=error.problem)
            except GrampusError as error:
                return ReplicaStanding("stopped", problem=error.problem)
        if primary is not None and own is not None:
            primary = self._later(spec, primary, own, replication, asks)
        noted = self._ports.records.replica_history(record).ahead
        return decide_standing(status, spec.flavour, replication, own, primary, noted_ahead=noted)

    def _later(
        self,
        spec: DatabaseSpec,
        primary: Position,
        own: Position,
        replication: Replication | None,
        asks: Asks,
    ) -> Position | None:
        """The primary's position, asked again where it was asked too early to be compared."""
        received = replication.received if replication is not None else ""
        holds = unite(*(parse_gtid_set(spec.flavour, text) for text in (own.executed, received)))
        if not count(subtract(holds, parse_gtid_set(spec.flavour, primary.executed))):
            return primary
        try:
            administrator = self._asked(spec.replica_of or "", asks)
            observe_ahead(self._ports, administrator, holds)
            return observe_position(administrator)
        except GrampusError:
            return None

    def _asked(self, name: str, asks: Asks) -> Administrator:
        return asks(self._ports, self._ports.records.get(name).spec)
