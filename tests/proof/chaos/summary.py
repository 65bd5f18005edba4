"""What all trials add up to, and the page about them: pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from tests.proof.chaos.draws import BY_NAME, FAULTS, Expected, FaultName, PlaceKind

HOST_LOSSES: tuple[FaultName, ...] = (
    "power-cut",
    "cut-off",
    "cut-from-ceph",
    "power-cut-and-mgr",
    "cut-off-and-frozen",
    "cut-off-incoming",
    "cut-off-outgoing",
    "power-cut-in-writes",
)
_PROMISES = (
    *("lost_commits", "two_writers", "wrong_fences", "neighbour_errors", "wrong_totals"),
    *("anomalies", "unrecovered"),
)
_TITLES: Mapping[PlaceKind, str] = {"lab": "", "site": ", on a site"}
_COMMANDS: Mapping[PlaceKind, str] = {
    "lab": "`make chaos`",
    "site": "`GRAMPUS_CHAOS_ON=site make chaos`",
}
_PLACES: Mapping[PlaceKind, str] = {
    "lab": "a real lab of three hosts",
    "site": (
        "a site: three machines with systemd that Grampus did not create and reaches by SSH alone, "
        "and a cluster that it knows by ceph.conf and a key of few rights"
    ),
}
_CONTROLLERS: Mapping[PlaceKind, str] = {"lab": "", "site": "on two machines "}
TARGETS_S = {"p50": 8.0, "p95": 12.0, "p99": 15.0}


@dataclass(frozen=True)
class TrialResult:
    """What one fault did. Times are in seconds."""

    number: int
    fault: FaultName
    at: str  # when it was over, UTC, ISO 8601
    outage_s: float | None  # from the fault to the first new commit; None: there was none
    moved: bool
    acknowledged: int
    lost: int  # acknowledged rows that the database does not hold
    two_writers: int  # rows acknowledged after the fence, before the new server served
    neighbour_errors: int  # statements on another database that failed
    wrong_totals: int = 0  # of the bank: a transfer of which half was seen, or kept
    expected: Expected | None = None  # None: what is expected in a lab
    wrong_moves: int = 0  # failovers from a host that the fault had not taken
    anomalies: int = 0  # 1: no order of all transactions on lists explains what clients read
    detail: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)  # what ran, by name

    @property
    def is_wrong_fence(self) -> bool:
        """Whether a database was taken from a host that was well, even if it came back there."""
        # A host that was to come back had lost its power all the same.
        return self.wrong_moves > 0 or (self.moved and self._is_to in ("stays", "restarts"))

    @property
    def is_unrecovered(self) -> bool:
        """Whether it did not serve again by itself, or not where it was to."""
        return self.outage_s is None or (self._is_to == "moves" and not self.moved)

    @property
    def _is_to(self) -> Expected:
        return self.expected or BY_NAME[self.fault].expected


def quantile(values: Sequence[float], q: float) -> float | None:
    """The value at rank ceil(q * n) of the sorted values; None of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)] if ordered else None


def summarise(trials: Sequence[TrialResult]) -> dict[str, Any]:
    """The last line of `make chaos`. Outages are those of databases whose host was lost."""
    outages = [
        trial.outage_s
        for trial in trials
        if trial.outage_s is not None and trial.fault in HOST_LOSSES
    ]
    return {
        "runs": len(trials),
        "lost_commits": sum(trial.lost for trial in trials),
        "two_writers": sum(trial.two_writers for trial in trials),
        "wrong_fences": sum(trial.is_wrong_fence for trial in trials),
        "neighbour_errors": sum(trial.neighbour_errors for trial in trials),
        "wrong_totals": sum(trial.wrong_totals for trial in trials),
        "anomalies": sum(trial.anomalies for trial in trials),
        "unrecovered": sum(trial.is_unrecovered for trial in trials),
        **{f"rto_p{round(100 * q)}_s": _rounded(quantile(outages, q)) for q in (0.5, 0.95, 0.99)},
    }


def is_broken(summary: Mapping[str, Any]) -> bool:
    """Whether a promise was broken."""
    return any(summary[kind] for kind in _PROMISES)


def render_page(trials: Sequence[TrialResult], seed: int, kind: PlaceKind = "lab") -> str:
    """The page, whatever was found."""
    summary = summarise(trials)
    verdict = "No promise was broken." if not is_broken(summary) else "**A promise was broken.**"
    return f"""# Faults at random, unattended{_TITLES[kind]}

Written by {_COMMANDS[kind]}. A database and a second one run on {_PLACES[kind]}, with \
`grampus serve` {_CONTROLLERS[kind]}and nobody else. A fault is drawn, provoked under load, and \
healed after the database serves again. One client commits one row after the other over a \
connection that it keeps as long as it can. Another one, a bank, connects anew for each \
transfer, five times a second: a transaction reads the sum of all accounts, takes 1 from one, \
adds 1 to another, and notes its number. Both note each acknowledgement. Two more \
read and append to four lists, in transactions at the isolation level SERIALIZABLE, \
{_transactions(trials)} in all: adya, an implementation of \
the method of Jepsen's Elle, looks for an order of them in real time that explains every answer.

**{summary["runs"]} runs, seed {seed}. {verdict}** Lost commits: {summary["lost_commits"]}. Rows \
acknowledged by the old server after the fence: {summary["two_writers"]}. Databases taken from a \
host that was well: {summary["wrong_fences"]}. Errors on the other database: \
{summary["neighbour_errors"]}. Wrong sums of all accounts: {summary["wrong_totals"]}. \
Runs that are not strictly serializable: {summary["anomalies"]}. \
Runs after which it did not serve by itself: {summary["unrecovered"]}.

From the fault to the first new commit, over faults that take a host away, while the controller \
runs ({", ".join(f"`{name}`" for name in HOST_LOSSES)}):

| | measured | target |
|---|---:|---:|
{_targets(summary)}

## By fault

*outage*: from the fault to the first new commit. *detected*, *fenced*, *attached*, *serving*: \
medians, from the fault on.

| fault | expected | runs | outage p50 | longest | detected | fenced | attached | serving |
|---|---|---:|---:|---:|---:|---:|---:|---:|
{_by_fault(trials, kind)}

{_faults(kind)}

## What ran

{_what_ran(trials)}

The write path is `journal`. Ceph and MySQL are real; all hosts \
are on one machine of two CPUs, so a power cut is the end of all processes and of the link of one.

Not provoked: most pairs of faults. Steps of the clock cannot be provoked here: all \
hosts of a lab have the clock of the machine.
"""


def _transactions(trials: Sequence[TrialResult]) -> int:
    return sum(trial.detail.get("transactions", 0) for trial in trials)


def _targets(summary: Mapping[str, Any]) -> str:
    return "\n".join(
        f"| {name} | {_seconds(summary[f'rto_{name}_s'])} | {target:g} s |"
        for name, target in TARGETS_S.items()
    )


def _by_fault(trials: Sequence[TrialResult], kind: PlaceKind) -> str:
    rows = []
    for fault in (fault for fault in FAULTS if kind in fault.kinds):
        of_it = [trial for trial in trials if trial.fault == fault.name]
        outages = [trial.outage_s for trial in of_it if trial.outage_s is not None]
        phases = [
            # Until 2026-12-01 they were counted from the longest outage, which may be a later one.
            quantile([t.detail[phase] for t in of_it if (t.detail.get(phase) or -1) >= 0], 0.5)
            for phase in ("detected_s", "fenced_s", "attached_s", "serving_s")
        ]
        cells = [quantile(outages, 0.5), max(outages, default=None), *phases]
        said = " | ".join(_seconds(cell) for cell in cells)
        rows.append(f"| {fault.name} | {fault.expected_in(kind)} | {len(of_it)} | {said} |")
    return "\n".join(rows)


def _what_ran(trials: Sequence[TrialResult]) -> str:
    """A row for each stretch of runs with the same programs."""
    names = list(dict.fromkeys(name for trial in trials for name in trial.facts))
    rows = [
        f"| {' | '.join(('runs', 'days', *names))} |",
        f"|---|---|{'---|' * len(names)}",
    ]
    for facts, stretch in groupby(trials, key=lambda trial: dict(trial.facts)):
        same = list(stretch)
        days = dict.fromkeys((same[0].at[:10], same[-1].at[:10]))
        cells = [
            f"{same[0].number} to {same[-1].number}",
            " to ".join(days),
            *(facts.get(name, "") for name in names),
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _faults(kind: PlaceKind) -> str:
    found = (fault for fault in FAULTS if kind in fault.kinds)
    return "\n".join(f"- `{fault.name}`: {fault.what}." for fault in found)


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
