"""The pages of docs/proof, and the summary at the end of a proof: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tests.proof.outcome import MARGIN_MS, MAX_LAG_MS, median
from tests.proof.results import Result

PartName = Literal["crashes", "fences", "databases"]

# In the order of the pages' tables.
KINDS: dict[str, str] = {
    "kill-volumed": "volumed is killed (SIGKILL)",
    "cut-append": "volumed is killed within 50 ms of a flush, an append being under way",
    "lose-host": "the host is lost (link cut, every process killed), attached on another host",
    "lose-disk": "the disk of the host's own log fails, and later volumed is killed",
    "kill-osd": "an OSD is killed, and volumed before the OSD is back",
    "kill-mon": "a MON is killed, and volumed before the MON is back",
    "fence": "fenced while it writes, attached on another host",
    "database": "the host is lost under load, a server started on another host",
}


@dataclass(frozen=True)
class PageFacts:
    """What all pages say of the proof that they are of."""

    seed: int
    total: int  # asked for
    versions: Mapping[str, str]


@dataclass(frozen=True)
class _Words:
    title: str
    intro: str
    acknowledged: str  # what is acknowledged, plural
    recovery: str  # what the recovery time is
    variable: str


_WORDS: dict[PartName, _Words] = {
    "crashes": _Words(
        "Crashes of a volume",
        "Four writers write 4 KiB blocks at random places of a file on a volume, and flush after "
        "some of them; what they are about to write, and what a flush has acknowledged, they note "
        "on other storage first. Then something is made to fail, the volume is attached again, "
        "and the file is held to the notes (INV-1): each block is whole, all blocks show one "
        "moment of the volume's past, and that moment is not before the last acknowledged flush. "
        "With `cache`, and the host itself lost, it may be "
        f"{MAX_LAG_MS:.0f} ms before it (`--max-lag`; "
        f"{MARGIN_MS:.0f} ms more are allowed for two busy cores). The file system is mounted, "
        "which brings in its log, and checked with `xfs_repair -n`. After the loss of a host the "
        "volume goes back to that host once it is up, and is looked at again (INV-3).",
        "flushes",
        "`volume attach`, and `volume fence` before it when the host was lost",
        "GRAMPUS_CRASHES",
    ),
    "fences": _Words(
        "Fences in the middle of appends",
        "The same writers, who go on trying after each failure, lose their volume to another host: "
        "`volume fence`, then `volume attach` there. No flush may be acknowledged to the old owner "
        "once the fence is confirmed, and no write once the new owner serves the volume; the new "
        "owner finds every flush that was acknowledged (`cache`: all but the last "
        f"{MAX_LAG_MS:.0f} ms, as after the loss of a host), and later, after writes of its own "
        "while the old owner went on trying, exactly the same (INV-2).",
        "flushes",
        "from the order to fence to the volume served by another host",
        "GRAMPUS_FENCES",
    ),
    "databases": _Words(
        "MySQL's own evidence",
        "Seven clients work as fast as they are answered, and note when each change was "
        "acknowledged: four commit single rows, one commits rows of two tables together, one "
        "commits with XA (its XA PREPARE counts, too), one creates tables. The database's host is "
        "lost; the volume is fenced and attached on another host, and a server started there. "
        "InnoDB must recover, its log name no error and no corruption, `CHECK TABLE ... EXTENDED` "
        "find nothing, no transaction be there by half, and every acknowledged change be there "
        f"(`cache`: all but those of the last {MAX_LAG_MS:.0f} ms, and of each client no later one "
        "without an earlier one). Then the host comes back, and with it the database: it must hold "
        "the same.",
        "commits",
        "from the lost host to a server that answers on another one",
        "GRAMPUS_DB_CRASHES",
    ),
}


def render_page(part: PartName, results: Sequence[Result], facts: PageFacts) -> str:
    """One page of docs/proof, in Markdown."""
    words = _WORDS[part]
    lines = [
        f"# {words.title}",
        "",
        "Written by `make crashes`; `docs/invariants` has the invariants by their ids. Before "
        "anything else, each run puts single blocks, and all of them, back to an earlier moment, "
        "and changes a bit: had that gone unnoticed, it would have ended there.",
        "",
        words.intro,
        "",
        f"**{summarise(results, facts.total)}**",
        "",
        *_table(words, results),
        "",
        f"*recovery*: {words.recovery}, with the time of the command line. *lost*: acknowledged "
        f"{words.acknowledged} that were not there.",
        "",
        *_bad(results),
        "## What it ran on",
        "",
        *(f"- {name}: {value}" for name, value in facts.versions.items()),
        f"- date: {_dates(results)} (UTC)",
        f"- seed: {facts.seed}",
        "",
        f"Repeat it: `GRAMPUS_CRASHES_SEED={facts.seed} {words.variable}={facts.total} "
        "make crashes`. Each single result is a line of `build/crashes/"
        f"{part}.jsonl`.",
        "",
    ]
    return "\n".join(lines)


def summarise(results: Sequence[Result], total: int) -> str:
    """All results in one sentence."""
    bad = [one for one in results if not one.is_good]
    violated = sum(one.verdict == "violated" for one in bad)
    done = f"{len(results)} of {total} done"
    if not bad:
        return f"{done}: no promise broken." if results else f"{done}."
    said = f"{violated} broke a promise, {len(bad) - violated} could not be recovered"
    return f"{done}: {said}."


def render_result(result: Result, total: int) -> str:
    """One line of progress for one result."""
    age = "" if result.lost_age_ms is None else f" (the oldest {result.lost_age_ms:.0f} ms)"
    recovery = "" if result.recovery_s is None else f", back in {result.recovery_s:.1f} s"
    line = (
        f"{result.number:>4}/{total}  {result.write_path:<7}  {result.kind:<12}  "
        f"{result.verdict:<11}  {result.acknowledged} acknowledged, {result.lost} lost{age}"
        f"{recovery}"
    )
    return "\n".join([line, *(f"           {reason}" for reason in result.reasons)])


def render_left(left: int, took_s: Sequence[float]) -> str:
    """How long the rest will take, from what was done so far; empty when that is not known."""
    typical_s = median(took_s)
    if typical_s is None or not left:
        return ""
    # The mean, because a few kinds take most of the time.
    left_s = left * sum(took_s) / len(took_s)
    return f"about {left_s / 60:.0f} min left for {left} more"


def _table(words: _Words, results: Sequence[Result]) -> list[str]:
    kinds = [kind for kind in KINDS if any(one.kind == kind for one in results)]
    lines = [
        f"| what fails | write path | times | {words.acknowledged} acknowledged | writes in them "
        "| lost | oldest lost | bad | recovery, median | longest |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for kind in kinds:
        for write_path in dict.fromkeys(one.write_path for one in results):
            chosen = [one for one in results if one.kind == kind and one.write_path == write_path]
            if chosen:
                lines.append(_row(KINDS[kind], write_path, chosen))
    return [*lines, _row("all", "", list(results))] if results else lines


def _row(what: str, write_path: str, results: Sequence[Result]) -> str:
    ages_ms = [one.lost_age_ms for one in results if one.lost_age_ms is not None]
    recoveries_s = [one.recovery_s for one in results if one.recovery_s is not None]
    cells = [
        what,
        f"`{write_path}`" if write_path else "",
        str(len(results)),
        f"{sum(one.acknowledged for one in results):,}",
        f"{sum(one.acknowledged_writes for one in results):,}",
        f"{sum(one.lost for one in results):,}",
        f"{max(ages_ms):.0f} ms" if ages_ms else "-",
        str(sum(not one.is_good for one in results)),
        _seconds(median(recoveries_s)),
        _seconds(max(recoveries_s, default=None)),
    ]
    return f"| {' | '.join(cells)} |"


def _bad(results: Sequence[Result]) -> list[str]:
    bad = [one for one in results if not one.is_good]
    if not bad:
        return []
    lines = ["## What was not as promised", ""]
    for one in bad:
        # On one line: a message may hold the output of a command.
        reasons = "; ".join(" ".join(reason.split())[:300] for reason in one.reasons)
        lines.append(f"- {one.number} ({one.write_path}, {one.kind}), {one.verdict}: {reasons}")
    return [*lines, ""]


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


def _dates(results: Sequence[Result]) -> str:
    if not results:
        return "-"
    days = sorted(one.at[:16].replace("T", " ") for one in results)
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
