"""The page docs/proof/journal-space.md: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from grampus.core.units import MIB
from tests.proof.journal_space.samples import Sample, most_pairs

# `max_small_frames` of the journal, and half as many: what is being applied and trimmed.
MOST_PAIRS = 12_288
# Of a journal that is drained: each of its 128 slots says how far it was freed.
MOST_PAIRS_DRAINED = 128
# A ring of 1 GiB, with a frame of 8 KiB for each: what a journal kept before 2026-11-27.
PAIRS_OF_A_RING = 131_072


@dataclass(frozen=True)
class Found:
    """What was measured: looks before the load, in it, after it, and after a rest."""

    before: Sample
    during: Sequence[Sample]
    drained: Sample
    compacted: Sample
    writes: int
    load_s: int
    facts: Mapping[str, str] = field(default_factory=dict)


def decide_misses(found: Found) -> list[str]:
    """Which limits were missed, a sentence each."""
    misses = []
    busy, drained = most_pairs(found.during), most_pairs([found.drained])
    if busy > MOST_PAIRS:
        misses.append(f"Under load, a journal had {busy:,} pairs of {MOST_PAIRS:,}.")
    if drained > MOST_PAIRS_DRAINED:
        misses.append(f"A drained journal had {drained:,} pairs of {MOST_PAIRS_DRAINED:,}.")
    return misses


def render_page(found: Found) -> str:
    """The page, in Markdown."""
    volumes = len(found.before.pairs)
    rows = [found.before, *found.during, found.drained, found.compacted]
    misses = decide_misses(found)
    a_volume = found.writes / volumes
    lines = [
        "# Space of journals in the OSDs' databases",
        "",
        "`make journal-space` wrote this page. A commit of up to 8 KiB is a key-value pair (OMAP) "
        "of an object of the volume's journal. Each OSD keeps such pairs in its own database "
        "(RocksDB on BlueFS). The page says how many there are while volumes are written to, and "
        "what is left of them afterwards.",
        "",
        f"{volumes} volumes with the write path `journal` are attached to one host of a lab, each "
        f"with a ring of 1 GiB. fio writes 4 KiB at random places of each volume, with an fsync "
        f"after each write, for {found.load_s} s: {found.writes:,} writes, "
        f"{found.writes / found.load_s:.0f}/s, {a_volume:,.0f} for each volume. "
        "Then nothing is written for a minute. Then the OSDs compact their databases.",
        "",
        f"**{' '.join(misses) or 'All limits are kept.'}**",
        "",
        "- *pairs*: key-value pairs in the journal of a volume, counted in its objects. The limit "
        f"is {MOST_PAIRS:,} under load (earlier versions: {PAIRS_OF_A_RING:,}, also idle), and "
        f"{MOST_PAIRS_DRAINED} in a drained journal, one for each of its objects.",
        "- *OMAP*: what the OSD estimates for the pairs of all objects (`ceph osd df`).",
        "- *database*: all files of the OSD's database, its log included "
        "(`db_used_bytes` of `perf dump bluefs`). RocksDB writes up to 1 GiB of that log before it "
        "begins anew (`max_total_wal_size`), and gives space back when it compacts.",
        "",
        "| when | pairs, median | pairs, most | OMAP of an OSD, most | database of an OSD, most |",
        "|---|---:|---:|---:|---:|",
        *(_row(sample) for sample in rows),
        "",
        "## What it ran on",
        "",
        *(f"- {name}: {value}" for name, value in found.facts.items()),
        "",
        "Repeat it: `make journal-space` (`GRAMPUS_JOURNAL_SPACE_LOAD_S=N`, "
        "`GRAMPUS_JOURNAL_SPACE_VOLUMES=N` and `GRAMPUS_JOURNAL_SPACE_RATE=N` say how long, how "
        "many volumes, and how many writes a second for each). Each look, with all volumes and "
        "OSDs, is in [journal-space.json](journal-space.json).",
        "",
    ]
    return "\n".join(lines)


def _row(sample: Sample) -> str:
    counts = list(sample.pairs.values())
    omap = max(space.omap_bytes for space in sample.osds.values())
    database = max(space.database_bytes for space in sample.osds.values())
    return (
        f"| {sample.moment} | {median(counts):,.0f} | {max(counts):,} | {_mib(omap)} "
        f"| {_mib(database)} |"
    )


def _mib(count_bytes: int) -> str:
    return f"{count_bytes / MIB:.1f} MiB"
