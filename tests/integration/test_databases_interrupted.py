"""`db create` and `db delete` stopped at every step by SIGKILL: nothing leaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.command_line import KILLED, CommandLine
from tests.system.leftovers import cluster_inventory, differences

CREATE_STEPS = (
    "record",
    "secrets",
    "volume",
    "attach",
    "files",
    "address",
    "start",
    "metadata",
    "serve",
    "finish",
)
CREATE = ("db", "create", "cut", "--size", "1G", "--memory", "256M")


@pytest.fixture(autouse=True)
def golden_volume(lab: CommandLine) -> None:
    """What databases are cloned from is made by the first of its kind, and is there to stay."""
    volumes = lab.json("volume", "list")["volumes"]
    if not any(volume["name"].startswith("golden-") for volume in volumes):
        lab.ok("db", "create", "first", "--size", "1G", "--memory", "256M")
        lab.ok("db", "delete", "first", "--now", "--yes")


# Killed before a step is killed after the one before it.
@pytest.mark.parametrize("point", ["begun", *(f"{step}/after" for step in CREATE_STEPS)])
@pytest.mark.logs("operation.undone")
def test_create_killed_at_a_step_is_undone_by_the_next_command(
    lab: CommandLine, point: str
) -> None:
    before = cluster_inventory(lab)
    cut = lab.run(*CREATE, failpoints=f"db.create/{point}=kill")
    assert cut.code == KILLED, cut.stderr
    listed = lab.ok("db", "list", "--format", "json")
    assert listed.document["databases"] == []
    assert "undone" in listed.stderr
    assert differences(before, cluster_inventory(lab)) == {}


def test_create_interrupted_by_ctrl_c_leaves_nothing(lab: CommandLine) -> None:
    before = cluster_inventory(lab)
    failed = lab.run(*CREATE, failpoints="db.create/serve/before=error")
    assert failed.code == 1
    assert differences(before, cluster_inventory(lab)) == {}


@pytest.mark.logs("operation.undone")
def test_undo_killed_at_every_step_is_gone_on_with(lab: CommandLine) -> None:
    before = cluster_inventory(lab)
    assert lab.run(*CREATE, failpoints="db.create/serve/after=kill").code == KILLED
    for step in reversed(CREATE_STEPS):
        lab.run("db", "list", failpoints=f"db.create/{step}/undo=kill")
    lab.ok("db", "list")
    assert differences(before, cluster_inventory(lab)) == {}


def test_delete_killed_at_every_step_is_finished(lab: CommandLine) -> None:
    before = cluster_inventory(lab)
    lab.ok(*CREATE)
    steps = [
        "mark",
        "server",
        "scratch",
        "address",
        "volume",
        "files",
        "secrets",
        "record",
    ]
    cut = lab.run(
        "db", "delete", "cut", "--now", "--yes", failpoints=f"db.delete/{steps[0]}/after=kill"
    )
    assert cut.code == KILLED, cut.stderr
    killed = 1
    for step in steps[1:]:
        killed += lab.run("db", "list", failpoints=f"db.delete/{step}/after=kill").code == KILLED
    assert killed >= len(steps) - 1, "the names of the steps have changed"
    lab.ok("db", "list")
    assert differences(before, cluster_inventory(lab)) == {}


def test_secrets_are_private(lab: CommandLine) -> None:
    lab.ok(*CREATE)
    try:
        secrets = [*(lab.home / "secrets" / lab.lab).glob("cut*")]
        assert secrets
        assert {oct(path.stat().st_mode & 0o777) for path in secrets} <= {"0o600", "0o700"}
        password = next(
            line.partition("=")[2].strip().strip('"')
            for path in secrets
            if path.suffix == ".cnf"
            for line in path.read_text().splitlines()
            if line.startswith("password")
        )
        assert len(password) >= 20
        for directory in Path("/proc").glob("[0-9]*"):
            try:
                argv = (directory / "cmdline").read_bytes()
            except OSError:
                continue
            assert password.encode() not in argv
        assert password.encode() not in (lab.home / "state.db").read_bytes()
        for log in (lab.home / "labs" / lab.lab).glob("hosts/*/daemons/*/log"):
            assert password not in log.read_text(errors="replace")
    finally:
        lab.ok("db", "delete", "cut", "--now", "--yes")
