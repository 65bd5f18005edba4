"""Upgrades on a real lab: MariaDB 10.11 to 11.8, done, failed, interrupted and killed.

MySQL has one server in Debian's archive, so only MariaDB can be upgraded here.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.system.command_line import KILLED, CommandLine

# Each builds or uses a host image of its own.
pytestmark = [pytest.mark.integration, pytest.mark.exhaustive]

NAME = "aged"
CREATE = ("--size", "1G", "--memory", "512M", "--flavour", "mariadb", "--version", "10.11")
ROWS = "SELECT GROUP_CONCAT(a ORDER BY a) FROM app.t"
UPGRADE = ("db", "upgrade", NAME, "--yes")
# 11.8 does not start with the one, and takes the other without a use for it (11.8.9).
UNKNOWN_PARAMETER = "innodb_change_buffer_max_size"
IGNORED_PARAMETER = "innodb_defragment_frequency"
DEADLINE_S = 120


@contextmanager
def made(lab: CommandLine, *options: str) -> Iterator[CommandLine]:
    """A lab with a database of MariaDB 10.11 that holds three rows."""
    lab.ok("db", "create", NAME, *CREATE, *options, timeout_s=600)
    try:
        lab.sql(NAME, "CREATE DATABASE app; CREATE TABLE app.t (a INT PRIMARY KEY)")
        lab.sql(NAME, "INSERT INTO app.t VALUES (1), (2), (3)")
        yield lab
    finally:
        lab.run("db", "delete", NAME, "--now", "--yes")


@pytest.fixture
def aged(lab: CommandLine) -> Iterator[CommandLine]:
    with made(lab) as aged:
        yield aged


def version(lab: CommandLine) -> str:
    return lab.sql(NAME, "SELECT VERSION()")[0][0]


def require_as_it_was(lab: CommandLine) -> None:
    assert version(lab).startswith("10.11.")
    assert lab.sql(NAME, ROWS) == [["1,2,3"]]
    assert lab.json("db", "snapshot", "list", NAME)["snapshots"] == []
    assert lab.json("db", "show", NAME)["status"] == "running"


def test_it_goes_on_with_the_newer_server_and_can_write(aged: CommandLine) -> None:
    assert version(aged).startswith("10.11.")
    done = aged.json(*UPGRADE)
    assert done["upgraded"]
    assert done["former_version"].startswith("10.11.")
    assert done["server_version"].startswith("11.8.")
    assert version(aged).startswith("11.8.")
    assert aged.sql(NAME, ROWS) == [["1,2,3"]]
    aged.sql(NAME, "INSERT INTO app.t VALUES (4)")
    assert aged.sql(NAME, "CHECK TABLE app.t EXTENDED")[0][-1] == "OK"
    snapshots = aged.json("db", "snapshot", "list", NAME)["snapshots"]
    assert [snapshot["name"] for snapshot in snapshots] == [done["snapshot"]]
    assert not aged.json(*UPGRADE)["upgraded"]
    refused = aged.run(*UPGRADE, "--to", "10.11")
    assert (refused.code, "older" in refused.stderr) == (4, True)


def test_a_parameter_that_the_newer_server_does_not_know_stops_nothing_for_good(
    aged: CommandLine,
) -> None:
    aged.ok("db", "parameter", "set", NAME, UNKNOWN_PARAMETER, "30")
    failed = aged.run(*UPGRADE)
    assert failed.code == 1
    assert UNKNOWN_PARAMETER in failed.stderr
    require_as_it_was(aged)
    aged.ok("db", "parameter", "reset", NAME, UNKNOWN_PARAMETER)
    assert aged.json(*UPGRADE)["upgraded"]
    assert aged.sql(NAME, ROWS) == [["1,2,3"]]


def test_a_parameter_that_the_newer_server_ignores_is_told_and_reset(aged: CommandLine) -> None:
    aged.ok("db", "parameter", "set", NAME, IGNORED_PARAMETER, "50")
    done = aged.json(*UPGRADE)
    assert (done["upgraded"], done["ignored_parameters"]) == (True, [IGNORED_PARAMETER])
    (shown,) = aged.json("db", "parameter", "list", NAME)["parameters"]
    assert (shown["name"], shown["state"]) == (IGNORED_PARAMETER, "ignored")
    said = aged.ok("db", "parameter", "reset", NAME, IGNORED_PARAMETER).stdout
    assert said.strip() == f"{IGNORED_PARAMETER} is reset now."
    assert aged.json("db", "parameter", "list", NAME)["parameters"] == []
    aged.ok("db", "restart", NAME)


def test_an_encrypted_one_goes_back_and_goes_on_and_stays_encrypted(lab: CommandLine) -> None:
    with made(lab, "--encrypt") as aged:
        aged.ok("db", "parameter", "set", NAME, UNKNOWN_PARAMETER, "30")
        assert aged.run(*UPGRADE).code == 1
        require_as_it_was(aged)
        aged.ok("db", "parameter", "reset", NAME, UNKNOWN_PARAMETER)
        cut = aged.run(*UPGRADE, failpoints="db.upgrade/upgrade/after=kill")
        assert cut.code == KILLED
        aged.ok("db", "list")
        assert version(aged).startswith("11.8.")
        assert aged.sql(NAME, ROWS) == [["1,2,3"]]
        assert aged.json("db", "show", NAME)["encryption"] == "luks2"
        assert aged.json("volume", "show", NAME)["encryption"] == "luks2"


def test_interrupted_while_the_newer_server_has_the_data_it_goes_back(aged: CommandLine) -> None:
    host = aged.json("db", "show", NAME)["host"]
    log = aged.home / "labs" / aged.lab / "hosts" / host / "daemons" / f"upgrade-mysqld-{NAME}/log"
    process = aged.start(*UPGRADE)
    deadline_s = time.monotonic() + DEADLINE_S
    while not (log.exists() and "ready for connections" in log.read_text(errors="replace")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    require_as_it_was(aged)


@pytest.mark.parametrize("step", ["server", "snapshot", "record", "attach", "upgrade", "serve"])
def test_killed_at_a_step_the_next_command_finishes_it(aged: CommandLine, step: str) -> None:
    cut = aged.run(*UPGRADE, failpoints=f"db.upgrade/{step}/after=kill")
    assert cut.code == KILLED
    aged.ok("db", "list")
    assert version(aged).startswith("11.8.")
    assert aged.sql(NAME, ROWS) == [["1,2,3"]]
