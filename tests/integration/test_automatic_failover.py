"""INV-90: `grampus serve` runs the databases of a lost host elsewhere, and of no other host."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.proof.operations.commit_watch import CommitWatch
from tests.proof.operations.remote_client import RemoteClient
from tests.system.command_line import CommandLine
from tests.system.lab_machine import LabMachine, wait_for_health
from tests.system.machine import wait_for
from tests.system.serving import serving

NAME = "auto"
# A loaded machine; `make chaos` shows what a quiet one takes.
SERVES_AGAIN_S = 90.0
# Long past the moment at which a host that is not heard counts as lost.
LEFT_ALONE_S = 12.0

pytestmark = pytest.mark.logs("controller.event")


@pytest.fixture(scope="module")
def database(lab: CommandLine) -> Iterator[CommandLine]:
    lab.ok("db", "create", NAME, "--size", "1G", "--memory", "320M", "--host", "h2")
    yield lab
    lab.ok("lab", "fault", "heal")
    lab.ok("db", "delete", NAME, "--now", "--yes")
    wait_for_health(lab)


def host_of(lab: CommandLine) -> str:
    host = lab.json("db", "show", NAME)["host"]
    assert isinstance(host, str)
    return host


def lose_under_load(lab: CommandLine, *fault: str) -> None:
    """Break something under load: the database serves again, and nothing is lost."""
    before = host_of(lab)
    clients = LabMachine(lab, next(name for name in ("h1", "h3") if name != before))
    client = RemoteClient(clients, NAME)
    client.refresh()
    with serving(lab) as serve, CommitWatch(client) as watch:
        watch.wait_for_more()
        lab.ok("lab", "fault", *fault, "--force")
        done = serve.wait_for(NAME, "failed-over", SERVES_AGAIN_S)
        watch.wait_for_more(timeout_s=SERVES_AGAIN_S)
        assert watch.missing() == []
    assert host_of(lab) != before
    assert done["details"]["former_host"] == before
    assert list(done["details"]["phases_ms"]) == ["fenced", "attached", "serving"]
    lab.ok("lab", "fault", "heal")
    wait_for_health(lab)
    running = [
        host["name"]
        for host in lab.json("lab", "status")["hosts"]
        for daemon in host["daemons"]
        if daemon["name"] == f"mysqld-{NAME}"
    ]
    assert running == [host_of(lab)], "the remains on the lost host are gone"
    assert before not in running


def test_a_host_without_power_loses_its_databases_and_no_commit(database: CommandLine) -> None:
    lose_under_load(database, "kill-host", host_of(database))


def test_a_host_that_is_cut_from_ceph_loses_its_databases(database: CommandLine) -> None:
    lose_under_load(database, "partition", host_of(database), "--from", "ceph")


def test_a_host_that_only_the_controller_cannot_reach_keeps_its_databases(
    database: CommandLine,
) -> None:
    before = host_of(database)
    with serving(database) as serve:
        database.ok("lab", "fault", "partition", before, "--from", "controller")
        serve.wait_for(NAME, "host-cut-from-controller", SERVES_AGAIN_S)
        until_s = time.monotonic() + LEFT_ALONE_S
        wait_for(lambda: time.monotonic() > until_s, "time to pass", 2 * LEFT_ALONE_S)
        database.ok("lab", "fault", "heal")
        assert "failed-over" not in serve.kinds(NAME)
    assert host_of(database) == before


def test_a_host_in_maintenance_is_drained_and_gets_no_database(database: CommandLine) -> None:
    before = host_of(database)
    planned = database.json("host", "drain", before, "--dry-run")["plan"]
    assert any(NAME in line for line in planned)
    drained = database.json("host", "drain", before, "--reason", "new disk")
    (moved,) = drained["databases"]
    assert (moved["name"], moved["problem"]) == (NAME, None)
    assert moved["host"] == host_of(database) != before
    try:
        hosts = {host["name"]: host for host in database.json("host", "list")["hosts"]}
        assert (hosts[before]["state"], hosts[before]["databases"]) == ("planned", [])
        assert hosts[before]["maintenance_reason"] == "new disk"
        switched = database.json("db", "switchover", NAME)
        assert switched["host"] not in (before, moved["host"])
        assert switched["pause_ms"] is not None
        others = [name for name in hosts if name != before]
        for name in others:
            database.ok("host", "maintenance", name, "on")
        refused = database.run("db", "switchover", NAME)
        assert (refused.code, "in maintenance" in refused.stderr) == (4, True)
        for name in others:
            database.ok("host", "maintenance", name, "off")
    finally:
        database.ok("host", "maintenance", before, "off")
    assert "host-cut" not in str(database.json("host", "list"))
