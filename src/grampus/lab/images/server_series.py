"""Which database servers an image has, and whether another image has the same. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

# MySQL and MariaDB open what a later release of the same long-term series wrote, and nothing that a
# later series wrote. Sources: MySQL 8.4 Reference Manual, "Downgrading MySQL"; MariaDB Knowledge
# Base, "Downgrading between Major Versions of MariaDB" (read 2026-11-28).
_SERIES = re.compile(r"(?:\d+:)?(?P<series>\d+\.\d+)")
_SERVERS = ("mysql-server-core", "mariadb-server-core")


def server_series(versions: Mapping[str, str]) -> dict[str, str]:
    """The series of each server, such as 9.7, from the versions of an image's packages."""
    found = {name: _SERIES.match(versions[name]) for name in _SERVERS if name in versions}
    return {name: match["series"] if match else "" for name, match in found.items()}


def has_other_servers(former: Mapping[str, str] | None, new: Mapping[str, str]) -> bool:
    """Whether the new image lacks a server of the former one, or has one of another series.

    They are versions of packages; None: of the former image nothing is known.
    """
    if former is None:
        return True
    has = server_series(new)
    return any(has.get(name) != series for name, series in server_series(former).items())
