"""The page docs/proof/site.md: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from grampus.bench.statistics.effect import Effect, decide_effect

CREATE, ONE_COMMAND = "db create", "db connect -e"
# Of the time in a lab, and of the transactions there.
CREATE_MOST, ONE_COMMAND_MOST, UPDATES_LEAST = 1.3, 1.5, 0.97
SEEN_WITHIN_S = 1.0
FIRST_DATABASE_WITHIN_S = 600.0


@dataclass(frozen=True)
class Compared:
    """What was measured; pairs are (site, lab), one for each round.

    `seconds` are by command. `seen_s` are those until another machine has seen a change,
    `first_database_s` those from `site adopt` to the first database on three new hosts.
    """

    seconds: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    updates_per_s: Sequence[tuple[float, float]] = ()
    seen_s: Sequence[float] = ()
    first_database_s: float = 0.0
    facts: Mapping[str, str] = field(default_factory=dict)


def decide_misses(found: Compared) -> list[str]:
    """Which targets were missed, a sentence each."""
    misses = []
    for command, most in ((CREATE, CREATE_MOST), (ONE_COMMAND, ONE_COMMAND_MOST)):
        ratio = _effect(found.seconds[command]).ratio or 0.0
        if ratio > most:
            misses.append(f"`{command}` takes {ratio:.2f} times as long, not {most:g}.")
    updates = _effect(found.updates_per_s, better="more").ratio or 0.0
    if updates < UPDATES_LEAST:
        misses.append(f"update-index reaches {updates:.3f} of the lab, not {UPDATES_LEAST:g}.")
    if median(found.seen_s) > SEEN_WITHIN_S:
        misses.append(f"Another machine has seen a change after {median(found.seen_s):.2f} s.")
    if found.first_database_s > FIRST_DATABASE_WITHIN_S:
        misses.append(f"The first database took {found.first_database_s:.0f} s.")
    return misses


def render_page(found: Compared) -> str:
    """The page, in Markdown."""
    misses = decide_misses(found)
    updates = _effect(found.updates_per_s, better="more")
    rounds = len(found.seconds[CREATE])
    lines = [
        "# A site against a lab",
        "",
        "`make site-costs` wrote this page. One cluster serves a lab and a site at the same time. "
        "The lab's databases run in containers, on the lab's hosts. The site's databases are "
        "services of systemd on three machines that Grampus did not create; it reaches them by SSH "
        "alone, and the cluster with a key of few rights. The state of the site is in the cluster. "
        "All of it shares one machine. Each round measures both, and every other round begins "
        "with the site.",
        "",
        f"**{' '.join(misses) or 'All targets are met.'}**",
        "",
        "| measure | site | target |",
        "|---|---:|---:|",
        f"| `{CREATE}`, times the lab's | {_interval(_effect(found.seconds[CREATE]))} "
        f"| at most {CREATE_MOST:g} |",
        "| one command on a host, times the lab's "
        f"| {_interval(_effect(found.seconds[ONE_COMMAND]))} | at most {ONE_COMMAND_MOST:g} |",
        f"| update-index, of the lab's | {_interval(updates, 3)} | at least {UPDATES_LEAST:g} |",
        f"| another machine has seen a change (p50, most) | {median(found.seen_s):.2f} s, "
        f"{max(found.seen_s):.2f} s | {SEEN_WITHIN_S:g} s |",
        "| `site adopt` to the first database: 5 commands, 3 hosts, images copied "
        f"| {found.first_database_s:.0f} s | {FIRST_DATABASE_WITHIN_S:.0f} s |",
        "| left after `db delete`, `host remove`, `site forget` | nothing | nothing |",
        "",
        "The ratios are geometric means over rounds, with Student's 95% interval of the log ratios "
        "(`bench/statistics/effect.py`). What another machine sees is the end of an operation: "
        "from the end of its command until `grampus operation wait` on that machine has ended. It "
        "is often 0: a command records the end before it ends itself. What is left is "
        "looked for on hosts, on this machine and in the cluster; something left fails the run.",
        "",
        f"## Commands, {rounds} rounds",
        "",
        "Seconds, with the start of the program.",
        "",
        "| command | lab, median | site, median | ratio |",
        "|---|---:|---:|---:|",
        *(_command_row(command, pairs) for command, pairs in found.seconds.items()),
        "",
        f"## update-index, {len(found.updates_per_s)} rounds",
        "",
        "Transactions a second of sysbench's `oltp_update_index`, from a host of the lab.",
        "",
        "| round | lab | site | ratio |",
        "|---:|---:|---:|---:|",
        *(
            f"| {number} | {lab:.0f} | {site:.0f} | {site / lab:.3f} |"
            for number, (site, lab) in enumerate(found.updates_per_s, start=1)
        ),
        "",
        "## What it ran on",
        "",
        *(f"- {name}: {value}" for name, value in found.facts.items()),
        "",
        "Repeat it: `make site-costs`. Raw data: [site.json](site.json).",
        "",
    ]
    return "\n".join(lines)


def _command_row(command: str, pairs: Sequence[tuple[float, float]]) -> str:
    lab, site = median(lab for _, lab in pairs), median(site for site, _ in pairs)
    return f"| `{command}` | {lab:.2f} | {site:.2f} | {_interval(_effect(pairs))} |"


def _effect(pairs: Sequence[tuple[float, float]], better: str = "less") -> Effect:
    return decide_effect(pairs, better="more" if better == "more" else "less")


def _interval(effect: Effect, digits: int = 2) -> str:
    if effect.ratio is None:
        return "not measured"
    if effect.low is None or effect.high is None:
        return f"{effect.ratio:.{digits}f}"
    return f"{effect.ratio:.{digits}f} ({effect.low:.{digits}f} to {effect.high:.{digits}f})"
