"""What is to be done about what a scrub says of a volume's objects. All pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import timedelta

from pydantic import ConfigDict

from grampus.ceph.scrubs import DamagedObject, ScrubbedGroup
from grampus.core.models import Model

# A deep scrub reads every byte of a group on each of its OSDs. What one OSD of a small lab does
# while databases run on it (20 MB/s) is slow for any other; so is a minute for each group.
SLOWEST_BYTES_PER_S = 20_000_000
LEAST_PER_GROUP = timedelta(minutes=1)
# A request is forgotten when the group's OSDs change, and refused while it is not clean.
REPEAT_AFTER_S = 30.0
# The cluster's own limit (`osd_max_scrubs`) does not hold for scrubs that somebody asks for: it
# would begin all of them at once. More than one, since a group's report is seconds late.
MOST_PER_OSD = 6


class WrongMap(Model):
    """A snapshot that was read as if objects of it were not there, until its map was made anew."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    snapshot: str  # POOL/IMAGE@SNAPSHOT for one of another volume that this one stands on
    objects: int  # that are there, and were not in its object map


class ScrubReport(Model):
    """What a deep scrub of a volume found, and what a repair did about it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    groups: int  # placement groups that hold something of it
    objects: int  # objects of it, its parents' among them
    damaged: tuple[DamagedObject, ...]  # as found
    # Objects of the same groups that are not this volume's.
    others_damaged: tuple[DamagedObject, ...] = ()
    # Whether a second scrub after a repair found all of it right; None: not repaired.
    is_repaired: bool | None = None
    still_damaged: tuple[DamagedObject, ...] = ()  # after the repair
    wrong_maps: tuple[WrongMap, ...] = ()  # as found; they are right now

    @property
    def is_sound(self) -> bool:
        """Nothing of this volume is damaged now, and nothing made of it may have to be."""
        are_right = not self.damaged or (self.is_repaired is True and not self.still_damaged)
        return are_right and not self.wrong_maps


def decide_unfinished(
    before: Mapping[str, ScrubbedGroup], now: Mapping[str, ScrubbedGroup]
) -> list[str]:
    """Groups that were not scrubbed since `before`, by id; a group that is gone is not one."""
    return sorted(
        group
        for group, stood in before.items()
        if group in now and now[group].deep_scrub_stamp == stood.deep_scrub_stamp
    )


def decide_requests(
    unfinished: Collection[str],
    now: Mapping[str, ScrubbedGroup],
    asked_at_s: Mapping[str, float],
    moment_s: float,
) -> list[str]:
    """The groups to ask for a scrub at this moment, by id, at most `MOST_PER_OSD` on an OSD.

    `asked_at_s` says when a group was last asked. One that is being scrubbed is not asked again:
    it would be scrubbed once more as soon as it is done.
    """
    at_work: Counter[int] = Counter()
    waiting = []
    for group in sorted(unfinished):
        asked_s = asked_at_s.get(group)
        is_asked = asked_s is not None and moment_s - asked_s < REPEAT_AFTER_S
        if now[group].is_scrubbing or is_asked:
            at_work.update(now[group].acting)
        elif now[group].is_clean:
            waiting.append(group)
    chosen = []
    for group in waiting:
        if all(at_work[osd] < MOST_PER_OSD for osd in now[group].acting):
            at_work.update(now[group].acting)
            chosen.append(group)
    return chosen


def decide_deadline_s(groups: int, stored_bytes: int) -> float:
    """How long so many groups with so many bytes may take at most, in seconds."""
    return groups * LEAST_PER_GROUP.total_seconds() + stored_bytes / SLOWEST_BYTES_PER_S


def is_repairable(damaged: DamagedObject) -> bool:
    """Whether the cluster can tell which copy is right.

    It can when it blames single copies (a checksum that fails at a read, a digest or size other
    than the one recorded) and one is left that it says nothing against. When the copies only
    contradict one another, a repair would take the primary's, right or wrong.
    """
    return bool(damaged.damaged) and bool(damaged.good_osds)


def split_damage(
    damaged: Collection[DamagedObject], objects: Collection[tuple[str, str]]
) -> tuple[tuple[DamagedObject, ...], tuple[DamagedObject, ...]]:
    """What is damaged among these objects (namespace and name each), and what beside them."""
    ours = tuple(one for one in damaged if (one.namespace, one.name) in objects)
    return ours, tuple(one for one in damaged if (one.namespace, one.name) not in objects)


def describe_scrub(report: ScrubReport) -> str:
    """A scrub in a few words, such as `1 of 120 objects damaged and repaired`."""
    said = _describe_copies(report)
    if not report.wrong_maps:
        return said
    names = ", ".join(f"'{one.snapshot}'" for one in report.wrong_maps)
    return f"{said}; snapshots that were read incorrectly until now: {names}"


def _describe_copies(report: ScrubReport) -> str:
    if not report.damaged:
        return f"all copies of {report.objects} objects are good"
    # The same object may be damaged in itself and in snapshots.
    damaged = len({one.name for one in report.damaged})
    found = f"{damaged} of {report.objects} objects damaged"
    if report.is_repaired is None:
        return found
    left = len({one.name for one in report.still_damaged})
    return (
        f"{found} and repaired" if not left else (f"{found}, {left} still damaged after the repair")
    )


def describe_damage(damaged: DamagedObject) -> str:
    """What is wrong with an object, such as `osd.0: read error`."""
    copies = [
        f"osd.{copy.osd}: {', '.join(error.replace('_', ' ') for error in copy.errors)}"
        for copy in damaged.damaged
    ]
    return "; ".join(copies) or ", ".join(error.replace("_", " ") for error in damaged.errors)
