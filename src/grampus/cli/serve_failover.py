"""What `grampus serve` does when a host is lost: its databases run on other hosts."""

from __future__ import annotations

from collections.abc import Mapping

from grampus.cli.composition.copies import database_replicas
from grampus.cli.composition.failover import database_failovers
from grampus.cli.composition.session import Session
from grampus.cli.serve_backups import OpenSession, prepared
from grampus.core.errors import GrampusError
from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.databases.controller.side_by_side import SideBySide
from grampus.databases.failover.automatic import (
    AutomaticFailovers,
    Takeover,
    report_osds,
    take_over,
)
from grampus.databases.failover.host_states import HostState
from grampus.databases.failover.host_watch import SeenHost

FAILOVER_EVERY_S = 1.0
# Of the databases of one host. More would wait for the same CPUs and OSDs.
FAILOVERS_AT_ONCE = 4


class FailoverWatch:
    """Looks at the hosts again and again, and takes the databases from one that is lost."""

    def __init__(self, open_session: OpenSession, *, patience_s: float | None) -> None:
        """`patience_s`: what a look waits for failovers; a later look tells how they ended."""
        self._failovers = AutomaticFailovers()
        self._takeovers = SideBySide[Session, Takeover](
            lambda: prepared(open_session), most=FAILOVERS_AT_ONCE
        )
        self._reports = SideBySide[Session, None](lambda: prepared(open_session), most=1)
        self._patience_s = patience_s

    def run(self, session: Session) -> list[ControllerEvent]:
        """One look; failovers outlast it."""
        return self._failovers.run(
            session.databases().operations,
            self._begin,
            self._report,
            # A run that ends after its jobs (`--once`) decides nothing about hosts.
            looks_again=self._patience_s is not None,
        )

    def _report(self, lost: Mapping[str, HostState]) -> None:
        def work(session: Session, host: str) -> None:
            report_osds(session.databases().operations, host, lost[host])

        # Whoever needs the OSDs waits for them anyway.
        patience_s = None if self._patience_s is None else 0.0
        self._reports.run({host: host for host in lost}, work, patience_s=patience_s)

    def _begin(self, lost: Mapping[str, SeenHost]) -> dict[str, Takeover]:
        def work(session: Session, name: str) -> Takeover:
            taken = take_over(
                database_failovers(session), name, lost[name].state, session.clock.now()
            )
            follow_endpoint(session, name)
            return taken

        lanes = {name: found.host for name, found in lost.items()}
        return self._takeovers.run(lanes, work, patience_s=self._patience_s)


def follow_endpoint(session: Session, name: str) -> None:
    """Move a read-only endpoint that a lost host served; what fails here the job of endpoints
    repeats."""
    replicas = database_replicas(session)
    try:
        spec = session.databases().get(name).spec
        replicas.follow_endpoint(spec.replica_of or name)
    except GrampusError as error:
        session.progress.note(f"The read-only endpoint of {name} stays as it is: {error.problem}")
