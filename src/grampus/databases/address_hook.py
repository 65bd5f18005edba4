"""The address hook of a site: a program that is told where clients find each database.

It is called after the operation that brought a database there, so after the fence and once the
server answers. What it was told is recorded; all else is owed, and repeated by each command and by
the controller until it succeeds. So a failure undoes nothing, and a killed command loses nothing.
"""

from __future__ import annotations

import json
from typing import Protocol

from grampus.core.errors import GrampusError
from grampus.databases.decide_announcing import (
    announcement_document,
    announcements_of,
    decide_owed,
)
from grampus.databases.model import Announcement
from grampus.databases.operating import DatabaseOperations
from grampus.state.locks import hold_lock


class AddressHook(Protocol):
    """The program of the site."""

    @property
    def program(self) -> str:
        """Its path."""
        ...

    def tell(self, document: str) -> None:
        """Call it with a JSON document. Raises GrampusError, also when it takes too long."""
        ...


class AddressAnnouncing:
    """Tells the hook what it was not told yet."""

    def __init__(self, operations: DatabaseOperations, site: str, hook: AddressHook) -> None:
        self._operations = operations
        self._site = site
        self._hook = hook

    def owed(self, *, rests_s: float = 0.0) -> list[Announcement]:
        """What the hook must be told, of databases that no operation is on."""
        records = self._operations.records
        at_work = self._operations.names_at_work()
        servers = records.running_places()
        idle = {name: place for name, place in servers.items() if name not in at_work}
        present = announcements_of(idle, records.primaries(), records.all_read_endpoints())
        now = self._operations.clock.now()
        return decide_owed(present, records.all_announced(), now, rests_s=rests_s)

    def tell(self, *, rests_s: float = 0.0) -> list[tuple[str, GrampusError]]:
        """Tell it; what could not be told, by the database's name.

        It stops at the first failure: a hook that hangs takes its time once. What failed less than
        `rests_s` seconds ago is left out.
        """
        for one in self.owed(rests_s=rests_s):
            try:
                # Two calls of one database could end in the wrong order.
                with hold_lock(
                    self._operations.home,
                    f"db-announce.{self._operations.lab}.{one.database}",
                    self._operations.clock,
                    timeout_s=0.0,
                ):
                    self._tell(one)
            except GrampusError as error:
                if error.code != "busy":  # who is at it looks again
                    return [(one.database, error)]
        return []

    def _tell(self, one: Announcement) -> None:
        records = self._operations.records
        known = records.announced(one.database)
        former = known.last(one.role)
        document = announcement_document(self._site, one, former)
        try:
            self._hook.tell(json.dumps(document))
        except GrampusError as error:
            now = self._operations.clock.now()
            failed = known.model_copy(update={"problem": error.problem, "failed_at": now})
            records.put_announced(one.database, failed)
            raise GrampusError(
                f"The address hook {self._hook.program} failed for {one.database}, which is at "
                f"{one.address}:{one.port}: {error.problem}",
                "The database serves there. Fix the program: each command and `grampus serve` "
                "call it again until it succeeds.",
                code="address-hook-failed",
            ) from error
        records.put_announced(one.database, known.with_told(one))
