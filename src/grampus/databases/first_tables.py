"""Tables of a server that applications need: time zones and MySQL's component for MD5() (pure).

As lines of shell, since the server's own program makes the SQL of the zones of its image.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from grampus.databases.model import FlavourName

_ZONEINFO = "/usr/share/zoneinfo"
_ZONE_PROGRAMS: Mapping[FlavourName, str] = {
    "mysql": "mysql_tzinfo_to_sql",
    "mariadb": "mariadb-tzinfo-to-sql",
}
# Of a script that finds no zones.
NO_ZONES_CODE = 3
# MD5() and SHA1() of MySQL 9 (see `application_support`).
HASHING_COMPONENT = "file://component_classic_hashing"
_HASHING_ROW = (
    "INSERT INTO component (component_group_id, component_urn) "
    "VALUES (1, 'file://component_classic_hashing');"
)
_HASHING_FILE = "/usr/lib/mysql/plugin/component_classic_hashing.so"


def render_reading_zones(flavour: FlavourName) -> str:
    """A line of shell that puts the SQL of all zones into `zones`; empty where there are none."""
    # What it passes over (leap seconds, tables of countries) it says on stderr.
    return f"zones=$({_ZONE_PROGRAMS[flavour]} {_ZONEINFO} 2>/dev/null) || zones="


def render_first_statements(flavour: FlavourName, accounts_file: PurePosixPath) -> list[str]:
    """Shell that writes the first SQL of a data directory: time zones, then the accounts.

    The accounts come last, since the rights of the session end with them. They stay in their file:
    what reads this is the server's standard input.
    """
    hashing = (
        [
            f'  if [ -e {_HASHING_FILE} ]; then echo "{_HASHING_ROW}"; fi',
        ]
        if flavour == "mysql"
        else []
    )
    return [
        f"test -r {accounts_file}",
        render_reading_zones(flavour),
        "{",
        "  echo 'SET SESSION sql_log_bin = 0;'",
        "  echo 'USE mysql;'",
        "  printf '%s\\n' \"$zones\"",
        *hashing,
        f"  cat {accounts_file}",
        "} |",
    ]


def render_load_script(flavour: FlavourName) -> str:
    """Lines of POSIX shell for the server's container, as `AdminClient.run_made` runs them.

    MySQL's program empties the tables before its transaction, each with a commit of its own: here
    it happens within the transaction.
    """
    first, change = ["SET SESSION sql_log_bin = 0;", "USE mysql;"], ""
    if flavour == "mysql":
        first.append("BEGIN;")
        change = "sed -e 's/^TRUNCATE TABLE/DELETE FROM/' -e '/^START TRANSACTION;$/d' | "
    statements = " ".join(f"'{statement}'" for statement in first)
    return "\n".join(
        [
            render_reading_zones(flavour),
            f'if [ -z "$zones" ]; then exit {NO_ZONES_CODE}; fi',
            'printf %s "$options" | { exec 3<&0; '
            f"printf '%s\\n' {statements} \"$zones\" | {change}"
            '"$client" --defaults-file=/dev/fd/3 "$@"; }',
        ]
    )
