"""Replicas that hold what their primaries lack: found, shown, and never destroyed unasked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, RefusedError
from grampus.databases.replicas.comparing import ReplicaComparing
from grampus.databases.replicas.replica_steps import RENEW_REPLICA
from tests.fakes.interruption import Killed

from .replica_world import SOURCE, ReplicaWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ReplicaWorld]:
    """A primary `demo` with 10 transactions, and a replica `demo-r1` that has them all."""
    world = ReplicaWorld(tmp_path)
    world.create(host="h1")
    world.add(host="h2")
    world.commit(transactions=10)
    assert world.done("demo-r1") == 10
    yield world
    world.close()


def ahead(world: ReplicaWorld, name: str = "demo-r1") -> str:
    return ReplicaComparing(world.service().operations.ports).compare(name).ahead


def unknown(world: ReplicaWorld, name: str = "demo-r1") -> str | None:
    return ReplicaComparing(world.service().operations.ports).compare(name).unknown


def lose(world: ReplicaWorld, transactions: int = 3) -> None:
    """The primary crashes and lacks its last ones, while the replica is not connected."""
    world.receiving("demo-r1", on=False)
    world.lose("demo", transactions)


def is_whole(world: ReplicaWorld) -> bool:
    """Whether the replica still has all that it had."""
    host, daemon = world.host_of("demo-r1"), world.server("demo-r1")
    return int(host.state(daemon)["done"]) >= 10 and host.state(daemon)["crashes"] == 0


def test_one_that_has_what_its_primary_has_is_not_ahead(world: ReplicaWorld) -> None:
    assert (ahead(world), unknown(world)) == ("", None)
    world.restart_logs()
    assert (ahead(world), unknown(world)) == ("", None)
    world.commit(transactions=5)
    assert world.done("demo-r1") == 15
    world.restart_logs(is_start=False)
    world.commit()
    assert (ahead(world), unknown(world)) == ("", None)
    assert world.renewals().carry_out() == []


def test_what_its_primary_lost_is_shown_and_the_replica_is_kept(world: ReplicaWorld) -> None:
    lose(world)
    world.receiving("demo-r1", on=True)
    standing = world.replicas().show("demo-r1").standing
    assert (standing.state, standing.ahead, standing.ahead_count) == ("ahead", f"{SOURCE}:8-10", 3)
    (left,) = world.renewals().carry_out()
    assert (left.reason, left.replica) == ("ahead", "demo-r1")
    assert f"{SOURCE}:8-10" in (left.problem or "")
    with pytest.raises(RefusedError) as caught:
        world.replicas().renew("demo-r1")
    assert caught.value.code == "ahead"
    assert f"{SOURCE}:8-10" in caught.value.problem
    assert is_whole(world)


def test_a_schedule_does_not_renew_it(world: ReplicaWorld) -> None:
    world.renewals().put("demo-r1", 86400)
    lose(world)
    world.clock.sleep(86400)
    (left,) = world.renewals().carry_out()
    assert left.reason == "ahead"
    assert is_whole(world)


def test_what_was_found_is_remembered_while_its_primary_reuses_the_numbers(
    world: ReplicaWorld,
) -> None:
    lose(world)
    assert ahead(world) == f"{SOURCE}:8-10"
    world.commit(transactions=50)
    assert ahead(world) == f"{SOURCE}:8-10"
    assert world.replicas().show("demo-r1").standing.state == "ahead"
    world.purge()
    assert ahead(world) == f"{SOURCE}:8-10"
    assert world.renewals().carry_out()[0].reason == "ahead"
    assert is_whole(world)


@pytest.mark.parametrize("new", [1, 3, 40])
def test_a_primary_that_passed_what_it_lost_before_anybody_looked_is_found_out(
    world: ReplicaWorld, new: int
) -> None:
    lose(world)
    world.commit(transactions=new)
    world.receiving("demo-r1", on=True)
    assert ahead(world) == f"{SOURCE}:8-10"
    assert world.replicas().show("demo-r1").standing.state == "ahead"
    (left,) = world.renewals().carry_out()
    assert left.reason == "ahead"
    with pytest.raises(RefusedError) as caught:
        world.replicas().renew("demo-r1")
    assert caught.value.code == "ahead"
    assert is_whole(world)


def test_several_restarts_hide_nothing(world: ReplicaWorld) -> None:
    lose(world, 2)
    world.restart_logs()
    world.restart_logs()
    world.commit(transactions=4)
    world.restart_logs(is_start=False)
    world.commit(transactions=40)
    world.restart_logs()
    world.commit(transactions=40)
    world.receiving("demo-r1", on=True)
    assert ahead(world) == f"{SOURCE}:9-10"


def test_logs_that_no_longer_tell_are_no_answer(world: ReplicaWorld) -> None:
    lose(world)
    world.commit(transactions=40)
    world.receiving("demo-r1", on=True)
    world.restart_logs("demo-r1")
    world.purge("demo-r1")
    assert "are deleted" in (unknown(world) or "")
    world.renewals().put("demo-r1", 86400)
    world.clock.sleep(86400)
    (left,) = world.renewals().carry_out()
    assert left.reason == "schedule"
    assert "Grampus cannot tell" in (left.problem or "")
    assert is_whole(world)


def test_a_start_that_was_noted_while_the_replica_was_away_is_compared_when_it_is_back(
    world: ReplicaWorld,
) -> None:
    world.service().stop("demo-r1")
    world.lose("demo", 3)
    world.commit(transactions=40)
    assert world.renewals().carry_out() == []
    world.restart_logs(is_start=False)
    world.purge()
    assert world.renewals().carry_out() == []
    world.commit(transactions=40)
    world.service().start("demo-r1")
    (left,) = world.renewals().carry_out()
    assert (left.reason, ahead(world)) == ("ahead", f"{SOURCE}:8-10")
    assert is_whole(world)


def test_a_start_that_nobody_saw_is_no_answer(world: ReplicaWorld) -> None:
    world.service().stop("demo-r1")
    world.lose("demo", 3)
    world.commit(transactions=40)
    world.restart_logs(is_start=False)
    world.purge()
    world.service().start("demo-r1")
    assert "are deleted" in (unknown(world) or "")
    (left,) = world.renewals().carry_out()
    assert left.reason == "too-far-behind"
    assert "Grampus cannot tell" in (left.problem or "")
    assert is_whole(world)
    world.replicas().renew("demo-r1", discards_errant=True)
    assert (ahead(world), unknown(world)) == ("", None)


def test_a_primary_that_went_on_without_a_start_needs_no_old_logs(world: ReplicaWorld) -> None:
    world.clock.sleep(3600)
    world.add(host="h3")
    for _ in range(3):
        world.restart_logs(is_start=False)
        world.commit(transactions=5)
        world.done("demo-r2")
        world.purge()
    assert (ahead(world, "demo-r2"), unknown(world, "demo-r2")) == ("", None)


def test_what_was_before_it_was_filled_is_not_asked_for(world: ReplicaWorld) -> None:
    world.lose("demo", 0)
    world.commit(transactions=5)
    world.clock.sleep(3600)
    world.add(host="h3")
    world.restart_logs("demo-r2")
    world.purge("demo-r2")
    assert (ahead(world, "demo-r2"), unknown(world, "demo-r2")) == ("", None)


def test_a_server_that_says_nothing_is_no_answer(world: ReplicaWorld) -> None:
    world.renewals().put("demo-r1", 86400)
    world.clock.sleep(86400)
    world.host_of("demo-r1").hung.add("mysqld-demo-r1")
    (left,) = world.renewals().carry_out()
    assert left.problem is not None
    with pytest.raises(RefusedError) as caught:
        world.replicas().plan_renew("demo-r1")
    assert caught.value.code == "ahead-unknown"
    world.host_of("demo-r1").hung.clear()
    assert is_whole(world)
    assert world.renewals().carry_out()[0].problem is None


def test_it_is_renewed_when_its_user_gives_up_what_it_holds(world: ReplicaWorld) -> None:
    lose(world)
    view = world.replicas().renew("demo-r1", discards_errant=True)
    assert (view.standing.state, view.standing.ahead) == ("replicating", None)
    assert world.done("demo-r1") == 7
    assert (ahead(world), unknown(world)) == ("", None)


def test_it_can_be_promoted_with_all_that_it_holds(world: ReplicaWorld) -> None:
    lose(world)
    assert ahead(world)
    record = world.replicas().promote("demo-r1")
    assert record.spec.replica_of is None
    assert world.done("demo-r1") == 10
    world.commit("demo-r1")


def test_it_is_not_removed_unless_its_user_gives_up_what_it_holds(world: ReplicaWorld) -> None:
    lose(world)
    with pytest.raises(RefusedError) as caught:
        world.replicas().remove("demo-r1")
    assert caught.value.code == "ahead"
    assert "remove demo-r1 --discard-errant" in caught.value.remedy
    world.add(host="h3", name="another")
    with pytest.raises(RefusedError):
        world.replicas().remove_all("demo")
    assert world.replicas().names("demo") == ["another", "demo-r1"]
    assert is_whole(world)
    world.replicas().remove("another")
    world.replicas().remove("demo-r1", discards_errant=True)
    assert world.replicas().names("demo") == []


def test_a_renewal_that_was_cut_off_is_undone_when_the_primary_lost_commits_meanwhile(
    world: ReplicaWorld,
) -> None:
    world.journal.dies_after = ("db.replica-renew", "snapshot")
    with pytest.raises(Killed):
        world.replicas().renew("demo-r1")
    lose(world)
    (said,) = world.service().converge()
    assert "undone" in said
    assert is_whole(world)
    assert ahead(world) == f"{SOURCE}:8-10"
    assert world.volumes.snapshots("demo") == []
    assert world.replicas().promote("demo-r1").spec.replica_of is None


def test_commits_that_are_lost_between_plan_and_removal_stop_a_renewal(
    world: ReplicaWorld,
) -> None:
    operations = world.service().operations
    with operations.locked("demo-r1"):
        order = world.replicas().plan_renew("demo-r1")
        lose(world)
        with pytest.raises(GrampusError) as caught:
            operations.run(RENEW_REPLICA, order)
    assert caught.value.code == "ahead"
    assert operations.unfinished("demo-r1") == []
    assert is_whole(world)
    assert world.volumes.snapshots("demo") == []
    assert world.service().get("demo-r1").phase == "ready"
