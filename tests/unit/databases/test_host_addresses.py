"""Servers at the address of their host: ports that nobody else has, and what follows the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from grampus.cli.serve_endpoints import keep_endpoints
from grampus.core.errors import GrampusError, RefusedError
from grampus.databases.host_addresses import parse_listening_ports
from grampus.databases.layout import decide_daemon_uid
from grampus.databases.left_instances import silence_cut_off
from grampus.databases.live.moving import DatabaseMoves
from grampus.databases.model import DatabaseSpec, HostMaintenance, ReadEndpoint, ScratchSpec
from grampus.databases.placement import AssignedAddress, decide_port
from grampus.databases.replicas.repointing import repoint_after_change, repoint_replicas
from grampus.databases.settings import ADMIN_PORT_DISTANCE, decide_admin_port
from grampus.databases.users.user_files import UserFiles
from grampus.sites.model import LAST_PORT
from tests.fakes.interruption import stopped_runs
from tests.fakes.mysql_host import MysqlDaemon

from .port_worlds import PortFailoverWorld, PortReplicaWorld, PortWorld
from .stopped_case import names, trash, users
from .world import prepared

TLS = PurePosixPath("databases/demo/tls")
# As Linux writes it (proc(5)): one that listens at all addresses, one at one address, a session.
TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt
   0: 00000000:33F4 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1
   1: 0100000A:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2
   2: 0100000A:33F5 0200000A:C001 01 00000000:00000000 00:00000000 00000000     0        0 3
  sl  local_address                         remote_address                        st
   0: 00000000000000000000000000000000:33F6 00000000000000000000000000000000:0000 0A 0 0 0
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PortWorld]:
    made = PortWorld(tmp_path)
    made.create(host="h1")
    yield made
    made.close()


def place_of(world: PortWorld, name: str = "demo") -> tuple[str, str, int]:
    spec = world.service().get(name).spec
    assert spec.address_kind == "host"
    return spec.host, spec.address, spec.port


def daemon_of(world: PortWorld, name: str = "demo") -> MysqlDaemon:
    return world.hosts[world.service().get(name).spec.host].daemons[f"mysqld-{name}"]


# -- decisions -----------------------------------------------------------------------------------


def test_who_listens_is_read_of_both_families_and_no_session_counts() -> None:
    assert parse_listening_ports(TCP) == {13300, 8080, 13302}


@pytest.mark.parametrize(
    ("free", "used", "port"),
    [
        ((13300, 13301), set(), 13300),
        ((13300, 13301), {":13300"}, 13301),
        ((13301, 13302), set(), 13301),  # something else listens at 13300
        ((13300, 13301), {f":{13300 - ADMIN_PORT_DISTANCE}"}, 13301),  # whose second port it is
        ((13300, 13301), {f":{13300 + ADMIN_PORT_DISTANCE}"}, 13301),  # its own second port
        ((13300, 13301), {"10.0.5.100"}, 13300),
    ],
)
def test_the_first_port_is_taken_that_nobody_has(
    free: tuple[int, ...], used: set[str], port: int
) -> None:
    assert decide_port(free, used, total=2) == port


def test_without_a_free_port_that_is_said() -> None:
    with pytest.raises(RefusedError) as caught:
        decide_port((13300,), {":13300"}, total=2)
    assert caught.value.code == "no-address"
    assert "All 2 ports" in caught.value.problem


def test_no_port_is_one_that_linux_gives_to_outgoing_connections() -> None:
    assert decide_admin_port(LAST_PORT, shares_address=True) < 32768


@pytest.mark.parametrize(
    ("assigned", "held", "server_id"),
    [
        (AssignedAddress("10.0.5.100"), "10.0.5.100", 167773540),
        (AssignedAddress("10.0.5.11", 13300, "host"), ":13300", 13300),
    ],
)
def test_what_is_unique_in_the_site(assigned: AssignedAddress, held: str, server_id: int) -> None:
    assert (assigned.held, assigned.server_id) == (held, server_id)


def test_users_of_daemons_differ_where_addresses_do_not() -> None:
    address = "10.0.5.11"
    found = {decide_daemon_uid(address, port) for port in (None, 13300, 13301)}
    assert len(found) == 3
    # A floating address that ends as the port does in hexadecimal.
    assert decide_daemon_uid("10.0.51.244") not in found


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ReadEndpoint, '{"address": "10.9.0.1", "host": null, "members": []}'),
        (
            DatabaseSpec,
            '{"name": "a", "flavour": "mysql", "size_bytes": 1, "memory_bytes": 1, "cpus": 1,'
            ' "pool": "p", "host": "h1", "address": "10.9.0.1", "server_id": 1}',
        ),
    ],
)
def test_records_of_earlier_releases_have_floating_addresses(kind: Any, text: str) -> None:
    read = kind.model_validate_json(text)
    assert not read.shares_address
    assert read.held_address == "10.9.0.1"


def test_a_scratch_instance_of_an_earlier_release_has_a_floating_address(world: PortWorld) -> None:
    spec = world.service().get("demo").spec
    known = ScratchSpec(database=spec, address="10.9.0.1", server_id=1).model_dump(mode="json")
    del known["port"]
    assert ScratchSpec.model_validate(known).held_address == "10.9.0.1"


# -- one host ------------------------------------------------------------------------------------


def test_databases_of_a_host_share_its_address_and_nothing_else(world: PortWorld) -> None:
    world.create("other", host="h1")
    assert place_of(world) == ("h1", "10.0.0.1", 13300)
    assert place_of(world, "other") == ("h1", "10.0.0.1", 13301)
    servers = [daemon_of(world, name) for name in ("demo", "other")]
    assert [server.state for server in servers] == ["running", "running"]
    assert len({server.spec.uid for server in servers}) == 2
    assert world.hosts["h1"].addresses == set(), "no interface gets an address"
    ids = {world.service().get(name).spec.server_id for name in ("demo", "other")}
    assert len(ids) == 2
    assert world.service().operations.used_addresses() == {":13300", ":13301"}


def test_who_has_the_address_of_a_host_is_known(world: PortWorld) -> None:
    records = world.service().operations.records
    assert (records.at_address_of("h1"), records.at_address_of("h2")) == (["demo"], [])
    world.fleet.ports = ()
    world.create("floating", host="h1")
    assert records.at_address_of("h1") == ["demo"]


def test_a_port_of_another_program_is_left_out(world: PortWorld) -> None:
    world.hosts["h1"].busy_ports = {13301, 13302 + ADMIN_PORT_DISTANCE}
    world.create("other", host="h1")
    assert place_of(world, "other")[2] == 13303


def test_a_port_that_another_program_took_meanwhile_is_named(world: PortWorld) -> None:
    world.service().stop("demo")
    world.hosts["h1"].busy_ports = {13300}
    with pytest.raises(RefusedError) as caught:
        world.service().start("demo")
    assert caught.value.code == "port-in-use"
    assert "h1 listens at the port 13300" in caught.value.problem


def test_a_scratch_instance_has_a_port_of_its_own(world: PortWorld) -> None:
    endpoint = world.service().ensure_local_instance("demo")
    assert (endpoint.address, endpoint.port, endpoint.address_kind) == ("10.0.0.1", 13301, "host")
    world.service().ensure_local_instance_absent("demo")
    assert world.service().show("demo").status == "running"


def test_what_is_deleted_leaves_its_port(world: PortWorld) -> None:
    world.service().delete("demo")
    assert world.service().operations.used_addresses() == set()
    world.create("other", host="h1")
    assert place_of(world, "other")[2] == 13300


@pytest.mark.parametrize("is_taken", [False, True])
def test_from_the_trash_it_comes_back_to_its_port_or_to_a_free_one(
    world: PortWorld, is_taken: bool
) -> None:
    trash(world).trash("demo")
    if is_taken:
        world.create("other", host="h1")
    trash(world).restore("demo", host="h2")
    assert place_of(world) == ("h2", "10.0.0.2", 13301 if is_taken else 13300)
    assert world.service().show("demo").status == "running"


# -- another host --------------------------------------------------------------------------------


def test_a_move_takes_the_port_along_and_not_the_address(world: PortWorld) -> None:
    users(world).add("demo", "app", "read")
    trusted = world.hosts["h1"].files["/h1" / TLS / "ca.pem"].content
    moved = world.moves().move("demo", "h2")
    assert moved is not None
    assert place_of(world) == ("h2", "10.0.0.2", 13300)
    assert world.service().show("demo").status == "running"
    assert world.hosts["h1"].addresses == world.hosts["h2"].addresses == set()
    credentials = world.service().operations.credentials
    for file in (
        credentials.option_file("demo"),
        UserFiles(credentials, "demo").option_file("app"),
    ):
        assert "host=10.0.0.2\nport=13300\n" in file.read_text()
    assert "host=10.0.0.2\n" in world.hosts["h2"].text("/h2/databases/demo/client.cnf")
    assert world.hosts["h2"].files["/h2" / TLS / "ca.pem"].content == trusted
    assert world.volumes.images["demo"].facts["address"] == "10.0.0.2"
    assert world.volumes.images["demo"].facts["address-kind"] == "host"


def test_a_host_that_was_added_later_gets_a_certificate_for_its_address(world: PortWorld) -> None:
    """By the authority that clients trust already."""
    former = daemon_of(world).shown
    authority = world.service().operations.credentials.ca_file("demo").read_text()
    world.hosts["h2"].address = "10.0.0.77"  # which no certificate names yet
    world.moves().move("demo", "h2")
    assert world.service().show("demo").status == "running"
    shown = daemon_of(world).shown
    assert shown != former
    assert daemon_of(world).is_trusted_by(authority)
    assert "IP Address:10.0.0.77" in shown


def test_where_another_program_has_its_port_it_does_not_go(world: PortWorld) -> None:
    server, before = world.server(), world.inventory()
    world.hosts["h2"].busy_ports = {13300 + ADMIN_PORT_DISTANCE}
    with pytest.raises(RefusedError) as caught:
        world.moves().move("demo", "h2")
    assert caught.value.code == "port-in-use"
    assert "h2 listens at the port 23300" in caught.value.problem
    assert world.server() is server, "it was not stopped"
    assert world.inventory() == before


def test_a_move_that_fails_anywhere_leaves_it_where_it_was(tmp_path: Path) -> None:
    error = GrampusError("disk gone")
    act: Callable[[PortWorld], object] = lambda world: world.moves().move("demo", "h2")  # noqa: E731
    start = prepared(tmp_path, lambda world: world.create(host="h1"), PortWorld)
    for point, world in stopped_runs(start, act, error, more_than=1):
        assert place_of(world) == ("h1", "10.0.0.1", 13300), f"failed at {point}"
        assert world.service().show("demo").status == "running"
        file = world.service().operations.credentials.option_file("demo")
        assert "host=10.0.0.1\n" in file.read_text(), f"failed at {point}"


def test_a_renamed_database_keeps_its_port(world: PortWorld) -> None:
    names(world).rename("demo", "shop")
    assert place_of(world, "shop") == ("h1", "10.0.0.1", 13300)
    world.moves().move("shop", "h2")
    assert world.service().show("shop").status == "running"


# -- a lost host (INV-96) ------------------------------------------------------------------------


@pytest.fixture
def losing(tmp_path: Path) -> Iterator[PortFailoverWorld]:
    made = PortFailoverWorld(tmp_path)
    made.create(host="h1")
    yield made
    made.close()


def test_a_failover_tells_everybody_the_address_of_the_new_host(losing: PortFailoverWorld) -> None:
    losing.lose()
    losing.failovers().fail_over("demo")
    assert place_of(losing) == ("h2", "10.0.0.2", 13300)
    assert losing.service().show("demo").status == "running"
    assert "host=10.0.0.2\n" in losing.service().option_file("demo").read_text()
    (left,) = losing.service().operations.records.all_left()
    assert (left.spec.host, left.spec.address) == ("h1", "10.0.0.1")


def test_a_host_without_its_port_is_skipped(losing: PortFailoverWorld) -> None:
    losing.hosts["h2"].busy_ports = {13300}
    losing.lose()
    losing.failovers().fail_over("demo")
    assert place_of(losing) == ("h3", "10.0.0.3", 13300)


def test_the_port_of_the_fenced_server_is_closed_before_it_serves_elsewhere(
    losing: PortFailoverWorld,
) -> None:
    """Its host answers, and waits for the cluster: the server cannot be ended now."""
    losing.cut_from_ceph("h1")
    losing.hosts["h2"].serve_failure = "[ERROR] no such luck"
    with pytest.raises(GrampusError):
        losing.failovers().fail_over("demo", force=True)
    places = ["10.0.0.1:13300", "10.0.0.1:23300"]
    assert losing.hosts["h1"].closed == places
    assert losing.hosts["h1"].reset == places


def test_whoever_returns_is_silenced_at_its_own_address(losing: PortFailoverWorld) -> None:
    losing.lose()
    losing.failovers().fail_over("demo")
    losing.find_again()
    assert silence_cut_off(losing.service().operations.ports) == []
    assert losing.hosts["h1"].closed == ["10.0.0.1:13300", "10.0.0.1:23300"]
    losing.service().converge()
    assert "mysqld-demo" not in losing.hosts["h1"].daemons
    assert losing.service().operations.records.all_left() == []


# -- replicas ------------------------------------------------------------------------------------


@pytest.fixture
def replicated(tmp_path: Path) -> Iterator[PortReplicaWorld]:
    with closing(PortReplicaWorld(tmp_path)) as made:
        made.create(host="h1")
        made.add(host="h2")
        made.settle_endpoint()
        yield made


def source_of(world: PortReplicaWorld, name: str = "demo-r1") -> tuple[str, str]:
    follows = world.host_of(name).state(world.server(name))["follows"]
    return follows["address"], follows["port"]


def test_primary_replica_and_endpoint_have_ports_of_their_own(
    replicated: PortReplicaWorld,
) -> None:
    endpoint = replicated.endpoint()
    assert place_of(replicated) == ("h1", "10.0.0.1", 13300)
    assert place_of(replicated, "demo-r1") == ("h2", "10.0.0.2", 13301)
    assert (endpoint.host, endpoint.address, endpoint.port) == ("h2", "10.0.0.2", 13302)
    assert endpoint.members == ("demo-r1",)
    assert source_of(replicated) == ("10.0.0.1", "13300")
    ((_, proxy),) = replicated.proxies().items()
    assert "bind 10.0.0.2:13302" in proxy.config
    assert replicated.service().operations.used_addresses() == {":13300", ":13301", ":13302"}


def relocate(world: PortReplicaWorld, host: str) -> None:
    """The primary stopped, moved and started: nobody tells its replicas meanwhile."""
    world.service().stop("demo")
    DatabaseMoves(world.service().operations).move("demo", host)
    world.service().start("demo")


def test_replicas_follow_their_primary(replicated: PortReplicaWorld) -> None:
    relocate(replicated, "h3")
    assert source_of(replicated) == ("10.0.0.1", "13300")
    repoint_after_change(replicated.service().operations, "demo")
    assert source_of(replicated) == ("10.0.0.3", "13300")
    replicated.commit(transactions=3)
    assert replicated.done("demo-r1") == 3
    account = replicated.accounts()
    repoint_after_change(replicated.service().operations, "demo")
    assert replicated.accounts() == account, "nothing is left to do"


def test_a_replica_that_was_away_follows_later(replicated: PortReplicaWorld) -> None:
    relocate(replicated, "h3")
    replicated.hosts["h2"].up = False
    repoint_after_change(replicated.service().operations, "demo")
    replicated.hosts["h2"].up = True
    assert source_of(replicated) == ("10.0.0.1", "13300"), "its old server may even answer there"
    replicated.settle_endpoint()
    assert source_of(replicated) == ("10.0.0.3", "13300")


def test_a_replica_that_another_command_is_at_is_left_to_it(replicated: PortReplicaWorld) -> None:
    relocate(replicated, "h3")
    operations = replicated.service().operations
    with operations.locked("demo-r1"):
        assert repoint_replicas(replicated.service().operations, "demo") == []
    assert source_of(replicated) == ("10.0.0.1", "13300")


def test_replicas_of_a_primary_that_is_not_there_yet_are_left_for_later(
    replicated: PortReplicaWorld,
) -> None:
    """As while a failover is under way: what is wrong with the primary is told elsewhere."""
    relocate(replicated, "h3")
    replicated.hosts["h3"].daemons["mysqld-demo"].state = "stopped"
    assert repoint_replicas(replicated.service().operations, "demo") == []
    assert source_of(replicated) == ("10.0.0.1", "13300")


def test_the_controller_reports_it_and_tries_again(replicated: PortReplicaWorld) -> None:
    relocate(replicated, "h3")
    replicated.hosts["h2"].refusal = "ERROR 1040 (HY000): Too many connections"
    kinds = [event.kind for event in keep_endpoints(replicated.replicas())]
    assert "replica-misled" in kinds
    replicated.hosts["h2"].refusal = ""
    kinds = [event.kind for event in keep_endpoints(replicated.replicas())]
    assert "replica-misled" not in kinds
    assert source_of(replicated) == ("10.0.0.3", "13300")


def test_what_keeps_a_replica_from_it_is_said(replicated: PortReplicaWorld) -> None:
    relocate(replicated, "h3")
    replicated.hosts["h2"].refusal = "ERROR 1040 (HY000): Too many connections"
    (problem,) = repoint_replicas(replicated.service().operations, "demo")
    assert problem.startswith("The replica demo-r1 does not follow demo yet")


def test_a_promoted_replica_is_left_alone(replicated: PortReplicaWorld) -> None:
    replicated.replicas().promote("demo-r1")
    spec = replicated.service().get("demo-r1").spec
    assert (spec.endpoint_port, spec.replica_of) == (None, None)
    assert repoint_replicas(replicated.service().operations, "demo") == []
    assert replicated.host_of("demo-r1").state(replicated.server("demo-r1"))["follows"] is None


def test_the_endpoint_takes_the_address_of_the_host_that_serves_it(
    replicated: PortReplicaWorld,
) -> None:
    replicated.add(host="h3")
    replicated.hosts["h2"].up = False
    change = replicated.settle_endpoint()
    assert change.is_other
    assert (change.endpoint.host, change.endpoint.address) == ("h3", "10.0.0.3")
    assert change.endpoint.port == 13302
    assert "IP Address:10.0.0.3" in replicated.server("demo-r2").shown, "clients check its name"


def test_all_replicas_name_every_host_that_may_serve_the_endpoint(
    replicated: PortReplicaWorld,
) -> None:
    shown = replicated.server("demo-r1").shown
    assert all(f"IP Address:{host.address}" in shown for host in replicated.hosts.values())


def add_host_later(world: PortReplicaWorld) -> None:
    """The third host has an address that no certificate names, and a replica."""
    world.hosts["h3"].address = "10.0.0.77"
    world.add(host="h3")
    assert "IP Address:10.0.0.77" not in world.server("demo-r1").shown


def test_an_endpoint_on_a_host_that_was_added_later_has_a_name_in_all_certificates(
    replicated: PortReplicaWorld,
) -> None:
    add_host_later(replicated)
    trusted = replicated.service().operations.credentials.replicas_ca_file("demo").read_text()
    put_in_maintenance(replicated, "h2")
    endpoint = replicated.settle_endpoint().endpoint
    assert (endpoint.host, endpoint.address, endpoint.named) == ("h3", "10.0.0.77", "10.0.0.77")
    assert "IP Address:10.0.0.77" in replicated.server("demo-r1").shown
    assert replicated.server("demo-r1").is_trusted_by(trusted)
    shown = replicated.server("demo-r1").shown
    replicated.settle_endpoint()
    assert replicated.server("demo-r1").shown == shown, "once"


def test_a_replica_that_keeps_its_certificate_is_asked_again(replicated: PortReplicaWorld) -> None:
    add_host_later(replicated)
    replicated.hosts["h2"].reload_failure = "ERROR 3888 (HY000): Failed to set up SSL"
    put_in_maintenance(replicated, "h2")
    assert replicated.settle_endpoint().endpoint.named == "10.0.0.2"
    replicated.hosts["h2"].reload_failure = ""
    assert replicated.settle_endpoint().endpoint.named == "10.0.0.77"
    assert "IP Address:10.0.0.77" in replicated.server("demo-r1").shown


def put_in_maintenance(world: PortReplicaWorld, host: str) -> None:
    records = world.service().operations.records
    records.put_maintenance(HostMaintenance(host=host, since=world.clock.now()))
