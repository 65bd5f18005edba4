"""Databases whose volumes are to be flattened some time: carried out by whoever calls."""

from __future__ import annotations

from dataclasses import dataclass

from grampus.core.errors import GrampusError
from grampus.databases.clones.cloning import DatabaseClones
from grampus.databases.operating import DatabaseOperations

_STOPPED = "it is stopped, and could not be started during the flattening"
_BUSY = "another command works on it"


@dataclass(frozen=True)
class CarriedFlatten:
    """What became of one database whose volume is to be flattened."""

    database: str
    is_flat: bool = False  # its volume shares nothing any more
    waits: str | None = None  # why nothing was done yet, as half a sentence
    problem: GrampusError | None = None


class DueFlattening:
    """The volumes that were made to be flattened later, in one lab or cluster."""

    def __init__(self, operations: DatabaseOperations, clones: DatabaseClones) -> None:
        self._operations = operations
        self._clones = clones

    def due(self) -> list[str]:
        """The names of the databases whose volumes are to be flattened."""
        return [
            name
            for name, record in self._operations.records.all().items()
            if record.flatten_due and record.phase == "ready"
        ]

    def carry_out(self) -> list[CarriedFlatten]:
        """Flatten those that run, one after the other: hours where there is much to copy.

        What fails with one keeps none of the others from its own. One that another command works
        on, and one that is stopped, is left to a later call. A dry run ends with what fails.
        """
        return [self._carry_out(name) for name in self.due()]

    def _carry_out(self, name: str) -> CarriedFlatten:
        if self._is_stopped(name):
            return CarriedFlatten(name, waits=_STOPPED)
        try:
            self._operations.progress.phase(f"Flatten the volume of {name}")
            with self._operations.runner.part_of_plan():
                self._clones.flatten(name, patience_s=0.0)
        except GrampusError as error:
            if error.code == "busy":
                return CarriedFlatten(name, waits=_BUSY)
            if self._operations.runner.is_planning:
                raise
            return CarriedFlatten(name, problem=error)
        return CarriedFlatten(name, is_flat=True)

    def _is_stopped(self, name: str) -> bool:
        """It was stopped on purpose; one that runs has a client that goes on while it copies."""
        record = self._operations.records.find(name)
        return record is not None and record.desired == "stopped"
