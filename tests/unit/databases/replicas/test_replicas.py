"""Replicas among databases, with servers that follow one another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError, UsageError
from grampus.databases.administrator import STATEMENT_TIMEOUT_S
from grampus.databases.clones.cloning import DatabaseClones
from grampus.databases.clones.decide_clone import CloneRequest
from grampus.databases.live.moving import DatabaseMoves
from grampus.databases.model import ReadEndpoint
from grampus.databases.names.database_trash import DatabaseTrash
from grampus.databases.names.naming import DatabaseNames
from grampus.databases.snapshots.snapshots import DatabaseSnapshots
from grampus.databases.users.rotation import DatabaseRotation
from grampus.databases.users.users import DatabaseUsers
from grampus.volumes.decide_external_log import EXTERNAL_LOG_BYTES
from tests.unit.operation_runner import planned

from .replica_world import ReplicaWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ReplicaWorld]:
    made = ReplicaWorld(tmp_path)
    made.create(host="h1")
    made.commit(transactions=3)
    yield made
    made.close()


def test_a_replica_has_what_its_primary_has_and_gets_what_comes(world: ReplicaWorld) -> None:
    view = world.add()
    spec = view.record.spec
    assert (spec.name, spec.replica_of) == ("demo-r1", "demo")
    assert view.standing.state == "replicating"
    assert world.done("demo-r1") == 3
    world.commit(transactions=4)
    standing = world.replicas().show("demo-r1").standing
    assert (standing.behind, standing.lag_ms) == (0, 0)
    assert world.done("demo-r1") == 7
    assert world.volumes.images["demo-r1"].facts["replica-of"] == "demo"


def test_nobody_writes_to_a_replica_after_a_restart_either(world: ReplicaWorld) -> None:
    world.add()
    with pytest.raises(RefusedError):
        world.commit("demo-r1")
    world.service().stop("demo-r1")
    world.service().start("demo-r1")
    with pytest.raises(RefusedError):
        world.commit("demo-r1")
    world.commit()
    assert world.done("demo-r1") == 4, "it goes on by itself"


def test_it_is_on_another_host_with_an_identity_of_its_own(world: ReplicaWorld) -> None:
    primary = world.service().get("demo").spec
    for number in (1, 2, 3):
        spec = world.add().record.spec
        assert spec.name == f"demo-r{number}"
        assert spec.host != primary.host
        assert spec.server_id != primary.server_id
    assert world.add(host="h1", name="beside").record.spec.host == "h1"
    assert world.replicas().names("demo") == ["beside", "demo-r1", "demo-r2", "demo-r3"]


def test_no_password_of_replication_is_kept_or_shown(world: ReplicaWorld) -> None:
    world.add()
    daemon, host = world.server("demo-r1"), world.host_of("demo-r1")
    password = host.state(daemon)["follows"]["password"]
    assert len(password) >= 20
    for machine in world.servers.values():
        assert not any(password in word for command in machine.commands for word in command)
    database = world.home.store_file.read_bytes()
    assert password.encode() not in database
    for secret in world.home.secrets_dir("t").rglob("*"):
        assert secret.is_dir() or password.encode() not in secret.read_bytes()


def test_each_replica_has_an_account_that_goes_with_it(world: ReplicaWorld) -> None:
    world.add()
    world.add()
    first, second = (world.service().get(f"demo-r{n}").spec.server_id for n in (1, 2))
    assert world.accounts() == sorted(f"grampus.replica.{number}" for number in (first, second))
    world.replicas().remove("demo-r1")
    assert world.accounts() == [f"grampus.replica.{second}"]


def test_an_account_that_could_not_be_removed_goes_with_the_next_replica(
    world: ReplicaWorld,
) -> None:
    world.add(host="h2")
    world.service().stop("demo")
    world.replicas().remove("demo-r1")
    world.service().start("demo")
    assert len(world.accounts()) == 1, "nobody could ask the primary"
    world.add(host="h3", name="other")
    number = world.service().get("other").spec.server_id
    assert world.accounts() == [f"grampus.replica.{number}"]


def without_endpoint(world: ReplicaWorld) -> dict[str, list[str]]:
    """The inventory but for what stays with the primary for replicas to come."""
    found = world.inventory()
    made = {name for name in found.pop("secrets") if "replica" in name}
    assert made == {"demo.replica-authority.json", "demo.replicas.ca.pem"}
    assert found.pop("endpoints") == [f"demo:{ReadEndpoint(address='10.9.0.12')}"]
    return found


def test_removed_nothing_is_left(world: ReplicaWorld) -> None:
    before = world.inventory()
    assert planned(world.runner, lambda: world.add(copies=1))
    assert (world.inventory(), world.copies.pools) == (before, {"databases"})
    world.add(copies=1)
    assert world.copies.pools == {"databases", "databases-1"}
    assert world.volumes.images["demo-r1"].record.spec.pool == "databases-1"
    world.replicas().remove("demo-r1")
    after = without_endpoint(world)
    assert after == {key: before[key] for key in after}
    assert world.copies.pools == {"databases"}


def test_it_is_undone_when_it_cannot_follow(world: ReplicaWorld) -> None:
    before = world.inventory()
    world.volumes.ensure_snapshot("demo", "old")
    world.commit()
    world.purge()
    with pytest.raises(GrampusError) as caught:
        world.add(snapshot="old")
    assert caught.value.code == "too-far-behind"
    world.volumes.ensure_snapshot_absent("demo", "old")
    world.host_of("demo").keep(world.server("demo"), done=3, purged=0)
    assert world.inventory() == before


def test_from_a_snapshot_it_catches_up(world: ReplicaWorld) -> None:
    world.volumes.ensure_snapshot("demo", "old")
    world.commit(transactions=5)
    world.add(snapshot="old")
    assert world.done("demo-r1") == 8


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ({"primary": "demo-r1"}, "is-replica"),
        ({"name": "demo"}, "name-taken"),
        ({"copies": 4}, "too-many-copies"),
        ({"memory_bytes": 10**15}, "too-big"),
        ({"name": "No"}, "invalid-name"),
        ({"primary": "stopped"}, "not-running"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_changed(
    world: ReplicaWorld, what: dict[str, Any], code: str
) -> None:
    world.add()
    world.create("stopped")
    world.service().stop("stopped")
    before = world.inventory()
    with pytest.raises(GrampusError) as caught:
        world.add(**{"primary": "demo", **what})
    assert caught.value.code == code
    assert world.inventory() == before


def test_a_host_of_its_own_or_none(world: ReplicaWorld) -> None:
    world.hosts["h2"].up = world.hosts["h3"].up = False
    with pytest.raises(RefusedError) as caught:
        world.add()
    assert caught.value.code == "no-other-host"
    assert "--host h1" in caught.value.remedy


def test_an_unknown_replica_gets_a_suggestion(world: ReplicaWorld) -> None:
    world.add()
    with pytest.raises(NotFoundError) as caught:
        world.replicas().plan_remove("demo-r11")
    assert caught.value.remedy == "Did you mean 'demo-r1'?"
    with pytest.raises(RefusedError) as refused:
        world.replicas().promote("demo")
    assert refused.value.code == "no-replica"


OPERATIONS_OF_REPLICAS = {
    "delete": lambda ops, w: w.service().delete("demo-r1"),
    "trash": lambda ops, w: DatabaseTrash(ops).trash("demo-r1"),
    "rename": lambda ops, w: DatabaseNames(ops).rename("demo-r1", "store"),
    "rotate": lambda ops, w: DatabaseRotation(ops).rotate("demo-r1", keeps_former=False),
    "user": lambda ops, w: DatabaseUsers(ops).add("demo-r1", "bob", "read"),
    "snapshot": lambda ops, w: DatabaseSnapshots(ops).create("demo-r1", "s1"),
    "clone": lambda ops, w: DatabaseClones(ops, w.service().planner).clone(
        CloneRequest("demo-r1", "copy")
    ),
}


@pytest.mark.parametrize("act", OPERATIONS_OF_REPLICAS.values(), ids=OPERATIONS_OF_REPLICAS)
def test_what_would_tear_a_replica_from_its_primary_is_refused(
    world: ReplicaWorld, act: Any
) -> None:
    world.add()
    before = world.inventory()
    with pytest.raises(RefusedError) as caught:
        act(world.service().operations, world)
    assert caught.value.code == "is-replica"
    assert "demo" in caught.value.remedy
    assert world.inventory() == before


OPERATIONS_OF_PRIMARIES = {
    "delete": lambda ops, w: w.service().delete("demo"),
    "trash": lambda ops, w: DatabaseTrash(ops).trash("demo"),
    "rollback": lambda ops, w: DatabaseSnapshots(ops).rollback("demo", "s1", with_safety=True),
    "rollback-for-good": lambda ops, w: DatabaseSnapshots(ops).rollback(
        "demo", "s1", with_safety=False
    ),
}


@pytest.mark.parametrize("act", OPERATIONS_OF_PRIMARIES.values(), ids=OPERATIONS_OF_PRIMARIES)
def test_a_primary_keeps_what_its_replicas_know(world: ReplicaWorld, act: Any) -> None:
    world.volumes.ensure_snapshot("demo", "s1")
    world.add()
    world.replicas().promote("demo-r1")
    world.add(name="other")
    world.service().operations.volumes.ensure_flattened("other")
    before = world.inventory()
    with pytest.raises(RefusedError) as caught:
        act(world.service().operations, world)
    assert caught.value.code in ("has-replicas", "has-clones")
    assert world.inventory() == before


def test_a_primary_may_be_stopped_and_moved_under_its_replicas(world: ReplicaWorld) -> None:
    world.add(host="h2")
    world.service().stop("demo")
    assert world.replicas().show("demo-r1").standing.state == "disconnected"
    DatabaseMoves(world.service().operations).move("demo", "h3")
    world.service().start("demo")
    world.commit()
    assert world.done("demo-r1") == 4
    assert world.replicas().show("demo-r1").standing.state == "replicating"


def test_a_replica_may_be_moved(world: ReplicaWorld) -> None:
    world.add(host="h2")
    world.service().stop("demo-r1")
    DatabaseMoves(world.service().operations).move("demo-r1", "h3")
    world.service().start("demo-r1")
    world.commit()
    assert world.done("demo-r1") == 4
    with pytest.raises(RefusedError):
        world.commit("demo-r1")


def test_removing_all_lets_the_primary_go(world: ReplicaWorld) -> None:
    world.add()
    world.add()
    world.replicas().remove_all("demo")
    assert world.replicas().names("demo") == []
    world.service().delete("demo")
    assert world.service().list() == []


# -- reading ------------------------------------------------------------------------------------


def test_a_reader_goes_to_the_healthy_replica_that_is_least_behind(world: ReplicaWorld) -> None:
    world.add(host="h2")
    world.add(host="h3")
    world.commit()
    world.servers["h2"].held_back.add("mysqld-demo-r1")
    world.commit()
    assert world.replicas().choose_reader("demo") == "demo-r2"
    standing = world.replicas().show("demo-r1").standing
    assert (standing.state, standing.behind, standing.lag_ms) == ("replicating", 2, 250)
    world.service().stop("demo-r2")
    assert world.replicas().choose_reader("demo") == "demo-r1"
    world.hosts["h2"].up = False
    with pytest.raises(RefusedError) as caught:
        world.replicas().choose_reader("demo")
    assert caught.value.code == "no-replica"
    assert "demo-r1 is host-down, demo-r2 is stopped" in caught.value.problem


# -- promoting ----------------------------------------------------------------------------------


def test_promoted_it_is_a_database_of_its_own(world: ReplicaWorld) -> None:
    world.add()
    world.commit()
    record = world.replicas().promote("demo-r1", wait=True)
    assert record.spec.replica_of is None
    assert world.done("demo-r1") == 4
    world.commit("demo-r1")
    world.commit("demo", 10)
    assert world.done("demo-r1") == 5
    assert world.accounts() == []
    assert world.volumes.images["demo-r1"].facts["replica-of"] == "none"
    world.service().stop("demo-r1")
    world.service().start("demo-r1")
    world.commit("demo-r1")
    assert world.replicas().names("demo") == []
    world.add("demo-r1", name="of-it")


def test_it_is_promoted_when_its_primary_is_gone(world: ReplicaWorld) -> None:
    world.add()
    world.commit()
    assert world.done("demo-r1") == 4
    world.hosts["h1"].up = False
    with pytest.raises(RefusedError) as caught:
        world.replicas().promote("demo-r1", wait=True)
    assert caught.value.code == "not-replicating"
    world.replicas().promote("demo-r1")
    world.commit("demo-r1")


def test_one_that_cannot_apply_what_it_received_stays_a_replica(world: ReplicaWorld) -> None:
    world.add(host="h2")
    world.servers["h2"].apply_error["mysqld-demo-r1"] = "Duplicate entry '1'"
    world.commit()
    assert world.replicas().show("demo-r1").standing.state == "broken"
    before = world.inventory()
    with pytest.raises(GrampusError, match="Duplicate entry"):
        world.replicas().promote("demo-r1")
    assert world.inventory() == before


# -- renewing -----------------------------------------------------------------------------------


def test_renewed_it_has_the_same_name_address_and_passwords(world: ReplicaWorld) -> None:
    world.add()
    former = world.service().made("demo-r1")
    world.service().stop("demo-r1")
    world.commit()
    world.purge()
    world.service().start("demo-r1")
    assert world.replicas().show("demo-r1").standing.state == "too-far-behind"
    view = world.replicas().renew("demo-r1")
    assert view.standing.state == "replicating"
    now = world.service().made("demo-r1")
    assert now.endpoint == former.endpoint
    assert world.done("demo-r1") == 4
    assert world.volumes.snapshots("demo") == []
    assert world.volumes.images["demo-r1"].facts["replica-of"] == "demo"


def test_a_renewal_that_cannot_end_does_not_hold_up_the_removal(world: ReplicaWorld) -> None:
    before = world.inventory()
    world.add(host="h2")
    host, daemon = world.host_of("demo-r1"), "mysqld-demo-r1"
    host.serve_failure = "[ERROR] corrupted"
    world.commit(transactions=0)
    with pytest.raises(GrampusError):
        world.replicas().renew("demo-r1")
    assert world.service().operations.unfinished("demo-r1")
    assert host.daemons.get(daemon) is None or host.daemons[daemon].state == "stopped"
    assert planned(world.runner, lambda: world.replicas().remove("demo-r1"))
    assert world.service().operations.unfinished("demo-r1")
    world.replicas().remove("demo-r1")
    after = without_endpoint(world)
    assert after == {key: before[key] for key in after}


def test_a_bigger_primary_makes_a_bigger_replica(world: ReplicaWorld) -> None:
    world.add()
    size_bytes = world.service().get("demo").spec.size_bytes * 2
    world.service().resize("demo", size_bytes)
    world.replicas().renew("demo-r1")
    assert world.service().get("demo-r1").spec.size_bytes == size_bytes
    assert world.volumes.get("demo-r1").spec.size_bytes == size_bytes


def make_old(world: ReplicaWorld) -> None:
    """The primary as an earlier release made it: with a journal, and the log inside."""
    record = world.service().get("demo")
    changed = record.spec.model_copy(update={"write_path": "journal"})
    world.service().operations.records.change("demo", spec=changed)


def test_a_replica_of_an_older_database_gets_an_external_log_on_request(
    world: ReplicaWorld,
) -> None:
    make_old(world)
    view = world.add(external_log=True)
    assert view.standing.state == "replicating"
    assert world.volumes.get("demo-r1").spec.external_log_bytes == EXTERNAL_LOG_BYTES
    assert world.volumes.images["demo-r1"].parent is None
    assert world.volumes.images["demo"].snapshots == {}
    world.commit()
    assert world.done("demo-r1") == 4
    world.replicas().promote("demo-r1", wait=True)
    assert world.service().get("demo-r1").spec.external_log_bytes == EXTERNAL_LOG_BYTES


def test_a_renewed_replica_has_the_layout_of_its_primary(world: ReplicaWorld) -> None:
    """A clone of the primary's volume has no other."""
    make_old(world)
    world.add(external_log=True)
    world.replicas().renew("demo-r1")
    assert world.service().get("demo-r1").spec.external_log_bytes is None
    assert world.volumes.get("demo-r1").spec.external_log_bytes is None


def test_what_is_due_is_renewed(world: ReplicaWorld) -> None:
    world.add()
    renewals = world.renewals()
    renewals.put("demo-r1", 86400)
    assert world.volumes.images["demo-r1"].facts["renew-every-s"] == "86400"
    assert renewals.carry_out() == []
    world.clock.sleep(86400)
    (planned,) = renewals.carry_out(changes_nothing=True)
    (done,) = world.renewals().carry_out()
    assert (done.replica, done.reason, done.problem) == ("demo-r1", "schedule", None)
    assert planned.replica == "demo-r1"
    assert world.renewals().carry_out() == []
    world.renewals().put("demo-r1", None)
    world.clock.sleep(2 * 86400)
    assert world.renewals().carry_out() == []


def test_one_that_can_never_catch_up_is_renewed_without_a_schedule(world: ReplicaWorld) -> None:
    world.add(host="h2")
    world.add(host="h3")
    world.service().stop("demo-r1")
    world.commit()
    assert world.done("demo-r2") == 4
    world.purge()
    assert world.renewals().carry_out() == [], "one that shall not run is left alone"
    world.service().start("demo-r1")
    (done,) = world.renewals().carry_out()
    assert (done.replica, done.reason) == ("demo-r1", "too-far-behind")
    assert world.done("demo-r1") == 4


def test_a_renewal_that_fails_is_told(world: ReplicaWorld) -> None:
    world.add(host="h2")
    world.renewals().put("demo-r1", 3600)
    world.clock.sleep(3600)
    world.service().stop("demo")
    (failed,) = world.renewals().carry_out()
    assert failed.problem is not None
    assert "demo is not running" in failed.problem


@pytest.mark.parametrize("every_s", [60, 40 * 86400])
def test_a_schedule_that_makes_no_sense_is_refused(world: ReplicaWorld, every_s: int) -> None:
    world.add()
    with pytest.raises(UsageError):
        world.renewals().put("demo-r1", every_s)


def test_who_looks_soon_gives_up_and_who_changes_something_is_patient(world: ReplicaWorld) -> None:
    world.add(host="h2")
    world.servers["h2"].hung.add("mysqld-demo-r1")
    (view,) = world.replicas().of("demo")
    assert (view.standing.state, view.standing.lag_ms) == ("no-answer", None)
    with pytest.raises(RefusedError) as caught:
        world.replicas().choose_reader("demo")
    assert "demo-r1 is no-answer" in caught.value.problem
    world.servers["h2"].waited_s.clear()
    with pytest.raises(RefusedError):
        world.replicas().promote("demo-r1", wait=True)
    assert world.servers["h2"].waited_s == [STATEMENT_TIMEOUT_S]
