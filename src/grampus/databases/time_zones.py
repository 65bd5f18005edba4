"""Time zones by name: the server's tables of them, and the names in them.

A server has these tables empty, and then knows no zone but SYSTEM and offsets such as +02:00:
`CONVERT_TZ` with a name answers NULL, and `SET time_zone` fails (error 1298). Each server's own
program makes the tables of the zoneinfo of its image; that takes 1 to 2 s.

No binary log has them: on a replica they would be transactions that its primary lacks. So every
server is loaded for itself. A replica needs them before its primary, because a transaction names
the zone of its session, and fails where that is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from grampus.core.errors import GrampusError, RefusedError, UsageError, closest_name
from grampus.databases.admin_client import render_admin_options
from grampus.databases.administrator import (
    Administrator,
    classify_failure,
)
from grampus.databases.first_tables import render_reading_zones
from grampus.databases.layout import CLIENT_PROGRAMS
from grampus.databases.model import FlavourName
from grampus.databases.option_names import TIME_ZONE
from grampus.databases.read_only import writing_as_administrator

LOAD_TIMEOUT_S = 300.0  # 1 to 2 s; a busy pool of hard disks takes longer
NO_ZONEINFO = "no-zoneinfo"
NAMES_SQL = "SELECT Name FROM mysql.time_zone_name"
_SYSTEM = "SYSTEM"
# As both servers take them: from -13:59 to +14:00.
_OFFSET = re.compile(r"(-(0?\d|1[0-3]):[0-5]\d|\+((0?\d|1[0-3]):[0-5]\d|14:00))")
_NO_ZONES_CODE = 3


def has_zone_name(parameters: Mapping[str, str]) -> bool:
    """Whether a server with these parameters starts only if it has the tables."""
    zone = parameters.get(TIME_ZONE, _SYSTEM)
    return zone.upper() != _SYSTEM and _OFFSET.fullmatch(zone) is None


def decide_time_zone(database: str, text: str, known: Collection[str]) -> str:
    """The zone as the server is told it; `known` are the names in its tables.

    Raises RefusedError with code `no-time-zones` when the tables are empty, UsageError with code
    `invalid-value` for a zone that is not there.
    """
    if text.upper() == _SYSTEM:
        return _SYSTEM
    if _OFFSET.fullmatch(text):
        return text
    if not known:
        raise RefusedError(
            f"The server of {database} has no time zone tables, so it knows no zone by name.",
            f"Load them: `grampus db time-zones {database}`.",
            code="no-time-zones",
        )
    names = {name.lower(): name for name in known}
    found = names.get(text.lower())
    if found is None:
        meant = closest_name(text.lower(), names)
        raise UsageError(
            f"The server of {database} knows no time zone {text!r}.",
            f"Did you mean {names[meant]!r}?"
            if meant
            else "Give SYSTEM, an offset such as +02:00, or a name such as Europe/Berlin.",
            code="invalid-value",
        )
    return found


def observe_time_zones(administrator: Administrator) -> list[str]:
    """The names in the server's tables."""
    return [row[0] for row in administrator.query(NAMES_SQL)]


def ensure_time_zones(administrator: Administrator, *, is_replica: bool) -> None:
    """The tables loaded, if they are empty. Raises what `load_time_zones` raises."""
    if not observe_time_zones(administrator):
        load_time_zones(administrator, is_replica=is_replica)


def load_time_zones(administrator: Administrator, *, is_replica: bool) -> None:
    """The tables as the zoneinfo of the server's image has them now.

    MySQL's clients see the former rows until all new ones are there. MariaDB empties its tables
    first, so that a name may be unknown for a second. Raises GrampusError with code `no-zoneinfo`,
    and what `Administrator.query` raises.
    """
    with writing_as_administrator(administrator, is_replica=is_replica):
        result = administrator.host.run(
            ["sh", "-c", render_load_script(administrator.flavour)],
            stdin=render_admin_options(administrator.password, administrator.flavour),
            timeout_s=LOAD_TIMEOUT_S,
            check=False,
            daemon=administrator.daemon,
        )
    if result.returncode == _NO_ZONES_CODE:
        raise GrampusError(
            f"The image of the server {administrator.daemon} has no zoneinfo to load.",
            "Upgrade the database to an image with the package tzdata: `grampus db upgrade NAME`.",
            code=NO_ZONEINFO,
        )
    if result.returncode != 0:
        raise classify_failure("load the time zone tables", result)


def render_load_script(flavour: FlavourName) -> str:
    """A POSIX shell script for the server's container; its stdin is the client's option file.

    MySQL's program empties the tables before its transaction, each with a commit of its own: here
    it happens within the transaction.
    """
    client = f"{CLIENT_PROGRAMS[flavour]} --defaults-file=/dev/fd/3 --batch"
    first, change = ["SET SESSION sql_log_bin = 0;", "USE mysql;"], ""
    if flavour == "mysql":
        first.append("BEGIN;")
        change = "sed -e 's/^TRUNCATE TABLE/DELETE FROM/' -e '/^START TRANSACTION;$/d' | "
    statements = " ".join(f"'{statement}'" for statement in first)
    return "\n".join(
        [
            "exec 3<&0",
            render_reading_zones(flavour),
            f'if [ -z "$zones" ]; then exit {_NO_ZONES_CODE}; fi',
            f"printf '%s\\n' {statements} \"$zones\" | {change}{client}",
        ]
    )
