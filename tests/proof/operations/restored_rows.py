"""Restores of a database, compared with it row by row."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime

from tests.proof.operations.remote_client import RemoteClient

# Every row in the order of its key, as text: two tables with the same digest are the same.
DIGEST = """
set -o pipefail
mysql --defaults-file="$1" --quick --batch --skip-column-names \\
  -e "select * from $2 order by 1" | python3 -c '
import hashlib, sys
digest, rows = hashlib.sha256(), 0
while chunk := sys.stdin.buffer.read(1 << 20):
    digest.update(chunk)
    rows += chunk.count(10)
print(rows, digest.hexdigest())
'
"""
DIGEST_TIMEOUT_S = 1800
RESTORE_TIMEOUT_S = 3600
# A moment is told in seconds, and what is committed within one is of it.
APART_S = 2.0
CHANGE = "update sbtest.sbtest1 set k = k + 1, c = reverse(c) where id <= 1000"


@dataclass(frozen=True)
class TableDigest:
    """A table's rows, counted and digested."""

    rows: int
    sha256: str


@dataclass(frozen=True)
class Restored:
    """One restore, and what it was compared with."""

    name: str
    took_s: float
    rows: int  # of all tables
    differing: tuple[str, ...]  # tables that are not the same, or are not there
    said: str  # what a command that failed said; empty: all succeeded


def digest_tables(client: RemoteClient) -> dict[str, TableDigest]:
    """Every table of the clients' schemas, by its name."""
    listed = client.rows(
        "select concat(table_schema, '.', table_name) from information_schema.tables "
        "where table_schema in ('sbtest', 'watch') and table_type = 'BASE TABLE' order by 1"
    )
    return {table: _digest(client, table) for (table,) in listed}


def _digest(client: RemoteClient, table: str) -> TableDigest:
    options = str(client.option_file)
    said = client.machine.ok(
        *("bash", "-c", DIGEST, "bash", options, table), timeout_s=DIGEST_TIMEOUT_S
    )
    rows, sha256 = said.split()
    return TableDigest(int(rows), sha256)


def find_differing(
    wanted: dict[str, TableDigest], found: dict[str, TableDigest]
) -> tuple[str, ...]:
    """Tables of which one has other rows than the other, or that only one has."""
    return tuple(sorted(name for name in wanted | found if wanted.get(name) != found.get(name)))


def compare_restores(client: RemoteClient, directory: str) -> list[Restored]:
    """A moment, and the latest backup; nobody else writes to the database."""
    command_line, name = client.command_line, client.database
    time.sleep(APART_S)
    moment = datetime.now(UTC)
    then = digest_tables(client)
    time.sleep(APART_S)
    client.rows(CHANGE)
    command_line.ok("db", "backup", "archive", name, "--to", directory)
    at = f"{moment:%Y-%m-%dT%H:%M:%S}"
    tried = [_restore(client, directory, "a moment", ("--time", at), then)]
    command_line.ok(
        *("db", "backup", "create", name, "--to", directory), timeout_s=RESTORE_TIMEOUT_S
    )
    tried.append(_restore(client, directory, "the latest", ("--latest",), digest_tables(client)))
    return tried


def _restore(
    client: RemoteClient,
    directory: str,
    what: str,
    wanted: tuple[str, ...],
    rows: dict[str, TableDigest],
) -> Restored:
    command_line = client.command_line
    restored = f"{client.database}-again"
    began_s = time.monotonic()
    finished = command_line.run(
        *("db", "restore", restored, "--from", directory, *wanted, "--of", client.database),
        timeout_s=RESTORE_TIMEOUT_S,
    )
    took_s = round(time.monotonic() - began_s, 1)
    count = sum(one.rows for one in rows.values())
    if finished.code != 0:
        return Restored(what, took_s, count, tuple(rows), finished.stderr[-500:].strip())
    reader = client.of(restored)
    reader.refresh()
    differing = find_differing(rows, digest_tables(reader))
    command_line.ok("db", "delete", restored, "--now", "--yes")
    return Restored(what, took_s, count, differing, "")


def render_restores(restored: list[Restored]) -> list[str]:
    """What is on the page of them, as lines of Markdown."""
    lines = [
        "",
        "Restores, compared with the database row by row:",
        "",
        "| restore of | took | rows compared | |",
        "|---|---:|---:|---|",
    ]
    for one in restored:
        differs = f"differs in {', '.join(one.differing)}" if one.differing else "the same rows"
        lines.append(f"| {one.name} | {one.took_s:.1f} s | {one.rows} | {one.said or differs} |")
    return lines
