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
SITE_VARIABLE = "GRAMPUS_SITE"  # the same: names of labs and of sites are all different
LabOption = Annotated[
    str,
    typer.Option(
        "--lab",
        "--site",
        metavar="NAME",
        envvar=[SITE_VARIABLE, LAB_VARIABLE],
        help="The lab or the site to work in.",
        show_default=True,
    ),
]
FormatOption = Annotated[
    OutputFormat, typer.Option("--format", help="Output for people, or only JSON on stdout.")
]
DryRunOption = Annotated[
    bool,
    typer.Option("--dry-run", metavar="", help="Print the plan, and change nothing."),
]
YesOption = Annotated[
    bool, typer.Option("--yes", "-y", metavar="", help="Do not ask for confirmation.")
]


def in_lab(command: str, lab: str) -> str:
    """A command to be typed next, as it finds the same lab: by its name or by `GRAMPUS_LAB`."""
    found = os.environ.get(SITE_VARIABLE) or os.environ.get(LAB_VARIABLE) or DEFAULT_LAB
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
        help="The driver between the image and the block device (default: the best one that "
        "the host supports).",
    ),
]
TransportOption = Annotated[
    TransportWord | None,
    typer.Option(
        "--transport",
        help="The transport between volumed and the kernel (needs --driver volumed). auto "
        "chooses the best one.",
    ),
]
# Words, not a Choice: what is misspelt gets a suggestion (`parse_write_path`).
WritePathOption = Annotated[
    str | None,
    typer.Option(
        "--write-path",
        metavar="direct|journal|cache",
        help="When a write is durable. direct (default of a new volume): each write is in "
        "the image. journal (default of a new database): a flush appends all earlier "
        "writes to a journal in the cluster; no flushed data is lost. cache: a flush is "
        "done when it is on the host's own disk, and reaches the journal at most "
        "--max-lag later; a lost host can lose the commits of that time. journal and "
        "cache need the driver volumed.",
    ),
]
MaxLagOption = Annotated[
    str | None,
    typer.Option(
        "--max-lag",
        metavar="TIME",
        help="With --write-path cache: maximum lag of the cluster behind flushed data, 10ms "
        "to 60s (default 100ms).",
    ),
]
JournalMemoryOption = Annotated[
    str | None,
    typer.Option(
        "--journal-memory",
        metavar="SIZE",
        help="With --write-path journal or cache: memory on the host for data that is not in "
        "the image yet, 16M to 1G (default 256M).",
    ),
]
JournalPoolOption = Annotated[
    str | None,
    typer.Option(
        "--journal-pool",
        metavar="POOL",
        help="With --write-path journal or cache: the pool for the journal, such as one on flash "
        "(default: the pool of the image).",
    ),
]
ExternalLogOption = Annotated[
    bool,
    typer.Option(
        "--external-log",
        metavar="",
        help="Of a database that an earlier release created: copy its files to a volume with an "
        "external log, on which a commit waits for one append instead of three.",
    ),
]
BinlogRetentionOption = Annotated[
    str | None,
    typer.Option(
        "--binlog-retention",
        metavar="TIME",
        help="Keep binary logs for at least this time, such as 12h or 1d, if there is space "
        "(default 1h). Use it for readers that Grampus does not know. Grampus always "
        "keeps the logs that the archive or a replica needs.",
    ),
]
FailoverModeOption = Annotated[
    str | None,
    typer.Option(
        "--failover",
        metavar="automatic|manual",
        help="Whether `grampus serve` runs the database on another host if its host is lost "
        "(default of a new database: automatic), or only warns.",
    ),
]
RecoveryGoalOption = Annotated[
    str | None,
    typer.Option(
        "--recovery-goal",
        metavar="TIME",
        help="How long the server may take to recover after a crash, such as 5s (default: none). "
        "A shorter goal means more writes.",
    ),
]
MaintenanceWindowOption = Annotated[
    str | None,
    typer.Option(
        "--maintenance-window",
        metavar="'[DAY[-DAY]] HH:MM-HH:MM'",
        help="When `grampus serve` may restart the server for parameters that wait for a restart, "
        "in UTC, such as 'Sun 02:00-04:00' (default: none, it never does).",
    ),
]
EncryptOption = Annotated[
    bool,
    typer.Option(
        "--encrypt",
        metavar="",
        help="Encrypt all stored data with its own key. The master key of this home seals "
        "that key (`grampus volume key`). Encryption cannot be changed later. It needs "
        "the driver volumed.",
    ),
]
RepairOption = Annotated[
    bool,
    typer.Option(
        "--repair", metavar="", help="Rewrite damaged copies from good ones, and check again."
    ),
]
LAB_DEFAULT = DEFAULT_LAB
FORMAT_DEFAULT = OutputFormat.HUMAN
