"""Clones that come to stand alone, without harm to the snapshots that are taken meanwhile.

A snapshot that is taken while librbd copies an image's objects from its parent gets a copy of the
object map that lacks the objects which are being copied at that moment. Once the image stands
alone, the snapshot, what is cloned or backed up from it and an image that is rolled back to it read
zeros there, silently (Ceph 20.2.4: 15 of 18 snapshots in a trial, ADR 34). The data is there; only
the map is wrong. So the image has no object map while it is flattened, and one that is made anew
from its objects afterwards.
"""

from __future__ import annotations

import json

from grampus.ceph.cluster import CephCluster
from grampus.ceph.object_maps import MAP_FEATURES, ObjectMaps
from grampus.ceph.rbd import GENTLY
from grampus.ceph.reporting import Report, report_nowhere, run_reporting
from grampus.ceph.snapshots import SUSPENDED_KEY, RbdSnapshots
from grampus.core.errors import GrampusError


class RbdFlattening:
    """Clones of one cluster that are to share nothing any more."""

    def __init__(self, cluster: CephCluster, snapshots: RbdSnapshots) -> None:
        self._cluster = cluster
        self._snapshots = snapshots
        self._maps = ObjectMaps(cluster)

    def is_due(self, pool: str, name: str) -> bool:
        """Whether the image is a clone, or was flattened and has no object map again yet."""
        return self._snapshots.parent(pool, name) is not None or bool(self._suspended(pool, name))

    def ensure_flattened(
        self,
        pool: str,
        name: str,
        report_copied: Report = report_nowhere,
        report_mapped: Report = report_nowhere,
    ) -> None:
        """Copy what the image still shares with its parent; it may be in use, grow and get
        snapshots meanwhile.

        Cut off, what was copied stays copied, and the image is without its object map, which only
        makes it slower to delete and to compare, until this is done again. The reports are told
        how much is copied and how much of the object maps is made (0 to 1). Raises GrampusError
        with code `flatten-failed` or `object-map-failed`.
        """
        if self._snapshots.parent(pool, name) is not None:
            self._suspend_map(pool, name)
            self._flatten(pool, name, report_copied)
        self._resume_map(pool, name, report_mapped)

    def _flatten(self, pool: str, name: str, report: Report) -> None:
        try:
            run_reporting(
                self._cluster.runner,
                ["flatten", *GENTLY, f"{pool}/{name}"],
                report,
                lambda said: GrampusError(
                    f"The image {pool}/{name} was not flattened: {said}",
                    "Nothing is lost, and what was copied stays copied: look at `ceph health`, "
                    "then try again.",
                    code="flatten-failed",
                ),
            )
        except GrampusError as error:
            # The image's own client goes on with what a command asked of it that was killed since:
            # librbd lets the second one wait for that, and then there is nothing left to do.
            if error.code != "flatten-failed" or self._snapshots.parent(pool, name) is not None:
                raise

    def _suspend_map(self, pool: str, name: str) -> None:
        """Noted first: cut off between the two, there is a note of what was never taken away."""
        features = self._maps.features(f"{pool}/{name}")
        if features:
            noted = ",".join(features)
            self._rbd("image-meta", "set", f"{pool}/{name}", SUSPENDED_KEY, noted)
            self._rbd("feature", "disable", f"{pool}/{name}", *features)

    def _resume_map(self, pool: str, name: str, report: Report) -> None:
        """The object maps of the image and its snapshots, where this has taken them away."""
        noted = self._suspended(pool, name)
        if not noted:
            return
        has = self._maps.features(f"{pool}/{name}")
        absent = [one for one in noted if one not in has]
        if absent:
            # From then on each map is there and known to be wrong: nobody goes by it.
            self._rbd("feature", "enable", f"{pool}/{name}", *absent)
        places = [f"{pool}/{name}@{one.name}" for one in self._snapshots.all(pool, name)]
        places.append(f"{pool}/{name}")
        for index, place in enumerate(places):
            self._maps.ensure(place, _part_of(report, index, len(places)))
        self._rbd("image-meta", "remove", f"{pool}/{name}", SUSPENDED_KEY)

    def _suspended(self, pool: str, name: str) -> list[str]:
        """The features that this has taken away from the image."""
        argv = ["rbd", "image-meta", "list", "--format", "json", f"{pool}/{name}"]
        noted = json.loads(self._cluster.runner.run(argv).stdout or "{}").get(SUSPENDED_KEY, "")
        return [one for one in MAP_FEATURES if one in noted.split(",")]

    def _rbd(self, *arguments: str) -> None:
        self._cluster.runner.run(["rbd", *arguments], timeout_s=120)


def _part_of(report: Report, index: int, count: int) -> Report:
    """Tells `report` of all `count` parts what is told of the one with that index."""
    return lambda done: report((index + done) / count)
