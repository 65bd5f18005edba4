"""How the findings of a run of a matrix suite are laid out at a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from grampus.cli.bench_tables import format_times
from grampus.cli.output import Output
from grampus.core.units import format_digits
from grampus.report.matrix.remarks import gather_remarks
from grampus.state.matrix_layers import LAYER_WORDS

Row = list[str]
# Columns of figures: what they are called, and where in a cell's document they are.
_SPREADS = (("queries/s", "queries_per_s"), ("MB/s", "mb_per_s"))
_SHOWN_PERCENTS = (50, 99)
_BOUNDS = {
    "exactly": "",
    "about": "about ",
    "up-to": "up to ",
    "at-least": "at least ",
    "below": "below ",
    "above": "above ",
}


# How layers are called, in the order of their columns.


def show_findings(output: Output, document: Mapping[str, Any]) -> None:
    """The tables of one run (`findings/documents.py` says what `document` holds)."""
    output.text(None, "\n".join(_heading(document)))
    headings, rows = cell_table(document["cells"])
    output.table(None, headings, rows, "The run has no cell.")
    output.text(None, "\n".join(remarks(document["cells"])))
    for headings, rows in (time_table(document["cells"]), layer_table(document["cells"])):
        if rows:
            output.table(None, headings, rows, "")
            output.text(None, "")
    if document["comparisons"]:
        output.table(
            None,
            [
                "arm over baseline",
                "where",
                "quantity",
                "ratio x",
                "95% interval",
                "rounds",
                "verdict",
            ],
            [comparison_row(one) for one in document["comparisons"]],
            "",
        )
        output.text(None, f"{document['comparisons_line']}\n")
    output.table(
        None,
        ["conclusion", "it says" if document["source"] is None else "of the source", "verdict"],
        [[one["name"], one["says"], verdict_words(one)] for one in document["conclusions"]],
        "The suite has no conclusion.",
    )
    said = [
        f"{one['name']}: {one['sentence']}" + (f" Seen: {one['why']}" if one["why"] else "")
        for one in document["conclusions"]
    ]
    output.text(None, "\n".join(said))
    if document["source"] is not None:
        _show_source(output, document["source"])
    output.text(None, f"\nRaw data: {document['dir']}")
    if document["report"] is not None:
        output.text(None, f"Report:   {document['report']}")


def cell_table(cells: Sequence[Mapping[str, Any]]) -> tuple[Row, list[Row]]:
    """Headings and rows: only the columns that some cell has figures for, numbers to the right."""
    spreads = [one for one in _SPREADS if any(cell[one[1]] is not None for cell in cells)]
    headings = ["cell", "rounds", "tps" if _are_databases(cells) else "ops/s", "lowest to highest"]
    headings += [name for name, _ in spreads]
    has_bottleneck = any(cell["bottleneck"] != "unknown" for cell in cells)
    headings += ["p50", "p99", "highest percentile", *["bottleneck"] * has_bottleneck, "remark"]
    rows = [
        [
            cell["name"],
            f"{cell['measured']}/{cell['planned']}",
            format_rate(cell["operations_per_s"]),
            format_range(cell["operations_per_s"]),
            *(format_rate(cell[key]) for _, key in spreads),
            *_percentiles(cell["latency"]),
            *[bottleneck(cell)] * has_bottleneck,
            remark(cell),
        ]
        for cell in cells
    ]
    return _right_aligned(headings, rows, first=1, last=-2 if has_bottleneck else -1)


def bottleneck(cell: Mapping[str, Any]) -> str:
    """The layer, how sure that is, and the rounds that name it; a dash when it is not known."""
    if cell["bottleneck"] == "unknown":
        return "-"
    named, measured = len(cell["bottleneck_rounds"]), cell["measured"]
    confidence = cell["bottleneck_confidence"]
    said = [] if confidence is None else [f"{confidence} confidence"]
    said += [] if named == measured else [f"{named} of {measured} rounds"]
    word = LAYER_WORDS[cell["bottleneck"]]
    return f"{word} ({', '.join(said)})" if said else word


def time_table(cells: Sequence[Mapping[str, Any]]) -> tuple[Row, list[Row]]:
    """Of each cell the time of an operation, and the share of it that each known layer adds."""
    known = _known_layers(cells, "times")
    rows = []
    for cell in cells:
        times = {one["layer"]: one for one in cell["times"]}
        if not times:
            continue
        first = cell["times"][0]
        whole_ms = first["ms"] / first["share"] if first["ms"] and first["share"] else None
        rows.append(
            [
                cell["name"],
                "-" if whole_ms is None else f"{format_digits(whole_ms)} ms",
                *(f"{100 * times[one]['share']:.0f}%" if one in times else "-" for one in known),
            ]
        )
    headings = ["time of an operation", "mean", *(LAYER_WORDS[layer] for layer in known)]
    return _right_aligned(headings, rows, first=1, last=len(headings))


def layer_table(cells: Sequence[Mapping[str, Any]]) -> tuple[Row, list[Row]]:
    """What each cell used of each layer on average: a column for every layer that is known."""
    known = _known_layers(cells, "layers")
    rows = []
    for cell in cells:
        shares = {one["layer"]: f"{100 * one['share']:.0f}%" for one in cell["layers"]}
        if shares:
            rows.append([cell["name"], *(shares.get(layer, "-") for layer in known)])
    headings = ["used of", *(LAYER_WORDS[layer] for layer in known)]
    return _right_aligned(headings, rows, first=1, last=len(headings))


def _known_layers(cells: Sequence[Mapping[str, Any]], key: str) -> list[str]:
    found = {one["layer"] for cell in cells for one in cell[key]}
    return [layer for layer in LAYER_WORDS if layer in found]


def remark(cell: Mapping[str, Any]) -> str:
    """Why there is no figure; else what limits the trust in it, in a few words."""
    if cell["no_figure"] is not None:
        return f"no figure: {cell['no_figure']}"
    said = []
    if cell["marked"]:
        said.append(f"{cell['marked']} marked")
    if cell["missing"]:
        said.append(f"{cell['missing']} missing")
    if cell["client_bound"] == "yes":
        said.append("client-bound")
    if cell["loop"] == "open":
        said.append("open loop")
    if cell["steady"] is not None:
        said.append("steady" if cell["steady"] else "unsteady")
    if cell["errors"]:
        said.append(f"{cell['errors']:,.0f} errors")
    if cell["reconnects"]:
        said.append(f"{cell['reconnects']:,.0f} reconnects")
    return ", ".join(said)


def comparison_row(comparison: Mapping[str, Any]) -> Row:
    """A comparison as a line of the table."""
    effect = comparison["effect"]
    pair = f"{comparison['arm']} / {comparison['baseline']}"
    row = [pair, comparison["name"] or "-", comparison["quantity"]]
    if effect is None:
        return [*row, "-", "-", "-", f"not compared: {comparison['reason']}"]
    return [
        *row,
        format_times(effect["ratio"]),
        _interval(effect["low"], effect["high"]),
        str(effect["rounds"]),
        _verdict(comparison),
    ]


def _verdict(comparison: Mapping[str, Any]) -> str:
    word = words(comparison["word"])
    detectable = comparison["effect"]["detectable"]
    if comparison["word"] == "undecided" and detectable is not None:
        if detectable >= 1:
            return f"{word} (so many rounds would not show a doubling)"
        return f"{word} (so many rounds show {100 * detectable:.2g}% or more)"
    if comparison["remains"] is False:
        return f"{word} (may be chance among so many)"
    return word


def verdict_words(conclusion: Mapping[str, Any]) -> str:
    """The verdict; of one that repeats another conclusion's fact, with that one's name."""
    said, repeats = words(conclusion["word"]), conclusion["repeats"]
    return said if repeats is None else f"{said} (the same fact as {repeats})"


def words(word: str) -> str:
    """`does-not-hold` as people write it."""
    return word.replace("-", " ")


def format_rate(spread: Mapping[str, Any] | None) -> str:
    """`12,346`, or `12.3` where that says more; a dash when there is none."""
    return "-" if spread is None else _figure(spread["mean"])


def format_range(spread: Mapping[str, Any] | None) -> str:
    """`12,001 to 12,600`: the lowest and the highest round; a dash when there is none."""
    if spread is None:
        return "-"
    return f"{_figure(spread['low'])} to {_figure(spread['high'])}"


def figure_row(figure: Mapping[str, Any]) -> Row:
    """A published figure as a line of the table."""
    value = figure["value"]
    shown = (
        f"only drawn ({figure['shown_in']})"
        if value is None
        else f"{_BOUNDS[figure['bound']]}{value:,.10g} {figure['unit']}"
    )
    return [
        figure["quantity"],
        ", ".join(f"{name} {label}" for name, label in figure["labels"].items()),
        shown,
        "-" if figure["of_first"] is None else format_digits(figure["of_first"]),
    ]


# Sentences about a run in its document, each of them a text or null.
SAID_OF_RUN = ("cut_short", "enough", "environments_said", "statement")


def _heading(document: Mapping[str, Any]) -> list[str]:
    lines = [
        document["title"],
        document["question"],
        f"{document['run_id']} on {document['place']}: {document['visits_done']} of "
        f"{document['visits_planned']} trials, {document['measure_s']:g} s each.",
    ]
    if document["ended_at_s"] is None:
        lines.append(
            f"Unfinished: `grampus bench run {document['suite']} --scale {document['scale']} "
            "--resume` resumes it."
        )
    lines += [document[key] for key in SAID_OF_RUN if document[key] is not None]
    return [*lines, ""]


def remarks(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the last column has no room for: reasons of marked rounds, and evidence.

    What is said of several cells is there once; with an empty line at the end.
    """
    said = (
        (kind, text, f"{cell['name']}{rounds}")
        for cell in cells
        for kind, text, rounds in _said_of(cell)
    )
    gathered = gather_remarks(said, [cell["name"] for cell in cells])
    return [*(f"{one.kind}, {one.cells}: {one.text}" for one in gathered), ""]


def _said_of(cell: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Kind, text, and what follows the cell's name, of each remark on a cell."""
    if cell["no_figure"] is None:
        for reason in cell["reasons"]:
            rounds = ", ".join(str(number) for number in reason["rounds"])
            yield "Marked", reason["text"], f", round {rounds}"
    if cell["client_bound"] == "yes" and cell["evidence"]:
        yield "Client-bound", cell["evidence"][0], ""
    elif cell["bottleneck_evidence"]:
        word = LAYER_WORDS[cell["bottleneck"]]
        yield f"Bottleneck {word}", " ".join(cell["bottleneck_evidence"]), ""
    for reason in cell["unsteady_reasons"][:1]:
        yield "Unsteady" if cell["steady"] is False else "Not known to be steady", reason, ""
    for note in cell["notes"]:
        yield "Note", note, ""


def _show_source(output: Output, source: Mapping[str, Any]) -> None:
    date = "" if source["date"] == "unknown" else f", {source['date']}"
    output.text(
        None,
        f"\nThe source: {source['title']} ({source['publisher']}{date}).\n"
        f"It found: {source['conclusion']}\n{source['statement']}",
    )
    headings = ["published", "of", "figure", "of the first x"]
    rows = [figure_row(one) for one in source["figures"]]
    # Where all figures are ratios themselves, there is nothing in the last column.
    shown = 4 if any(one["of_first"] is not None for one in source["figures"]) else 3
    headings, rows = _right_aligned(
        headings[:shown], [row[:shown] for row in rows], first=2, last=shown
    )
    output.table(None, headings, rows, "The catalog has no figure of it.")


def _percentiles(latency: Mapping[str, Any] | None) -> Row:
    if latency is None:
        return ["-", "-", "-"]
    known = {one["percent"]: one for one in latency["percentiles"]}
    shown = [_latency(known[one]) if one in known else "-" for one in _SHOWN_PERCENTS]
    return [*shown, _highest(known[max(known)]) if known else "-"]


def _highest(percentile: Mapping[str, Any]) -> str:
    """`p99.9 1.84 ms (1.7 to 2.0)`: the highest that its operations support, with its interval."""
    bounds = (percentile["interval_low_us"], percentile["interval_high_us"])
    low, high = (format_digits(bound / 1000) for bound in bounds)
    return f"p{percentile['percent']:g} {_latency(percentile)} ({low} to {high})"


def _latency(percentile: Mapping[str, Any]) -> str:
    """`1.84 ms`; `0.6 to 56 ms` where only bounds are known."""
    middle_us = percentile["latency_us"]
    if middle_us is not None:
        return f"{format_digits(middle_us / 1000)} ms"
    low, high = (format_digits(percentile[bound] / 1000) for bound in ("low_us", "high_us"))
    return f"{low} to {high} ms"


def _interval(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "-"
    return f"{format_digits(low)} to {format_digits(high)}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}" if value >= 1 else f"{value:.3g}"


def _are_databases(cells: Sequence[Mapping[str, Any]]) -> bool:
    measured = [cell for cell in cells if cell["operations_per_s"] is not None]
    return all(cell["queries_per_s"] is not None for cell in measured)


def _right_aligned(
    headings: Row, rows: list[Row], *, first: int, last: int
) -> tuple[Row, list[Row]]:
    """The columns from `first` to before `last`, with their figures to the right."""
    lines = [headings, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    chosen = range(len(headings))[first:last]
    padded = [
        [text.rjust(widths[place]) if place in chosen else text for place, text in enumerate(line)]
        for line in lines
    ]
    return padded[0], padded[1:]
