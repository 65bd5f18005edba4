"""What keeps a server from running its users' code: for servers that only Grampus uses (pure).

Events, statements for each connection, and variables that a user may have persisted. Plugins and
components need rights on the schema `mysql`, which a database's user does not have there.
"""

from __future__ import annotations

from collections.abc import Mapping

from grampus.databases.model import FlavourName

EVENTS_BY_DEFAULT: Mapping[FlavourName, str] = {"mysql": "ON", "mariadb": "OFF"}
# In its option file: of a database that is made for a while, and never handed to anybody.
QUIET_PARAMETERS: Mapping[str, str] = {"event_scheduler": "OFF", "init_connect": ""}


def quiet_options(flavour: FlavourName) -> tuple[str, ...]:
    """Options on the command line, which count for more than those of the option file.

    A time zone by name ends a server that has no tables of them (yet).
    """
    options = ("--event-scheduler=OFF", "--init-connect=", "--default-time-zone=+00:00")
    return (*options, "--persisted-globals-load=OFF") if flavour == "mysql" else options


def hold_events_option(parameters: Mapping[str, str]) -> str:
    """The option with which no event runs from the start on, and `events_statement` may change it.

    A scheduler that is disabled altogether stays so.
    """
    is_disabled = parameters.get("event_scheduler", "").upper() == "DISABLED"
    return f"--event-scheduler={'DISABLED' if is_disabled else 'OFF'}"


def events_statement(flavour: FlavourName, parameters: Mapping[str, str]) -> str | None:
    """SQL that lets events run as the database's user wants, once it is open; None: they do not."""
    wanted = parameters.get("event_scheduler", EVENTS_BY_DEFAULT[flavour]).upper()
    if wanted not in ("ON", "1"):
        return None
    return "SET GLOBAL event_scheduler = IF(@@GLOBAL.offline_mode, 'OFF', 'ON');"
