"""Databases made for a while whose maker is gone: cleared away without the next that makes one."""

from __future__ import annotations

from dataclasses import dataclass

from grampus.core.errors import GrampusError
from grampus.databases.model import DatabaseRecord
from grampus.databases.service import DatabaseService
from grampus.databases.verify.decide_scratch import Maker, find_maker
from grampus.state.locks import hold_lock


@dataclass(frozen=True)
class Cleared:
    """One that was left: of which database it was made, and why it is still there, if it is."""

    name: str
    maker: Maker
    problem: GrampusError | None = None


class ScratchLeftovers:
    """Clears away what killed checks and restore tests have left in one lab or cluster.

    Whoever makes such a database holds a lock from before it is made until it is gone, which ends
    with the process: where that lock is free, nobody uses the database any more. It is held here
    meanwhile, so that nobody makes one anew.
    """

    def __init__(self, databases: DatabaseService) -> None:
        self._databases = databases
        self._operations = databases.operations

    def clear(self) -> list[Cleared]:
        """Delete them; what is protected, or worked on by somebody, is passed over."""
        cleared = []
        for name, record in self._operations.records.all().items():
            maker = find_maker(record.spec)
            if maker is None or record.spec.protected:
                continue
            try:
                if self._clear(record, maker):
                    cleared.append(Cleared(name, maker))
            except GrampusError as error:
                if error.code != "busy":
                    cleared.append(Cleared(name, maker, error))
        return cleared

    def _clear(self, seen: DatabaseRecord, maker: Maker) -> bool:
        """Whether it was deleted; by now it may have been gone, or be another."""
        operations, name = self._operations, seen.spec.name
        lock = maker.lock(operations.lab)
        with hold_lock(operations.home, lock, operations.clock, timeout_s=0):
            record = operations.records.find(name)
            if record is None or record.created_at != seen.created_at:
                return False
            if find_maker(record.spec) != maker:
                return False
            self._databases.delete(name)
        return True
