"""The kinds of operations on volumes: how each is built again, and what becomes of it cut off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel

from grampus.operations.operation_type import OperationType
from grampus.volumes.cloning import CloneOrder, Cloning
from grampus.volumes.creating import Creating
from grampus.volumes.decide_migration import PoolFillingError
from grampus.volumes.fencing import FenceOrder, Fencing
from grampus.volumes.journals import Journals, MoveJournalOrder, ReplayOrder
from grampus.volumes.key_rotating import KeyRotating, RotateKeyOrder
from grampus.volumes.migrating import COPY_STEP, MigrateOrder, Migrating
from grampus.volumes.model import VolumeSpec
from grampus.volumes.resizing import Resizing
from grampus.volumes.snapshots import RollbackOrder, Snapshots

KIND_PREFIX = "volume."


@dataclass(frozen=True)
class VolumeStepParts:
    """The parts that do the work of operations."""

    creating: Creating
    cloning: Cloning
    resizing: Resizing
    fencing: Fencing
    journals: Journals
    snapshots: Snapshots
    migrating: Migrating
    rotating: KeyRotating


OrderT = TypeVar("OrderT", bound=BaseModel)
# The document of an operation names its volume: `name`.
VolumeOperation = OperationType[VolumeStepParts, OrderT]


def _name(order: Any) -> str:
    return str(order.name)


# The others may wait for the host that a fence does without.
FENCE = VolumeOperation[FenceOrder](
    "volume.fence",
    "fence of the volume",
    document=FenceOrder,
    build=lambda parts, order: parts.fencing.steps(order),
    subject=_name,
    when_cut_off="finish",
    is_first=True,
)
CREATE = VolumeOperation[VolumeSpec](
    "volume.create",
    "creation of the volume",
    document=VolumeSpec,
    build=lambda parts, spec: parts.creating.create_steps(spec),
    subject=_name,
    takes=_name,
    when_cut_off="undo",
)
CLONE = VolumeOperation[CloneOrder](
    "volume.clone",
    "clone of the volume",
    document=CloneOrder,
    build=lambda parts, order: parts.cloning.steps(order),
    subject=_name,
    takes=_name,
    when_cut_off="undo",
)
DELETE = VolumeOperation[VolumeSpec](
    "volume.delete",
    "deletion of the volume",
    document=VolumeSpec,
    build=lambda parts, spec: parts.creating.delete_steps(spec),
    subject=_name,
    when_cut_off="finish",
)
RESIZE = VolumeOperation[VolumeSpec](
    "volume.resize",
    "resize of the volume",
    document=VolumeSpec,
    build=lambda parts, spec: parts.resizing.steps(spec),
    subject=_name,
    when_cut_off="finish",
)
# What a replay has brought into the image stays, and the journal holds the rest: only its traces on
# the host are taken away.
REPLAY = VolumeOperation[ReplayOrder](
    "volume.replay",
    "replay of the volume",
    document=ReplayOrder,
    build=lambda parts, order: parts.journals.replay_steps(order, _discard),
    subject=_name,
    when_cut_off="undo",
    rest="; the journal keeps all new writes",
)
MOVE_JOURNAL = VolumeOperation[MoveJournalOrder](
    "volume.move-journal",
    "move of the journal of the volume",
    document=MoveJournalOrder,
    build=lambda parts, order: parts.journals.move_steps(order),
    subject=_name,
    when_cut_off="finish",
)
ROLLBACK = VolumeOperation[RollbackOrder](
    "volume.rollback",
    "rollback of the volume",
    document=RollbackOrder,
    build=lambda parts, order: parts.snapshots.rollback_steps(order),
    subject=_name,
    when_cut_off="finish",
)
MIGRATE = VolumeOperation[MigrateOrder](
    "volume.migrate",
    "migration of the volume",
    document=MigrateOrder,
    build=lambda parts, order: parts.migrating.steps(order),
    subject=_name,
    when_cut_off="finish",
    is_undone_now=lambda parts, order: parts.migrating.is_undone(order),
    is_undone_by=lambda error: isinstance(error, PoolFillingError) and error.goes_back,
    waits_at=COPY_STEP,
    waits_for="`migrate` continues it, `migrate --abort` goes back",
)
ROTATE_KEY = VolumeOperation[RotateKeyOrder](
    "volume.rotate",
    "key rotation of the volume",
    document=RotateKeyOrder,
    build=lambda parts, order: parts.rotating.steps(order),
    subject=_name,
    when_cut_off="finish",
)
ALL: tuple[VolumeOperation[Any], ...] = (
    *(FENCE, CREATE, CLONE, DELETE, RESIZE, REPLAY, MOVE_JOURNAL, ROLLBACK, MIGRATE, ROTATE_KEY),
)


def _discard(_value: object) -> None:
    """Steps return nothing."""
