"""Volumes that grow by rule, and databases kept off a full disk: on a real cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.command_line import CommandLine

NAME = "l-growth"
MIB = 2**20
# A server whose commit found the disk full tries it again so often.
RETRY_S = 60
# A server that has just been started writes the pages that it changed within this time.
SETTLE_S = 90


@pytest.fixture
def database(lab: CommandLine) -> Iterator[str]:
    lab.ok("db", "create", NAME, "--size", "1G", "--cpus", "0.5", "--write-path", "direct")
    try:
        yield NAME
    finally:
        lab.ok("db", "delete", NAME, "--yes", "--now")


def fill(lab: CommandLine, name: str, *, leave_mib: int) -> None:
    """Take all room on the volume but so much, as data would that nobody can see."""
    host = lab.json("db", "show", name)["host"]
    mount = lab.home / "labs" / lab.lab / "hosts" / host / "data" / "volumes" / name
    found = os.statvfs(mount)
    size_bytes = found.f_bavail * found.f_frsize - leave_mib * MIB
    filler = Path(mount) / f"filler-{time.monotonic_ns()}"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size_bytes)


def test_what_was_deleted_goes_back_to_the_pool(lab: CommandLine) -> None:
    lab.ok("db", "create", NAME, "--size", "1G", "--cpus", "0.5")
    try:
        require_trimmed(lab)
    finally:
        lab.ok("db", "delete", NAME, "--yes", "--now")


def require_trimmed(lab: CommandLine) -> None:
    """On a clone of the golden volume, where what was discarded leaves empty objects behind."""
    assert trim_until_nothing_changes(lab) < 700 * MIB
    host = lab.json("db", "show", NAME)["host"]
    large = lab.home / "labs" / lab.lab / "hosts" / host / "data" / "volumes" / NAME / "large"
    with large.open("wb") as file:
        file.write(os.urandom(96 * MIB))
        os.fsync(file.fileno())
    large.unlink()
    trimmed = lab.json("db", "trim", NAME)
    # The file is 96 MiB, and the server still writes a page now and then.
    assert trimmed["used_before_bytes"] - trimmed["used_after_bytes"] > 90 * MIB, trimmed
    assert trimmed["used_after_bytes"] < 700 * MIB


def trim_until_nothing_changes(lab: CommandLine) -> int:
    """What the volume uses once the server has written the pages that its start changed.

    In a clone, the first write to an object of 4 MiB copies all of it from the parent.
    """
    dirty = "show global status like 'Innodb_buffer_pool_pages_dirty'"
    deadline_s = time.monotonic() + SETTLE_S
    while True:
        is_written = lab.sql(NAME, dirty)[0][1] == "0"
        trimmed = lab.json("db", "trim", NAME)
        changed_bytes = abs(trimmed["used_before_bytes"] - trimmed["used_after_bytes"])
        if is_written and changed_bytes < MIB:
            return int(trimmed["used_after_bytes"])
        assert time.monotonic() < deadline_s, trimmed


def once(lab: CommandLine) -> list[tuple[str, str]]:
    """Kind and level of what one round of the controller met with this database."""
    events = [
        json.loads(line)
        for line in lab.run("serve", "--once", "--format", "json").stdout.splitlines()
    ]
    return [(e["kind"], e["level"]) for e in events if e["database"] == NAME]


def warned(lab: CommandLine) -> list[tuple[str, str]]:
    """Kind and outcome of what the controller has warned of, as the history has it."""
    events = lab.json("db", "events", NAME)["events"]
    return [(e["kind"], e["outcome"]) for e in events if e["by"] == "grampus serve"]


@pytest.mark.logs("controller.event")
def test_closed_before_the_disk_is_full_and_opened_by_a_resize(
    lab: CommandLine, database: str
) -> None:
    lab.sql(database, "create schema g; create table g.t (id int primary key)")
    fill(lab, database, leave_mib=40)
    assert once(lab) == [("read-only", "warning")]
    assert [kind for kind, outcome in warned(lab) if outcome == "lasts"] == ["serve.read-only"]
    assert [one["kind"] for one in lab.json("db", "show", database)["warnings"]] == [
        "serve.read-only"
    ]
    refused = lab.run("db", "connect", database, "-e", "insert into g.t values (1)")
    assert (refused.code != 0, "read-only" in refused.stderr) == (True, True), refused.stderr
    assert lab.sql(database, "select count(*) from g.t") == [["0"]]
    assert lab.json("db", "growth", "show", database)["guard"]["state"] == "closed"
    lab.ok("db", "growth", "release", database)
    lab.sql(database, "insert into g.t values (2); select 1")
    shrunk = lab.run("db", "resize", database, "--size", "512M")
    assert (shrunk.code, "cannot shrink" in shrunk.stderr) == (4, True), shrunk.stderr
    resized = lab.json("db", "resize", database, "--size", "1280M")
    assert (resized["guard"], resized["size_bytes"]) == (None, 1280 * MIB)
    lab.sql(database, "insert into g.t values (3); select 1")
    assert once(lab) == []
    assert {outcome for _, outcome in warned(lab)} == {"over"}
    assert lab.json("db", "show", database)["warnings"] == []


@pytest.mark.logs("controller.event")
def test_grows_by_its_rule_up_to_its_ceiling(lab: CommandLine, database: str) -> None:
    rule = ("--when", "80%", "--step", "25%", "--up-to", "1400M")
    lab.ok("db", "growth", "set", database, *rule)
    fill(lab, database, leave_mib=150)
    assert once(lab) == [("grew", "done")]
    shown = lab.json("db", "growth", "show", database)
    assert shown["size_bytes"] == 1280 * MIB
    assert shown["file_system"]["size_bytes"] > 1100 * MIB
    fill(lab, database, leave_mib=100)
    assert once(lab) == [("grew", "done")]
    assert once(lab) == [("cannot-grow", "warning")]
    assert lab.json("db", "show", database)["size_bytes"] == 1400 * MIB
    kinds = [event["kind"] for event in lab.json("db", "events", database)["events"]]
    assert kinds.count("db.grow") == 2


def test_serve_ends_cleanly_and_is_alone(lab: CommandLine) -> None:
    serving = lab.start("serve", "--format", "json")
    try:
        assert serving.stdout is not None
        assert json.loads(serving.stdout.readline())["kind"] == "started"
        second = lab.run("serve", "--once")
        assert (second.code, "already" in second.stderr) == (4, True), second.stderr
    finally:
        serving.send_signal(signal.SIGTERM)
        printed, _ = serving.communicate(timeout=60)
    assert serving.returncode == 0
    assert json.loads(printed.splitlines()[-1])["kind"] == "stopped"


@pytest.mark.exhaustive
def test_a_really_full_disk_is_survived(lab: CommandLine, database: str) -> None:
    """The server waits with its commit, and goes on once the volume has grown."""
    lab.sql(database, "create schema g; create table g.t (id int primary key, b longblob)")
    lab.sql(
        database,
        "insert into g.t with recursive n(i) as (select 1 union all select i + 1 from n "
        "where i < 20) select i, repeat('x', 1000000) from n; select 1",
    )
    # What it deletes is written twice: to a temporary file, then to the binary log. There is room
    # for the first.
    fill(lab, database, leave_mib=30)
    statement = "delete from g.t where id > 1; select 'done'"
    writer = lab.start("db", "connect", database, "-e", statement)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(timeout=10)
        assert once(lab) == [("disk-full", "failed")]
        lab.ok("db", "resize", database, "--size", "1536M")
        printed, said = writer.communicate(timeout=RETRY_S + 30)
    finally:
        writer.kill()
    assert "done" in printed, said
    assert lab.sql(database, "select id, length(b) from g.t") == [["1", "1000000"]]
    assert once(lab) == []
