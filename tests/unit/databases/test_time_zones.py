"""Time zones by name: which a server takes, and how its tables are loaded."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, RefusedError, UsageError
from grampus.databases.admin_client import READ_OPTIONS
from grampus.databases.first_tables import render_load_script
from grampus.databases.layout import CLIENT_PROGRAMS
from grampus.databases.model import FlavourName
from grampus.databases.time_zones import decide_time_zone, has_zone_name

KNOWN = ("Europe/Berlin", "Europe/London", "UTC")


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("system", "SYSTEM"),
        ("+02:00", "+02:00"),
        ("-13:59", "-13:59"),
        ("+14:00", "+14:00"),
        ("+5:30", "+5:30"),
        ("europe/berlin", "Europe/Berlin"),
        ("UTC", "UTC"),
    ],
)
def test_zones_as_the_server_takes_them(text: str, zone: str) -> None:
    assert decide_time_zone("shop", text, KNOWN) == zone


@pytest.mark.parametrize(
    ("text", "known", "error", "code", "remedy"),
    [
        ("Europe/Berlim", KNOWN, UsageError, "invalid-value", "Did you mean 'Europe/Berlin'?"),
        ("Nowhere/Xyz", KNOWN, UsageError, "invalid-value", "such as Europe/Berlin"),
        ("+14:01", KNOWN, UsageError, "invalid-value", "an offset such as +02:00"),
        ("+02", KNOWN, UsageError, "invalid-value", "an offset such as +02:00"),
        ("", KNOWN, UsageError, "invalid-value", "Give SYSTEM"),
        ("Europe/Berlin", (), RefusedError, "no-time-zones", "`grampus db time-zones shop`"),
    ],
)
def test_zones_that_no_server_takes(
    text: str, known: tuple[str, ...], error: type[GrampusError], code: str, remedy: str
) -> None:
    with pytest.raises(error) as caught:
        decide_time_zone("shop", text, known)
    assert caught.value.code == code
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("zone", "named"),
    [(None, False), ("SYSTEM", False), ("+02:00", False), ("Europe/Berlin", True), ("UTC", True)],
)
def test_only_names_need_tables(zone: str | None, named: bool) -> None:
    assert has_zone_name({} if zone is None else {"time_zone": zone}) is named


def _load(directory: Path, flavour: FlavourName, program: str) -> tuple[int, list[str], str]:
    """Code, statements and option file that the client gets of the script."""
    for name, text in (
        ("mysql_tzinfo_to_sql", program),
        ("mariadb-tzinfo-to-sql", program),
        ("mysql", f'cat "${{1#--defaults-file=}}" > {directory}/options; cat > {directory}/sql'),
        ("mariadb", f'cat "${{1#--defaults-file=}}" > {directory}/options; cat > {directory}/sql'),
    ):
        file = directory / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    script = f"{READ_OPTIONS}\nclient=$1; shift\n{render_load_script(flavour)}"
    done = subprocess.run(
        ["sh", "-c", script, "zones", CLIENT_PROGRAMS[flavour], "--batch"],
        input="[client]\npassword=secret\n\n",
        env={**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    sql, options = directory / "sql", directory / "options"
    statements = sql.read_text().splitlines() if sql.exists() else []
    return done.returncode, statements, options.read_text() if options.exists() else ""


# As both programs of the servers begin and end (MySQL 9.7.4, MariaDB 11.8.9).
_PROGRAM = (
    "echo 'TRUNCATE TABLE time_zone;'; echo 'START TRANSACTION;'; "
    "echo \"INSERT INTO time_zone_name VALUES ('UTC');\"; echo 'COMMIT;'"
)


def test_clients_of_mysql_see_all_zones_or_the_former_ones(tmp_path: Path) -> None:
    code, statements, options = _load(tmp_path, "mysql", _PROGRAM)
    assert code == 0
    assert statements == [
        "SET SESSION sql_log_bin = 0;",
        "USE mysql;",
        "BEGIN;",
        "DELETE FROM time_zone;",
        "INSERT INTO time_zone_name VALUES ('UTC');",
        "COMMIT;",
    ]
    assert options == "[client]\npassword=secret\n"


def test_mariadb_is_loaded_as_its_program_says(tmp_path: Path) -> None:
    """Its tables know no transactions, and its program locks them."""
    code, statements, _ = _load(tmp_path, "mariadb", _PROGRAM)
    assert code == 0
    assert statements[:3] == [
        "SET SESSION sql_log_bin = 0;",
        "USE mysql;",
        "TRUNCATE TABLE time_zone;",
    ]


@pytest.mark.parametrize("program", ["exit 1", "echo 'TRUNCATE TABLE time_zone;'; exit 1"])
def test_no_table_is_emptied_where_there_is_no_zoneinfo(tmp_path: Path, program: str) -> None:
    assert _load(tmp_path, "mysql", program) == (3, [], "")
