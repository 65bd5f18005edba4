"""INV-57: recovery touches nothing that another operation, or a user, made under the name."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from grampus.core.errors import RefusedError
from grampus.core.units import GIB
from grampus.databases.catalogue import operation_type
from grampus.databases.kinds import is_still_about
from grampus.databases.model import DatabasePhase
from grampus.operations.operation_type import no_name
from grampus.volumes.model import VolumeSpec
from tests.fakes.interruption import Killed

from .stopped_case import Case, names
from .stopped_operations import CASES as ALL
from .world import LAB, World

TAKING = [case for case in ALL if operation_type(case.kind).takes is not no_name]
ENDING = [case for case in ALL if case.kind in ("db.delete", "db.trash", "db.replica-remove")]


def _ids(cases: list[Case]) -> list[str]:
    return [case.name for case in cases]


def _put_foreign_volume(world: World, name: str) -> VolumeSpec:
    """A volume that a user made, mounted on a host, where the operation's own may have been."""
    world.volumes.images.pop(name, None)
    spec = VolumeSpec(
        name=name, pool="databases", image=name, size_bytes=GIB, identity="somebody-else"
    )
    world.volumes.ensure_created(spec)
    world.volumes.ensure_attached(name, "h1")
    return spec


def _require_untouched(world: World, name: str, when: str) -> None:
    image = world.volumes.images.get(name)
    assert image is not None, f"{when}: the volume of somebody else is gone"
    assert image.record.spec.identity == "somebody-else", when
    assert image.record.attachment is not None, f"{when}: it was detached"
    assert image not in world.volumes.trash.images.values(), when


def _steps_of(root: Path, case: Case) -> list[str]:
    with closing(case.make(root)) as world:
        case.prepare(world)
        world.journal.met.clear()
        case.act(world)
        return world.journal.met[case.kind]


def _cut_off_after(world: World, case: Case, step: str) -> None:
    case.prepare(world)
    world.journal.dies_after = (case.kind, step)
    with pytest.raises(Killed):
        case.act(world)


def _taken(world: World, case: Case) -> str:
    (operation,) = [one for one in world.journal.unfinished(LAB) if one.kind == case.kind]
    kind = operation_type(case.kind)
    return kind.takes(kind.parse(operation.spec)) or operation.subject


@pytest.mark.parametrize("case", [*TAKING, *ENDING], ids=_ids([*TAKING, *ENDING]))
def test_an_undo_or_a_deletion_that_is_finished_leaves_the_volume_of_another(
    tmp_path: Path, case: Case
) -> None:
    """By hand, or by a state of another time: nothing lets such a volume be made meanwhile."""
    for step in _steps_of(tmp_path / "whole", case):
        with closing(case.make(tmp_path / step)) as world:
            _cut_off_after(world, case, step)
            name = _taken(world, case)
            _put_foreign_volume(world, name)
            world.service().converge()
            _require_untouched(world, name, f"cut off after {step}")


def test_an_operation_on_another_database_of_that_name_is_closed(world: World) -> None:
    world.create()
    world.journal.dies_after = ("db.delete", "mark")
    with pytest.raises(Killed):
        world.service().delete("demo")
    records = world.service().operations.records
    records.change("demo", id="another", phase="ready", desired="running")
    before = world.inventory()
    (sentence,) = world.service().converge()
    assert "is closed without a change" in sentence
    assert world.inventory() == {**before, "unfinished": []}


@pytest.mark.parametrize("case", TAKING, ids=_ids(TAKING))
def test_the_name_is_reserved_until_the_operation_ends(tmp_path: Path, case: Case) -> None:
    with closing(case.make(tmp_path)) as world:
        _cut_off_after(world, case, _steps_of(tmp_path / "whole", case)[0])
        name = _taken(world, case)
        with pytest.raises(RefusedError, match=f"reserved by the operation {case.kind}") as refused:
            world.journal.begin("volume.create", LAB, name, {}, takes=name)
        assert refused.value.code == "name-held"
        world.service().converge()


def test_no_database_is_made_while_a_volume_of_its_name_is(world: World) -> None:
    world.create("first")  # and the golden volume
    world.journal.begin("volume.create", LAB, "demo", {}, takes="demo")
    before = world.inventory()
    with pytest.raises(RefusedError, match=r"reserved by the operation volume\.create"):
        world.create("demo")
    assert world.inventory() == before


def test_no_database_gets_the_name_that_another_one_is_to_have(world: World) -> None:
    world.create()
    world.journal.dies_after = ("db.rename", "detach")
    with pytest.raises(Killed):
        names(world).rename("demo", "shop")
    with pytest.raises(RefusedError, match=r"reserved by the operation db\.rename on 'demo'"):
        world.create("shop")
    world.service().converge()
    assert list(world.service().operations.records.all()) == ["shop"]


def test_an_operation_that_an_older_release_began_is_undone(world: World) -> None:
    """Neither the operation, nor the record, nor the volume has an id."""
    world.create("first")
    before = world.inventory()
    world.journal.dies_after = ("db.create", "files")
    with pytest.raises(Killed):
        world.create("demo")
    _forget_ids(world, "demo")
    world.service().converge()
    assert world.inventory() == before


def test_one_that_an_older_release_began_is_not_undone_on_a_ready_database(world: World) -> None:
    world.create("demo")
    before = world.inventory()
    order = {"spec": world.service().get("demo").spec.model_dump(mode="json")}
    world.journal.begin("db.create", LAB, "demo", order)
    _forget_ids(world, "demo")
    (sentence,) = world.service().converge()
    assert "is closed" in sentence
    assert world.inventory() == before


def _forget_ids(world: World, name: str) -> None:
    world.service().operations.records.change(name, id="")
    image = world.volumes.images[name]
    spec = image.record.spec.model_copy(update={"identity": ""})
    image.record = image.record.model_copy(update={"spec": spec})
    with world.store.transaction() as connection:
        connection.execute("UPDATE operations SET identity = '', takes = ''")


@pytest.mark.parametrize(
    ("operation", "record", "phase", "is_undone", "expected"),
    [
        ("a", None, "", True, True),
        ("a", "a", "creating", True, True),
        ("a", "a", "ready", False, True),
        ("a", "", "creating", True, True),  # an older release's record
        ("a", "b", "creating", True, False),
        ("a", "b", "ready", False, False),
        ("", None, "", True, True),
        ("", "", "creating", True, True),
        ("", "b", "creating", True, True),  # it got its id since
        ("", "", "ready", True, False),
        ("", "", "ready", False, True),
    ],
)
def test_what_an_operation_is_still_about(
    world: World,
    operation: str,
    record: str | None,
    phase: DatabasePhase,
    is_undone: bool,
    expected: bool,
) -> None:
    found = None
    if record is not None:
        world.create()
        found = world.service().get("demo").model_copy(update={"id": record, "phase": phase})
    assert is_still_about(operation, found, is_undone=is_undone) is expected


def test_a_spec_of_an_older_release_is_read(world: World) -> None:
    """Its operations and volumes have no ids."""
    world.create()
    document = json.loads(world.volumes.get("demo").spec.model_dump_json())
    del document["identity"]
    assert VolumeSpec.model_validate(document).identity == ""
