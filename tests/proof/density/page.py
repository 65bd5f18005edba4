"""The page of the proof: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from grampus.core.units import MIB
from tests.proof.density.footprint import Footprint

IDLE_LIMIT_BYTES = 48 * MIB
BUSY_LIMIT_BYTES = 96 * MIB
THREADS_LIMIT = 20
# A look at the lock, every five seconds, and a command that asks are each a thread for a moment.
PASSING_THREADS = 2


@dataclass(frozen=True)
class Found:
    """What was measured.

    `idle` are of the volumes without a load, by name; `after` are of all, after the load; `busy`
    are of the one that was under load, each second.
    """

    idle: Mapping[str, Footprint]
    busy: Sequence[Footprint]
    after: Mapping[str, Footprint]
    busy_volume: str
    transactions_per_s: float
    facts: Mapping[str, str] = field(default_factory=dict)


def decide_misses(found: Found) -> list[str]:
    """Which limits were missed, a sentence each."""
    misses = []
    idle = max(one.rss_bytes for one in found.idle.values())
    own = max(one.own_rss_bytes for one in found.busy)
    threads = max(one.threads for one in (*found.idle.values(), *found.after.values()))
    if idle > IDLE_LIMIT_BYTES:
        misses.append(f"An idle volumed took {_mib(idle)} of {_mib(IDLE_LIMIT_BYTES)}.")
    if own > BUSY_LIMIT_BYTES:
        misses.append(f"A busy volumed took {_mib(own)} of {_mib(BUSY_LIMIT_BYTES)}.")
    if threads > THREADS_LIMIT + PASSING_THREADS:
        misses.append(f"A volumed had {threads} threads of {THREADS_LIMIT}.")
    return misses


def render_page(found: Found) -> str:
    """The page, in Markdown."""
    idle, after = list(found.idle.values()), list(found.after.values())
    together = sum(one.pss_bytes for one in idle)
    lines = [
        "# Volumes on one host",
        "",
        "`make density` wrote this page. It attaches volumes with the write path `journal` to "
        "one host of a lab. It reads what each `volumed` takes of the host (`smaps_rollup` and "
        "`status` in `/proc`). One of the volumes belongs to a MySQL database. sysbench then "
        "updates an index of that database (`oltp_update_index`, 8 threads), and the volume is "
        "measured each second.",
        "",
        "- *RSS*: all pages that the process uses. It includes Ceph's libraries, which are in "
        "memory once for all processes of the host.",
        "- *PSS*: the same, with each shared page divided by the number of its users. The sum over "
        "all processes is what they take together.",
        "- *private*: heap, stacks and buffers.",
        "- *journal*: data in the journal's memory that waits to be applied. `volumed serve "
        "--journal-memory` limits it.",
        "",
        f"**{_verdict(found)}**",
        "",
        f"| {len(after)} volumes | median | most | limit |",
        "|---|---:|---:|---:|",
        *_rows(f"idle ({len(idle)})", idle, IDLE_LIMIT_BYTES),
        *_rows("all, after the load", after, None),
        "",
        f"The {len(idle)} idle processes together take {_mib(together)} (sum of PSS).",
        "",
        f"| {found.busy_volume} under load, {len(found.busy)} samples | median | most | limit |",
        "|---|---:|---:|---:|",
        _row(
            "RSS without journal data", [one.own_rss_bytes for one in found.busy], BUSY_LIMIT_BYTES
        ),
        _row("RSS", [one.rss_bytes for one in found.busy], None),
        _row("journal data", [one.journal_bytes for one in found.busy], None),
        _threads("threads", found.busy),
        "",
        f"sysbench reached {found.transactions_per_s:.0f} transactions/s.",
        "",
        f"Threads may exceed {THREADS_LIMIT} for a moment: one thread looks at the exclusive lock "
        "every five seconds, and one answers a command such as `volume show`.",
        "",
        "## What it ran on",
        "",
        *(f"- {name}: {value}" for name, value in found.facts.items()),
        "",
        "Repeat it: `make density` (`GRAMPUS_DENSITY_VOLUMES=N` and `GRAMPUS_DENSITY_LOAD_S=N` say "
        "how many volumes, and how long the load runs). Each sample is in "
        "[density/figures.json](density/figures.json).",
        "",
    ]
    return "\n".join(lines)


def _verdict(found: Found) -> str:
    misses = decide_misses(found)
    return " ".join(misses) if misses else "All limits are kept."


def _rows(name: str, all_of_them: Sequence[Footprint], limit_bytes: int | None) -> list[str]:
    return [
        _row(f"{name}: RSS", [one.rss_bytes for one in all_of_them], limit_bytes),
        _row(f"{name}: PSS", [one.pss_bytes for one in all_of_them], None),
        _row(f"{name}: private", [one.private_bytes for one in all_of_them], None),
        _threads(f"{name}: threads", all_of_them),
    ]


def _row(name: str, all_bytes: Sequence[int], limit_bytes: int | None) -> str:
    limit = "" if limit_bytes is None else _mib(limit_bytes)
    return f"| {name} | {_mib(median(all_bytes))} | {_mib(max(all_bytes))} | {limit} |"


def _threads(name: str, all_of_them: Sequence[Footprint]) -> str:
    counts = [one.threads for one in all_of_them]
    return f"| {name} | {median(counts):.0f} | {max(counts)} | {THREADS_LIMIT} |"


def _mib(count_bytes: float) -> str:
    return f"{count_bytes / MIB:.1f} MiB"
