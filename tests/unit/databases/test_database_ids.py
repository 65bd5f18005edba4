"""The id of a database: its own for life, and on its image."""

from __future__ import annotations

from grampus.databases.clones.decide_clone import CloneRequest

from .stopped_case import clones, names, trash
from .world import World


def _id(world: World, name: str) -> str:
    return world.service().get(name).id


def test_each_database_has_an_id_of_its_own_which_its_image_bears(world: World) -> None:
    world.create("demo")
    world.create("other")
    assert len(_id(world, "demo")) == 32
    assert _id(world, "demo") != _id(world, "other")
    assert world.volumes.images["demo"].facts["database-id"] == _id(world, "demo")


def test_it_stays_after_a_rename_and_in_the_trash(world: World) -> None:
    world.create("demo")
    before = _id(world, "demo")
    names(world).rename("demo", "shop")
    trash(world).trash("shop")
    trash(world).restore("shop", name="again")
    assert _id(world, "again") == before
    assert world.volumes.images["again"].facts["database-id"] == before


def test_a_clone_has_another_one(world: World) -> None:
    world.create("demo")
    clones(world).clone(CloneRequest(name="copy", source="demo"))
    assert _id(world, "copy") not in ("", _id(world, "demo"))


def test_a_record_of_an_older_release_gets_one_with_the_next_command(world: World) -> None:
    world.create("demo")
    records = world.service().operations.records
    records.change("demo", id="")
    assert world.service().converge() == []
    given = _id(world, "demo")
    assert len(given) == 32
    world.service().converge()
    assert _id(world, "demo") == given
