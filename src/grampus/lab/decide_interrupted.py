"""What an interrupted `lab up` or `lab down` left: decided from the operation journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grampus.state.operations import Operation

# No volume can be made before there is a pool: up to here nothing of value can be in a lab.
STEPS_BEFORE_POOL = frozenset(
    {"", "record", "data", "network", "hosts", "configuration", "mons", "mgrs", "osds"}
)
STEPS_OF_REMOVAL = frozenset({"data", "forget"})


@dataclass(frozen=True)
class Interrupted:
    """What the next `up` has to know."""

    # Its data are, or may be, half removed: they go altogether before it is brought up anew.
    must_be_removed: bool
    # It never held anything: if bringing it up fails again, it is undone as a whole.
    is_new: bool


def decide_interrupted(operations: Sequence[Operation]) -> Interrupted:
    """Judge the unfinished `lab.up` and `lab.down` operations of one lab.

    A new lab whose `up` came as far as its pool may hold databases since: other commands work
    on it from then on. So it is undone no more.
    """
    return Interrupted(
        must_be_removed=any(_was_removing(operation) for operation in operations),
        is_new=any(_was_empty(operation) for operation in operations),
    )


def _was_removing(operation: Operation) -> bool:
    if operation.kind == "lab.up":
        return operation.status == "undoing"
    return not operation.spec.get("keep", False) and operation.step in STEPS_OF_REMOVAL


def _was_empty(operation: Operation) -> bool:
    is_new = bool(operation.spec.get("is_new", False))
    return operation.kind == "lab.up" and is_new and operation.step in STEPS_BEFORE_POOL
