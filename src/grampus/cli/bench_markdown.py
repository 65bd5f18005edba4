"""The findings of a run of a matrix suite as a page of Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from grampus.cli.bench_matrix_tables import (
    SAID_OF_RUN,
    cell_table,
    comparison_row,
    figure_row,
    layer_table,
    remarks,
    time_table,
    words,
)
from grampus.cli.markdown import bullets, escape, table

CELLS_SAID = (
    "Rates are geometric means of the rounds, beside the lowest and the highest of them. A ratio "
    "of two arms is the geometric mean of the rounds' ratios. Percentiles are of the operations of "
    "all rounds together, and at least ten operations were slower. The highest percentile has its "
    "interval, by the number of operations alone."
)
TIMES_SAID = (
    "The mean time of an operation, and the share of it that each layer adds: working, or queued "
    "there. The layer with the largest share is the bottleneck."
)
LAYERS_SAID = (
    "How much of each layer's limit each cell used, on average over its rounds. For InnoDB it is "
    "the share of threads that waited for a row lock, or of the time in which a log was written; "
    "for a volume, of the time in which requests were under way."
)


def _verdict(conclusion: Mapping[str, Any]) -> str:
    said, repeats = f"**{words(conclusion['word'])}**", conclusion["repeats"]
    return said if repeats is None else f"{said} (the same fact as `{repeats}`)"


def render_markdown(document: Mapping[str, Any]) -> str:
    """The page of one run (`findings/documents.py` says what `document` holds)."""
    blocks = [
        f"# {escape(document['title'])}",
        escape(document["question"]),
        escape(_how(document)),
        *(escape(document[key]) for key in SAID_OF_RUN if document[key]),
        "## Conclusions",
        table(
            ["conclusion" if document["source"] is None else "conclusion of the source", "here"],
            [[one["says"], _verdict(one)] for one in document["conclusions"]],
        ),
        bullets(
            f"{one['sentence']} Seen: {one['why']}" if one["why"] else one["sentence"]
            for one in document["conclusions"]
        ),
    ]
    if document["comparisons"]:
        headings = ["arm over baseline", "where", "quantity", "ratio", "95% interval", "rounds"]
        rows = [comparison_row(one) for one in document["comparisons"]]
        blocks += [
            "## Arms",
            table([*headings, "verdict"], rows),
            escape(document["comparisons_line"]),
        ]
    blocks += ["## Cells", CELLS_SAID, table(*cell_table(document["cells"]))]
    blocks.append(bullets(line for line in remarks(document["cells"]) if line))
    headings, rows = time_table(document["cells"])
    if rows:
        blocks += ["## Time by layer", TIMES_SAID, table(headings, rows)]
    headings, rows = layer_table(document["cells"])
    if rows:
        blocks += ["## Layers", LAYERS_SAID, table(headings, rows), _watching(document["cells"])]
    if document["source"] is not None:
        blocks += _source_blocks(document["source"])
    environment = [[one["group"], one["name"], one["value"]] for one in document["environment"]]
    blocks += ["## Where", table(["of", "what", "value"], environment)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _how(document: Mapping[str, Any]) -> str:
    begun = datetime.fromtimestamp(document["started_at_s"], UTC)
    unfinished = ", unfinished" if document["ended_at_s"] is None else ""
    return (
        f"{document['run_id']}{unfinished}: scale {document['scale']} on {document['place']}, "
        f"{begun:%Y-%m-%d %H:%M} UTC; {document['visits_done']} of {document['visits_planned']} "
        f"trials, {document['measure_s']:g} s each after {document['warmup_s']:g} s of warm-up"
        f"{_besides(document['overhead'])}."
    )


def _watching(cells: Sequence[Mapping[str, Any]]) -> str:
    """What reading the layers took; nothing where that is not known."""
    cores = [one["monitor_cpu_cores"] for one in cells if one["monitor_cpu_cores"] is not None]
    if not cores:
        return ""
    least, most = f"{min(cores):.3f}", f"{max(cores):.3f}"
    took = least if least == most else f"{least} to {most}"
    return f"Reading this took {took} of the machine's cores on average."


def _besides(overhead: Mapping[str, Any] | None) -> str:
    """What trials took beside that."""
    if overhead is None:
        return ""
    median_s, longest_s = overhead["median_s"], overhead["longest_s"]
    found = f"median; the longest {longest_s:.1f} s"
    if overhead["change_s"] is None:
        return f", and {median_s:.1f} s more ({found})"
    return (
        f", and {median_s:.1f} s beside the load ({found}; {overhead['change_s']:.1f} s of it to "
        f"set what the cell asks, {overhead['calm_s']:.1f} s until the servers were calm)"
    )


def _source_blocks(source: Mapping[str, Any]) -> list[str]:
    date = "" if source["date"] == "unknown" else f", {source['date']}"
    shown = ", ".join(source["shown_in"])
    said = f"{source['title']} ({source['publisher']}{date}; {shown}): {source['conclusion']}"
    return [
        "## The source",
        escape(said),
        table(
            ["published", "of", "figure", "of the first"],
            [figure_row(one) for one in source["figures"]],
        ),
        escape(source["statement"]),
    ]
