"""Deep scrubs of exactly the placement groups that hold a volume, and their repair."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from grampus.ceph.cluster import CephCluster
from grampus.ceph.image_objects import ImageLayer, observe_layers
from grampus.ceph.image_snapshots import RbdSnapshots
from grampus.ceph.object_maps import ObjectMaps
from grampus.ceph.placement_groups import decide_groups
from grampus.ceph.rbd import RbdImages
from grampus.ceph.scrubs import DamagedObject, ScrubbedGroup, ScrubKind, Scrubs
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.progress import Progress
from grampus.operations.runner import OperationRunner
from grampus.volumes.decide_scrub import (
    ScrubReport,
    WrongMap,
    decide_deadline_s,
    decide_requests,
    decide_unfinished,
    is_repairable,
    split_damage,
)
from grampus.volumes.model import VolumeRecord

POLL_S = 1.0


class VolumeScrubs:
    """Scrubs of the volumes of one lab or cluster. Clients go on as if nothing happened."""

    def __init__(
        self, cluster: CephCluster, runner: OperationRunner, clock: Clock, progress: Progress
    ) -> None:
        self._cluster = cluster
        self._scrubs = Scrubs(cluster)
        self._snapshots = RbdSnapshots(cluster)
        self._maps = ObjectMaps(cluster, RbdImages(cluster, clock))
        self._runner = runner
        self._clock = clock
        self._progress = progress

    def scrub(self, volume: VolumeRecord, *, repair: bool) -> ScrubReport:
        """Read and compare every copy of all that the volume reads, its parents included.

        The object map of each of its snapshots is compared with what is there, too, and made anew
        where it differs: it is a copy of what the OSDs know, and nothing is lost with it.

        With `repair`, groups in which something of the volume is damaged are repaired when the
        cluster can tell for all of it which copy is right, and scrubbed once more as the proof.

        Raises RefusedError with code `scrub-forbidden` while somebody keeps scrubs away,
        GrampusError with code `timeout` when the cluster does not come to it.
        """
        layers = self._layers(volume)
        objects = {(layer.namespace, name) for layer in layers for name in layer.objects}
        groups = self._groups(layers)
        self._require_allowed({layer.pool for layer in layers})
        self._runner.propose(lambda: self._describe(volume, layers, len(groups), repair=repair))
        damaged = self._look("deep-scrub", groups, "Deep-scrub")
        ours, others = split_damage(damaged, objects)
        report = ScrubReport(
            groups=len(groups),
            objects=len(objects),
            damaged=ours,
            others_damaged=others,
            wrong_maps=self._compare_maps(volume),
        )
        if not repair or not ours:
            return report
        return self._repair(report, damaged, objects)

    def _describe(
        self, volume: VolumeRecord, layers: list[ImageLayer], groups: int, *, repair: bool
    ) -> list[str]:
        steps = [
            f"Deep-scrub the {groups} placement groups with the "
            f"{sum(len(layer.objects) for layer in layers)} objects of "
            + " and ".join(f"{layer.pool}/{layer.image}" for layer in layers)
        ]
        if repair:
            steps.append("Repair damaged objects, and scrub their placement groups again")
        if snapshots := len(self._places(volume)):
            steps.append(f"Compare the object maps of {snapshots} snapshots with their objects")
        return steps

    def _compare_maps(self, volume: VolumeRecord) -> tuple[WrongMap, ...]:
        """Those that lacked something, after they were made anew."""
        places = self._places(volume)
        if places:
            self._progress.phase(f"Compare the object maps of {len(places)} snapshots")
        own = f"{volume.spec.pool}/{volume.spec.image}@"
        found = []
        for done, (pool, name) in enumerate(places, 1):
            lacking = self._maps.count_lacking(pool, name)
            # Also one that has too much: the comparison has marked it, and it would stay so.
            self._maps.ensure(pool, name)
            if lacking:
                snapshot = f"{pool}/{name}".removeprefix(own)
                found.append(WrongMap(snapshot=snapshot, objects=lacking))
            self._progress.detail(f"{done} of {len(places)}", fraction=done / len(places))
        return tuple(found)

    def _places(self, volume: VolumeRecord) -> list[tuple[str, str]]:
        """The snapshots of the volume, and those that it stands on: pool and IMAGE@SNAPSHOT."""
        pool, image = volume.spec.pool, volume.spec.image
        places = [(pool, f"{image}@{one.name}") for one in self._snapshots.all(pool, image)]
        parent = self._snapshots.parent(pool, image)
        while parent is not None and not parent.is_in_trash:
            places.append((parent.pool, f"{parent.image}@{parent.snapshot}"))
            parent = self._snapshots.parent(parent.pool, parent.image)
        return places

    def _repair(
        self,
        report: ScrubReport,
        damaged: Collection[DamagedObject],
        objects: Collection[tuple[str, str]],
    ) -> ScrubReport:
        affected = {one.group for one in report.damaged}
        # A repair is of a whole group: what is not ours in it is settled by it as well.
        unsure = {one.group for one in damaged if not is_repairable(one)}
        repaired = affected - unsure
        if repaired:
            self._look("repair", repaired, "Repair")
            self._progress.note(f"Repaired {', '.join(sorted(repaired))}. Scrubbing again.")
        left, _ = split_damage(self._look("deep-scrub", affected, "Scrub again"), objects)
        changes = {"is_repaired": not left, "still_damaged": left}
        return report.model_copy(update=changes)

    def _look(self, kind: ScrubKind, groups: Collection[str], phase: str) -> list[DamagedObject]:
        """Have each group scrubbed or repaired, and what is damaged after that."""
        self._progress.phase(f"{phase} {len(groups)} placement groups")
        now = self._await(kind, self._scrubs.observe(groups))
        return [
            damaged
            for group in sorted(now)
            if now[group].is_inconsistent
            for damaged in self._scrubs.damaged_objects(group)
        ]

    def _await(
        self, kind: ScrubKind, before: Mapping[str, ScrubbedGroup]
    ) -> dict[str, ScrubbedGroup]:
        stored_bytes = self._cluster.query("df")["stats"]["total_used_raw_bytes"]
        deadline_s = self._clock.monotonic_s() + decide_deadline_s(len(before), stored_bytes)
        now = dict(before)
        unfinished = sorted(before)
        asked_at_s: dict[str, float] = {}
        while unfinished:
            moment_s = self._clock.monotonic_s()
            if moment_s >= deadline_s:
                raise GrampusError(
                    f"Gave up waiting for the {kind} of {', '.join(unfinished[:4])}: "
                    f"{len(unfinished)} of {len(before)} placement groups are not scrubbed "
                    "yet.",
                    "`ceph pg ls` shows their states. Repair the cluster, then try again.",
                    code="timeout",
                )
            asked = decide_requests(unfinished, now, asked_at_s, moment_s)
            self._scrubs.request(kind, asked)
            asked_at_s |= dict.fromkeys(asked, moment_s)
            self._clock.sleep(POLL_S)
            now |= self._scrubs.observe(before)
            unfinished = decide_unfinished(before, now)
            done = len(before) - len(unfinished)
            self._progress.detail(f"{done} of {len(before)}", fraction=done / len(before))
        return now

    def _layers(self, volume: VolumeRecord) -> list[ImageLayer]:
        return observe_layers(self._cluster, volume.spec.pool, volume.spec.image)

    def _groups(self, layers: Collection[ImageLayer]) -> set[str]:
        placements = {pool: self._scrubs.placement(pool) for pool in {la.pool for la in layers}}
        return {
            group
            for layer in layers
            for group in decide_groups(
                placements[layer.pool], layer.objects, namespace=layer.namespace
            )
        }

    def _require_allowed(self, pools: Collection[str]) -> None:
        flags = self._scrubs.forbidding_flags(pools)
        if flags:
            raise RefusedError(
                f"A flag of the cluster prevents scrubs: {', '.join(flags)}.",
                "Remove the flag when it is no longer needed (`ceph osd unset FLAG`, or "
                "`ceph osd pool set POOL FLAG 0`), then try again.",
                code="scrub-forbidden",
            )
