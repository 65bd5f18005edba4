"""Clones and golden volumes among databases, with a server that knows its accounts."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.core.units import GIB
from grampus.databases.clones.cloning import DatabaseClones
from grampus.databases.clones.decide_clone import MAX_DEPTH, CloneRequest
from grampus.databases.request import CreateRequest
from grampus.state.locks import hold_lock
from tests.fakes.hosts import FakeFile
from tests.fakes.mysql_accounts import accounts_of
from tests.unit.databases.world import LAB, World
from tests.unit.operation_runner import planned

ROWS = PurePosixPath("data/rows")


def clones(world: World) -> DatabaseClones:
    service = world.service()
    return DatabaseClones(service.operations, service.planner)


def clone(world: World, source: str = "demo", name: str = "copy", **wishes: object) -> None:
    clones(world).clone(CloneRequest(source, name, **wishes))  # type: ignore[arg-type]


def write_rows(world: World, name: str, text: str) -> None:
    host = world.service().get(name).spec.host
    world.hosts[host].files[PurePosixPath(f"/data/volumes/{name}") / ROWS] = FakeFile(text)


def rows(world: World, name: str) -> str | None:
    host = world.service().get(name).spec.host
    return world.hosts[host].read_file(PurePosixPath(f"/data/volumes/{name}") / ROWS)


def golden_name(world: World) -> str:
    (name,) = [name for name in world.volumes.images if name.startswith("golden-")]
    return name


# -- golden volumes -----------------------------------------------------------------------------


def test_the_first_database_makes_the_golden_volume_and_the_next_ones_clone_it(
    world: World,
) -> None:
    world.create("first")
    golden = world.volumes.images[golden_name(world)]
    assert golden.record.attachment is None
    inits = [argv for host in world.hosts.values() for argv in host.commands]
    world.create("second")
    assert len([name for name in world.volumes.images if name.startswith("golden-")]) == 1
    for name in ("first", "second"):
        parent = world.volumes.images[name].parent
        assert parent is not None
        assert parent.image == golden.record.spec.image
    assert any("install" in " ".join(argv) for argv in inits)
    assert world.progress.phases.count("Initialise its data directory") == 1


def test_nobody_can_log_in_to_what_is_on_a_golden_volume(world: World) -> None:
    world.create()
    files = world.volumes.images[golden_name(world)].files
    assert accounts_of(files[PurePosixPath("data/accounts")].content) == {}
    left = [str(p) for h in world.hosts.values() for p in h.files if "golden" in str(p)]
    assert left == []
    assert not [p for p in world.home.secrets_dir(LAB).glob("*") if "golden" in p.name]


def test_two_databases_of_one_golden_volume_have_nothing_in_common(world: World) -> None:
    first, second = world.create("first"), world.create("second")
    assert first.endpoint.password != second.endpoint.password
    assert first.record.user == "first"
    assert second.record.user == "second"


def test_without_a_golden_volume_the_data_directory_is_initialised(world: World) -> None:
    service = world.service()
    spec = service.plan_create(CreateRequest(name="demo", size_bytes=10 * GIB))
    golden = service.plan_golden(spec)
    with hold_lock(world.home, f"db.{LAB}.{golden.name}", world.clock):
        service.create(spec)
    assert service.show("demo").status == "running"
    assert world.volumes.images["demo"].parent is None
    assert list(world.volumes.images) == ["demo"]
    assert any("no golden volume" in note for note in world.progress.notes)


def test_a_golden_volume_that_was_deleted_is_made_anew(world: World) -> None:
    world.create("first")
    name = golden_name(world)
    world.service().delete("first")
    world.volumes.ensure_absent(name)
    world.create("second")
    assert golden_name(world) == name


@pytest.mark.parametrize("name", ["golden-x", "golden-mysql-4g-00000000"])
def test_no_database_is_called_as_a_golden_volume(world: World, name: str) -> None:
    with pytest.raises(GrampusError, match="is not available as a database name"):
        world.create(name)


# -- clones -------------------------------------------------------------------------------------


def test_a_clone_has_the_data_and_nothing_else_of_its_source(world: World) -> None:
    source = world.create()
    write_rows(world, "demo", "as it was")
    world.service().protect("demo", True)
    clone(world)
    service = world.service()
    made, known = service.made("copy"), service.get("demo")
    assert service.show("copy").status == "running"
    assert rows(world, "copy") == "as it was"
    assert made.record.user == known.user == "demo", "views and procedures name it"
    assert made.endpoint.password != source.endpoint.password
    assert made.record.spec.address != known.spec.address
    assert made.record.spec.server_id != known.spec.server_id
    assert not made.record.spec.protected
    assert world.volumes.images["copy"].facts["owner"] == "demo"
    write_rows(world, "copy", "of the copy")
    assert rows(world, "demo") == "as it was"
    assert service.show("demo").status == "running"


def test_its_own_snapshot_is_out_of_sight_and_keeps_the_source(world: World) -> None:
    world.create()
    clone(world)
    assert world.volumes.snapshots("demo") == []
    with pytest.raises(RefusedError) as caught:
        world.volumes.ensure_absent("demo")
    assert caught.value.code == "has-clones"
    assert clones(world).flatten("copy") is True
    assert clones(world).flatten("copy") is False
    world.volumes.ensure_absent("demo")


def test_the_source_is_not_deleted_under_its_clones(world: World) -> None:
    world.create()
    clone(world)
    before = world.inventory()
    with pytest.raises(RefusedError) as caught:
        world.service().delete("demo")
    assert caught.value.code == "has-clones"
    assert world.inventory() == before
    world.service().delete("copy")
    world.service().delete("demo")


def test_a_clone_of_a_snapshot_is_as_it_was_then(world: World) -> None:
    world.create()
    write_rows(world, "demo", "before")
    world.volumes.ensure_snapshot("demo", "yesterday")
    write_rows(world, "demo", "after")
    clone(world, snapshot="yesterday")
    assert rows(world, "copy") == "before"
    assert [snapshot.name for snapshot in world.volumes.snapshots("demo")] == ["yesterday"]


def test_a_stopped_source_can_be_cloned(world: World) -> None:
    world.create()
    write_rows(world, "demo", "still here")
    world.service().stop("demo")
    clone(world)
    assert rows(world, "copy") == "still here"
    assert world.service().show("demo").status == "stopped"


def test_a_clone_restarts_as_itself(world: World) -> None:
    world.create()
    clone(world)
    service = world.service()
    service.stop("copy")
    service.start("copy")
    assert service.show("copy").status == "running"
    host = world.hosts[service.get("copy").spec.host]
    argv = host.daemons["mysqld-copy"].spec.argv
    assert not any("init-file" in word for word in argv), "passwords would change at each start"


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (CloneRequest("demo", "demo"), "name-taken"),
        (CloneRequest("demo", "taken"), "name-taken"),
        (CloneRequest("demo", "copy", size_bytes=GIB), "shrink"),
        (CloneRequest("demo", "Copy"), "invalid-name"),
        (CloneRequest("demo", "copy", memory_bytes=10**15), "too-big"),
    ],
)
def test_what_cannot_be_cloned_is_refused_before_anything_is_changed(
    world: World, request_: CloneRequest, code: str
) -> None:
    world.create()
    world.create("taken")
    before = world.inventory()
    with pytest.raises(GrampusError) as caught:
        clones(world).plan(request_)
    assert caught.value.code == code
    assert world.inventory() == before


def test_a_pool_that_is_full_takes_no_snapshot_to_clone(world: World) -> None:
    world.create()
    before = world.inventory()
    world.cluster.full = True
    with pytest.raises(RefusedError) as caught:
        clone(world)
    assert caught.value.code == "pool-full"
    assert world.inventory() == before


def test_an_unknown_source_or_snapshot_is_not_found(world: World) -> None:
    world.create()
    world.volumes.ensure_snapshot("demo", "yesterday")
    with pytest.raises(NotFoundError, match="named 'dmeo'"):
        clones(world).plan(CloneRequest("dmeo", "copy"))
    with pytest.raises(NotFoundError) as caught:
        clones(world).plan(CloneRequest("demo", "copy", snapshot="yesterdy"))
    assert caught.value.remedy == "Did you mean 'yesterday'?"


def test_a_clone_cannot_have_the_name_of_its_source(world: World) -> None:
    world.create()
    with pytest.raises(RefusedError) as caught:
        clone(world, "demo", "demo")
    assert caught.value.code == "name-taken"


def test_a_chain_too_long_is_refused_until_it_is_flattened(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.fleet._addresses = tuple(f"10.9.1.{number}" for number in range(MAX_DEPTH + 4))
    world.create("c1")  # on the golden volume: depth 1
    for number in range(2, MAX_DEPTH + 1):
        clone(world, f"c{number - 1}", f"c{number}")
    last = f"c{MAX_DEPTH}"
    assert clones(world).lineage(last).depth == MAX_DEPTH
    with pytest.raises(RefusedError) as caught:
        clones(world).plan(CloneRequest(last, "more"))
    assert caught.value.code == "too-deep"
    clones(world).flatten(last)
    clone(world, last, "more")
    world.close()


def test_a_copy_whose_passwords_cannot_be_changed_is_undone(world: World) -> None:
    world.create(host="h1")
    before = world.inventory()
    for host in world.hosts.values():
        host.failing_statement = "ALTER USER 'demo'@'%'"
    with pytest.raises(GrampusError) as caught:
        clone(world)
    assert caught.value.code == "identity-failed"
    assert world.inventory() == before


def test_a_plan_can_be_read_before_it_is_carried_out(world: World) -> None:
    world.create()
    before = world.inventory()
    lines = planned(world.runner, lambda: clones(world).clone(CloneRequest("demo", "copy")))
    assert "Take a snapshot of demo" in lines
    assert planned(world.runner, lambda: clones(world).flatten("demo")) != []
    assert world.inventory() == before


def test_a_copy_is_flushed_before_it_is_a_database(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """INV-6, ADR 53: only what nobody relies on drops flushes."""
    phases: list[tuple[str, bool]] = []
    flush = world.volumes.ensure_flushed

    def flush_seen(name: str) -> None:
        assert name in world.volumes.unflushed
        flush(name)
        phases.append((world.service().get(name).phase, name in world.volumes.unflushed))

    monkeypatch.setattr(world.volumes, "ensure_flushed", flush_seen)
    world.create(write_path="journal")
    clone(world)
    assert world.volumes.dropped_flushes == ["demo", "copy"]
    assert phases == [("creating", False)] * 2
    assert world.volumes.unflushed == set()


def test_a_copy_that_cannot_be_flushed_is_undone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create(host="h1")
    before = world.inventory()

    def refuse(name: str) -> None:
        raise GrampusError(f"{name} drops flushes.", code="drops-flushes")

    monkeypatch.setattr(world.volumes, "ensure_flushed", refuse)
    with pytest.raises(GrampusError) as caught:
        clone(world)
    assert caught.value.code == "drops-flushes"
    assert world.inventory() == before
