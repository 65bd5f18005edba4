"""Which verdicts of published experiments changed, and why: the change log beside the pages. Pure.

Publishing a page adds a change for each verdict that differs; its reason is written by hand, and
`tests/unit/proof/test_verdict_changes.py` fails until it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.proof.experiments.pages import Line

_HEAD = """# Verdicts that changed

Each line is a conclusion whose verdict a later run changed, and the reason. The newest is first.
A conclusion that repeats another one in another unit is not counted again since 2026-11-30.

| date | experiment | conclusion | before | after | why |
| --- | --- | --- | --- | --- | --- |
"""
NO_VERDICT = "no verdict"


@dataclass(frozen=True)
class Change:
    """A verdict of another word than that of the page before; `date` is the UTC day of the run."""

    date: str
    suite: str
    conclusion: str
    before: str
    after: str
    why: str = ""


def find_changes(before: Line | None, after: Line) -> list[Change]:
    """What the new line says otherwise; nothing if either was not measured."""
    if before is None or not before.verdicts or not after.verdicts:
        return []
    names = dict.fromkeys([*before.verdicts, *after.verdicts])
    pairs = {
        name: (before.verdicts.get(name, NO_VERDICT), after.verdicts.get(name, NO_VERDICT))
        for name in names
    }
    return [
        Change(after.when[:10], after.suite, name, was, now)
        for name, (was, now) in pairs.items()
        if was != now
    ]


def find_contradictions(changes: Sequence[Change], lines: Mapping[str, Line]) -> list[str]:
    """Where the newest change of a conclusion is not what the index says."""
    newest = {(one.suite, one.conclusion): one for one in changes}
    return [
        f"{suite} {name}: changed to {one.after}, but the index says {said}"
        for (suite, name), one in newest.items()
        if (said := lines[suite].verdicts.get(name, NO_VERDICT)) != one.after
    ]


def render_changes(changes: Sequence[Change]) -> str:
    """The page; `changes` are in the order in which they were made."""
    rows = [
        f"| {one.date} | [{one.suite}]({one.suite}.md) | {one.conclusion} | {one.before} "
        f"| **{one.after}** | {one.why} |"
        for one in reversed(changes)
    ]
    return _HEAD + "\n".join(rows) + "\n"
