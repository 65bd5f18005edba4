"""How the space of journals in the OSDs' databases is read, and held to its limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grampus.core.units import MIB
from tests.proof.journal_space.page import Found, decide_misses, render_page
from tests.proof.journal_space.samples import OsdSpace, Sample, count_pairs, parse_osds

SAMPLE = Sample(
    "before", 1.0, {"v01": 0, "v02": 0}, {0: OsdSpace(0, 50 * MIB), 1: OsdSpace(0, 51 * MIB)}
)
FOUND = Found(
    before=SAMPLE,
    during=[
        replace(SAMPLE, moment="5 min", pairs={"v01": 900, "v02": 1300}),
        replace(SAMPLE, moment="end of the load", osds={0: OsdSpace(9 * MIB, 80 * MIB)}),
    ],
    drained=replace(SAMPLE, moment="a minute later", pairs={"v01": 128, "v02": 3}),
    compacted=replace(SAMPLE, moment="compacted"),
    writes=72_000,
    load_s=3600,
    facts={"Ceph": "20.2.4"},
)


def test_the_documents_of_ceph_become_bytes_of_each_osd() -> None:
    df = {"nodes": [{"id": 3, "kb_used_omap": 2, "kb_used_meta": 7}]}
    bluefs = {3: {"bluefs": {"db_used_bytes": 4096, "wal_used_bytes": 0}}}
    assert parse_osds(df, bluefs) == {3: OsdSpace(2048, 4096)}


def test_pairs_are_counted_by_the_journal_that_an_object_belongs_to() -> None:
    counts = {
        "n1/grampus_journal.ab12.0000": 5,
        "n1/grampus_journal.ab12.001f": 2,
        "n1/grampus_journal.ab12": 1,  # the record
        "n1/grampus_journal.ab123.0000": 9,
        "n2/grampus_journal.ab12.0000": 0,
    }
    journals = {"v01": "n1/grampus_journal.ab12.", "v02": "n2/grampus_journal.ab12."}
    assert count_pairs(journals, counts) == {"v01": 7, "v02": 0}
    with pytest.raises(ValueError, match="No object of the journal of v01 was found"):
        count_pairs(journals, {"n2/grampus_journal.ab12.0000": 3})


def test_each_limit_that_is_missed_is_named() -> None:
    assert decide_misses(FOUND) == []
    much = replace(SAMPLE, pairs={"v01": 131_000, "v02": 0})
    assert decide_misses(replace(FOUND, during=[much], drained=much)) == [
        "Under load, a journal had 131,000 pairs of 12,288.",
        "A drained journal had 131,000 pairs of 128.",
    ]


def test_the_page_has_a_row_for_each_look() -> None:
    page = render_page(FOUND)
    assert "**All limits are kept.**" in page
    assert "72,000 writes, 20/s, 36,000 for each volume" in page
    assert "| before | 0 | 0 | 0.0 MiB | 51.0 MiB |" in page
    assert "| 5 min | 1,100 | 1,300 | 0.0 MiB | 51.0 MiB |" in page
    assert "| end of the load | 0 | 0 | 9.0 MiB | 80.0 MiB |" in page
    assert "| a minute later | 66 | 128 | 0.0 MiB | 51.0 MiB |" in page
