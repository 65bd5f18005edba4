"""`lab up` and `lab down` stopped at every step by SIGKILL, then finished or undone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.system.command_line import KILLED, CommandLine
from tests.system.machine import inventory, left_behind, wait_for

UP_STEPS = (
    "record",
    "data",
    "network",
    "hosts",
    "configuration",
    "mons",
    "mgrs",
    "osds",
    "pool",
    "health",
)
DOWN_STEPS = ("daemons", "mounts", "containers", "network", "overlays", "data", "forget")


@pytest.fixture
def own_lab() -> Iterator[CommandLine]:
    """A lab that is not up, on a machine that has nothing more afterwards."""
    command_line = CommandLine("test-cut")
    command_line.run("lab", "down", "--yes")
    tag = command_line.tag
    before = inventory(tag)
    yield command_line
    command_line.run("lab", "down", "--yes")
    wait_for(lambda: "processes" not in left_behind(before, tag), "the lab's processes to end")
    left = left_behind(before, tag)
    left.pop("processes", None)  # one of another lab that has no control group yet
    assert left == {}
    assert not (command_line.home / "labs" / command_line.lab).exists()


@pytest.mark.logs("operation.closed")
def test_up_killed_after_each_step_is_finished_by_up(own_lab: CommandLine) -> None:
    for step in UP_STEPS:
        cut = own_lab.run("lab", "up", failpoints=f"lab.up/{step}/after=kill")
        assert cut.code == KILLED, f"{step}: {cut.stderr}"
    document = own_lab.json("lab", "up")
    assert document["state"] == "up"
    assert document["health"] == "HEALTH_OK"
    assert document["unfinished"] == []


@pytest.mark.parametrize("step", UP_STEPS)
@pytest.mark.logs("operation.closed")
def test_up_killed_at_a_step_is_undone_by_down(own_lab: CommandLine, step: str) -> None:
    cut = own_lab.run("lab", "up", failpoints=f"lab.up/{step}/before=kill")
    assert cut.code == KILLED, cut.stderr
    own_lab.ok("lab", "down", "--yes")
    # The fixture looks for what the machine has more than before.


def test_up_that_fails_leaves_nothing(own_lab: CommandLine) -> None:
    failed = own_lab.run("lab", "up", failpoints="lab.up/osds/before=error")
    assert failed.code == 1
    assert "failpoint" in failed.stderr
    assert own_lab.run("lab", "status").code == 3


@pytest.mark.logs("operation.closed")
def test_down_killed_after_each_step_is_finished_by_down(own_lab: CommandLine) -> None:
    own_lab.ok("lab", "up")
    for step in DOWN_STEPS[:-1]:
        cut = own_lab.run("lab", "down", "--yes", failpoints=f"lab.down/{step}/after=kill")
        assert cut.code == KILLED, f"{step}: {cut.stderr}"
    own_lab.ok("lab", "down", "--yes")


def test_data_survive_down_keep_and_a_reboot(own_lab: CommandLine) -> None:
    own_lab.ok("lab", "up")
    own_lab.ok("db", "create", "kept", "--size", "1G", "--memory", "256M")
    own_lab.sql("kept", "create schema s; create table s.t (i int primary key); select 1")
    own_lab.sql("kept", "insert into s.t values (1), (2); select 1")
    own_lab.ok("lab", "down", "--keep")
    assert own_lab.json("lab", "status")["state"] == "down"
    own_lab.ok("lab", "up")
    assert own_lab.sql("kept", "select count(*) from s.t") == [["2"]]
    # What a power cut leaves: processes, mounts and devices gone without a word, files as they
    # were. `kill-host` makes just that of each host.
    own_lab.sql("kept", "insert into s.t values (3); select 1")
    for host in own_lab.json("lab", "status")["hosts"]:
        own_lab.ok("lab", "fault", "kill-host", host["name"], "--force")
    assert own_lab.json("lab", "status")["state"] == "down"
    own_lab.ok("lab", "up")
    assert own_lab.sql("kept", "select count(*) from s.t") == [["3"]]
