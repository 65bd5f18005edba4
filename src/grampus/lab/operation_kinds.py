"""The kinds of operations on a lab. A new one takes the place of one that was interrupted.

Those on its optional parts are in `parts.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from pydantic import ConfigDict

from grampus.core.models import Model
from grampus.lab.model import LabSpec
from grampus.lab.osd_set import OsdSet
from grampus.operations.operation_type import OperationType
from grampus.state.operations import Operation, Step


class LabUpOrder(Model):
    """A start of a lab; `is_new`: it never was up, so it is taken away when that fails."""

    model_config = ConfigDict(frozen=True)

    lab: LabSpec
    is_new: bool


class LabDownOrder(Model):
    """The end of a lab; `keep`: its data stay."""

    model_config = ConfigDict(frozen=True)

    lab: LabSpec
    keep: bool


class LabSteps(Protocol):
    """What knows the steps of the lab itself."""

    def up_steps(self, spec: LabSpec) -> list[Step]: ...

    def down_steps(self, spec: LabSpec, *, keep: bool) -> list[Step]: ...


class OsdSetSteps(Protocol):
    """What knows the steps of its OSD sets."""

    def add_steps(self, osd_set: OsdSet) -> list[Step]: ...

    def remove_steps(self, osd_set: OsdSet) -> list[Step]: ...


LAB_UP = OperationType[LabSteps, LabUpOrder](
    "lab.up",
    "start of the lab",
    document=LabUpOrder,
    build=lambda lab, order: lab.up_steps(order.lab),
    when_cut_off="finish",
    is_undone_now=lambda _lab, order: order.is_new,
)
LAB_DOWN = OperationType[LabSteps, LabDownOrder](
    "lab.down",
    "end of the lab",
    document=LabDownOrder,
    build=lambda lab, order: lab.down_steps(order.lab, keep=order.keep),
    when_cut_off="finish",
)
ADD_OSD_SET = OperationType[OsdSetSteps, OsdSet](
    "osd-set.add",
    "addition of the OSD set",
    document=OsdSet,
    build=lambda sets, osd_set: sets.add_steps(osd_set),
    when_cut_off="finish",
)
# Of a set that was not there before: what fails is undone.
ADD_NEW_OSD_SET = replace(ADD_OSD_SET, when_cut_off="undo")
REMOVE_OSD_SET = OperationType[OsdSetSteps, OsdSet](
    "osd-set.remove",
    "removal of the OSD set",
    document=OsdSet,
    build=lambda sets, osd_set: sets.remove_steps(osd_set),
    when_cut_off="finish",
)


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
