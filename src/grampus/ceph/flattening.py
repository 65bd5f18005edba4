"""Clones that come to stand alone, without harm to the snapshots that are taken meanwhile.

A snapshot that is taken while librbd copies an image's objects from its parent gets a copy of the
object map that lacks the objects which are being copied at that moment. Once the image stands
alone, the snapshot, what is cloned or backed up from it and an image that is rolled back to it read
zeros there, silently (Ceph 20.2.4: 15 of 18 snapshots in a trial, ADR 34). The data is there; only
the map is wrong. So the image has no object map while it is flattened, and one that is made anew
from its objects afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from grampus.ceph.cluster import CephCluster
from grampus.ceph.image_snapshots import SUSPENDED_FACT, RbdSnapshots
from grampus.ceph.object_maps import MAP_FEATURES, ObjectMaps
from grampus.ceph.rbd import GENTLY, RbdImages
from grampus.ceph.reporting import Report, Watch, report_nowhere, run_reporting
from grampus.core.errors import GrampusError

# Of a change of features beside a client of which `watch` says that it is well.
WATCHED_TIMEOUT_S = 20.0


class RbdFlattening:
    """Clones of one cluster that are to share nothing any more."""

    def __init__(self, cluster: CephCluster, images: RbdImages, snapshots: RbdSnapshots) -> None:
        self._cluster = cluster
        self._images = images
        self._snapshots = snapshots
        self._maps = ObjectMaps(cluster, images)

    def is_due(self, pool: str, name: str) -> bool:
        """Whether the image is a clone, or was flattened and has no object map again yet."""
        return self._snapshots.parent(pool, name) is not None or bool(self._suspended(pool, name))

    def ensure_flattened(
        self,
        pool: str,
        name: str,
        report_copied: Report = report_nowhere,
        report_mapped: Report = report_nowhere,
        watch: Watch | None = None,
    ) -> None:
        """Copy what the image still shares with its parent; it may be in use, grow and get
        snapshots meanwhile.

        Cut off, what was copied stays copied, and the image is without its object map, which only
        makes it slower to delete and to compare, until this is done again. The reports are told
        how much is copied and how much of the object maps is made (0 to 1). `watch` may end each
        part. Raises GrampusError with code `flatten-failed`, `object-map-failed` or `timeout`.
        """
        is_clone = self._snapshots.parent(pool, name) is not None
        if not is_clone and not self._suspended(pool, name):
            return
        self._images.wait_for_others(pool, name)
        if is_clone:
            self._suspend_map(pool, name, watch)
            self._flatten(pool, name, report_copied, watch)
            self._images.wait_for_others(pool, name)
        self._resume_map(pool, name, report_mapped, watch)

    def _flatten(self, pool: str, name: str, report: Report, watch: Watch | None) -> None:
        try:
            run_reporting(
                self._cluster.runner,
                ["flatten", *GENTLY, f"{pool}/{name}"],
                report,
                lambda said: GrampusError(
                    f"The image {pool}/{name} was not flattened: {said}",
                    "No data is lost, and copied data stays copied. Check `ceph health`, "
                    "then try again.",
                    code="flatten-failed",
                ),
                watch=watch,
            )
        except GrampusError as error:
            # The image's own client goes on with what a command asked of it that was killed since:
            # librbd lets the second one wait for that, and then there is nothing left to do.
            if error.code != "flatten-failed" or self._snapshots.parent(pool, name) is not None:
                raise

    def _suspend_map(self, pool: str, name: str, watch: Watch | None) -> None:
        """Noted first: cut off between the two, there is a note of what was never taken away."""
        features = self._features(pool, name)
        if features:
            self._images.set_metadata(pool, name, {SUSPENDED_FACT: ",".join(features)})
            self._change_features("disable", pool, name, features, watch)

    def _resume_map(self, pool: str, name: str, report: Report, watch: Watch | None) -> None:
        """The object maps of the image and its snapshots, where this has taken them away."""
        noted = self._suspended(pool, name)
        if not noted:
            return
        has = self._features(pool, name)
        absent = [one for one in noted if one not in has]
        if absent:
            # From then on each map is there and known to be wrong: nobody goes by it.
            self._change_features("enable", pool, name, absent, watch)
        parts = 1 + len(self._snapshots.all(pool, name))
        # Its own first: a snapshot that is taken before that has been made gets a copy of a map
        # that is known to be wrong, and one that is taken afterwards gets a right one.
        self._maps.ensure(pool, name, _part_of(report, 0, parts), watch)
        for index, one in enumerate(self._snapshots.all(pool, name), start=1):
            self._maps.ensure(pool, f"{name}@{one.name}", _part_of(report, index, parts))
        self._images.ensure_metadata_absent(pool, name, [SUSPENDED_FACT])

    def _suspended(self, pool: str, name: str) -> list[str]:
        """The features that this has taken away from the image."""
        noted = self._images.metadata(pool, name).get(SUSPENDED_FACT, "")
        return [one for one in MAP_FEATURES if one in noted.split(",")]

    def _features(self, pool: str, name: str) -> list[str]:
        """Those of `MAP_FEATURES` that the image has now."""
        found = self._images.find(pool, name)
        return [one for one in MAP_FEATURES if found is not None and one in found.features]

    def _change_features(
        self, verb: str, pool: str, name: str, features: Sequence[str], watch: Watch | None
    ) -> None:
        why = None if watch is None else watch.look()
        if why is not None:
            raise why
        argv = ["rbd", "feature", verb, f"{pool}/{name}", *features]
        self._cluster.runner.run(argv, timeout_s=120 if watch is None else WATCHED_TIMEOUT_S)


def _part_of(report: Report, index: int, count: int) -> Report:
    """Tells `report` of all `count` parts, or some more, what is told of the one at that index."""
    return lambda done: report(min((index + done) / count, 1.0))
