"""A database moved to another host."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.databases.administrator import administrator_of
from grampus.databases.database_work import DatabaseWork
from grampus.databases.live.move_steps import Move, MoveWork
from grampus.databases.stopping import hold
from grampus.hosts.port import HostUnreachableError
from tests.fakes.hosts import FakeFile
from tests.fakes.mysql_host import MEMINFO

from .live_world import LiveWorld

TLS = PurePosixPath("databases/demo/tls/ca.pem")


def test_move_takes_everything_along(world: LiveWorld) -> None:
    record = world.service().get("demo")
    assert record.spec.host == "h1"
    trusted = world.hosts["h1"].files["/h1" / TLS].content
    moved = world.moves().move("demo", "h2")
    assert moved is not None
    assert (moved.record.spec.host, moved.former_host) == ("h2", "h1")
    assert moved.pause_ms is not None
    assert world.service().show("demo").status == "running"
    assert moved.record.spec.address == record.spec.address
    assert world.hosts["h2"].addresses == {record.spec.address}
    assert world.hosts["h1"].addresses == set()
    assert world.hosts["h2"].files["/h2" / TLS].content == trusted
    assert world.volumes.get("demo").attachment is not None
    assert world.volumes.images["demo"].facts["host"] == "h2"
    left = [path for path in world.hosts["h1"].files if "demo" in str(path)]
    assert left == []


def test_certificates_and_password_are_as_private_there(world: LiveWorld) -> None:
    world.moves().move("demo", "h2")
    below = world.hosts["h2"].below(PurePosixPath("/h2/databases/demo"))
    private = {path.name for path, file in below.items() if file.mode == 0o600 and file.uid}
    assert private == {
        "ca.pem",
        "client-cert.pem",
        "client-key.pem",
        "client.cnf",
        "server-cert.pem",
        "server-key.pem",
    }


def test_server_has_its_own_cpus_again_after_the_switch(world: LiveWorld) -> None:
    world.live().set_limits("demo", cpus=0.5)
    before = len(world.live_hosts["h1"].limit_history)
    world.moves().move("demo", "h2")
    assert [limits.cpus for limits in world.live_hosts["h1"].limit_history[before:]] == [2.0]
    assert world.live_hosts["h2"].daemons["mysqld-demo"].spec.limits.cpus == 2.0
    assert world.live_hosts["h2"].limits["mysqld-demo"].cpus == 0.5


def test_journal_is_drawn_down_while_clients_are_served(world: LiveWorld) -> None:
    world.moves().move("demo", "h2")
    # Before pages are written out, which takes a while, and after.
    assert world.volumes.drawn_down == ["demo", "demo"]


@pytest.mark.parametrize(
    ("is_replica", "is_table_held", "is_killed"),
    [(False, False, True), (True, False, False), (False, True, False)],
)
def test_server_is_killed_only_once_its_tables_stand_still(
    world: LiveWorld, *, is_replica: bool, is_table_held: bool, is_killed: bool
) -> None:
    host = world.live_hosts["h1"]
    host.is_table_held = is_table_held
    spec = world.service().get("demo").spec
    spec = spec.model_copy(update={"replica_of": "first" if is_replica else None})
    DatabaseWork(world.service().operations.ports, spec).halt_server()
    assert "mysqld-demo" not in host.daemons
    assert (host.held, host.dismissed) == ((1, []) if is_killed else (0, [True]))


def test_server_that_was_killed_has_a_new_binary_log_to_read(world: LiveWorld) -> None:
    world.moves().move("demo", "h2")
    host = world.live_hosts["h1"]
    assert (host.held, host.dismissed) == (1, [])
    assert host.servers["mysqld-demo"].new_binary_logs == 1


def test_server_that_was_held_and_not_killed_is_started_anew_by_an_undo(world: LiveWorld) -> None:
    """Else it would count as running, and end a moment after the undo."""
    host, ports = world.live_hosts["h1"], world.service().operations.ports
    former = world.service().get("demo").spec
    changed = former.model_copy(update={"host": "h2"})
    work = MoveWork(ports, Move(changed=changed, former_host="h1", running=True))
    assert hold(administrator_of(ports, former))
    assert host.daemons["mysqld-demo"].is_offline
    work.return_here()
    assert host.daemons["mysqld-demo"].state == "running"
    assert not host.daemons["mysqld-demo"].is_offline


def test_stopped_database_moves_without_a_start(world: LiveWorld) -> None:
    world.service().stop("demo")
    moved = world.moves().move("demo", "h2")
    assert moved is not None
    assert moved.pause_ms is None
    assert world.service().show("demo").status == "stopped"
    world.service().start("demo")
    assert "mysqld-demo" in world.hosts["h2"].daemons


def test_there_and_back_is_as_before(world: LiveWorld) -> None:
    def shown() -> dict[str, list[str]]:
        seen = world.inventory()
        # Making the file system's mount point is left to whoever attaches it.
        del seen["directories"]
        return seen

    before = shown()
    world.moves().move("demo", "h2")
    world.moves().move("demo", "h1")
    assert shown() == before


def test_server_that_does_not_start_there_runs_here_again(world: LiveWorld) -> None:
    before = world.inventory()
    world.hosts["h2"].serve_failure = "[ERROR] no such luck"
    with pytest.raises(GrampusError) as caught:
        world.moves().move("demo", "h2")
    assert caught.value.code == "server-stopped"
    assert world.inventory() == before


def test_volume_under_a_server_is_not_taken_away_by_an_undo(world: LiveWorld) -> None:
    """Undone before it began, with the server still running here."""
    server = world.server()
    del world.hosts["h1"].files["/h1" / TLS]
    with pytest.raises(GrampusError):
        world.moves().move("demo", "h2")
    assert world.server() is server
    assert world.volumes.is_attached("demo")


def test_scratch_instance_does_not_stay_behind(world: LiveWorld) -> None:
    world.service().ensure_local_instance("demo")
    world.moves().move("demo", "h2")
    assert world.service().operations.records.find_scratch("demo") is None
    assert list(world.hosts["h1"].daemons) == []


def test_where_it_is_already_nothing_happens(world: LiveWorld) -> None:
    assert world.moves().move("demo", "h1") is None


def test_where_it_cannot_go(world: LiveWorld) -> None:
    before = world.inventory()
    with pytest.raises(NotFoundError):
        world.moves().move("demo", "h9")
    world.hosts["h2"].files[MEMINFO] = FakeFile("MemTotal:       262144 kB\n")
    with pytest.raises(RefusedError) as caught:
        world.moves().move("demo", "h2")
    assert caught.value.code == "too-big"
    world.hosts["h2"].up = False
    with pytest.raises(HostUnreachableError):
        world.moves().move("demo", "h2")
    world.hosts["h2"].up = True
    assert world.inventory() == before


def test_planned_switch_needs_the_host_that_it_is_on(world: LiveWorld) -> None:
    world.hosts["h1"].up = False
    with pytest.raises(HostUnreachableError):
        world.moves().move("demo", "h2")
