"""How checks of a cluster or of a host are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from grampus.cli.app import EXIT_FAILED
from grampus.cli.output import OutputFormat, make_output
from grampus.core.checks import Check


def show_checks(
    head: Mapping[str, Any], checks: Sequence[Check], output_format: OutputFormat
) -> None:
    """One line for each check, its remedy below it; `head` begins the JSON document.

    Ends the command with code 1 (typer.Exit) if one is refused.
    """
    document = {**head, "checks": [one.document() for one in checks]}
    width = max(len(one.name) for one in checks)
    lines = []
    for one in checks:
        indent = " " * (width + 11)
        text = "\n".join(part for part in (one.sentence, one.remedy) if part)
        shown = text.replace("\n", "\n" + indent)
        lines.append(f"{one.name:<{width}}  {one.verdict:<7}  {shown}")
    make_output(output_format).text(document, "\n".join(lines))
    if any(one.verdict == "refused" for one in checks):
        raise typer.Exit(EXIT_FAILED)
