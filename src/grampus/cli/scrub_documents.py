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
            now = "damaged still" if (one.name, one.snapshot) in left else "repaired"
        rows.append(["object", _place(one), describe_damage(one), now])
    for wrong in scrub.wrong_maps:
        some = "1 object" if wrong.objects == 1 else f"{wrong.objects} objects"
        lacked = f"its object map lacked {some}"
        rows.append(["snapshot", wrong.snapshot, lacked, "made anew"])
    return rows


def advise_on_scrub(scrub: ScrubReport, *, repair: str, restore: str) -> list[str]:
    """What to do about it, in sentences: `repair` is the command that does, `restore` the rest."""
    lines = []
    if scrub.damaged and (not scrub.is_repaired or scrub.still_damaged):
        lines.append(
            f"Clients read right copies all the same. `{repair}` writes the damaged ones anew."
            if scrub.is_repaired is None
            else f"What is still damaged has no copy that is known to be right: {restore}."
        )
    if scrub.wrong_maps:
        lines.append(
            "Those snapshots were read as zeros where their object maps lacked something, and are "
            "read rightly now. Clones and backups that were made of them before may hold those "
            "zeros: verify them, or make them anew."
        )
    if scrub.others_damaged:
        lines.append(
            f"Beside it, {len(scrub.others_damaged)} objects of others in the same placement "
            "groups are damaged: verify those too."
        )
    return lines


def _place(damaged: DamagedObject) -> str:
    snapshot = "" if damaged.snapshot == "head" else f" (snapshot {damaged.snapshot})"
    return f"{damaged.name}{snapshot} in {damaged.group}"
