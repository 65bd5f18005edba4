"""A command notes what changed, and looks at nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.databases.backup.decide_schedule import BackupState
from grampus.state.store import Store
from grampus.state.unnoted import UnnotedNames
from tests.system.crowd import counting, put_crowd
from tests.unit.databases.backup.existing import place

from .test_rebuilding import LAB, NOW, Grampus


@pytest.mark.parametrize("is_changed", [False, True])
def test_noting_takes_the_same_among_many(tmp_path: Path, is_changed: bool) -> None:
    def cost(count: int) -> tuple[int, int]:
        grampus = Grampus(tmp_path / str(count))
        grampus.add("shop")
        grampus.note()
        put_crowd(grampus.store, LAB, "shop", count=count, operations=0)
        if is_changed:
            grampus.databases.change("shop", last_rollback="x")
        with counting(grampus.store) as cost:
            assert grampus.note() == is_changed
        return len(cost.statements), cost.parsed

    assert cost(10) == cost(300)


def test_a_name_is_compared_again_when_it_changed_meanwhile(tmp_path: Path) -> None:
    store = Store(None)
    unnoted = UnnotedNames(store, LAB)
    grampus = Grampus(tmp_path)
    store.put("database", LAB, "shop", place(tmp_path))
    before = unnoted.find()
    assert set(before) == {"shop"}
    store.put("database", LAB, "shop", place(tmp_path / "other"))
    unnoted.settle(before)
    assert unnoted.find() not in ({}, before), "it changed after it was read"
    # Another command noted something later, and this one may have noted something older over it.
    later = unnoted.find()
    unnoted.settle(later)
    assert unnoted.find() == {}
    unnoted.settle(before)
    assert set(unnoted.find()) == {"shop"}
    grampus.store.close()
    store.close()


def test_what_moves_with_each_look_at_binary_logs_is_not_noted(tmp_path: Path) -> None:
    grampus = Grampus(tmp_path)
    grampus.add("shop")
    state = BackupState(created_at=NOW, place="file:///srv", place_id="x")
    grampus.databases.put_backup_state("shop", state)
    assert grampus.note() == 1
    state = state.model_copy(update={"copied_until": NOW, "archived_until": NOW})
    grampus.databases.put_backup_state("shop", state)
    assert grampus.note() == 0
    # What it was then goes along with the next change.
    grampus.databases.put_backup_state("shop", state.model_copy(update={"last_id": "shop/1"}))
    assert grampus.note() == 1
    (image,) = grampus.cluster.images
    assert "archived_until" in str(vars(image))
    later = state.model_copy(update={"last_id": "shop/2"})
    grampus.databases.put_backup_state("shop", later)
    moved = later.model_copy(update={"copied_until": None})
    grampus.databases.put_backup_state("shop", moved)
    assert grampus.note() == 1, "a change that is to be noted is not forgotten over one that is not"
