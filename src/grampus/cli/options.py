"""Options that many commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from grampus.cli.output import OutputFormat
from grampus.lab.model import DEFAULT_LAB

LabOption = Annotated[
    str,
    typer.Option("--lab", envvar="GRAMPUS_LAB", help="The lab to work in.", show_default=True),
]
FormatOption = Annotated[
    OutputFormat, typer.Option("--format", help="human, or json (alone on stdout).")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Print the plan that would be carried out, and stop.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
LAB_DEFAULT = DEFAULT_LAB
FORMAT_DEFAULT = OutputFormat.HUMAN
