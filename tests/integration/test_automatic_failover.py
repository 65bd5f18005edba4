"""INV-90: `grampus serve` runs the databases of a lost host elsewhere, and of no other host."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from grampus.hosts.lab_host import PartitionName
from tests.proof.operations.commit_watch import CommitWatch
from tests.proof.operations.remote_client import RemoteClient
from tests.system.machine import wait_for
from tests.system.places import Place
from tests.system.serving import serving

NAME = "auto"
Fault = Callable[[str], None]  # on a host
# A loaded machine; `make chaos` shows what a quiet one takes.
SERVES_AGAIN_S = 90.0
# Long past the moment at which a host that is not heard counts as lost.
LEFT_ALONE_S = 12.0

pytestmark = pytest.mark.logs("controller.event")


@pytest.fixture(scope="module")
def database(place: Place) -> Iterator[Place]:
    place.line.ok(
        *("db", "create", NAME, "--size", "1G", "--memory", "320M", "--host", place.hosts[1])
    )
    yield place
    place.heal()
    place.line.ok("db", "delete", NAME, "--now", "--yes")


def lose_under_load(place: Place, fault: Fault) -> None:
    """Break something under load: the database serves again, and nothing is lost."""
    before = place.host_of(NAME)
    client = RemoteClient(place.clients(NAME), NAME, place.line, place.data_of)
    client.refresh()
    with serving(place.line) as serve, CommitWatch(client) as watch:
        watch.wait_for_more()
        fault(before)
        done = serve.wait_for(NAME, "failed-over", SERVES_AGAIN_S)
        watch.wait_for_more(timeout_s=SERVES_AGAIN_S)
        assert watch.missing() == []
    assert place.host_of(NAME) != before
    assert done["details"]["former_host"] == before
    assert list(done["details"]["phases_ms"]) == ["fenced", "attached", "serving"]
    place.heal()
    place.line.ok("db", "list")  # clears what was left on the lost host
    assert place.daemons()[f"mysqld-{NAME}"] == place.host_of(NAME)
    running = {name for name, host in place.daemons().items() if host == before}
    assert not [name for name in running if name.endswith(f"-{NAME}")], "remains of it"


def test_a_host_without_power_loses_its_databases_and_no_commit(database: Place) -> None:
    lose_under_load(database, database.end)


@pytest.mark.parametrize("peers", ["ceph", "incoming", "outgoing"])
def test_a_host_that_is_cut_from_ceph_loses_its_databases(
    database: Place, peers: PartitionName
) -> None:
    """Also when packets of one direction are lost, those of the controller among them."""
    lose_under_load(database, lambda host: database.cut(host, peers))


def test_a_driver_whose_client_somebody_fenced_is_replaced(database: Place) -> None:
    """Its server may end by the errors, or not notice them."""
    before = database.host_of(NAME)
    client = RemoteClient(database.clients(NAME), NAME, database.line, database.data_of)
    client.refresh()
    address = database.line.json("volume", "show", NAME)["client_address"]
    with serving(database.line) as serve, CommitWatch(client) as watch:
        watch.wait_for_more()
        database.ceph("ceph", "osd", "blocklist", "add", address, "3600")
        wait_for(
            lambda: database.line.json("volume", "show", NAME)["client_address"] != address,
            "another client of the volume",
            SERVES_AGAIN_S,
        )
        watch.wait_for_more(timeout_s=SERVES_AGAIN_S)
        assert watch.missing() == []
        assert "failed-over" not in serve.kinds(NAME)
    assert database.host_of(NAME) == before


def test_a_host_that_only_the_controller_cannot_reach_keeps_its_databases(
    database: Place,
) -> None:
    before = database.host_of(NAME)
    with serving(database.line) as serve:
        database.cut(before, "controller")
        serve.wait_for(NAME, "host-cut-from-controller", SERVES_AGAIN_S)
        until_s = time.monotonic() + LEFT_ALONE_S
        wait_for(lambda: time.monotonic() > until_s, "time to pass", 2 * LEFT_ALONE_S)
        database.heal()
        assert "failed-over" not in serve.kinds(NAME)
    assert database.host_of(NAME) == before


def test_a_host_in_maintenance_is_drained_and_gets_no_database(database: Place) -> None:
    before, line = database.host_of(NAME), database.line
    planned = line.json("host", "drain", before, "--dry-run")["plan"]
    assert any(NAME in line for line in planned)
    drained = line.json("host", "drain", before, "--reason", "new disk")
    (moved,) = drained["databases"]
    assert (moved["name"], moved["problem"]) == (NAME, None)
    assert moved["host"] == database.host_of(NAME) != before
    try:
        hosts = {host["name"]: host for host in line.json("host", "list")["hosts"]}
        assert (hosts[before]["state"], hosts[before]["databases"]) == ("planned", [])
        assert hosts[before]["maintenance_reason"] == "new disk"
        switched = line.json("db", "switchover", NAME)
        assert switched["host"] not in (before, moved["host"])
        assert switched["pause_ms"] is not None
        others = [name for name in hosts if name != before]
        for name in others:
            line.ok("host", "maintenance", name, "on")
        refused = line.run("db", "switchover", NAME)
        assert (refused.code, "in maintenance" in refused.stderr) == (4, True)
        for name in others:
            line.ok("host", "maintenance", name, "off")
    finally:
        line.ok("host", "maintenance", before, "off")
    assert "host-cut" not in str(line.json("host", "list"))
