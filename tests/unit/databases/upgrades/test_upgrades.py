"""Upgrades: what is planned, what fails goes back to the last byte, and nothing that is cut off
loses what a client wrote."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.databases.upgrades.upgrading import DatabaseUpgrades, Upgraded
from tests.fakes.hosts import FakeFile
from tests.fakes.interruption import Killed, stopped_runs
from tests.fakes.mysql_host import OPENED_BY
from tests.fakes.pools_and_images import OLD_IMAGE, FakeImages
from tests.unit.databases.world import World, prepared
from tests.unit.operation_runner import planned

ROWS = PurePosixPath("data/rows")
SNAPSHOT = "before-upgrade-20260101-000000"


def upgrades(world: World) -> DatabaseUpgrades:
    return DatabaseUpgrades(world.service().operations, FakeImages())


def write(world: World, rows: str) -> None:
    attachment = world.volumes.get("demo").attachment
    assert attachment is not None
    host = world.hosts[attachment.host]
    host.files[PurePosixPath(attachment.mount_path) / ROWS] = FakeFile(rows)


def state(world: World) -> dict[str, object]:
    image = world.volumes.images["demo"]
    content = world.volumes._content(image)
    record = world.service().get("demo")
    return {
        **world.inventory(),
        "rows": content[ROWS].content,
        "opened by": content[PurePosixPath("data") / OPENED_BY].content,
        "image": record.spec.image_id,
        "snapshots": sorted(image.snapshots),
    }


def old(world: World) -> None:
    world.create(version="8.4")
    write(world, "before")


def old_and_stopped(world: World) -> None:
    old(world)
    world.service().stop("demo")


def upgrade(world: World) -> Upgraded | None:
    return upgrades(world).upgrade("demo", None)


def test_it_goes_on_with_the_newest_server_and_its_rows(world: World) -> None:
    old(world)
    assert world.service().get("demo").server_version == "8.4.3"
    done = upgrade(world)
    assert done is not None
    assert (done.former_version, done.snapshot) == ("8.4.3", SNAPSHOT)
    assert done.record.server_version == "9.7.4"
    assert (done.record.spec.image_id, done.record.desired) == (None, "running")
    found = state(world)
    assert (found["rows"], found["opened by"]) == ("before", "9.7.4")
    assert found["snapshots"] == [SNAPSHOT]
    assert world.service().show("demo").status == "running"
    assert not [name for name in world.hosts["h1"].daemons if name.startswith("upgrade-")]


def test_one_that_is_stopped_is_upgraded_and_stays_stopped(world: World) -> None:
    old_and_stopped(world)
    assert upgrade(world) is not None
    assert world.service().show("demo").status == "stopped"
    assert world.volumes.get("demo").attachment is None
    world.service().start("demo")
    assert world.service().get("demo").server_version == "9.7.4"


def test_what_runs_it_already_is_left_alone(world: World) -> None:
    old(world)
    upgrade(world)
    before = state(world)
    assert upgrade(world) is None
    assert upgrades(world).upgrade("demo", "9.7") is None
    assert state(world) == before


def test_a_newer_build_of_the_same_series_is_an_upgrade_too(world: World) -> None:
    world.create()
    write(world, "before")
    images = FakeImages()
    images.own_is_older = True
    service = DatabaseUpgrades(world.service().operations, images)
    assert service.upgrade("demo", None) is not None
    assert world.service().get("demo").spec.image_id == "sid-cdef"
    assert service.upgrade("demo", None) is None


def test_what_is_refused_changes_nothing(world: World) -> None:
    old(world)
    with pytest.raises(NotFoundError):
        upgrades(world).upgrade("dem", None)
    upgrade(world)
    before = state(world)
    with pytest.raises(RefusedError) as caught:
        upgrades(world).upgrade("demo", "8.4")
    assert caught.value.code == "downgrade"
    assert state(world) == before


def test_a_plan_can_be_read_before_it_is_carried_out(world: World) -> None:
    old(world)
    before = state(world)
    lines = planned(world.runner, lambda: upgrades(world).upgrade("demo", None))
    assert f"Take the safety snapshot '{SNAPSHOT}'" in lines
    assert "Upgrade its tables to mysql 9.7 without clients" in lines
    assert state(world) == before


@pytest.mark.parametrize("prepare", [old, old_and_stopped])
def test_one_that_fails_goes_on_as_it_was(world: World, prepare: object) -> None:
    assert callable(prepare)
    prepare(world)
    before = state(world)
    world.hosts["h1"].upgrade_failure = "[ERROR] [MY-013380] Table 'shop.t' is beyond repair"
    with pytest.raises(GrampusError, match="beyond repair") as caught:
        upgrade(world)
    assert caught.value.code == "upgrade-failed"
    assert state(world) == before


def test_what_a_client_wrote_to_the_new_server_stays_however_it_is_cut_off(
    tmp_path: Path,
) -> None:
    served = 0
    for point, world in stopped_runs(prepared(tmp_path, old), upgrade, more_than=20):
        host = world.hosts[world.service().get("demo").spec.host]
        daemon = host.daemons.get("mysqld-demo")
        is_new = daemon is not None and daemon.spec.image != OLD_IMAGE
        if is_new and daemon is not None and daemon.state == "running":
            served += 1
            write(world, "since")
            # Even when it cannot be finished now, it is not rolled back over that.
            host.serve_failure = "[ERROR] no"
            daemon.state = "stopped"
            world.service().converge()
            host.serve_failure = ""
            world.service().start("demo")
            assert state(world)["rows"] == "since", f"killed at {point}"
    assert served > 0, "it was never cut off there"


def test_failed_at_any_point_it_runs_with_one_server_or_the_other_and_all_its_rows(
    tmp_path: Path,
) -> None:
    before, error = None, GrampusError("disk gone")
    for point, world in stopped_runs(prepared(tmp_path, old), upgrade, error, more_than=20):
        record = world.service().get("demo")
        found = state(world)
        assert found["rows"] == "before"
        if record.last_upgrade is None:
            before = before or found
            assert found == before, f"failed at {point}"
            assert world.service().show("demo").status == "running"
        else:
            assert (found["opened by"], record.server_version) == ("9.7.4", "9.7.4")
            world.service().start("demo")
    assert before is not None


def test_an_undo_that_is_killed_as_well_goes_back_in_the_end(tmp_path: Path) -> None:
    def start(world: World) -> None:
        old(world)
        world.hosts["h1"].upgrade_failure = "[ERROR] no"

    def fail(world: World) -> None:
        with pytest.raises(GrampusError, match="could not be upgraded"):
            upgrade(world)

    whole = World(tmp_path / "whole")
    start(whole)
    before = state(whole)
    whole.close()
    for point, world in stopped_runs(prepared(tmp_path, start), fail, Killed(), more_than=25):
        world.service().converge()
        assert state(world) == before, f"killed at {point}"
