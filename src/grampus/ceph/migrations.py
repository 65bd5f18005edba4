"""Images on their way to another pool, through `rbd migration` on any reachable host.

What librbd does (Ceph 20.2, `librbd/api/Migration.cc`):

- `prepare` wants the source closed by everybody. It moves the source into the trash of its
  namespace, marked as a migration's, and makes the target, which reads through to the source what
  it does not have yet. Snapshots and metadata come along; the target has an id of its own.
- `execute` copies, while the target is in use. Where a client holds the target's lock, that client
  does the copying. Cut off, it can be started again.
- `commit` parts the two and removes the source. The target may be in use.
- `abort` wants the target closed by everybody. It copies the target's content back over the source,
  removes the target with all its snapshots, and takes the source out of the trash.
"""

from __future__ import annotations

import json
from typing import Literal, get_args

from pydantic import ConfigDict

from grampus.ceph.cluster import CephCluster
from grampus.ceph.connecting import CONNECT
from grampus.ceph.journal_objects import ensure_journal_absent
from grampus.ceph.namespaces import place_of, split_image
from grampus.ceph.ports import CommandOutput
from grampus.ceph.rbd import EBUSY, ENOENT, GENTLY
from grampus.ceph.reporting import Report, Watch, parse_done, run_reporting
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError
from grampus.core.models import Model

MigrationState = Literal[
    "preparing", "prepared", "executing", "executed", "aborting", "error", "unknown"
]
# Writers wait meanwhile.
PREPARE_TIMEOUT_S = 60.0
# How long somebody may have the image open still, as who notes a fact on it has for a moment.
BUSY_TIMEOUT_S = 10.0
BUSY_POLL_S = 0.5
# Nobody waits for a commit, and the watch of a copier that was killed lasts 30 s.
COMMIT_BUSY_TIMEOUT_S = 45.0
# Removing the source, or copying back, takes as long as there is data.
DATA_TIMEOUT_S = 12 * 3600.0
# An image that is a migration's source no more, whose target knows nothing of it any more: until
# then nothing opens it, and nothing removes it.
END_SOURCE = f"""
{CONNECT}
import sys, rados
pool, namespace, image_id = sys.argv[1:]
with connect() as cluster, cluster.open_ioctx(pool) as context:
    context.set_namespace(namespace)
    try:
        context.execute("rbd_header." + image_id, "rbd", "migration_remove", b"")
    except rados.ObjectNotFound:
        pass
"""


class MigrationStatus(Model):
    """A migration as its target shows it."""

    model_config = ConfigDict(frozen=True)

    state: MigrationState
    source_pool: str
    source_id: str
    target_id: str
    copied: float = 0.0  # 0 to 1, as far as the copy that runs or ran last has noted it


class RbdMigrations:
    """The migrations of one cluster; names are IMAGE or NAMESPACE/IMAGE, in both pools the same."""

    def __init__(self, cluster: CephCluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def observe(self, pool: str, name: str) -> MigrationStatus | None:
        """The migration whose target is the image; None: it is none, or there is no image."""
        result = self._rbd("status", "--format", "json", f"{pool}/{name}", check=False)
        if result.returncode == ENOENT:
            return None
        if result.returncode != 0:
            # Once more, so that the runner raises its own error.
            result = self._rbd("status", "--format", "json", f"{pool}/{name}")
        return parse_migration(result.stdout)

    def prepare(self, source_pool: str, pool: str, name: str) -> None:
        """Make the target. Raises GrampusError with code `migration-failed`."""
        result = self._rbd_when_closed(
            # The target of a clone is a clone: only one of version 2 may have its parent in another
            # namespace, and by default librbd makes them only where no client is older than Mimic.
            *("--rbd-default-clone-format", "2"),
            *("migration", "prepare", f"{source_pool}/{name}", f"{pool}/{name}"),
            timeout_s=PREPARE_TIMEOUT_S,
        )
        self._require(result, f"The image {source_pool}/{name} could not be prepared")

    def execute(self, pool: str, name: str, report: Report, watch: Watch | None = None) -> None:
        """Copy what is not there yet; `report` is told how much is (0 to 1).

        Raises GrampusError with code `migration-failed`, and what `watch` ends it with. It can be
        asked for again. A client that holds the image's lock copies on until it closes the image.
        """
        run_reporting(
            self._cluster.runner,
            ["migration", "execute", *GENTLY, f"{pool}/{name}"],
            report,
            lambda said: _failed(f"The image {pool}/{name} was not copied", said),
            watch=watch,
        )

    def commit(self, pool: str, name: str) -> None:
        """Part the target from its source, and remove that."""
        arguments = ("migration", "commit", "--no-progress", f"{pool}/{name}")
        result = self._rbd_when_closed(
            *arguments, timeout_s=DATA_TIMEOUT_S, busy_s=COMMIT_BUSY_TIMEOUT_S
        )
        self._require(result, f"The migration of {pool}/{name} could not be committed")

    def abort(self, source_pool: str, name: str) -> None:
        """The source as the target is now, and no target any more."""
        # By the source: it is there to the end, also when an abort was cut off.
        arguments = ("migration", "abort", "--no-progress", f"{source_pool}/{name}")
        result = self._rbd_when_closed(*arguments, timeout_s=DATA_TIMEOUT_S)
        self._require(result, f"The migration of {source_pool}/{name} could not be aborted")

    def ensure_source_absent(self, source_pool: str, name: str, source_id: str) -> None:
        """What a commit that was cut off left of the source in the trash is removed."""
        place = place_of(source_pool, name)
        result = self._rbd("trash", "ls", "--all", "--format", "json", place, check=False)
        if result.returncode == ENOENT:
            return  # with its last image the namespace has gone
        if result.returncode != 0:
            # Once more, so that the runner raises its own error.
            result = self._rbd("trash", "ls", "--all", "--format", "json", place)
        if not any(entry["id"] == source_id for entry in json.loads(result.stdout or "[]")):
            return
        namespace = split_image(name)[0]
        argv = ["python3", "-c", END_SOURCE, source_pool, namespace, source_id]
        self._cluster.runner.run(argv, timeout_s=60)
        image = ("--pool", source_pool, "--namespace", namespace, "--image-id", source_id)
        self._rbd("snap", "purge", "--no-progress", *image, timeout_s=DATA_TIMEOUT_S)
        arguments = ("trash", "remove", "--no-progress", "--force", f"{place}/{source_id}")
        self._rbd(*arguments, timeout_s=DATA_TIMEOUT_S)

    def ensure_journal_absent(self, pool: str, name: str, image_id: str) -> None:
        """Remove the write journal of the image with that id, whatever it holds."""
        ensure_journal_absent(self._cluster, pool, split_image(name)[0], image_id)

    def _require(self, result: CommandOutput, what: str) -> None:
        if result.returncode == 0:
            return
        lines = (result.stderr.strip() or result.stdout.strip()).splitlines()
        raise _failed(what, lines[-1] if lines else f"code {result.returncode}")

    def _rbd_when_closed(
        self, *arguments: str, timeout_s: float, busy_s: float = BUSY_TIMEOUT_S
    ) -> CommandOutput:
        """As `_rbd`, whatever its code; once more while somebody has the image open."""
        deadline_s = self._clock.monotonic_s() + busy_s
        while True:
            result = self._rbd(*arguments, check=False, timeout_s=timeout_s)
            if result.returncode != EBUSY or self._clock.monotonic_s() >= deadline_s:
                return result
            self._clock.sleep(BUSY_POLL_S)

    def _rbd(self, *arguments: str, check: bool = True, timeout_s: float = 60) -> CommandOutput:
        return self._cluster.runner.run(["rbd", *arguments], check=check, timeout_s=timeout_s)


def parse_migration(text: str) -> MigrationStatus | None:
    """The migration in what `rbd status --format json` printed of a target; None: there is none."""
    found = json.loads(text).get("migration")
    if found is None:
        return None
    state = found.get("state", "unknown")
    return MigrationStatus(
        state=state if state in get_args(MigrationState) else "unknown",
        source_pool=found.get("source_pool_name", ""),
        source_id=found.get("source_image_id", ""),
        target_id=found.get("dest_image_id", ""),
        copied=parse_done(found.get("state_description", "").encode()) or 0.0,
    )


def _failed(what: str, why: str) -> GrampusError:
    return GrampusError(
        f"{what}: {why}",
        "No data is lost. Check `ceph health` and `rbd status`, then try again.",
        code="migration-failed",
    )
