"""From a place of backups, as it is named, to what reads and writes there."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

from grampus.databases.backup.directory_target import DirectoryTarget
from grampus.databases.backup.places import TargetPlace
from grampus.databases.backup.shared_credentials import reachable_place
from grampus.databases.backup.target import BackupTarget
from grampus.state.home import Home

_S3_ADAPTER = "grampus.databases.backup.s3_target"


def open_target(place: TargetPlace, home: Home) -> BackupTarget:
    """The place. Raises GrampusError when its credentials cannot be read."""
    if not place.is_s3:
        return DirectoryTarget(Path(place.url))
    target: BackupTarget = _s3().open_bucket(reachable_place(home, place))
    return target


def ensure_bucket(place: TargetPlace, *, object_lock: bool = False) -> None:
    """The bucket of a place, made if there is none. Raises TargetError.

    With `object_lock` it is made so that backups in it can be locked; a bucket cannot be changed
    to that later.
    """
    _s3().ensure_bucket(place, object_lock=object_lock)


def _s3() -> ModuleType:
    # By name, when it is needed: the client behind it takes longer to import than most commands
    # take to run.
    return importlib.import_module(_S3_ADAPTER)
