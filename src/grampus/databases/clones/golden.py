"""Golden volumes: initialised once for each kind of database, cloned for each new one.

Nobody can log in to what is on one: root is locked with a password that nobody keeps, and no
other account is there. A clone gets its accounts as its server starts (`identity`).
"""

from __future__ import annotations

from grampus.core.errors import GrampusError, NotFoundError
from grampus.core.units import format_bytes
from grampus.databases.clones.decide_golden import GOLDEN_SNAPSHOT, GoldenSpec, decide_golden
from grampus.databases.clones.golden_steps import GOLDEN
from grampus.databases.model import DatabaseSpec
from grampus.databases.operating import DatabaseOperations
from grampus.databases.ports import ImagePort
from grampus.volumes.model import CloneSource, VolumeSpec

# Another creation may be making the one that is wanted: that takes 10 s, minutes on hard disks.
LOCK_TIMEOUT_S = 120.0


class GoldenVolumes:
    """The golden volumes of one lab or cluster."""

    def __init__(self, operations: DatabaseOperations, images: ImagePort) -> None:
        self._operations = operations
        self._images = images

    def plan(self, spec: DatabaseSpec) -> GoldenSpec:
        """The golden volume that the database would be cloned from, there or not."""
        return decide_golden(
            spec.flavour,
            size_bytes=spec.size_bytes,
            external_log_bytes=spec.external_log_bytes,
            pool=spec.pool,
            host=spec.host,
            image_id=spec.image_id,
            server=spec.image_id or self._images.own_image(),
        )

    def ensure(self, golden: GoldenSpec) -> CloneSource | None:
        """The snapshot to clone, made if there is none yet.

        None when it cannot be made: that is noted, and the database is initialised by itself. A
        Ctrl-C undoes the making and ends the creation. In a dry run the making is part of the plan.
        """
        runner, size = self._operations.runner, format_bytes(golden.size_bytes)
        making = f"Create the golden volume {golden.name} of {size}, for all databases of this type"
        try:
            with runner.part_of_plan():
                if not self._is_there(golden):
                    runner.propose(lambda: [making])  # before the lock, which may take long
                with self._operations.locked(golden.name, timeout_s=LOCK_TIMEOUT_S):
                    # Whoever holds the lock and finds it whole knows that no making is under way.
                    self._operations.settle(golden.name)
                    if not self._is_there(golden):
                        self._operations.progress.note(
                            "This is the first database of its type: Grampus creates the "
                            f"golden volume {golden.name} for all of them."
                        )
                        self._operations.run(GOLDEN, golden)
        except GrampusError as error:
            self._operations.progress.note(
                f"There is no golden volume, so the data directory is initialised: {error}"
            )
            return None
        if runner.is_planning and not self._is_there(golden):  # it gets its namespace as it is made
            return CloneSource(pool=golden.pool, image=golden.name, snapshot=GOLDEN_SNAPSHOT)
        return golden_source(self._operations.volumes.get(golden.name).spec)

    def _is_there(self, golden: GoldenSpec) -> bool:
        try:
            self._operations.volumes.get(golden.name)
        except NotFoundError:
            return False
        return not self._operations.unfinished(golden.name)


def golden_source(golden: VolumeSpec) -> CloneSource:
    """What is cloned of a golden volume."""
    return CloneSource(pool=golden.pool, image=golden.image, snapshot=GOLDEN_SNAPSHOT)
