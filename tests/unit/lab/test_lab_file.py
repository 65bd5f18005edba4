from __future__ import annotations

from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, NotFoundError
from grampus.lab.lab_file import ensure_lab_file, find_lost_records, lab_file, restore_lab
from grampus.lab.model import LAB_RECORD, LabSpec
from grampus.state.home import Home
from grampus.state.store import Store

from .test_model import make_spec

SPEC = make_spec(osds_per_host=1)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def store() -> Store:
    store = Store(None)
    store.put(LAB_RECORD, "t", "t", SPEC)
    return store


def test_a_lab_is_found_again_by_its_file(home: Home, store: Store) -> None:
    ensure_lab_file(home, store, "t")
    lost = Store(None)
    restore_lab(lost, "t", find_lost_records(home, lost, "t"))
    assert lost.get(LAB_RECORD, "t", "t", LabSpec) == SPEC
    assert find_lost_records(home, lost, "t") == []


def test_the_file_follows_the_state(home: Home, store: Store) -> None:
    ensure_lab_file(home, store, "t")
    written = lab_file(home, "t").stat().st_ino
    ensure_lab_file(home, store, "t")
    assert lab_file(home, "t").stat().st_ino == written
    store.put(LAB_RECORD, "t", "t", SPEC.model_copy(update={"host_count": 4}))
    ensure_lab_file(home, store, "t")
    assert find_lost_records(home, Store(None), "t")[0].body["host_count"] == 4


def test_without_a_lab_nothing_is_written(home: Home) -> None:
    ensure_lab_file(home, Store(None), "t")
    assert not lab_file(home, "t").exists()


def test_a_lab_that_nobody_knows_is_not_found(home: Home, store: Store) -> None:
    assert find_lost_records(home, store, "t") == []
    with pytest.raises(NotFoundError):
        find_lost_records(home, Store(None), "t")


def test_a_damaged_file_is_told(home: Home) -> None:
    lab_file(home, "t").parent.mkdir(parents=True)
    lab_file(home, "t").write_text("[{")
    with pytest.raises(GrampusError) as caught:
        find_lost_records(home, Store(None), "t")
    assert caught.value.code == "lab-file"
