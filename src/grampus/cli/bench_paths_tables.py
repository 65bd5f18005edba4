"""Tables of a run of `paths`, for a terminal and for a page. Pure."""

from __future__ import annotations

from grampus.bench.paths.documents import describe_verdict
from grampus.core.units import MIB
from grampus.state.runs import PathsRun, PathsTarget

# How the arms are laid out: a table each, with what the columns are called.
TABLES: tuple[tuple[str, dict[str, str]], ...] = (
    (
        "raw",
        {
            "rbd": "rbd",
            "volumed-uring-raw": "volumed-uring",
            "volumed-classic-raw": "volumed-classic",
            "qsd-raw": "qsd",
        },
    ),
    (
        "loop and xfs",
        {
            "volumed-uring-xfs": "volumed-uring",
            "volumed-classic-xfs": "volumed-classic",
            "qsd-xfs": "qsd",
        },
    ),
    (
        "memory device",
        {"memory-uring": "uring", "memory-classic": "classic"},
    ),
    (
        "write paths",
        {"direct": "direct", "journal": "journal", "cache": "cache", "local": "local"},
    ),
)
TARGET_HEADINGS = ["target", "measure", "way", "must be", "is", "interval", "verdict"]


def unmeasured_targets(run: PathsRun) -> list[str]:
    """Names of the targets that this run says nothing of, each once: some have many measures."""
    return sorted({target.name for target in run.targets if target.value is None})


def throughput_table(
    run: PathsRun, title: str, columns: dict[str, str]
) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: the throughput of the arms in `columns`, a line a measure."""
    found = {(one.measure, one.arm): one.throughput for one in run.results}
    measures = [
        measure for measure in run.measures if any((measure.name, arm) in found for arm in columns)
    ]
    shown = {arm: name for arm, name in columns.items() if any(key[1] == arm for key in found)}
    cells = {
        arm: [
            format_throughput(found.get((measure.name, arm)), measure.unit) for measure in measures
        ]
        for arm in shown
    }
    # The table puts text to the left; figures belong to the right.
    widths = {arm: max([len(name), *map(len, cells[arm])]) for arm, name in shown.items()}
    rows = [
        [measure.name, *(cells[arm][index].rjust(widths[arm]) for arm in shown)]
        for index, measure in enumerate(measures)
    ]
    return [title, *(name.rjust(widths[arm]) for arm, name in shown.items())], rows


def format_throughput(value: float | None, unit: str) -> str:
    """`12,346/s`, `415 MiB/s`, `194 tps` or a cost such as `31 us`; a dash when there is none."""
    if value is None:
        return "-"
    if unit == "bytes-per-s":
        return f"{value / MIB:,.1f} MiB/s" if value < 10 * MIB else f"{value / MIB:,.0f} MiB/s"
    if unit == "writes-per-operation":
        return f"{value:,.2f}"
    if unit == "us-per-operation":
        return f"{value:,.0f} us"
    return f"{value:,.0f} tps" if unit == "tps" else f"{value:,.0f}/s"


def target_row(target: PathsTarget) -> list[str]:
    """A target as a line of the table."""
    if target.quantity == "ratio":
        limit = f"<= {target.at_most:g} x" if target.at_least is None else ""
        limit, unit, digits = limit or f">= {target.at_least:g} x", " x", 2
    else:
        limit, unit, digits = f"<= {target.at_most:g} us", " us", 0
    value = "-" if target.value is None else f"{target.value:,.{digits}f}{unit}"
    interval = (
        "-"
        if target.value_low is None or target.value_high is None
        else f"{target.value_low:,.{digits}f} to {target.value_high:,.{digits}f}"
    )
    verdict = describe_verdict(target.reached)
    if target.note:
        verdict = f"{verdict}: {target.note}"
    way = f"{target.arm} / {target.against}"
    return [target.name, target.measure, way, limit, value, interval, verdict]
