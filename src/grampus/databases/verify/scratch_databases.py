"""Databases that are made for a while, and are gone afterwards whatever becomes of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from grampus.databases.service import DatabaseService
from grampus.databases.verify.decide_scratch import require_scratch


class ScratchDatabases:
    """Those with one label. What a killed command left of them goes with the next that makes it."""

    def __init__(self, databases: DatabaseService, label: str) -> None:
        self._databases = databases
        self._label = label

    @contextmanager
    def gone_after(self, name: str) -> Iterator[None]:
        """Whatever becomes of the block, the database of that name is gone after it."""
        try:
            yield
        finally:
            self.remove(name)

    def remove(self, name: str) -> None:
        """Delete it, if there is one. Raises RefusedError with code `name-taken`."""
        record = self._databases.operations.records.find(name)
        if record is not None:
            require_scratch(record.spec, self._label)
            self._databases.delete(name)
