"""How much room a server needs to finish what is under way, by the settings that it runs with.

What Grampus chooses follows from the size of the volume and fits it. What a user raises may not:
one binary log of 1 GiB is more than a volume of 2 GiB has for its logs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grampus.core.errors import RefusedError
from grampus.core.units import GIB, KIB, MIB, TIB, format_bytes
from grampus.databases.model import DatabaseSpec
from grampus.databases.settings import ServerSettings

# The largest step by which a file of InnoDB's grows at once: `innodb_autoextend_increment`, 64 MiB
# by default, of the system and the temporary tablespaces (MySQL 9.7 manual; MariaDB the same). A
# table's own file grows by 4 MiB. The redo log needs none: its files are made in full size at
# start (seen: 32 files of 4 MiB for a capacity of 128 MiB).
EXTENSION_BYTES = 64 * MIB
# Of a file system; small volumes would otherwise be all reserve.
MAX_RESERVE_RATIO = 0.25
# The same where a user has raised what the server needs.
MAX_RAISED_RATIO = 0.5
# Of a volume: what one parameter may make a server write at once, or keep for itself.
MAX_PARAMETER_RATIO = 0.25

BINLOG_PARAMETER = "max_binlog_size"
EXTENSION_PARAMETER = "innodb_autoextend_increment"  # in MiB
RELAY_PARAMETER = "max_relay_log_size"  # 0: as `max_binlog_size`
PACKET_PARAMETER = "max_allowed_packet"
# Files for temporary tables that do not fit into memory, beside those that InnoDB makes.
TEMPORARY_PARAMETER = "temptable_max_mmap"
_REDO_PARAMETERS = ("innodb_redo_log_capacity", "innodb_log_file_size")
# What takes room on the volume by itself, as its value says in bytes.
_ROOM_PARAMETERS = (BINLOG_PARAMETER, RELAY_PARAMETER, TEMPORARY_PARAMETER, *_REDO_PARAMETERS)
_VALUE = re.compile(r"(?P<number>\d+)(?P<unit>[KMGT]?)", re.IGNORECASE | re.ASCII)
_UNITS = {"": 1, "K": KIB, "M": MIB, "G": GIB, "T": TIB}


@dataclass(frozen=True)
class Reserve:
    """What a server needs to finish what is under way, and how much of its volume that may be."""

    bare_bytes: int
    max_ratio: float = MAX_RESERVE_RATIO


def decide_reserve(
    settings: ServerSettings,
    parameters: Sequence[Mapping[str, str]] = (),
    *,
    is_replica: bool = False,
) -> Reserve:
    """One extension of a tablespace, and the binary log that a transaction is written to, in full.

    `parameters` are those that its user set, as they are and as the server was started with: what
    is larger counts. A transaction is written to one log, so the log may exceed its size by what a
    statement may be longer than Grampus chose. A replica also receives relay logs.
    """
    binlog_bytes = _largest(parameters, BINLOG_PARAMETER, settings.binlog_file_bytes)
    extension_bytes = max(EXTENSION_BYTES, MIB * _largest(parameters, EXTENSION_PARAMETER, 0))
    packet_bytes = _largest(parameters, PACKET_PARAMETER, settings.max_packet_bytes)
    temporary_bytes = _largest(parameters, TEMPORARY_PARAMETER, 0)
    relay_bytes = 0
    if is_replica:
        relay_bytes = _largest(parameters, RELAY_PARAMETER, 0) or binlog_bytes
    bare_bytes = (
        extension_bytes
        + binlog_bytes
        + max(0, packet_bytes - settings.max_packet_bytes)
        + temporary_bytes
        + relay_bytes
    )
    chosen_bytes = EXTENSION_BYTES + settings.binlog_file_bytes * (2 if is_replica else 1)
    is_raised = bare_bytes > chosen_bytes
    return Reserve(bare_bytes, MAX_RAISED_RATIO if is_raised else MAX_RESERVE_RATIO)


def require_fits_volume(spec: DatabaseSpec, parameter: str, value: str) -> None:
    """Raise RefusedError with code `too-big-for-volume` for a value that the volume cannot hold."""
    wanted_bytes = parse_value(value)
    if parameter == EXTENSION_PARAMETER and wanted_bytes is not None:
        wanted_bytes *= MIB
    elif parameter not in _ROOM_PARAMETERS:
        return
    most_bytes = int(spec.size_bytes * MAX_PARAMETER_RATIO)
    if wanted_bytes is None or wanted_bytes <= most_bytes:
        return
    unit_bytes = MIB if parameter == EXTENSION_PARAMETER else 1
    needed_bytes = int(wanted_bytes / MAX_PARAMETER_RATIO)
    raise RefusedError(
        f"With {parameter} = {value} the server of {spec.name} writes {format_bytes(wanted_bytes)} "
        f"at once, and its volume has {format_bytes(spec.size_bytes)}.",
        f"Set it to {most_bytes // MIB * MIB // unit_bytes} at most, or give the volume "
        f"{format_bytes(needed_bytes)} first: `grampus db resize {spec.name} --size "
        f"{-(-needed_bytes // MIB)}M`.",
        code="too-big-for-volume",
    )


def parse_value(text: str) -> int | None:
    """Bytes, or whatever a number counts; None for what is no whole number."""
    match = _VALUE.fullmatch(text.strip())
    return None if match is None else int(match["number"]) * _UNITS[match["unit"].upper()]


def _largest(parameters: Sequence[Mapping[str, str]], name: str, chosen: int) -> int:
    """The largest of the values that the server may run with; `chosen` where its user set none."""
    values = [parse_value(each[name]) if name in each else None for each in parameters]
    return max((chosen if value is None else value for value in values), default=chosen)
