"""What the steps of operations on databases act on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from grampus.core.clock import Clock
from grampus.core.progress import Progress, SilentProgress
from grampus.databases.credentials import CredentialFiles
from grampus.databases.ports import VolumePort
from grampus.databases.records import DatabaseRecords
from grampus.hosts.port import Fleet
from grampus.state.home import Home


@dataclass(frozen=True)
class StepPorts:
    """What steps act on."""

    records: DatabaseRecords
    credentials: CredentialFiles
    clock: Clock
    fleet: Fleet
    volumes: VolumePort
    home: Home  # of this process, whichever machine began the operation
    # The id of the database that the operation is on, or makes: what its steps make bears it, and
    # they take away nothing that bears another one. Empty: an older release began the operation.
    identity: str = ""
    progress: Progress = field(default_factory=SilentProgress)  # of who carries the steps out
    # Held while Grampus writes to a replica, by its name and for how many seconds to wait for it.
    writing_lock: Callable[[str, float], AbstractContextManager[None]] = lambda _, __: nullcontext()
