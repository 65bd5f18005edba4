"""Servers that should run and do not: found, explained, and started again (INV-73)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grampus.core.errors import GrampusError, NotFoundError
from grampus.databases.layout import server_daemon_name
from grampus.databases.model import DatabaseRecord
from grampus.databases.server_end import (
    ServerFailure,
    is_stable,
    note_failure,
    note_restart,
    observe_end,
)
from grampus.databases.service import DatabaseService
from grampus.hosts.port import DaemonStatus


@dataclass(frozen=True)
class FailedServer:
    """A server that was found ended, and what came of the look."""

    database: str
    failure: ServerFailure
    is_restarted: bool = False
    why_not: str = ""  # why it is not started again, as a sentence


class FailedServers:
    """The failed servers of one lab or cluster."""

    def __init__(self, databases: DatabaseService) -> None:
        self._databases = databases
        self._operations = databases.operations
        self._records = databases.operations.records

    def carry_out(self) -> list[FailedServer]:
        """Look at all databases once, and start again what is due; what failed, by name.

        A host that cannot be reached says nothing about its servers: they are left alone. So is
        what another command works on.
        """
        found = []
        daemons: dict[str, Mapping[str, DaemonStatus]] = {}
        at_work = self._operations.names_at_work()
        # No record is parsed of a server that runs and did not fail: a look comes every 5 s.
        places, failed = self._records.running_places(), self._records.failed_names()
        for name in failed - places.keys():
            self._records.remove_failure(name)
        for name, place in places.items():
            if not self._operations.fleet.is_reachable(place.host):
                continue
            if place.host not in daemons:
                statuses = self._operations.fleet.host(place.host).observe_daemons()
                daemons[place.host] = {status.name: status for status in statuses}
            status = daemons[place.host].get(server_daemon_name(name))
            is_running = status is not None and status.state == "running"
            if name in at_work or (is_running and name not in failed):
                continue
            record = self._records.find(name)
            looked = None if record is None else self._look_after(record, status)
            found += [looked] if looked is not None else []
        return found

    def _look_after(
        self, record: DatabaseRecord, status: DaemonStatus | None
    ) -> FailedServer | None:
        name, now = record.spec.name, self._operations.clock.now()
        known = self._records.find_failure(name)
        if status is not None and status.state == "running":
            if known is not None and (known.started_at is None or is_stable(known, now)):
                self._records.remove_failure(name)
            return None
        end = observe_end(self._operations.fleet.host(record.spec.host), name, status)
        failure = note_failure(known, end, now)
        if failure != known:
            self._records.put_failure(name, failure)
        if self._is_fenced(name, record.spec.host):
            return FailedServer(
                name, failure, why_not="Its volume was taken away from its host by a fence."
            )
        if now < failure.next_at:
            return FailedServer(name, failure)
        return self._start(name, failure)

    def _start(self, name: str, failure: ServerFailure) -> FailedServer | None:
        problem = ""
        try:
            self._databases.start(name)
        except GrampusError as error:
            if error.code == "busy":
                return FailedServer(name, failure)
            problem = error.problem
        failure = note_restart(failure, self._operations.clock.now(), problem)
        self._records.put_failure(name, failure)
        return FailedServer(name, failure, is_restarted=not problem)

    def _is_fenced(self, name: str, host: str) -> bool:
        """Whether somebody took the volume away from this host, and it is nowhere since."""
        try:
            volume = self._operations.volumes.get(name)
        except NotFoundError:
            return False
        return volume.attachment is None and any(one.host == host for one in volume.fenced)
