"""What `grampus serve` does for servers that clients cannot use: restarts or moves them."""

from __future__ import annotations

from collections.abc import Mapping

from grampus.cli.composition.failover import host_maintenances
from grampus.cli.composition.session import Session
from grampus.cli.serve_backups import OpenSession, prepared
from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.databases.controller.side_by_side import SideBySide
from grampus.databases.failover.server_repair import Repair, ServerRepairs, repair_server
from grampus.databases.failover.server_watch import SeenServer

CLIENTS_EVERY_S = 5.0
# Of the databases of one host.
REPAIRS_AT_ONCE = 2


class ClientWatch:
    """Looks at servers as their clients do, again and again."""

    def __init__(self, open_session: OpenSession, *, patience_s: float | None) -> None:
        """`patience_s`: what a look waits for restarts; a later look tells how they ended."""
        self._repairs = ServerRepairs()
        self._running = SideBySide[Session, Repair](
            lambda: prepared(open_session), most=REPAIRS_AT_ONCE
        )
        self._patience_s = patience_s

    def run(self, session: Session) -> list[ControllerEvent]:
        """One look; what it begins outlasts it."""
        return self._repairs.run(session.databases().operations, self._begin)

    def _begin(self, wanted: Mapping[str, SeenServer]) -> dict[str, Repair]:
        def work(session: Session, name: str) -> Repair:
            return repair_server(session.databases(), host_maintenances(session), wanted[name])

        lanes = {name: seen.host for name, seen in wanted.items()}
        return self._running.run(lanes, work, patience_s=self._patience_s)
