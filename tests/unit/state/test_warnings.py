"""Warnings as they are kept: how long, how many, and what is forgotten."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError
from grampus.state.store import Store
from grampus.state.warnings import (
    AGAIN_WITHIN_S,
    KEPT_OF_SUBJECT,
    Warned,
    WarningHistory,
    cut_text,
)
from tests.fakes.clock import FakeClock

LATE = Warned("shop", "archive-late", "warning", "It is late.", "See why.")


class State:
    """A state file and a clock."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.clock = FakeClock()
        self.store = Store(file)
        self.history = WarningHistory(self.store, "t", self.clock)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    made = State(tmp_path / "state.db")
    yield made
    made.store.close()


def test_one_lasts_until_it_is_over(state: State) -> None:
    history, clock = state.history, state.clock
    began_at = clock.now()
    history.change("binlogs", begun=[LATE])
    clock.sleep(5)
    (lasting,) = history.lasting("shop")
    assert lasting.warned == LATE
    assert (lasting.job, lasting.times, lasting.began_at) == ("binlogs", 1, began_at)
    assert (lasting.ended_at, lasting.until) == (None, clock.now())
    history.change("binlogs", ended=[lasting])
    clock.sleep(5)
    assert history.lasting("shop") == []
    (over,) = history.of_subjects(["shop"])
    assert over.ended_at == over.until
    assert (over.until - over.began_at).total_seconds() == 5


def test_what_was_over_lately_is_known_and_begins_again(state: State) -> None:
    history, clock = state.history, state.clock
    history.change("binlogs", begun=[LATE])
    history.change("binlogs", ended=history.known("binlogs"))
    clock.sleep(AGAIN_WITHIN_S)
    history.change("binlogs", again=history.known("binlogs"))
    (again,) = history.of_subjects(["shop"])
    assert (again.times, again.ended_at) == (2, None)
    assert again.began_last_at == clock.now() > again.began_at
    history.change("binlogs", ended=[again])
    clock.sleep(AGAIN_WITHIN_S + 1)
    assert history.known("binlogs") == []


def test_jobs_labs_and_subjects_are_kept_apart(state: State) -> None:
    state.history.change("binlogs", begun=[LATE])
    assert state.history.known("growth") == []
    assert state.history.lasting("blog") == []
    elsewhere = WarningHistory(state.store, "u", state.clock)
    assert (elsewhere.known("binlogs"), elsewhere.of_subjects(["shop"])) == ([], [])


def test_the_last_ones_come_oldest_first(state: State) -> None:
    for number in range(5):
        text = f"{number}"
        state.history.change("job", begun=[Warned(f"s{number % 2}", "kind", "warning", text)])
        state.clock.sleep(1)
    found = state.history.of_subjects(["s0", "s1"], last=3)
    assert [warning.warned.text for warning in found] == ["2", "3", "4"]
    assert [warning.warned.text for warning in state.history.of_subjects(["s1"])] == ["1", "3"]
    assert state.history.of_subjects(["s1"], last=0) == []


def test_of_a_subject_so_many_are_kept_and_what_lasts_always(state: State) -> None:
    history = state.history
    history.change("job", begun=[LATE, Warned("blog", "kind", "warning", "Another's.")])
    for number in range(KEPT_OF_SUBJECT + 20):
        history.change("other", begun=[Warned("shop", "kind", "failed", f"{number}")])
        history.change("other", ended=[one for one in history.known("other") if not one.ended_at])
    kept = history.of_subjects(["shop"])
    assert len(kept) <= KEPT_OF_SUBJECT + 1
    assert kept[0].warned == LATE
    assert kept[-1].warned.text == f"{KEPT_OF_SUBJECT + 19}"
    assert len(history.of_subjects(["blog"])) == 1


def test_a_text_of_any_length_takes_little_room(state: State) -> None:
    text = "x" * 100_000
    state.history.change("job", begun=[Warned("shop", "kind", "failed", text)])
    (kept,) = state.history.lasting("shop")
    assert kept.warned.text == cut_text(text)
    assert len(kept.warned.text) == 2000


def test_a_change_is_made_whole_or_not_at_all(state: State) -> None:
    state.history.change("job", begun=[LATE])
    broken = Warned("shop", None, "failed", "No kind.")  # type: ignore[arg-type]
    with pytest.raises(GrampusError):
        state.history.change("job", begun=[broken], ended=state.history.known("job"))
    assert len(state.history.lasting("shop")) == 1


def test_a_lab_that_is_gone_warns_of_nothing(state: State) -> None:
    state.history.change("job", begun=[LATE])
    WarningHistory(state.store, "u", state.clock).change("job", begun=[LATE])
    state.store.remove_lab("t")
    assert state.history.of_subjects(["shop"]) == []
    assert len(WarningHistory(state.store, "u", state.clock).lasting("shop")) == 1


def test_a_file_of_an_older_version_gets_the_table(tmp_path: Path) -> None:
    file = tmp_path / "old.db"
    Store(file).close()
    with sqlite3.connect(file) as connection:
        connection.execute("DROP TABLE warnings")
    connection.close()
    store = Store(file)
    WarningHistory(store, "t", FakeClock()).change("job", begun=[LATE])
    assert len(WarningHistory(store, "t", FakeClock()).lasting("shop")) == 1
    store.close()
