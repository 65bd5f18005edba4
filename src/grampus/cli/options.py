"""Options that many commands share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from grampus.cli.output import OutputFormat
from grampus.lab.model import DEFAULT_LAB
from grampus.volumes.model import DriverName, TransportName, WritePath

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


class DriverWord(StrEnum):
    """--driver."""

    VOLUMED = "volumed"
    QSD = "qsd"
    KRBD = "krbd"
    NBD = "nbd"


class TransportWord(StrEnum):
    """--transport."""

    AUTO = "auto"
    URING = "uring"
    CLASSIC = "classic"


class WritePathWord(StrEnum):
    """--write-path."""

    DIRECT = "direct"
    JOURNAL = "journal"


DRIVER_NAMES: dict[DriverWord | None, DriverName | None] = {
    None: None,
    DriverWord.VOLUMED: "volumed",
    DriverWord.QSD: "qsd",
    DriverWord.KRBD: "krbd",
    DriverWord.NBD: "nbd",
}
TRANSPORT_NAMES: dict[TransportWord | None, TransportName | None] = {
    None: None,
    TransportWord.AUTO: "auto",
    TransportWord.URING: "uring",
    TransportWord.CLASSIC: "classic",
}
WRITE_PATHS: dict[WritePathWord, WritePath] = {
    WritePathWord.DIRECT: "direct",
    WritePathWord.JOURNAL: "journal",
}
DriverOption = Annotated[
    DriverWord | None,
    typer.Option(
        "--driver",
        help="The way from the image to the block device; the best that the host can, if left out.",
    ),
]
TransportOption = Annotated[
    TransportWord | None,
    typer.Option(
        "--transport",
        help="How volumed talks to the kernel (asks for --driver volumed); auto takes the best.",
    ),
]
WritePathOption = Annotated[
    WritePathWord,
    typer.Option(
        "--write-path",
        metavar="direct|journal",
        help="How writes come to the image: each by itself, or held until a flush appends them "
        "all to a journal beside it (volumed alone does that).",
    ),
]
LAB_DEFAULT = DEFAULT_LAB
FORMAT_DEFAULT = OutputFormat.HUMAN
