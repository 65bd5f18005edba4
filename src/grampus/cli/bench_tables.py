"""What the results of every suite have in common at the terminal."""

from __future__ import annotations

from typing import Any

from grampus.cli.options import FORMAT_DEFAULT, FormatOption
from grampus.cli.output import Output


def show_comparison(
    output: Output,
    output_format: FormatOption,
    document: dict[str, Any],
    headings: list[str],
    rows: list[list[str]],
    none: str,
) -> None:
    """Two runs of any suite side by side, then what else is different; `none` where no row is."""
    output.table(document, headings, rows, none)
    if output_format is FORMAT_DEFAULT:
        lines = [
            f"{row['group']}, {row['name']}: {row['first']} -> {row['second']}"
            for row in document["differences"]
        ]
        output.text(None, "\n".join(["", *lines, document["statement"]]))


def format_times(ratio: float | None) -> str:
    """`1.25`; a dash when there is none."""
    return "-" if ratio is None else f"{ratio:.2f}"
