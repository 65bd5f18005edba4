"""Backups and restores on a real cluster: the same rows come back, cut off or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.administrator import as_administrator, begin_binary_log
from tests.system.command_line import KILLED, CommandLine

SOURCE, RESTORED = "b-src", "b-new"
SIZES = ("--size", "1G", "--memory", "512M", "--cpus", "0.5")
FILL = (
    "CREATE DATABASE t; CREATE TABLE t.r (id INT PRIMARY KEY AUTO_INCREMENT, v TEXT); "
    "INSERT INTO t.r (v) VALUES (UUID()), (UUID()), (UUID()); "
    "INSERT INTO t.r (v) SELECT REPEAT(UUID(), 20) FROM t.r a, t.r b, t.r c, t.r d, t.r e, t.r f;"
)
CREATE_STEPS = ("snapshot", "data")
RESTORE_STEPS = ("secrets", "data", "attach", "serve")


@pytest.fixture(params=["journal", pytest.param("direct", marks=pytest.mark.exhaustive)])
def source(lab: CommandLine, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database with rows; what is restored from it goes with it."""
    lab.ok("db", "create", SOURCE, *SIZES, "--write-path", request.param)
    try:
        lab.ok("db", "connect", SOURCE, "-e", FILL)
        yield SOURCE
    finally:
        remove(lab, SOURCE, RESTORED)


def remove(lab: CommandLine, *names: str) -> None:
    there = {database["name"] for database in lab.json("db", "list")["databases"]}
    for name in there & set(names):
        lab.ok("db", "delete", name, "--yes", "--now")


def back_up(lab: CommandLine, shelf: Path, *options: str) -> Any:
    return lab.json("db", "backup", "create", SOURCE, "--to", str(shelf), *options)


def listed(lab: CommandLine, shelf: Path) -> Any:
    return lab.json("db", "backup", "list", "--from", str(shelf))


def snapshot_names(lab: CommandLine, volume: str) -> list[str]:
    listed = lab.json("volume", "snapshot", "list", volume)["snapshots"]
    return [snapshot["name"] for snapshot in listed]


def rows(lab: CommandLine, name: str) -> list[list[str]]:
    return lab.sql(name, "SELECT COUNT(*), SUM(CRC32(CONCAT(id, v))) FROM t.r")


def test_each_backup_comes_back_with_the_rows_it_was_taken_with(
    lab: CommandLine, source: str, tmp_path: Path
) -> None:
    shelf = tmp_path / "shelf"
    taken = {}
    for number in range(3):
        lab.ok("db", "connect", source, "-e", f"INSERT INTO t.r (v) VALUES ('{number}')")
        taken[back_up(lab, shelf)["id"]] = rows(lab, source)
    assert [backup["kind"] for backup in listed(lab, shelf)["backups"]] == [
        "full",
        "incremental",
        "incremental",
    ]
    lab.ok("db", "backup", "verify", "--from", str(shelf))
    uuid = lab.sql(source, "SELECT @@server_uuid, @@server_id")
    password = endpoint(lab, source)
    for backup_id, expected in taken.items():
        from_ = ("--from", str(shelf), "--backup", backup_id)
        lab.ok("db", "restore", RESTORED, *from_)
        assert rows(lab, RESTORED) == expected
        assert lab.sql(RESTORED, "SELECT @@server_uuid, @@server_id") != uuid
        assert endpoint(lab, RESTORED) != password
        lab.ok("db", "connect", RESTORED, "-e", "INSERT INTO t.r (v) VALUES ('its own')")
        remove(lab, RESTORED)
    assert rows(lab, source) == list(taken.values())[-1]


def endpoint(lab: CommandLine, name: str) -> str:
    """The option file, password and address included."""
    return (lab.home / "secrets" / lab.lab / f"{name}.cnf").read_text()


def test_backup_outlives_its_database_and_its_key_alone_opens_it(
    lab: CommandLine, source: str, tmp_path: Path
) -> None:
    shelf, key = tmp_path / "shelf", tmp_path / "key"
    back_up(lab, shelf)
    expected = rows(lab, source)
    lab.ok("db", "backup", "key", "export", "--to", str(key))
    assert key.stat().st_mode & 0o777 == 0o600
    lab.ok("db", "delete", source, "--yes", "--now")
    lab.ok("db", "restore", RESTORED, "--from", str(shelf), "--latest")
    assert rows(lab, RESTORED) == expected
    elsewhere = CommandLine(lab.lab, tmp_path / "another home")
    verify = ("db", "backup", "verify", "--from", str(shelf))
    assert elsewhere.run(*verify).code == 1
    elsewhere.ok("db", "backup", "key", "import", str(key))
    elsewhere.ok(*verify)
    secret = key.read_text().split()[2].encode()
    assert all(secret not in path.read_bytes() for path in shelf.rglob("*") if path.is_file())
    assert secret not in (lab.home / "state.db").read_bytes()


@pytest.mark.exhaustive
def test_cut_off_anywhere_it_is_whole_or_nothing(
    lab: CommandLine, source: str, tmp_path: Path
) -> None:
    shelf = tmp_path / "shelf"
    base = back_up(lab, shelf)
    create = ("db", "backup", "create", source, "--to", str(shelf))
    snapshots = snapshot_names(lab, source)
    for step in CREATE_STEPS:
        cut = lab.run(*create, failpoints=f"db.backup/{step}/before=kill")
        assert cut.code == KILLED, cut.stderr
        lab.ok("db", "list")
        contents = listed(lab, shelf)
        assert ([b["id"] for b in contents["backups"]], contents["incomplete"]) == (
            [base["id"]],
            [],
        )
        assert snapshot_names(lab, source) == snapshots
    assert back_up(lab, shelf)["kind"] == "incremental"
    expected = rows(lab, source)
    restore = ("db", "restore", RESTORED, "--from", str(shelf), "--latest")
    for step in RESTORE_STEPS:
        cut = lab.run(*restore, failpoints=f"db.restore/{step}/after=kill")
        assert cut.code == KILLED, cut.stderr
        lab.ok("db", "list")
        names = [volume["name"] for volume in lab.json("volume", "list")["volumes"]]
        assert RESTORED not in names
        assert not list((lab.home / "secrets" / lab.lab).glob(f"{RESTORED}*"))
    lab.ok(*restore)
    assert rows(lab, RESTORED) == expected


@pytest.mark.exhaustive
def test_damaged_backup_is_found_and_makes_no_database(
    lab: CommandLine, source: str, tmp_path: Path
) -> None:
    shelf = tmp_path / "shelf"
    backup = back_up(lab, shelf)
    data = shelf / backup["id"] / "image.sealed"
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    assert lab.run("db", "backup", "verify", "--from", str(shelf)).code == 1
    failed = lab.run("db", "restore", RESTORED, "--from", str(shelf), "--latest")
    assert failed.code == 1
    assert "damaged" in failed.stderr
    names = [volume["name"] for volume in lab.json("volume", "list")["volumes"]]
    assert RESTORED not in names


def test_any_archived_moment_comes_back(lab: CommandLine, source: str, tmp_path: Path) -> None:
    shelf = tmp_path / "shelf"
    archive = ("db", "backup", "archive", source, "--to", str(shelf))
    back_up(lab, shelf)
    lab.ok(*archive)
    lab.ok("db", "connect", source, "-e", "INSERT INTO t.r (v) VALUES ('wanted'), (0x00270a0d)")
    # Neither the time that a session sets nor an event that runs meanwhile may matter (INV-62, 64).
    far, event = "SET timestamp = UNIX_TIMESTAMP('2037-01-01')", "t.every"
    lab.ok("db", "connect", source, "-e", f"{far}; INSERT INTO t.r (v) VALUES ('far')")
    lab.ok("db", "connect", source, "-e", "CREATE TABLE t.e (id INT PRIMARY KEY AUTO_INCREMENT)")
    every = f"CREATE EVENT {event} ON SCHEDULE EVERY 1 SECOND DO INSERT INTO t.e VALUES ()"
    lab.ok("db", "connect", source, "-e", f"{every}; DO SLEEP(3); DROP EVENT {event}")
    lab.ok("db", "connect", source, "-e", "INSERT INTO t.r (v) VALUES ('near')")
    expected, ran = rows(lab, source), lab.sql(source, "SELECT COUNT(*), MAX(id) FROM t.e")
    # A moment that is later than the insert and earlier than the drop, to the second.
    (moment,) = lab.sql(source, "DO SLEEP(2); SELECT UTC_TIMESTAMP()")[-1]
    lab.ok("db", "connect", source, "-e", "DO SLEEP(2); DROP TABLE t.r")
    begin_binary_log(lab, source)
    lab.ok("db", "connect", source, "-e", "CREATE TABLE t.later (id INT)")
    restore = ("db", "restore", RESTORED, "--from", str(shelf), "--time", moment)
    refused = lab.run(*restore)
    assert refused.code == 4, refused.stderr
    lab.ok(*archive)
    lab.ok(*restore)
    assert rows(lab, RESTORED) == expected
    assert lab.sql(RESTORED, "SELECT COUNT(*), MAX(id) FROM t.e") == ran
    lab.ok("db", "connect", RESTORED, "-e", "INSERT INTO t.r (v) VALUES ('its own')")


@pytest.mark.exhaustive
def test_gap_in_binary_logs_is_an_error_and_never_skipped(
    lab: CommandLine, source: str, tmp_path: Path
) -> None:
    shelf = tmp_path / "shelf"
    archive = ("db", "backup", "archive", source, "--to", str(shelf))
    lab.ok(*archive)
    begin_binary_log(lab, source)
    lab.ok("db", "connect", source, "-e", "INSERT INTO t.r (v) VALUES ('x')")
    last = lab.sql(source, "SHOW BINARY LOGS")[-1][0]
    purge_binary_logs(lab, source, last)
    for _ in range(2):
        gap = lab.run(*archive)
        assert gap.code == 1
        assert "gap" in gap.stderr
    lab.ok(*archive, "--new-stretch")
    lab.ok(*archive)


def purge_binary_logs(lab: CommandLine, name: str, before: str) -> None:
    """As their expiry does; the owner of a database may not."""
    as_administrator(lab, name, f"PURGE BINARY LOGS TO '{before}'")
