"""Options that many commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from grampus.cli.output import OutputFormat
from grampus.lab.model import DEFAULT_LAB

LabOption = Annotated[
    str,
    typer.Option(
        "--lab",
        metavar="NAME",
        envvar="GRAMPUS_LAB",
        help="The lab to work in.",
        show_default=True,
    ),
]
FormatOption = Annotated[
    OutputFormat, typer.Option("--format", help="For people, or JSON alone on stdout.")
]
DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run", metavar="", help="Print the plan that would be carried out, and stop."
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", metavar="", help="Do not ask.")]
LAB_DEFAULT = DEFAULT_LAB
FORMAT_DEFAULT = OutputFormat.HUMAN
