"""The guard at work: volumes grow, databases are closed and opened, each for itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.core.units import GIB, MIB
from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.databases.growth.decide_growth import FileSystem
from grampus.databases.growth.file_systems import Mount, parse_mounts
from grampus.databases.live.migrate_steps import MIGRATE_POOL, PoolChange
from grampus.state.locks import hold_lock
from tests.unit.databases.world import LAB, database_events

from .growth_world import RULE, GrowthWorld

NEARLY_FULL = 10 * GIB - 100 * MIB  # below the reserve of 144 MiB


@pytest.fixture
def world(tmp_path: Path) -> Iterator[GrowthWorld]:
    made = GrowthWorld(tmp_path)
    made.create()
    made.use(GIB)
    yield made
    made.close()


def told(events: list[ControllerEvent]) -> list[tuple[str, str, str]]:
    return [(event.database, event.kind, event.level) for event in events]


def test_nothing_is_done_while_there_is_room(world: GrowthWorld) -> None:
    world.growth().put_rule("demo", RULE)
    assert world.look() == []
    assert (world.size_bytes(), world.is_read_only()) == (10 * GIB, False)


def test_grows_at_the_threshold(world: GrowthWorld) -> None:
    world.growth().put_rule("demo", RULE)
    world.use(8 * GIB)
    assert told(world.look()) == [("demo", "grew", "done")]
    assert world.size_bytes() == 12 * GIB + 512 * MIB
    record = world.service().get("demo")
    assert record.spec.size_bytes == world.size_bytes()
    assert world.volumes.images["demo"].facts["size-bytes"] == str(world.size_bytes())
    assert world.look() == []


def test_at_the_ceiling_it_says_so_and_closes_in_time(world: GrowthWorld) -> None:
    world.growth().put_rule("demo", RULE.model_copy(update={"up_to_bytes": 11 * GIB}))
    world.use(9 * GIB)
    world.look()
    assert world.size_bytes() == 11 * GIB
    assert told(world.look()) == [("demo", "cannot-grow", "warning")]
    world.use(11 * GIB - 50 * MIB)
    assert told(world.look(after_s=3600)) == [
        ("demo", "cannot-grow", "warning"),
        ("demo", "read-only", "warning"),
    ]
    assert world.is_read_only()


def test_a_full_cluster_lets_nothing_grow(world: GrowthWorld) -> None:
    world.growth().put_rule("demo", RULE)
    world.room = replace(world.room, problem="1 nearfull osd(s) (OSD_NEARFULL)")
    world.use(8 * GIB)
    [event] = world.look()
    assert event.kind == "cannot-grow"
    assert "1 nearfull osd(s)" in event.text
    assert world.size_bytes() == 10 * GIB
    world.room = replace(world.room, problem=None)
    assert told(world.look(after_s=20)) == [("demo", "grew", "done")]


def test_closed_without_a_rule_and_opened_when_it_has_room(world: GrowthWorld) -> None:
    world.use(NEARLY_FULL)
    assert told(world.look(after_s=3600)) == [("demo", "read-only", "warning")]
    assert world.is_read_only()
    guard = world.service().get("demo").guard
    assert guard is not None
    world.use(10 * GIB - 180 * MIB)  # more than the reserve, and not enough more
    assert told(world.look()) == [("demo", "read-only", "warning")]
    world.use(5 * GIB)
    assert told(world.look()) == [("demo", "opened", "done")]
    assert not world.is_read_only()
    assert world.service().get("demo").guard is None
    assert world.look() == []


def test_writers_in_a_hurry_are_stopped_earlier(world: GrowthWorld) -> None:
    world.use(9 * GIB)
    world.look()
    world.use(9 * GIB + 500 * MIB)  # 100 MiB/s: a quarter of it all may be too little for that
    assert told(world.look()) == [("demo", "read-only", "warning")]


def test_it_is_closed_again_after_its_server_was_started_anew(world: GrowthWorld) -> None:
    world.use(NEARLY_FULL)
    world.look(after_s=3600)
    world.filling["h1"].read_only.clear()
    assert told(world.look()) == [("demo", "read-only", "warning")]
    assert world.is_read_only()


def test_what_others_made_read_only_is_left_to_them(world: GrowthWorld) -> None:
    world.filling["h1"].read_only["mysqld-demo"] = True
    world.use(NEARLY_FULL)
    assert told(world.look(after_s=3600)) == [("demo", "nearly-full", "warning")]
    with hold_lock(world.home, f"db.{LAB}.demo", world.clock):
        world.look(after_s=3600)
    world.use(GIB)
    assert world.look(after_s=3600) == []
    assert world.is_read_only()


def test_a_really_full_disk_is_said_and_not_journaled_again_and_again(world: GrowthWorld) -> None:
    host = world.filling["h1"]
    host.stuck.add("mysqld-demo")
    world.use(10 * GIB - MIB)
    looks = [told(world.look(after_s=5)) for _ in range(60)]
    assert looks == [[("demo", "disk-full", "failed")]] * 60
    events = database_events(world).of("demo")
    tries = [event for event in events if event.kind == "db.close"]
    assert 3 < len(tries) < 8
    assert {event.outcome for event in tries} == {"undone"}
    assert world.service().get("demo").guard is None
    host.stuck.clear()
    world.service().resize("demo", 20 * GIB)
    assert world.look() == []
    world.use(20 * GIB - 50 * MIB)
    assert told(world.look(after_s=3600)) == [("demo", "read-only", "warning")], "no rest is left"


def test_closed_while_another_command_holds_the_database(world: GrowthWorld) -> None:
    world.use(NEARLY_FULL)
    with hold_lock(world.home, f"db.{LAB}.demo", world.clock):
        assert told(world.look(after_s=3600)) == [("demo", "read-only", "warning")]
        assert world.is_read_only()
        assert world.service().get("demo").guard is None
        assert told(world.look()) == [("demo", "read-only", "warning")]
    world.look()
    assert world.service().get("demo").guard is not None
    world.use(GIB)
    assert told(world.look()) == [("demo", "opened", "done")]
    assert not world.is_read_only()


def test_closed_and_opened_while_another_command_holds_it(world: GrowthWorld) -> None:
    with hold_lock(world.home, f"db.{LAB}.demo", world.clock):
        world.use(NEARLY_FULL)
        world.look(after_s=3600)
        world.use(GIB)
        assert told(world.look()) == [("demo", "opened", "done")]
    assert not world.is_read_only()
    assert world.look() == []


def test_growth_that_waits_for_another_command_is_told_and_tried_again(world: GrowthWorld) -> None:
    world.growth().put_rule("demo", RULE)
    world.use(8 * GIB)
    with hold_lock(world.home, f"db.{LAB}.demo", world.clock):
        first, second = world.look(), world.look()
    # The loop tells the same text once.
    assert first == second
    assert told(first) == [("demo", "cannot-grow", "warning")]
    assert "waits for the end of another command" in first[0].text
    assert told(world.look()) == [("demo", "grew", "done")], "it does not rest after that"
    assert world.look() == []


def test_growth_names_the_operation_that_it_waits_for(world: GrowthWorld) -> None:
    world.growth().put_rule("demo", RULE)
    world.use(8 * GIB)
    operations = world.service().operations
    with operations.locked("demo"):
        operations.begin(MIGRATE_POOL, PoolChange(database="demo"))
        (event,) = world.look()
    assert "the migration of the database demo (db.migrate)" in event.text


def test_growth_goes_on_beside_a_flattening(world: GrowthWorld) -> None:
    world.growth().put_rule("demo", RULE)
    world.use(8 * GIB)
    with world.service().operations.locked("demo", lane="flatten"):
        assert told(world.look()) == [("demo", "grew", "done")]


def test_one_that_fails_holds_up_no_other(world: GrowthWorld) -> None:
    world.create("other")
    world.use(8 * GIB, "other")
    for name in ("demo", "other"):
        world.growth().put_rule(name, RULE)
    world.use(8 * GIB)
    world.volumes.ungrowable.add("demo")
    assert told(world.look()) == [("demo", "cannot-grow", "warning"), ("other", "grew", "done")]


def test_a_host_that_is_down_holds_up_no_other(world: GrowthWorld) -> None:
    world.create("other", host="h2")
    world.growth().put_rule("other", RULE)
    world.use(8 * GIB, "other")
    world.hosts["h1"].up = False
    assert told(world.look()) == [("", "failed", "failed"), ("other", "grew", "done")]


def test_a_cluster_that_does_not_answer_keeps_nobody_from_being_closed(world: GrowthWorld) -> None:
    growth = world.growth()

    def silent(pool: str) -> object:
        raise GrampusError("No MON answers.")

    growth.observe_room = silent  # type: ignore[assignment]
    world.use(NEARLY_FULL)
    world.clock.sleep(3600)
    assert told(world.guard.run(growth)) == [
        ("demo", "read-only", "warning"),
        ("", "failed", "failed"),
    ]


def test_the_pool_is_not_asked_at_each_look(world: GrowthWorld) -> None:
    for _ in range(24):
        world.look()
    assert 1 <= world.rooms_asked <= 3


@pytest.mark.parametrize("state", ["stopped", "unmounted", "deleted"])
def test_what_does_not_run_is_left_alone(world: GrowthWorld, state: str) -> None:
    world.use(NEARLY_FULL)
    if state == "stopped":
        world.service().stop("demo")
    elif state == "deleted":
        world.service().delete("demo")
        world.used_bytes.clear()
    else:
        world.used_bytes.clear()
    assert world.look() == []


def test_release_lets_write_for_a_while(world: GrowthWorld) -> None:
    with pytest.raises(RefusedError, match="The guard does not block writes"):
        world.growth().release("demo", 900)
    world.use(NEARLY_FULL)
    world.look(after_s=3600)
    world.growth().release("demo", 900)
    assert not world.is_read_only()
    assert world.look() == []
    assert told(world.look(after_s=901)) == [("demo", "read-only", "warning")]
    assert world.is_read_only()


def test_release_opens_what_nobody_remembers_to_have_closed(world: GrowthWorld) -> None:
    world.filling["h1"].read_only["mysqld-demo"] = True
    world.growth().release("demo", 900)
    assert not world.is_read_only()
    assert world.look() == [
        ControllerEvent("demo", "opened", "The database demo can be written to again.")
    ]
    assert world.service().get("demo").guard is None


def test_a_replica_is_not_released(world: GrowthWorld) -> None:
    records = world.service().operations.records
    record = records.get("demo")
    spec = record.spec.model_copy(update={"replica_of": "primary"})
    records.change("demo", spec=spec)
    world.filling["h1"].read_only["mysqld-demo"] = True
    with pytest.raises(RefusedError, match="The guard does not block writes"):
        world.growth().release("demo", 900)


def test_a_disk_that_fills_up_while_it_is_released_is_said(world: GrowthWorld) -> None:
    world.use(NEARLY_FULL)
    world.look(after_s=3600)
    world.growth().release("demo", 900)
    world.filling["h1"].stuck.add("mysqld-demo")
    world.use(10 * GIB - MIB)
    assert told(world.look()) == [("demo", "disk-full", "failed")]
    guard = world.service().get("demo").guard
    assert guard is not None
    assert guard.state == "released"


def test_a_resize_opens_it(world: GrowthWorld) -> None:
    world.use(NEARLY_FULL)
    world.look(after_s=3600)
    assert not world.growth().open_where_room("demo")
    world.service().resize("demo", 12 * GIB)
    world.use(NEARLY_FULL)
    assert world.growth().open_where_room("demo")
    assert not world.is_read_only()


def test_a_resize_ends_a_release(world: GrowthWorld) -> None:
    world.use(NEARLY_FULL)
    world.look(after_s=3600)
    world.growth().release("demo", 900)
    assert world.growth().open_where_room("demo")
    assert world.service().get("demo").guard is not None
    world.service().resize("demo", 12 * GIB)
    world.use(NEARLY_FULL)
    assert world.growth().open_where_room("demo")
    assert world.service().get("demo").guard is None


def test_mariadb_has_read_only_alone(world: GrowthWorld) -> None:
    world.service().delete("demo")
    world.create(flavour="mariadb")
    world.use(NEARLY_FULL)
    world.look(after_s=3600)
    assert world.is_read_only()
    said = [command[-1] for command in world.filling["h1"].commands if "read_only =" in command[-1]]
    assert said == ["SET SESSION lock_wait_timeout = 5; SET GLOBAL read_only = ON"]


def test_the_rule_is_kept_with_the_database(world: GrowthWorld) -> None:
    with pytest.raises(NotFoundError, match="demoo"):
        world.growth().put_rule("demoo", RULE)
    world.growth().put_rule("demo", RULE)
    assert world.growth().show("demo").record.growth == RULE
    assert world.volumes.images["demo"].facts["growth"] == RULE.model_dump_json()
    world.growth().put_rule("demo", None)
    assert world.volumes.images["demo"].facts["growth"] == "none"


def test_the_history_tells_of_it(world: GrowthWorld) -> None:
    world.growth().put_rule("demo", RULE)
    world.use(8 * GIB)
    world.look()
    events = database_events(world).of("demo", last=2)
    assert [event.what for event in events] == [
        "change of the growth rule: at 80% by 25% up to 20 GiB",
        "automatic growth: 10 GiB to 12.5 GiB",
    ]


def test_mounts_as_findmnt_prints_them() -> None:
    text = "/data/volumes/a /dev/loop4 1006632960 714797056\n\nbroken\n/b /dev/loop5 - -\n"
    file_system = FileSystem(1006632960, 714797056)
    assert parse_mounts(text) == {"/data/volumes/a": Mount("/dev/loop4", file_system)}
    assert file_system.used_ratio == pytest.approx(0.29, abs=0.001)


def test_another_device_at_its_mount_point_is_not_its_own(world: GrowthWorld) -> None:
    attachment = world.volumes.get("demo").attachment
    assert attachment is not None
    world.look()
    mounts = world.filling["h1"].mounts.replace(attachment.device, "/dev/loop99")
    world.used_bytes.clear()
    world.filling["h1"].mounts = mounts.replace(str(9 * GIB), "0")
    assert world.guard.run(world.growth()) == []
    assert PurePosixPath(attachment.mount_path).name == "demo"
