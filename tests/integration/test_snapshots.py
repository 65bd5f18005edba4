"""Snapshots and rollbacks on a real cluster: what is in them, and no row lost or left over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.command_line import KILLED, CommandLine
from tests.system.lab_machine import LabMachine
from tests.system.volumes import attached_volume

CREATE = ("--size", "1G", "--memory", "512M", "--cpus", "0.5")
TABLE = "CREATE DATABASE s; CREATE TABLE s.t (id INT PRIMARY KEY)"


@pytest.fixture(params=["journal", pytest.param("direct", marks=pytest.mark.exhaustive)])
def database(lab: CommandLine, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"snap-{request.param}"
    lab.ok("db", "create", name, *CREATE, "--write-path", request.param)
    lab.ok("db", "connect", name, "-e", f"{TABLE}; INSERT INTO s.t VALUES (1)")
    yield name
    lab.ok("db", "delete", name, "--now", "--yes")


def _rows(lab: CommandLine, name: str) -> str:
    return lab.ok("db", "connect", name, "-e", "SELECT COUNT(*) FROM s.t").stdout.split()[-1]


def _snapshots(lab: CommandLine, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lab.json("db", "snapshot", "list", name)["snapshots"]
    return found


def test_rolled_back_and_forth(lab: CommandLine, database: str) -> None:
    lab.ok("db", "snapshot", "create", database, "before")
    lab.ok("db", "connect", database, "-e", "INSERT INTO s.t VALUES (2), (3)")
    rollback = ("db", "snapshot", "rollback", database)
    safety = lab.json(*rollback, "before", "--yes")["safety_snapshot"]
    assert _rows(lab, database) == "1"
    assert [kept["name"] for kept in _snapshots(lab, database)] == ["before", safety]
    shown = lab.json("db", "show", database)
    assert (shown["snapshots"]["count"], shown["snapshots"]["newest"]["name"]) == (2, safety)
    assert shown["snapshots"]["used_bytes"] > 0
    assert (shown["last_event"]["kind"], shown["last_event"]["outcome"]) == ("db.rollback", "done")
    lab.ok(*rollback, safety, "--yes", "--no-safety-snapshot")
    assert _rows(lab, database) == "3"


@pytest.mark.parametrize(
    "step",
    [
        pytest.param("detach", marks=pytest.mark.exhaustive),
        "rollback",
        pytest.param("serve", marks=pytest.mark.exhaustive),
    ],
)
def test_a_rollback_killed_at_a_step_is_finished(
    lab: CommandLine, database: str, step: str
) -> None:
    lab.ok("db", "snapshot", "create", database, "before")
    lab.ok("db", "connect", database, "-e", "INSERT INTO s.t VALUES (2)")
    cut = lab.run(
        *("db", "snapshot", "rollback", database, "before", "--yes"),
        failpoints=f"db.rollback/{step}/after=kill",
    )
    assert cut.code == KILLED, cut.stderr
    listed = lab.ok("db", "list")
    assert "It is now finished" in listed.stderr
    assert _rows(lab, database) == "1"


def test_what_clones_stand_on_stays(lab: CommandLine) -> None:
    machine = LabMachine(lab, "h1")
    with attached_volume(lab, "snap-parent", size="512M") as volume:
        file = Path(volume["mount_path"]) / "file"
        machine.ok("sh", "-c", f"echo before > {file}; sync {file}")
        lab.ok("volume", "snapshot", "create", "snap-parent", "kept")
        machine.ok("sh", "-c", f"echo after > {file}; sync {file}")
        listed = lab.json("volume", "snapshot", "list", "snap-parent")
        assert [one["name"] for one in listed["snapshots"]] == ["kept"]
        assert listed["since_last_bytes"] >= 4 * 1024 * 1024, "an object was written to"
        lab.ok("volume", "clone", "snap-parent@kept", "snap-child", "--size", "1G")
        refused = lab.run("volume", "snapshot", "delete", "snap-parent", "kept", "--yes")
        assert (refused.code, "clones that depend on it: snap-child" in refused.stderr) == (4, True)
        attached = lab.json("volume", "attach", "snap-child", "--host", "h1")
        copy = Path(attached["mount_path"]) / "file"
        assert machine.ok("cat", str(copy)).strip() == "before"
        lab.ok("volume", "flatten", "snap-child")
        assert machine.ok("cat", str(copy)).strip() == "before"
        lab.ok("volume", "snapshot", "delete", "snap-parent", "kept", "--yes")
        lab.ok("volume", "delete", "snap-child", "--yes")


def test_a_schedule_takes_one_an_interval(lab: CommandLine, database: str) -> None:
    schedule = ("db", "snapshot", "schedule", database)
    lab.ok(*schedule, "--every", "31d", "--keep", "1")
    taken = lab.json("db", "snapshot", "due")["databases"]
    assert [one["database"] for one in taken if one["taken"]] == [database]
    again = lab.json("db", "snapshot", "due")["databases"]
    assert [one for one in again if one["taken"]] == []
    lab.ok(*schedule, "--none")
