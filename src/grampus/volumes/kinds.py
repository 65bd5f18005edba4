"""The kinds of operations on volumes: how each is built again, and what becomes of it cut off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grampus.volumes.cloning import CloneOrder, Cloning
from grampus.volumes.creating import Creating
from grampus.volumes.decide_migration import PoolFillingError
from grampus.volumes.fencing import FenceOrder, Fencing
from grampus.volumes.journals import Journals, ReplayOrder
from grampus.volumes.key_rotating import KeyRotating, RotateKeyOrder
from grampus.volumes.migrating import COPY_STEP, MigrateOrder, Migrating
from grampus.volumes.model import VolumeSpec
from grampus.volumes.operations import VolumeOperation
from grampus.volumes.resizing import Resizing
from grampus.volumes.snapshots import RollbackOrder, Snapshots

CREATE, DELETE, RESIZE, FENCE = "volume.create", "volume.delete", "volume.resize", "volume.fence"
MIGRATE, ROTATE_KEY = "volume.migrate", "volume.rotate"
REPLAY, CLONE, ROLLBACK = "volume.replay", "volume.clone", "volume.rollback"


def build_kinds(
    creating: Creating,
    cloning: Cloning,
    resizing: Resizing,
    fencing: Fencing,
    journals: Journals,
    snapshots: Snapshots,
    migrating: Migrating,
    rotating: KeyRotating,
) -> list[VolumeOperation]:
    """Every kind, each with the part that does its work."""

    def of_volume(document: Mapping[str, Any]) -> VolumeSpec:
        return VolumeSpec.model_validate(document)

    return [
        # The others may wait for the host that a fence does without.
        VolumeOperation(
            FENCE,
            "fence",
            lambda document: fencing.steps(FenceOrder.model_validate(document)),
            is_first=True,
        ),
        VolumeOperation(
            CREATE,
            "creation",
            lambda document: creating.create_steps(of_volume(document)),
            takes_name=True,
            is_undone=True,
        ),
        VolumeOperation(
            CLONE,
            "clone",
            lambda document: cloning.steps(CloneOrder.model_validate(document)),
            takes_name=True,
            is_undone=True,
        ),
        VolumeOperation(
            DELETE, "deletion", lambda document: creating.delete_steps(of_volume(document))
        ),
        VolumeOperation(RESIZE, "resize", lambda document: resizing.steps(of_volume(document))),
        # What a replay has brought into the image stays, and the journal holds the rest: only its
        # traces on the host are taken away.
        VolumeOperation(
            REPLAY,
            "replay",
            lambda document: journals.replay_steps(ReplayOrder.model_validate(document), _discard),
            is_undone=True,
            rest="; the journal keeps what is to come",
        ),
        VolumeOperation(
            ROLLBACK,
            "rollback",
            lambda document: snapshots.rollback_steps(RollbackOrder.model_validate(document)),
        ),
        VolumeOperation(
            MIGRATE,
            "migration",
            lambda document: migrating.steps(MigrateOrder.model_validate(document)),
            is_undone_now=lambda document: migrating.is_undone(
                MigrateOrder.model_validate(document)
            ),
            is_undone_by=lambda error: isinstance(error, PoolFillingError) and error.goes_back,
            waits_at=COPY_STEP,
            waits_for="`migrate` goes on with it, `migrate --abort` goes back",
        ),
        VolumeOperation(
            ROTATE_KEY,
            "key rotation",
            lambda document: rotating.steps(RotateKeyOrder.model_validate(document)),
        ),
    ]


def _discard(_value: object) -> None:
    """Steps return nothing."""
