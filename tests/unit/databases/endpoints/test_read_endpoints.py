"""A read-only endpoint among replicas that come, go, break and become databases of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path, PurePosixPath

import pytest

from grampus.cli.serve_endpoints import keep_endpoints
from grampus.core.errors import GrampusError
from grampus.databases.endpoints.haproxy_daemon import HAPROXY
from grampus.databases.layout import MYSQL_UID
from grampus.databases.live.moving import DatabaseMoves
from grampus.databases.model import HostMaintenance
from grampus.databases.names.database_trash import DatabaseTrash
from grampus.databases.names.naming import DatabaseNames
from grampus.databases.tls.certificate_rotation import CertificateRotation
from grampus.databases.users.users import DatabaseUsers
from tests.fakes.interruption import Killed
from tests.fakes.mysql_host import BEGIN
from tests.unit.databases.replicas.replica_world import ReplicaWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ReplicaWorld]:
    made = ReplicaWorld(tmp_path)
    made.create(host="h1")
    made.add(host="h2")
    made.add(host="h3")
    made.settle_endpoint()
    yield made
    made.close()


def address_of(world: ReplicaWorld, name: str) -> str:
    return world.service().get(name).spec.address


def led_to(world: ReplicaWorld) -> list[str]:
    """By whom it is served, as HAProxy has it and as it is noted: the names of replicas."""
    ((host, proxy),) = world.proxies().items()
    endpoint, records = world.endpoint(), world.service().operations.records.all()
    assert endpoint.host == host
    assert proxy.address == endpoint.address
    assert endpoint.address in world.servers[host].addresses
    names = sorted(n for n, one in records.items() if one.spec.address in proxy.led_to)
    assert names == list(endpoint.members)
    return names


def test_one_address_leads_to_all_replicas(world: ReplicaWorld) -> None:
    endpoint = world.endpoint()
    assert led_to(world) == ["demo-r1", "demo-r2"]
    used = {record.spec.address for record in world.service().operations.records.all().values()}
    assert endpoint.address not in used
    assert endpoint.address in world.service().operations.used_addresses()
    assert not world.settle_endpoint().is_other, "nothing is left to do"
    ((_, proxy),) = world.proxies().items()
    assert not [command for command in proxy.commands if not command.startswith("show")]


def test_its_proxy_runs_as_a_user_that_no_server_has(world: ReplicaWorld) -> None:
    specs = [daemon.spec for host in world.servers.values() for daemon in host.daemons.values()]
    assert any(HAPROXY in spec.argv for spec in specs)
    assert len({spec.uid for spec in specs}) == len(specs) > 3
    assert all(bind.owner == MYSQL_UID for spec in specs for bind in spec.binds)


def test_certificates_of_replicas_are_of_one_authority_that_stays(world: ReplicaWorld) -> None:
    credentials = world.service().operations.credentials
    kept = credentials.replicas_ca_file("demo").read_text()
    assert credentials.replicas_ca_file("demo").stat().st_mode & 0o777 == 0o600
    world.add(host="h2")
    for name in ("demo-r1", "demo-r2", "demo-r3"):
        assert world.server(name).is_trusted_by(kept), name
        assert credentials.ca_file(name).read_text() == kept
    assert not world.server("demo").is_trusted_by(kept), "its primary has another"
    names = [
        file.content
        for host in world.servers.values()
        for path, file in host.files.items()
        if "authority" in path.parts or path.name == "ca-key.pem"
    ]
    assert names == [], "the key is with the passwords alone"


def test_an_authority_that_was_lost_is_made_anew_for_the_next_replica(world: ReplicaWorld) -> None:
    credentials = world.service().operations.credentials
    credentials.ensure_replica_authority_absent("demo")
    world.add(name="demo-late")
    kept = credentials.replicas_ca_file("demo").read_text()
    assert world.server("demo-late").is_trusted_by(kept)


def test_a_replica_with_new_certificates_is_trusted_as_before(world: ReplicaWorld) -> None:
    rotation = CertificateRotation(world.service().operations)
    former = world.server("demo-r1").shown
    rotation.rotate("demo-r1")
    rotation.retire("demo-r1")
    kept = world.service().operations.credentials.replicas_ca_file("demo").read_text()
    assert world.server("demo-r1").shown != former
    assert world.server("demo-r1").is_trusted_by(kept)
    assert world.service().operations.credentials.ca_file("demo-r1").read_text().count(BEGIN) == 1


def test_nothing_is_served_for_a_replica_that_is_still_being_made(tmp_path: Path) -> None:
    """Its making may be undone, and the address with it."""
    with closing(ReplicaWorld(tmp_path)) as world:
        world.create(host="h1")
        world.journal.dies_after = ("db.replica-add", "follow")
        with pytest.raises(Killed):
            world.add(host="h2")
        assert keep_endpoints(world.replicas()) == []
        assert (world.endpoint().host, world.proxies()) == (None, {})
        world.service().converge()
        assert world.service().operations.records.all_read_endpoints() == {}
        world.journal.dies_after = None
        world.add(host="h2")
        world.settle_endpoint()
        assert led_to(world) == ["demo-r1"]


def test_a_user_is_told_where_to_read(world: ReplicaWorld) -> None:
    users = DatabaseUsers(world.service().operations)
    users.add("demo", "report", "read")
    login = users.login("demo", "report")
    authorities = world.service().operations.credentials.replicas_ca_file("demo")
    reading = f"--host={world.endpoint().address} --ssl-ca={authorities}"
    assert login.read_only_command == f"{login.client_command} {reading}"
    world.create("alone")
    users.add("alone", "report", "read")
    assert users.login("alone", "report").read_only_command is None


@pytest.mark.parametrize("is_there", [True, False], ids=["hangs", "is-gone"])
def test_who_cannot_be_read_is_led_to_no_more(world: ReplicaWorld, is_there: bool) -> None:
    host = world.host_of("demo-r2")
    if is_there:
        host.hung.add("mysqld-demo-r2")
    else:
        host.crash()
    change = world.settle_endpoint()
    assert change.problem is None
    assert led_to(world) == ["demo-r1"]
    ((_, proxy),) = world.proxies().items()
    assert sum("shutdown sessions" in command for command in proxy.commands) == 1
    host.hung.clear()
    world.service().start("demo-r2")
    assert world.settle_endpoint().is_other
    assert led_to(world) == ["demo-r1", "demo-r2"]


def test_without_its_primary_it_shows_what_that_had(world: ReplicaWorld) -> None:
    world.servers["h1"].crash()
    world.settle_endpoint()
    assert led_to(world) == ["demo-r1", "demo-r2"]


def test_when_its_host_is_gone_another_one_serves_it(world: ReplicaWorld) -> None:
    assert world.endpoint().host == "h2"
    world.servers["h2"].up = False
    world.settle_endpoint()
    endpoint = world.endpoint()
    assert (endpoint.host, endpoint.members) == ("h3", ("demo-r2",))
    assert endpoint.left_hosts == ("h2",), "it could not be told"
    assert set(world.proxies()) == {"h2", "h3"}, "as after the network between them was cut"
    world.servers["h2"].up = True
    world.settle_endpoint()
    assert led_to(world) == ["demo-r1", "demo-r2"]
    assert world.endpoint().left_hosts == ()
    assert endpoint.address not in world.servers["h2"].addresses
    assert not world.servers["h2"].below(PurePosixPath("/h2/endpoints"))


def test_it_leaves_a_host_in_maintenance_if_it_can(world: ReplicaWorld) -> None:
    records = world.service().operations.records
    for host in (world.endpoint().host, "h2", "h3"):
        assert host is not None
        begun = HostMaintenance(host=host, since=world.clock.now())
        records.put_maintenance(begun)
        world.settle_endpoint()
        others = {"h2", "h3"} - records.all_maintenance().keys()
        # With all in maintenance it stays where it is.
        assert world.endpoint().host in (others or {"h2", "h3"})
        assert led_to(world) == ["demo-r1", "demo-r2"]


def test_after_a_restart_of_its_host_it_is_served_again(world: ReplicaWorld) -> None:
    world.servers["h2"].crash()
    assert world.proxies() == {}
    world.settle_endpoint()
    assert led_to(world) == ["demo-r2"]
    world.service().ensure_running()
    world.settle_endpoint()
    assert led_to(world) == ["demo-r1", "demo-r2"]


def test_promoted_it_is_led_to_no_more_before_it_lets_clients_write(world: ReplicaWorld) -> None:
    ((_, proxy),) = world.proxies().items()
    promoted = address_of(world, "demo-r1")
    assert promoted in proxy.led_to
    world.replicas().promote("demo-r1")
    assert led_to(world) == ["demo-r2"]
    assert promoted not in proxy.led_to
    assert world.service().get("demo-r1").spec.endpoint_address is None
    assert world.settle_endpoint().endpoint.members == ("demo-r2",)


def test_promoted_it_is_led_to_no_more_whatever_was_noted(world: ReplicaWorld) -> None:
    """A change was cut off between its note and what HAProxy was to be told."""
    world.host_of("demo-r1").apply_error["mysqld-demo-r1"] = "disk full"
    world.journal.dies_after = ("db.read-endpoint", "record")
    with pytest.raises(Killed):
        world.settle_endpoint()
    world.journal.dies_after = None
    world.host_of("demo-r1").apply_error.clear()
    ((_, proxy),) = world.proxies().items()
    promoted = address_of(world, "demo-r1")
    assert (world.endpoint().members, promoted in proxy.led_to) == (("demo-r2",), True)
    world.replicas().promote("demo-r1")
    assert promoted not in proxy.led_to


def test_promoted_it_is_led_to_no_more_where_it_was_served_before(world: ReplicaWorld) -> None:
    world.servers["h2"].up = False
    world.settle_endpoint()
    world.servers["h2"].up = True
    assert set(world.proxies()) == {"h2", "h3"}
    world.replicas().promote("demo-r2")
    assert set(world.proxies()) == {"h3"}
    assert address_of(world, "demo-r2") not in world.proxies()["h3"].led_to


def test_without_a_replica_the_next_command_ends_it(world: ReplicaWorld) -> None:
    """The commands that took the replicas away were cut off before they came to it."""
    for name in ("demo-r1", "demo-r2"):
        world.replicas().promote(name)
    assert set(world.proxies()) == {"h2"}
    assert world.service().converge() == []
    assert world.proxies() == {}
    assert world.endpoint().address not in world.servers["h2"].addresses
    assert (world.endpoint().host, world.endpoint().left_hosts) == (None, ())


def test_a_promotion_waits_for_no_host_that_is_gone(world: ReplicaWorld) -> None:
    world.settle_endpoint()
    world.servers["h2"].up = False
    world.replicas().promote("demo-r2")
    assert world.endpoint().members == ("demo-r1",)


def test_a_proxy_that_does_not_answer_leads_to_nobody_who_may_be_written_to(
    world: ReplicaWorld,
) -> None:
    ((_, proxy),) = world.proxies().items()
    proxy.is_silent = True
    world.replicas().promote("demo-r1")
    assert world.proxies() == {}
    world.settle_endpoint()
    assert led_to(world) == ["demo-r2"]


def test_a_proxy_that_hangs_is_begun_anew(world: ReplicaWorld) -> None:
    ((_, proxy),) = world.proxies().items()
    proxy.is_silent = True
    assert world.settle_endpoint().problem is None
    ((_, fresh),) = world.proxies().items()
    assert fresh is not proxy
    assert led_to(world) == ["demo-r1", "demo-r2"]


def test_the_address_stays_while_replicas_come_and_go(world: ReplicaWorld) -> None:
    address = world.endpoint().address
    world.replicas().remove_all("demo")
    assert world.proxies() == {}
    assert all(address not in host.addresses for host in world.servers.values())
    assert (world.endpoint().host, world.endpoint().members) == (None, ())
    world.create("other")
    world.add(name="demo-again")
    world.settle_endpoint()
    assert led_to(world) == ["demo-again"]
    assert world.endpoint().address == address


def test_it_goes_with_its_database(world: ReplicaWorld) -> None:
    address = world.endpoint().address
    world.replicas().remove_all("demo")
    DatabaseNames(world.service().operations).rename("demo", "shop")
    assert world.endpoint("shop").address == address
    DatabaseTrash(world.service().operations).trash("shop", keep_days=1)
    records = world.service().operations.records
    assert records.all_read_endpoints() == {}
    assert address not in world.service().operations.used_addresses()


def test_a_replica_may_be_moved_behind_it(world: ReplicaWorld) -> None:
    world.service().stop("demo-r2")
    DatabaseMoves(world.service().operations).move("demo-r2", "h1")
    world.service().start("demo-r2")
    world.settle_endpoint()
    assert led_to(world) == ["demo-r1", "demo-r2"]


def test_a_host_without_haproxy_is_told_of(world: ReplicaWorld) -> None:
    world.servers["h2"].crash()
    world.servers["h2"].lacks_haproxy = True
    change = world.settle_endpoint()
    assert change.problem is not None
    assert change.problem.code == "no-haproxy"
    (event,) = keep_endpoints(world.replicas())
    assert (event.kind, event.level) == ("failed", "failed")
    world.servers["h2"].lacks_haproxy = False
    (event,) = keep_endpoints(world.replicas())
    assert "with demo-r2" in event.text


def test_the_controller_tells_of_changes_and_of_nobody(world: ReplicaWorld) -> None:
    assert keep_endpoints(world.replicas()) == []
    for name in ("demo-r1", "demo-r2"):
        world.host_of(name).apply_error[f"mysqld-{name}"] = "disk full"
    changed, empty = keep_endpoints(world.replicas())
    assert (changed.kind, changed.level) == ("endpoint-changed", "done")
    assert (empty.kind, empty.level) == ("endpoint-empty", "warning")
    (empty,) = keep_endpoints(world.replicas())
    assert empty.kind == "endpoint-empty", "as long as it lasts"


def test_what_another_command_is_at_is_left_to_it(world: ReplicaWorld) -> None:
    operations = world.service().operations
    with operations.locked("demo", lane="endpoint"):
        with pytest.raises(GrampusError) as caught:
            world.settle_endpoint()
        assert caught.value.code == "busy"
        assert keep_endpoints(world.replicas()) == []
        world.replicas().remove("demo-r2")
    assert world.endpoint().members == ("demo-r1", "demo-r2")
    world.settle_endpoint()
    assert led_to(world) == ["demo-r1"]


def test_a_host_that_is_no_more_is_told_nothing(world: ReplicaWorld) -> None:
    records = world.service().operations.records
    left = world.endpoint().model_copy(update={"left_hosts": ("h9",)})
    records.put_read_endpoint("demo", left)
    world.host_of("demo-r2").apply_error["mysqld-demo-r2"] = "disk full"
    world.settle_endpoint()
    assert (world.endpoint().left_hosts, led_to(world)) == ((), ["demo-r1"])
