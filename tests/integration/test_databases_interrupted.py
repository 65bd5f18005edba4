"""`db create` and `db delete` stopped at every step by SIGKILL: nothing leaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.command_line import KILLED
from tests.system.leftovers import differences
from tests.system.places import ON_SITE, Place

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
def golden_volume(place: Place) -> None:
    """What databases are cloned from is made by the first of its kind, and is there to stay."""
    volumes = place.line.json("volume", "list")["volumes"]
    if not any(volume["name"].startswith("golden-") for volume in volumes):
        place.line.ok("db", "create", "first", "--size", "1G", "--memory", "256M")
        place.line.ok("db", "delete", "first", "--now", "--yes")


# Killed before a step is killed after the one before it.
@pytest.mark.parametrize("point", ["begun", *(f"{step}/after" for step in CREATE_STEPS)])
@pytest.mark.logs("operation.undone")
def test_create_killed_at_a_step_is_undone_by_the_next_command(place: Place, point: str) -> None:
    before = place.inventory()
    cut = place.line.run(*CREATE, failpoints=f"db.create/{point}=kill")
    assert cut.code == KILLED, cut.stderr
    listed = place.line.ok("db", "list", "--format", "json")
    assert listed.document["databases"] == []
    assert "undone" in listed.stderr
    assert differences(before, place.inventory()) == {}


def test_create_interrupted_by_ctrl_c_leaves_nothing(place: Place) -> None:
    before = place.inventory()
    failed = place.line.run(*CREATE, failpoints="db.create/serve/before=error")
    assert failed.code == 1
    assert differences(before, place.inventory()) == {}


@pytest.mark.logs("operation.undone")
def test_undo_killed_at_every_step_is_gone_on_with(place: Place) -> None:
    before = place.inventory()
    assert place.line.run(*CREATE, failpoints="db.create/serve/after=kill").code == KILLED
    for step in reversed(CREATE_STEPS):
        place.line.run("db", "list", failpoints=f"db.create/{step}/undo=kill")
    place.line.ok("db", "list")
    assert differences(before, place.inventory()) == {}


def test_delete_killed_at_every_step_is_finished(place: Place) -> None:
    before = place.inventory()
    place.line.ok(*CREATE)
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
    cut = place.line.run(
        "db", "delete", "cut", "--now", "--yes", failpoints=f"db.delete/{steps[0]}/after=kill"
    )
    assert cut.code == KILLED, cut.stderr
    killed = 1
    for step in steps[1:]:
        killed += (
            place.line.run("db", "list", failpoints=f"db.delete/{step}/after=kill").code == KILLED
        )
    assert killed >= len(steps) - 1, "the names of the steps have changed"
    place.line.ok("db", "list")
    assert differences(before, place.inventory()) == {}


def test_secrets_are_private(place: Place) -> None:
    place.line.ok(*CREATE)
    try:
        home, name = place.line.home, place.line.lab
        secrets = [*(home / "secrets" / name).glob("cut*")]
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
        assert password.encode() not in (home / "state.db").read_bytes()
        for log in (home / "labs" / name).glob("hosts/*/daemons/*/log"):
            assert password not in log.read_text(errors="replace")
        if ON_SITE:
            for host in place.hosts:
                assert password not in place.run(host, "journalctl", "--no-pager")
    finally:
        place.line.ok("db", "delete", "cut", "--now", "--yes")
