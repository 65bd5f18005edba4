"""Places of backups that fail, a bucket of the lab's own gateway, and other work meanwhile."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.administrator import begin_binary_log
from tests.system.command_line import KILLED, CommandLine
from tests.system.lab_machine import wait_for_health

SOURCE, SECOND, RESTORED = "b-place", "b-place-2", "b-placed"
SIZES = ("--size", "1G", "--memory", "512M", "--cpus", "0.5")
# About 40 MiB that nothing can compress.
FILL = (
    "CREATE DATABASE t; CREATE TABLE t.r (id INT PRIMARY KEY AUTO_INCREMENT, v BLOB); "
    "SET cte_max_recursion_depth = 40000; INSERT INTO t.r (v) WITH RECURSIVE n (i) AS "
    "(SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000) SELECT RANDOM_BYTES(1024) FROM n;"
)
SUM = "SELECT COUNT(*), SUM(CRC32(v)) FROM t.r"


@pytest.fixture(scope="module")
def source(lab: CommandLine) -> Iterator[str]:
    lab.ok("db", "create", SOURCE, *SIZES)
    try:
        lab.ok("db", "connect", SOURCE, "-e", FILL)
        yield SOURCE
    finally:
        there = {database["name"] for database in lab.json("db", "list")["databases"]}
        for name in there & {SOURCE, RESTORED}:
            lab.ok("db", "delete", name, "--yes", "--now")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(disk)], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=False)


def remount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(disk)], check=True)


def listed(lab: CommandLine, url: str, *options: str) -> Any:
    return lab.json("db", "backup", "list", "--from", url, *options)


def snapshots(lab: CommandLine) -> dict[str, bool]:
    found = lab.json("volume", "snapshot", "list", SOURCE)["snapshots"]
    return {snapshot["name"]: snapshot["protected"] for snapshot in found}


def test_place_that_fails_leaves_nothing_and_is_told(
    lab: CommandLine, source: str, small_disk: Path
) -> None:
    shelf = str(small_disk / "shelf")
    create = ("db", "backup", "create", source, "--to", shelf)
    full = lab.run(*create)
    assert full.code == 1
    assert "There is no space left" in full.stderr
    remount(small_disk, "ro")
    refused = lab.run(*create)
    assert refused.code == 1
    assert "is not writable" in refused.stderr
    assert snapshots(lab) == {}
    remount(small_disk, "rw,size=400m")
    assert listed(lab, shelf)["incomplete"] == []
    assert lab.json(*create)["kind"] == "full"


def test_other_commands_go_on_and_what_is_read_stays(
    lab: CommandLine, source: str, tmp_path: Path
) -> None:
    shelf = tmp_path / "shelf"
    running = lab.start("db", "backup", "create", source, "--to", str(shelf))
    try:
        while running.poll() is None and not list(shelf.rglob("*.part")):
            time.sleep(0.02)
        assert running.poll() is None, running.communicate()
        (taken,) = [name for name, protected in snapshots(lab).items() if protected]
        # Renamed back where the backup was quicker than this command.
        renamed = lab.run("db", "rename", source, RESTORED)
        if renamed.code == 0:
            lab.ok("db", "rename", RESTORED, source)
            pytest.skip("the backup was over before anything else was begun")
        assert "is reading the volume" in renamed.stderr
        lab.ok("db", "label", source, "team=web")
    finally:
        running.communicate()
    assert running.returncode == 0
    assert snapshots(lab)[taken] is False


def _require_locked(lab: CommandLine, source: str, gateway: dict[str, str]) -> None:
    """A backup in the bucket with object lock, which nobody can delete; in the other, a refusal."""
    keys = ("--credentials", gateway["credentials"])
    create = ("db", "backup", "create", source, "--object-lock", "1", *keys)
    refused = lab.run(*create, "--to", f"{gateway['bucket']}/two")
    assert refused.code == 4, refused.stderr
    assert "has no object lock" in refused.stderr
    url = f"{gateway['locked_bucket']}/two"
    backup = lab.json(*create, "--to", url)["id"]
    kept = lab.run("db", "backup", "delete", backup, "--from", url, *keys, "--yes")
    assert kept.code == 4, kept.stderr
    assert "is locked until" in kept.stderr
    lab.ok("db", "backup", "verify", "--from", url, *keys)


@pytest.mark.exhaustive
def test_bucket_of_the_labs_own_gateway(lab: CommandLine, source: str) -> None:
    gateway = lab.json("lab", "gateway", "up")
    try:
        assert Path(gateway["credentials"]).stat().st_mode & 0o777 == 0o600
        url, keys = f"{gateway['bucket']}/one", ("--credentials", gateway["credentials"])
        create = ("db", "backup", "create", source, "--to", url, *keys)
        assert lab.json(*create)["kind"] == "full"
        lab.ok("db", "connect", source, "-e", "INSERT INTO t.r (v) VALUES ('more')")
        cut = lab.run(*create, failpoints="db.backup/data/after=kill")
        assert cut.code == KILLED
        lab.ok("db", "list")
        assert lab.json(*create)["kind"] == "incremental"
        backed_up = lab.sql(source, SUM)
        lab.ok("db", "backup", "verify", "--from", url, *keys)
        archive = ("db", "backup", "archive", source, "--to", url, *keys)
        lab.ok(*archive)
        lab.ok("db", "connect", source, "-e", "INSERT INTO t.r (v) VALUES ('wanted')")
        wanted = lab.sql(source, SUM)
        # Later than what is wanted, and earlier than what is not, to the second.
        (moment,) = lab.sql(source, "DO SLEEP(2); SELECT UTC_TIMESTAMP()")[-1]
        lab.ok("db", "connect", source, "-e", "DO SLEEP(2); INSERT INTO t.r (v) VALUES ('not')")
        restore = ("db", "restore", RESTORED, "--from", url, *keys)
        too_late = lab.run(*restore, "--time", moment)
        assert too_late.code == 4, too_late.stderr
        begin_binary_log(lab, source)
        lab.ok(*archive)
        lab.ok(*restore, "--time", moment)
        assert lab.sql(RESTORED, SUM) == wanted
        lab.ok("db", "delete", RESTORED, "--yes", "--now")
        lab.ok(*restore, "--latest")
        assert lab.sql(RESTORED, SUM) == backed_up
        tested = lab.json("db", "backup", "test", source, "--from", url, *keys)["tested"]
        assert [(one["compared"], one["problem"]) for one in tested] == [(True, None)]
        _require_locked(lab, source, gateway)
        wait_for_health(lab)
    finally:
        lab.ok("lab", "gateway", "down", "--yes")
    status = lab.json("lab", "status")
    assert not [d for host in status["hosts"] for d in host["daemons"] if "rgw" in d["name"]]
    assert not Path(gateway["credentials"]).exists()


@pytest.fixture
def pair(lab: CommandLine, source: str) -> Iterator[tuple[str, str]]:
    """Two databases of some size, without schedules again after it."""
    lab.ok("db", "create", SECOND, *SIZES)
    try:
        lab.ok("db", "connect", SECOND, "-e", FILL)
        yield source, SECOND
    finally:
        lab.run("db", "backup", "schedule", source, "--off")
        lab.run("db", "delete", SECOND, "--yes", "--now")


def test_what_is_due_is_taken_side_by_side_and_told_apart(
    lab: CommandLine, pair: tuple[str, str], small_disk: Path, tmp_path: Path
) -> None:
    good, bad = pair
    shelf, full = tmp_path / "shelf", small_disk / "shelf"
    every = ("--every", "1h", "--keep", "1")
    lab.ok("db", "backup", "schedule", good, *every, "--to", str(shelf))
    lab.ok("db", "backup", "schedule", bad, *every, "--to", str(full))
    due = lab.run("db", "backup", "due", "--format", "json")
    assert due.code == 1, due.stderr
    told = {one["database"]: one for one in due.document["databases"]}
    assert list(told) == sorted(pair)
    assert told[good]["taken"] is not None
    assert told[good]["problems"] == []
    assert told[bad]["taken"] is None
    assert "There is no space left" in told[bad]["problems"][0]["problem"]
    assert f"{good}: " in due.stderr
    lab.ok("db", "backup", "schedule", bad, *every, "--to", str(shelf))
    assert lab.ok("db", "backup", "due").code == 0
    databases = {one["database"]["name"] for one in listed(lab, str(shelf))["backups"]}
    assert databases == set(pair)


def test_ctrl_c_ends_all_that_is_due_and_leaves_nothing(
    lab: CommandLine, pair: tuple[str, str], tmp_path: Path
) -> None:
    shelf = str(tmp_path / "shelf")
    for name in pair:
        lab.ok("db", "backup", "schedule", name, "--every", "1h", "--to", shelf)
    before = {
        name: {one["name"] for one in lab.json("volume", "snapshot", "list", name)["snapshots"]}
        for name in pair
    }
    due = lab.start("db", "backup", "due")
    assert due.stderr is not None
    begun: set[str] = set()
    for line in due.stderr:
        begun |= {name for name in pair if line.startswith(f"{name}: Write all data")}
        if begun == set(pair):
            break
    due.send_signal(signal.SIGINT)
    _, said = due.communicate(timeout=60)
    assert due.returncode not in (0, KILLED), said
    # One that was quicker is whole; the other is gone without a trace.
    whole = listed(lab, shelf)
    assert (len(whole["backups"]) < 2, whole["incomplete"]) == (True, [])
    assert said.count("Undoing") == 2 - len(whole["backups"]), said
    for name in {*pair} - {one["database"]["name"] for one in whole["backups"]}:
        found = lab.json("volume", "snapshot", "list", name)["snapshots"]
        assert {one["name"] for one in found} == before[name]
    assert "undone" not in lab.ok("db", "list").stderr, "there was nothing to settle"
    lab.ok("db", "backup", "due")
    assert len(listed(lab, shelf)["backups"]) == 2
