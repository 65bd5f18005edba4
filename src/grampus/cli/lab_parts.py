"""What the commands of all optional parts of a lab share."""

from __future__ import annotations

from typing import Annotated

import typer

from grampus.cli.app import confirm
from grampus.cli.composition.lab import LabSession
from grampus.cli.composition.lab_parts import lab_part
from grampus.cli.output import OutputFormat, make_output
from grampus.lab.parts import PartKind, SpecT

PartHostOption = Annotated[
    str | None,
    typer.Option("--host", metavar="HOST", help="The host to run on (default: the last one)."),
]


def remove_part(
    kind: PartKind[SpecT],
    lab: str,
    loss: str,
    *,
    yes: bool,
    dry_run: bool,
    output_format: OutputFormat,
) -> None:
    """Remove the part after a question that begins with `loss`, a sentence."""
    session = LabSession(lab)
    lab_part(session, kind).require()
    confirm(f"{loss} Continue?", yes=yes or dry_run)
    with session.breaking_lab(), session.progress, session.planning(dry_run=dry_run):
        lab_part(session, kind).down()
    make_output(output_format).text({"lab": lab}, f"The {kind.noun} of '{lab}' is removed.")
