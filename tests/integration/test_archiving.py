"""Binary logs archived by the controller: soon, of each database, and honest after a rollback."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_backup import purge_binary_logs, remove
from tests.system.administrator import begin_binary_log
from tests.system.command_line import CommandLine

NAMES, RESTORED = ("b-lag1", "b-lag2"), "b-joined"
SIZES = ("--size", "1G", "--memory", "512M", "--cpus", "0.5")
WATCH_S, LAG_S = 20.0, 5.0
INSERT = "INSERT INTO t.r (v) SELECT REPEAT(UUID(), 100)"


@pytest.fixture(scope="module")
def databases(lab: CommandLine) -> Iterator[tuple[str, ...]]:
    try:
        for name in NAMES:
            lab.ok("db", "create", name, *SIZES)
            create = (
                "CREATE DATABASE t; CREATE TABLE t.r (id INT PRIMARY KEY AUTO_INCREMENT, v TEXT)"
            )
            lab.ok("db", "connect", name, "-e", create)
        yield NAMES
    finally:
        remove(lab, *NAMES)


def schedule(lab: CommandLine, name: str, shelf: Path) -> None:
    options = ("--every", "31d", "--to", str(shelf), "--archive")
    lab.ok("db", "backup", "schedule", name, *options)


def shown(lab: CommandLine, name: str) -> Any:
    return lab.json("db", "show", name)["backups"]


def due(lab: CommandLine) -> Any:
    """What became of the only schedule that there is."""
    (one,) = lab.run("db", "backup", "due", "--format", "json").document["databases"]
    return one


@pytest.mark.alone
def test_lag_stays_within_its_bound_while_clients_write(
    lab: CommandLine, databases: tuple[str, ...], tmp_path: Path
) -> None:
    for name in databases:
        schedule(lab, name, tmp_path / "shelf")
    serving = lab.start("serve", "--format", "json")
    lags: list[float] = []
    try:
        begun_s = time.monotonic()
        while time.monotonic() < begun_s + WATCH_S or len(lags) < 2 * len(databases):
            assert time.monotonic() < begun_s + 3 * WATCH_S, lags
            assert serving.poll() is None, serving.communicate()
            for name in databases:
                lab.ok("db", "connect", name, "-e", INSERT)
                lag_s = shown(lab, name)["archive_lag_s"]
                lags += [lag_s] if lag_s is not None else []
    finally:
        serving.send_signal(signal.SIGTERM)
        printed, errors = serving.communicate(timeout=60)
        for name in databases:
            lab.ok("db", "backup", "schedule", name, "--off")
    assert max(lags) < LAG_S, lags
    events = [json.loads(line) for line in printed.splitlines()]
    assert not [e for e in events if e["kind"] == "archive-late"], (events, lags)
    assert not [e for e in events if e["level"] == "failed"], (events, errors)
    taken = [event["database"] for event in events if event["kind"] == "backup-taken"]
    assert sorted(taken) == sorted(databases)


def test_rollback_is_told_until_a_backup_leads_on(
    lab: CommandLine, databases: tuple[str, ...], tmp_path: Path
) -> None:
    name, shelf = databases[0], str(tmp_path / "shelf")
    archive = ("db", "backup", "archive", name, "--to", shelf)
    lab.ok("db", "snapshot", "create", name, "before")
    lab.ok("db", "backup", "create", name, "--to", shelf)
    lab.ok("db", "connect", name, "-e", f"{INSERT}; DO SLEEP(2)")
    until = lab.json(*archive)["restorable_until"]
    assert until is not None
    lab.ok("db", "snapshot", "rollback", name, "before", "--yes", "--no-safety-snapshot")
    lab.ok("db", "connect", name, "-e", INSERT)
    for _ in range(2):
        after = lab.json(*archive)
        assert "rolled back" in after["problem"]
        assert after["restorable_until"] == until
        assert after["stretch"].endswith("/0002")
    assert shown(lab, name)["restorable_until"] == until
    restore = ("db", "restore", "b-never", "--from", shelf, "--time", after["until"], "--dry-run")
    refused = lab.run(*restore)
    assert refused.code == 4, refused.stderr
    assert lab.run(*restore[:-2], until, "--dry-run").code == 0
    lab.ok("db", "backup", "create", name, "--to", shelf)
    lab.ok("db", "connect", name, "-e", "DO SLEEP(2)")
    well = lab.json(*archive)
    assert (well["problem"], well["restorable_until"]) == (None, well["until"])


@pytest.mark.exhaustive
def test_gap_makes_one_backup_of_a_schedule_due(
    lab: CommandLine, databases: tuple[str, ...], tmp_path: Path
) -> None:
    name = databases[1]
    schedule(lab, name, tmp_path / "shelf")
    try:
        assert due(lab)["taken"] is not None
        begin_binary_log(lab, name)
        lab.ok("db", "connect", name, "-e", INSERT)
        purge_binary_logs(lab, name, lab.sql(name, "SHOW BINARY LOGS")[-1][0])
        looks = [due(lab) for _ in range(4)]
    finally:
        lab.ok("db", "backup", "schedule", name, "--off")
    assert [[p["code"] for p in one["problems"]] for one in looks] == 4 * [["archive-gap"]]
    assert [one["taken"] is not None for one in looks] == [False, True, False, False]


@pytest.mark.exhaustive
def test_restore_reads_what_was_joined(
    lab: CommandLine, databases: tuple[str, ...], tmp_path: Path
) -> None:
    name, shelf = databases[0], tmp_path / "shelf"
    schedule(lab, name, shelf)
    rows = "SELECT COUNT(*), SUM(CRC32(v)) FROM t.r"
    try:
        lab.ok("serve", "--once")  # the backup, and all logs until now
        for after in (None, begin_binary_log, None):
            lab.ok("db", "connect", name, "-e", f"{INSERT}; DO SLEEP(2)")
            if after is not None:
                after(lab, name)
            lab.ok("serve", "--once")
        lab.ok("serve", "--once")  # what the one before joined is dropped
        until = shown(lab, name)["restorable_until"]
        (stretch,) = (shelf / name / "binlogs").glob("*/*")
        *complete, _ = sorted(path for path in stretch.iterdir() if path.is_dir())
        assert [len(list(log.iterdir())) for log in complete] == [1] * len(complete)
        lab.ok("db", "restore", RESTORED, "--from", str(shelf), "--time", until)
        assert lab.sql(RESTORED, rows) == lab.sql(name, rows)
    finally:
        lab.ok("db", "backup", "schedule", name, "--off")
        remove(lab, RESTORED)
