"""What a scrub found, as people and programs read it."""

from __future__ import annotations

import pytest

from grampus.ceph.scrubs import DamagedCopy, DamagedObject
from grampus.cli.scrub_documents import advise_on_scrub, rows_of_scrub, scrub_document
from grampus.cli.volume_verify import conclusion
from grampus.volumes.decide_scrub import ScrubReport, WrongMap


def damaged(name: str, snapshot: str = "head") -> DamagedObject:
    return DamagedObject(
        group="2.7",
        name=name,
        snapshot=snapshot,
        errors=(),
        damaged=(DamagedCopy(osd=1, errors=("read_error",)),),
        good_osds=(0, 2),
    )


SOUND = ScrubReport(groups=4, objects=9, damaged=())
FOUND = ScrubReport(groups=4, objects=9, damaged=(damaged("a"), damaged("b", "4")))
REPAIRED = FOUND.model_copy(update={"is_repaired": True})
HALF = FOUND.model_copy(update={"is_repaired": False, "still_damaged": (damaged("b", "4"),)})
UNMAPPED = SOUND.model_copy(update={"wrong_maps": (WrongMap(snapshot="before", objects=3),)})
BESIDE = SOUND.model_copy(update={"others_damaged": (damaged("c"),)})


@pytest.mark.parametrize(
    ("scrub", "now"),
    [
        (SOUND, []),
        (FOUND, ["damaged", "damaged"]),
        (REPAIRED, ["repaired", "repaired"]),
        (HALF, ["repaired", "still damaged"]),
        (BESIDE, []),
    ],
)
def test_each_damaged_object_has_a_row_that_says_how_it_is_now(
    scrub: ScrubReport, now: list[str]
) -> None:
    rows = rows_of_scrub(scrub)
    assert [row[3] for row in rows] == now
    assert [row[1:3] for row in rows] == [
        ["a in 2.7", "osd.1: read error"],
        ["b (snapshot 4) in 2.7", "osd.1: read error"],
    ][: len(now)]
    assert scrub_document(scrub)["sound"] is (now in ([], ["repaired", "repaired"]))


@pytest.mark.parametrize(
    ("scrub", "said"),
    [
        (SOUND, []),
        (FOUND, ["`fix` rewrites the damaged ones"]),
        (REPAIRED, []),
        (HALF, ["no copy that is known to be good: restore it"]),
        (BESIDE, ["1 objects of other images"]),
        (UNMAPPED, ["read as zeros, because their object maps were incomplete"]),
    ],
)
def test_whoever_reads_it_is_told_what_to_do(scrub: ScrubReport, said: list[str]) -> None:
    lines = advise_on_scrub(scrub, repair="fix", restore="restore it")
    assert len(lines) == len(said)
    assert all(part in line for part, line in zip(said, lines, strict=True))


def test_a_snapshot_that_was_read_wrongly_has_a_row_and_is_not_called_sound() -> None:
    assert rows_of_scrub(UNMAPPED) == [
        ["snapshot", "before", "its object map lacked 3 objects", "made again"]
    ]
    assert scrub_document(UNMAPPED)["sound"] is False
    assert "were read incorrectly until now: 'before'" in conclusion("v", UNMAPPED)


def test_the_end_of_a_volumes_verification_names_it() -> None:
    assert conclusion("v", SOUND) == "The volume 'v': all copies of 9 objects are good."
    assert "`grampus volume verify v --repair`" in conclusion("v", FOUND)
