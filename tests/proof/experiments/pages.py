"""Pages of what was measured, and of what could not be. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_HEAD = """# Published experiments, repeated on a lab

Written by `make experiments`: the scale `tiny`, or `small` where a page says so, on one machine of
two cores, whose disk stands for all disks. Figures of such a place tell shapes and ratios, not what
hardware can do, and an effect that is smaller than the noise of seconds stays undecided.

## How to read a page

1. *To know before reading* says what differs from the source: above all, hard disks are emulated.
2. *Conclusions* are the source's. **Holds**: the whole interval is within the limits. **Does not
   hold**: somewhere it is outside of them. **Undecided**: it crosses a limit. **Not tested**: there
   is no figure that counts, with the reason.
3. Compare ratios of two cells with the source's ratios, never figures: the hardware differs.
4. An interval is of the rounds of this run. It has 95% confidence, or more where a line says so.
5. *The same fact as* marks a conclusion that follows from another one: count it once.
6. An undecided conclusion says which rounds and seconds would decide it.
7. *Arms* has the smallest difference that so many rounds show four times in five.
8. *Bottleneck* is the layer that adds most time to an operation. If both cells of a ratio have the
   same one, the ratio is that of its use per operation.
9. *Where* has versions, commit, media and each setting of Ceph that is not its default.
10. `trials/` has the figures of each trial, for each page that was written since 2026-11-30, and
    [Verdicts that changed](changes.md) says which, and why.

## Pages

{counts}

{former}| experiment | of the source's conclusions | cells measured | when (UTC) |
| --- | --- | --- | --- |
"""
_FORMER = """Marked with a star are runs of before {since}, whose pages conclude more than today's
rules do: also about a percentile that hardly any operation exceeded, and against a conclusion about
several workloads from one of them. Their tables have percentiles of few operations, and name the
copies and the media of the lab, not those of the cells.

"""
_CONCLUSIONS = "\n## Conclusions\n"
# Since when runs conclude as `bench/findings` does now; compared with `Line.when` as text.
RULES_SINCE = "2026-11-30"
USUAL_SCALE = "tiny"


@dataclass(frozen=True)
class Line:
    """A line of the index. `verdicts` are words by conclusion; `when` is empty without a run.

    `scale` is that of the run.
    """

    suite: str
    verdicts: Mapping[str, str]
    measured: int
    cells: int
    when: str
    has_remarks: bool = False
    scale: str = USUAL_SCALE


def decide_line(
    suite: str,
    shown: Mapping[str, Any] | None,
    cells: int,
    when: str,
    *,
    has_remarks: bool = False,
) -> Line:
    """The index's line of a suite; `shown` is the document of `bench show`, None without a run."""
    if shown is None:
        return Line(suite, {}, 0, cells, "")
    # What is the fact of another conclusion in another unit counts once.
    verdicts = {
        one["name"]: str(one["word"]).replace("-", " ")
        for one in shown["conclusions"]
        if one.get("repeats") is None
    }
    measured = sum(cell["measured"] > 0 for cell in shown["cells"])
    return Line(suite, verdicts, measured, cells, when, has_remarks, shown["scale"])


def render_counts(lines: Mapping[str, Line], untestable: Collection[tuple[str, str]]) -> str:
    """How many conclusions have which verdict; `untestable` are (suite, conclusion) that no lab
    can test."""
    found = Counter(word for line in lines.values() for word in line.verdicts.values())
    reasons = sum(
        word == "not tested" and (line.suite, name) in untestable
        for line in lines.values()
        for name, word in line.verdicts.items()
    )
    return (
        f"Of {found.total()} conclusions {found['holds']} hold, {found['does not hold']} do not "
        f"hold, {found['undecided']} are undecided and {found['not tested']} are not tested, "
        f"{reasons} of them because no lab can test them."
    )


def render_index(
    suites: Sequence[str],
    lines: Mapping[str, Line],
    untestable: Collection[tuple[str, str]] = (),
) -> str:
    """The page that names all others; a suite without a line is not measured yet.

    One that was concluded by former rules has a star. `untestable` as for `render_counts`.
    """
    rows = []
    any_former = False
    for suite in suites:
        line = lines.get(suite)
        if line is None:
            rows.append(f"| {suite} | not measured yet | - | - |")
            continue
        said = "; ".join(f"{name}: **{word}**" for name, word in line.verdicts.items())
        link = f"[{line.suite}]({line.suite}.md)"
        mind = (
            f" ([to know before reading]({line.suite}.md#to-know-before-reading))"
            if line.has_remarks
            else ""
        )
        found = f"{said or 'not measured here'}{mind}"
        is_former = bool(line.when) and line.when < RULES_SINCE
        any_former = any_former or is_former
        scale = "" if line.scale == USUAL_SCALE else f", `{line.scale}`"
        when = f"{line.when}{'*' if is_former else ''}{scale}" or "-"
        rows.append(f"| {link} | {found} | {line.measured} of {line.cells} | {when} |")
    former = _FORMER.format(since=RULES_SINCE) if any_former else ""
    counts = render_counts(lines, untestable)
    return _HEAD.format(counts=counts, former=former) + "\n".join(rows) + "\n"


def render_measured(page: str, remarks: Sequence[str]) -> str:
    """The page of a run, with the suite's remarks before its conclusions."""
    if not remarks:
        return page
    said = "\n".join(f"- {remark}" for remark in remarks)
    return page.replace(_CONCLUSIONS, f"\n## To know before reading\n\n{said}\n{_CONCLUSIONS}", 1)


def render_unmeasured(title: str, plan: Mapping[str, Any]) -> str:
    """The page of a suite none of whose cells can run; `plan` is the document of `--dry-run`."""
    reasons = dict.fromkeys(str(cell["not_runnable"]) for cell in plan["cells"])
    return "\n".join(
        [
            f"# {title}",
            "",
            f"Not measured: {plan['place']} can run none of its {len(plan['cells'])} cells.",
            "",
            *(f"- {reason}" for reason in reasons),
            "",
        ]
    )
