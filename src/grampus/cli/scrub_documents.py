"""What a deep scrub found, as documents and rows: of a volume, and of a database's volume."""

from __future__ import annotations

from typing import Any

from grampus.ceph.scrubs import DamagedObject
from grampus.volumes.decide_scrub import ScrubReport, describe_damage

DAMAGE_COLUMNS = ["what", "where", "wrong", "now"]


def scrub_document(scrub: ScrubReport) -> dict[str, Any]:
    """The JSON document of a scrub."""
    return {"sound": scrub.is_sound, **scrub.model_dump(mode="json")}


def rows_of_scrub(scrub: ScrubReport) -> list[list[str]]:
    """Objects that were not right, one row each, under `DAMAGE_COLUMNS`."""
    left = {(one.name, one.snapshot) for one in scrub.still_damaged}
    rows = []
    for one in scrub.damaged:
        now = "damaged"
        if scrub.is_repaired is not None:
            now = "still damaged" if (one.name, one.snapshot) in left else "repaired"
        rows.append(["object", _place(one), describe_damage(one), now])
    for wrong in scrub.wrong_maps:
        some = "1 object" if wrong.objects == 1 else f"{wrong.objects} objects"
        lacked = f"its object map lacked {some}"
        rows.append(["snapshot", wrong.snapshot, lacked, "made again"])
    return rows


def advise_on_scrub(scrub: ScrubReport, *, repair: str, restore: str) -> list[str]:
    """What to do about it, in sentences: `repair` is the command that does, `restore` the rest."""
    lines = []
    if scrub.damaged and (not scrub.is_repaired or scrub.still_damaged):
        lines.append(
            f"Clients still read good copies. `{repair}` rewrites the damaged ones."
            if scrub.is_repaired is None
            else f"Some damaged data has no copy that is known to be good: {restore}."
        )
    if scrub.wrong_maps:
        lines.append(
            "Parts of those snapshots were read as zeros, because their object maps were "
            "incomplete. They are read correctly now. Clones and backups of these snapshots "
            "from before may have those zeros: verify them, or make them again."
        )
    if scrub.others_damaged:
        lines.append(
            f"Also, {len(scrub.others_damaged)} objects of other images in the same placement "
            "groups are damaged: verify those images, too."
        )
    return lines


def _place(damaged: DamagedObject) -> str:
    snapshot = "" if damaged.snapshot == "head" else f" (snapshot {damaged.snapshot})"
    return f"{damaged.name}{snapshot} in {damaged.group}"
