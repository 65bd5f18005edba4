"""What the cluster says of its databases, as figures: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

KIB = 1024


@dataclass(frozen=True)
class OsdSpace:
    """Bytes of one OSD. `omap_bytes`: key-value pairs of objects, as the OSD estimates them.
    `database_bytes`: all files of its database (RocksDB on BlueFS), its log included."""

    omap_bytes: int
    database_bytes: int


@dataclass(frozen=True)
class Sample:
    """One look. `pairs` is the number of key-value pairs in the journal of each volume."""

    moment: str
    at_s: float
    pairs: Mapping[str, int]
    osds: Mapping[int, OsdSpace]


def parse_osds(
    df: Mapping[str, Any], bluefs: Mapping[int, Mapping[str, Any]]
) -> dict[int, OsdSpace]:
    """From the documents of `ceph osd df` and, by OSD, of `ceph tell osd.N perf dump bluefs`."""
    return {
        node["id"]: OsdSpace(
            omap_bytes=node["kb_used_omap"] * KIB,
            database_bytes=bluefs[node["id"]]["bluefs"]["db_used_bytes"],
        )
        for node in df["nodes"]
    }


def count_pairs(journals: Mapping[str, str], counts: Mapping[str, int]) -> dict[str, int]:
    """By volume, from the number of pairs by object; both by namespace and name, `journals` by
    what the names of a journal's slots begin with.

    Raises ValueError for a volume without slots: that is not a journal without pairs.
    """
    found = {}
    for volume, prefix in journals.items():
        slots = [count for name, count in counts.items() if name.startswith(prefix)]
        if not slots:
            raise ValueError(f"No object of the journal of {volume} was found.")
        found[volume] = sum(slots)
    return found


def most_pairs(samples: Sequence[Sample]) -> int:
    """Of any volume at any time."""
    return max(count for sample in samples for count in sample.pairs.values())
