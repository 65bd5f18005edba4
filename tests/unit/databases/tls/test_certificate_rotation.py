"""New certificates of a server: no client that was told in time is refused, at any step."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

import pytest

from grampus.core.errors import GrampusError, RefusedError
from grampus.databases.certificates import name_authority, newest_authority
from grampus.databases.instance import observe_answer
from grampus.databases.names.naming import DatabaseNames
from grampus.databases.tls.certificate_rotation import CertificateRotation
from grampus.databases.tls.certificate_steps import names_of, render_reload_sql
from grampus.hosts.port import HostUnreachableError
from tests.fakes.interruption import stopped_runs
from tests.fakes.mysql_host import BEGIN, MysqlDaemon
from tests.unit.databases.live.live_world import LiveWorld
from tests.unit.databases.replicas.replica_world import ReplicaWorld
from tests.unit.databases.world import LAB, World, prepared
from tests.unit.operation_runner import planned

ENDS = datetime(2035, 12, 30, tzinfo=UTC)
TLS_NAMES = {"ca.pem", "client-cert.pem", "client-key.pem", "server-cert.pem", "server-key.pem"}


def rotation(world: World) -> CertificateRotation:
    return CertificateRotation(world.service().operations)


def directory(world: World) -> PurePosixPath:
    host = world.service().get("demo").spec.host
    return world.hosts[host].data_dir / "databases" / "demo"


def given(world: World) -> str:
    """What a client that is given its file now trusts."""
    return rotation(world).authorities_file("demo").read_text()


def server(world: World) -> MysqlDaemon:
    return world.hosts[world.service().get("demo").spec.host].daemons["mysqld-demo"]


def own_login_works(world: World) -> bool:
    """Whether the owner gets in with what lies on the host."""
    operations = world.service().operations
    spec = operations.records.get("demo").spec
    host = world.fleet.host(spec.host)
    return observe_answer(host, names_of(operations.ports, spec)).version is not None


@pytest.fixture
def made(world: World) -> Iterator[World]:
    world.create()
    return world


def test_every_client_that_was_told_goes_on_and_nothing_is_restarted(made: World) -> None:
    former, daemon = given(made), server(made)
    rotated = rotation(made).rotate("demo")
    assert rotated is not None
    assert rotated.is_rotated
    both = given(made)
    assert (both.count(BEGIN), both.startswith(former)) == (2, True)
    assert daemon.is_trusted_by(former)
    assert daemon.is_trusted_by(both)
    state = rotation(made).retire("demo")
    assert state is not None
    assert (state.expires_at, state.is_rotated) == (ENDS, False)
    new = given(made)
    assert new == newest_authority(both)
    assert server(made) is daemon
    assert daemon.is_trusted_by(both)
    assert daemon.is_trusted_by(new)
    assert not daemon.is_trusted_by(former)
    assert own_login_works(made)


def test_what_lies_on_the_host_is_private_and_whole(made: World) -> None:
    host, place = made.hosts["h1"], directory(made)
    rotation(made).rotate("demo")
    for tls in (place / "tls", place / "tls.next"):
        files = host.below(tls)
        assert {path.name for path in files} == TLS_NAMES, "no authority's key is kept"
        assert {(file.mode, file.uid) for file in files.values()} == {(0o600, 64050)}
    rotation(made).retire("demo")
    assert {path.parent.name for path in host.below(place) if "tls" in str(path)} == {"tls"}
    assert {(f.mode, f.uid) for f in host.below(place / "tls").values()} == {(0o600, 64050)}
    keys = [file.content for path, file in host.below(place).items() if "key" in path.name]
    assert not any(key in word for argv in host.commands for word in argv for key in keys)


def test_one_after_the_other_and_none_before_its_time(made: World) -> None:
    with pytest.raises(RefusedError) as early:
        rotation(made).retire("demo")
    assert early.value.code == "not-rotated"
    rotation(made).rotate("demo")
    with pytest.raises(RefusedError) as twice:
        rotation(made).rotate("demo")
    assert twice.value.code == "not-retired"
    rotation(made).retire("demo")
    made.clock.sleep(60)
    before = given(made)
    rotation(made).rotate("demo")
    assert given(made).startswith(before)


def test_plans_are_told_and_change_nothing(made: World) -> None:
    before = made.inventory()
    assert planned(made.runner, lambda: rotation(made).rotate("demo"))
    assert made.inventory() == before
    rotation(made).rotate("demo")
    before = made.inventory()
    assert planned(made.runner, lambda: rotation(made).retire("demo"))
    assert made.inventory() == before


def test_a_stopped_database_shows_it_when_it_starts(made: World) -> None:
    made.service().stop("demo")
    rotation(made).rotate("demo")
    rotation(made).retire("demo")
    made.service().start("demo")
    assert server(made).is_trusted_by(given(made))
    assert given(made).count(BEGIN) == 1


@pytest.mark.parametrize("act", ["rotate", "retire"])
def test_wherever_it_is_killed_and_the_host_goes_down_clients_are_let_in(
    tmp_path: Path, act: str
) -> None:
    """A client that was told in time, by the server as it runs and as it is after a crash."""
    told: dict[Path, str] = {}

    def prepare(world: World) -> None:
        world.create()
        if act == "retire":
            rotation(world).rotate("demo")
        told[world.home.root] = given(world)

    def change(world: World) -> None:
        getattr(rotation(world), act)("demo")

    points = 0
    for point, world in stopped_runs(prepared(tmp_path, prepare), change, more_than=5):
        client = told[world.home.root]
        assert server(world).is_trusted_by(client), f"killed at {point}"
        assert server(world).is_trusted_by(given(world)), f"killed at {point}"
        if (directory(world) / "tls" / "ca.pem") in world.hosts["h1"].files:
            assert own_login_works(world), f"killed at {point}"
        if point % 2:
            world.hosts["h1"].crash()
        world.service().converge()
        world.service().start("demo")
        assert server(world).is_trusted_by(client), f"killed at {point}"
        assert own_login_works(world)
        assert world.journal.unfinished(LAB) == []
        points += 1
    assert points > 5


def test_a_server_that_keeps_its_certificate_keeps_its_clients(made: World) -> None:
    rotation(made).rotate("demo")
    both = given(made)
    made.hosts["h1"].reload_failure = "ERROR 3888 (HY000) at line 1: Failed to set up SSL"
    with pytest.raises(GrampusError, match="Failed to set up SSL"):
        rotation(made).retire("demo")
    assert given(made) == both
    assert server(made).is_trusted_by(both)
    assert own_login_works(made)
    made.hosts["h1"].reload_failure = ""
    made.service().converge()
    assert given(made) == newest_authority(both)
    assert server(made).is_trusted_by(given(made))


def test_the_former_authority_stays_until_the_server_shows_the_new_certificate(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that says that it has read its files, and has not."""
    rotation(made).rotate("demo")
    both = given(made)
    monkeypatch.setattr(made.hosts["h1"], "_reload", lambda daemon: (0, ""))
    with pytest.raises(GrampusError) as caught:
        rotation(made).retire("demo")
    assert caught.value.code == "certificate-refused"
    assert given(made) == both


def test_a_deletion_does_not_wait_for_it(made: World) -> None:
    place = directory(made)
    rotation(made).rotate("demo")
    made.hosts["h1"].reload_failure = "ERROR 3888 (HY000) at line 1: Failed to set up SSL"
    with pytest.raises(GrampusError):
        rotation(made).retire("demo")
    made.service().delete("demo")
    assert not made.hosts["h1"].below(place)


def test_a_move_in_between_takes_both_along(tmp_path: Path) -> None:
    world = LiveWorld(tmp_path)
    world.create()
    former = given(world)
    rotation(world).rotate("demo")
    world.hosts["h2"].files[PurePosixPath("/h2/databases/demo/tls.next/half.pem")] = world.hosts[
        "h1"
    ].files[PurePosixPath("/h1/databases/demo/tls/ca.pem")]
    both = given(world)
    world.moves().move("demo", "h2")
    assert server(world).is_trusted_by(former)
    assert given(world) == both
    below = world.hosts["h2"].below(PurePosixPath("/h2/databases/demo/tls.next"))
    assert {path.name for path in below} == TLS_NAMES
    assert {(file.mode, file.uid) for file in below.values()} == {(0o600, 64050)}
    rotation(world).retire("demo")
    assert server(world).is_trusted_by(newest_authority(both))
    world.moves().move("demo", "h1")
    assert not world.hosts["h1"].below(PurePosixPath("/h1/databases/demo/tls.next"))
    assert server(world).is_trusted_by(newest_authority(both))
    world.close()


def test_a_new_name_in_between_keeps_both(made: World) -> None:
    rotation(made).rotate("demo")
    DatabaseNames(made.service().operations).rename("demo", "store")
    state = rotation(made).retire("store")
    assert state is not None
    assert not state.is_rotated


def test_a_clone_and_its_source_go_on_by_themselves(made: World) -> None:
    rotation(made).rotate("demo")
    made.create("other")
    states = rotation(made).all()
    rotated = {name: getattr(state, "is_rotated", None) for name, state in states.items()}
    assert rotated == {"demo": True, "other": False}


# -- replicas -----------------------------------------------------------------------------------


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[ReplicaWorld]:
    """Its replica's receiver asks anew each time, so it must trust the primary at each moment."""
    world = ReplicaWorld(tmp_path)
    world.create(host="h1")
    world.add(host="h2")
    yield world
    world.close()


def follows(world: ReplicaWorld) -> bool:
    world.commit()
    return world.done("demo-r1") == world.done("demo")


def test_a_replica_goes_on_through_all_of_it(followed: ReplicaWorld) -> None:
    assert follows(followed)
    rotation(followed).rotate("demo")
    assert follows(followed)
    rotation(followed).retire("demo")
    assert follows(followed)
    spec = followed.service().get("demo-r1").spec
    attachment = followed.volumes.get("demo-r1").attachment
    assert attachment is not None
    trusted = followed.servers[spec.host].files[
        PurePosixPath(attachment.mount_path) / "primary-ca.pem"
    ]
    assert (trusted.content, trusted.mode) == (given(followed), 0o644)


@pytest.mark.parametrize("act", ["rotate", "retire"])
def test_a_replica_goes_on_wherever_it_is_killed(tmp_path: Path, act: str) -> None:
    def prepare(world: ReplicaWorld) -> None:
        world.create(host="h1")
        world.add(host="h2")
        if act == "retire":
            rotation(world).rotate("demo")

    def change(world: ReplicaWorld) -> None:
        getattr(rotation(world), act)("demo")

    start = prepared(tmp_path, prepare, ReplicaWorld)
    for point, world in stopped_runs(start, change, more_than=5):
        assert follows(world), f"killed at {point}"
        world.service().converge()
        assert follows(world), f"killed at {point}"


def test_a_replica_that_was_stopped_trusts_the_new_authority_when_it_starts(
    followed: ReplicaWorld,
) -> None:
    followed.service().stop("demo-r1")
    rotation(followed).rotate("demo")
    rotation(followed).retire("demo")
    followed.service().start("demo-r1")
    assert follows(followed)


def test_a_replica_out_of_reach_is_waited_for(followed: ReplicaWorld) -> None:
    rotation(followed).rotate("demo")
    followed.servers["h2"].up = False
    with pytest.raises(HostUnreachableError):
        rotation(followed).retire("demo")
    followed.servers["h2"].up = True
    rotation(followed).retire("demo")
    assert follows(followed)


def test_a_replica_has_certificates_of_its_own_that_can_be_rotated(followed: ReplicaWorld) -> None:
    rotation(followed).rotate("demo-r1")
    rotation(followed).retire("demo-r1")
    assert follows(followed)
    states = rotation(followed).all()
    assert [getattr(state, "is_rotated", None) for state in states.values()] == [False, False]


# -- what is pure -------------------------------------------------------------------------------


def test_an_authoritys_name_is_its_own_and_short_enough() -> None:
    at = datetime(2026, 11, 24, 13, 5, 9, tzinfo=UTC)
    longest = "a" * 32
    assert name_authority("shop") == "Grampus CA of shop"
    assert name_authority("shop", at) == "Grampus CA of shop 20261124T130509"
    assert len(name_authority(longest, at)) <= 64


@pytest.mark.parametrize(
    ("authorities", "newest"),
    [
        (f"{BEGIN}\na\n", f"{BEGIN}\na\n"),
        (f"{BEGIN}\na\n{BEGIN}\nb\n", f"{BEGIN}\nb\n"),
        (f"{BEGIN}\na\n{BEGIN}\nb\n{BEGIN}\nc\n", f"{BEGIN}\nc\n"),
        ("", ""),
    ],
)
def test_the_newest_authority_is_the_last(authorities: str, newest: str) -> None:
    assert newest_authority(authorities) == newest


def test_no_reload_is_in_a_binary_log() -> None:
    assert render_reload_sql("mysql") == "SET SESSION sql_log_bin = 0; ALTER INSTANCE RELOAD TLS"
    assert render_reload_sql("mariadb") == "FLUSH NO_WRITE_TO_BINLOG SSL"
