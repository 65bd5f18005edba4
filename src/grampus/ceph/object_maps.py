"""Object maps: which objects an image has, and had at each snapshot.

Who reads an image goes by its map, where it has one: an object that the map lacks reads as zeros,
or as what the parent has there, whatever the cluster holds. One that is marked as invalid is not
gone by.
"""

from __future__ import annotations

import re

from grampus.ceph.cluster import CephCluster
from grampus.ceph.rbd import GENTLY, RbdImages
from grampus.ceph.reporting import Report, Watch, report_nowhere, run_reporting
from grampus.core.errors import GrampusError

# fast-diff is part of the map, and goes and comes with it.
MAP_FEATURES = ("object-map", "fast-diff")
_INVALID = "object map invalid"
# A look at one object takes 0.2 ms on a lab; this is for an image of many TiB.
CHECK_TIMEOUT_S = 3600.0
# States are 0 (absent), 1 (there), 2 (being removed), 3 (there, and as in the snapshot before):
# Ceph 20.2, `include/rbd/object_map_types.h`. Those two that mean absent for one that is there.
_LACKING = re.compile(r"marked as [02], but should be [13]\b")


class ObjectMaps:
    """The object maps of one cluster's images; names are IMAGE or IMAGE@SNAPSHOT."""

    def __init__(self, cluster: CephCluster, images: RbdImages) -> None:
        self._cluster = cluster
        self._images = images

    def count_lacking(self, pool: str, name: str) -> int:
        """How many objects of a snapshot are there and not in its map; 0 where it has none.

        A map that differs from the objects in any way is marked as invalid by this, so that nobody
        goes by it until `ensure` has made it anew. Not for an image that is written to: its map
        changes meanwhile. 0 for a snapshot that is not there.
        """
        if not self._is_valid(pool, name):
            return 0
        argv = ["rbd", "object-map", "check", *GENTLY, "--no-progress", f"{pool}/{name}"]
        result = self._cluster.runner.run(argv, check=False, timeout_s=CHECK_TIMEOUT_S)
        if result.returncode != 0 and self._is_valid(pool, name):
            result = self._cluster.runner.run(argv, timeout_s=CHECK_TIMEOUT_S)
        return len(_LACKING.findall(result.stdout + result.stderr))

    def ensure(
        self,
        pool: str,
        name: str,
        report: Report = report_nowhere,
        watch: Watch | None = None,
    ) -> None:
        """Make the map anew, unless it is right, or its snapshot was deleted in the meantime.

        `report` is told how much is done (0 to 1), and `watch` may end it. Raises GrampusError with
        code `object-map-failed`.
        """
        found = self._images.find(pool, name)
        if found is None or _INVALID not in found.flags:
            return
        try:
            run_reporting(
                self._cluster.runner,
                ["object-map", "rebuild", *GENTLY, f"{pool}/{name}"],
                report,
                lambda said: GrampusError(
                    f"The object map of {pool}/{name} was not created: {said}",
                    "No data is lost: without the map, only deletes and comparisons of the "
                    "image are slower. Check `ceph health`, then try again.",
                    code="object-map-failed",
                ),
                watch=watch,
            )
        except GrampusError as error:
            if error.code != "object-map-failed" or self._images.find(pool, name):
                raise

    def _is_valid(self, pool: str, name: str) -> bool:
        found = self._images.find(pool, name)
        return (
            found is not None and MAP_FEATURES[0] in found.features and _INVALID not in found.flags
        )
