"""Options that many commands share."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer

from grampus.cli.output import OutputFormat
from grampus.lab.model import DEFAULT_LAB
from grampus.volumes.model import DriverName, TransportName

LAB_VARIABLE = "GRAMPUS_LAB"
LabOption = Annotated[
    str,
    typer.Option(
        "--lab",
        metavar="NAME",
        envvar=LAB_VARIABLE,
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


def in_lab(command: str, lab: str) -> str:
    """A command to be typed next, as it finds the same lab: by its name or by `GRAMPUS_LAB`."""
    found = os.environ.get(LAB_VARIABLE) or DEFAULT_LAB
    return command if lab == found else f"{command} --lab {lab}"


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
# Words, not a Choice: what is misspelt gets a suggestion (`parse_write_path`).
WritePathOption = Annotated[
    str | None,
    typer.Option(
        "--write-path",
        metavar="direct|journal|cache",
        help="How writes come to the image. direct (the default of a new volume): each by itself. "
        "journal (of a new database): a flush appends them all to a journal beside it; nothing "
        "flushed is lost. cache: a flush is done once it is on the host's own disk, and in the "
        "journal at most --max-lag later, which is what a lost host may cost. volumed alone "
        "serves the last two.",
    ),
]
MaxLagOption = Annotated[
    str | None,
    typer.Option(
        "--max-lag",
        metavar="TIME",
        help="With --write-path cache: how far the cluster may be behind what was flushed, 10ms "
        "to 60s (default 100ms).",
    ),
]
JournalMemoryOption = Annotated[
    str | None,
    typer.Option(
        "--journal-memory",
        metavar="SIZE",
        help="With --write-path journal or cache: the memory of the host for data that waits to be "
        "written to the image, 16M to 1G (default 256M).",
    ),
]
BinlogRetentionOption = Annotated[
    str | None,
    typer.Option(
        "--binlog-retention",
        metavar="TIME",
        help="Keep binary logs for at least so long, such as 12h or 1d, for readers that Grampus "
        "does not know, as far as their room allows (default 1h). What the archive or a replica "
        "needs is kept anyway.",
    ),
]
EncryptOption = Annotated[
    bool,
    typer.Option(
        "--encrypt",
        metavar="",
        help="Encrypt what is stored of it, with a key of its own that this home's master key "
        "seals (`grampus volume key`). For good: it cannot be switched on or off later. volumed "
        "alone serves it.",
    ),
]
RepairOption = Annotated[
    bool,
    typer.Option(
        "--repair", metavar="", help="Write damaged copies anew from right ones, and look again."
    ),
]
LAB_DEFAULT = DEFAULT_LAB
FORMAT_DEFAULT = OutputFormat.HUMAN
