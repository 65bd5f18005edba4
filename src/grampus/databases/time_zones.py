"""Which time zones a server takes (pure).

A server knows SYSTEM, offsets such as +02:00, and the names in its time zone tables. These are
empty until somebody loads them (`application_support`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from grampus.core.errors import RefusedError, UsageError, closest_name
from grampus.databases.option_names import TIME_ZONE

_SYSTEM = "SYSTEM"
# As both servers take them: from -13:59 to +14:00.
_OFFSET = re.compile(r"(-(0?\d|1[0-3]):[0-5]\d|\+((0?\d|1[0-3]):[0-5]\d|14:00))")


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
            f"The server of {database} has no time zone tables, so it knows no time zone names.",
            f"Load the tables: `grampus db time-zones {database}`.",
            code="no-time-zones",
        )
    names = {name.lower(): name for name in known}
    found = names.get(text.lower())
    if found is None:
        meant = closest_name(text.lower(), names)
        raise UsageError(
            f"The server of {database} does not know the time zone {text!r}.",
            f"Did you mean {names[meant]!r}?"
            if meant
            else "Give SYSTEM, an offset such as +02:00, or a name such as Europe/Berlin.",
            code="invalid-value",
        )
    return found
