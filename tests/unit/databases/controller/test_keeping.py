"""What the controller warns of is kept once as it begins, and once as it ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError
from grampus.databases.controller.due_jobs import ControllerEvent, DueJob
from grampus.databases.controller.keeping import keep_warnings
from grampus.state.store import Store
from grampus.state.warnings import WarningHistory
from tests.fakes.clock import FakeClock

LATE = ControllerEvent("shop", "archive-late", "It is late.", "warning", {"lag_s": 6}, "See why.")
LATER = ControllerEvent("shop", "archive-late", "It is late.", "warning", {"lag_s": 60}, "See why.")
FULL = ControllerEvent("shop", "disk-full", "It is full.", "failed")
DONE = ControllerEvent("shop", "grew", "It has grown.")
OF_THE_LAB = ControllerEvent("", "unsettled", "h1 is down.", "failed")


class CountingStore(Store):
    """It counts the transactions that change something."""

    def changes(self) -> int:
        return self._connection.total_changes


class Kept:
    """A job that meets what it is told to, run by one controller after the other."""

    def __init__(self, file: Path) -> None:
        self.clock = FakeClock()
        self.store = CountingStore(file)
        self.history = WarningHistory(self.store, "t", self.clock)
        self.is_unusable = False

    def run(self, *events: ControllerEvent, after_s: float = 2.0) -> list[ControllerEvent]:
        self.clock.sleep(after_s)
        job = DueJob("binlogs", 2.0, lambda _: list(events))
        return keep_warnings(job, lambda _: self.open()).run(self)

    def fail(self) -> None:
        def run(_: Kept) -> list[ControllerEvent]:
            raise GrampusError("No answer.")

        with pytest.raises(GrampusError):
            keep_warnings(DueJob("binlogs", 2.0, run), lambda _: self.open()).run(self)

    def open(self) -> WarningHistory:
        if self.is_unusable:
            raise GrampusError("The state file cannot be used.", "Fix it.")
        return self.history

    def shown(self) -> list[tuple[str, int, float | None]]:
        """Text, times, and seconds until it was over, of each that is kept."""
        return [
            (
                one.warned.text,
                one.times,
                (one.ended_at - one.began_at).total_seconds() if one.ended_at else None,
            )
            for one in self.history.of_subjects(["shop", ""])
        ]


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(tmp_path / "state.db")
    yield made
    made.store.close()


def test_once_as_it_begins_and_once_as_it_ends(kept: Kept) -> None:
    assert kept.run(LATE, DONE) == [LATE, DONE], "all is told as ever"
    assert kept.shown() == [("It is late.", 1, None)]
    before = kept.store.changes()
    for _ in range(30):
        kept.run(LATER)
    assert kept.store.changes() == before, "nothing is written while it lasts"
    kept.run()
    assert kept.shown() == [("It is late.", 1, 62.0)]
    before = kept.store.changes()
    kept.run()
    assert kept.store.changes() == before


def test_one_that_flaps_is_one_that_is_counted(kept: Kept) -> None:
    for _ in range(50):
        kept.run(LATE)
        kept.run()
    assert kept.shown() == [("It is late.", 50, 198.0)]
    kept.run(LATE, after_s=601)
    assert [times for _, times, _ in kept.shown()] == [50, 1], "long after, it is another"


def test_what_reads_otherwise_is_another(kept: Kept) -> None:
    kept.run(FULL)
    kept.run(ControllerEvent("shop", "disk-full", "It is nearly full.", "failed"))
    assert kept.shown() == [("It is full.", 1, 2.0), ("It is nearly full.", 1, None)]


def test_a_run_that_fails_as_a_whole_has_seen_nothing(kept: Kept) -> None:
    kept.run(LATE)
    kept.fail()
    assert kept.shown() == [("It is late.", 1, None)]


def test_a_controller_that_is_begun_anew_goes_on(kept: Kept) -> None:
    """Nothing is remembered but in the state: each run here is another process's."""
    kept.run(LATE)
    kept.run(LATE, after_s=86400)
    assert kept.shown() == [("It is late.", 1, None)]
    kept.run(after_s=86400)
    assert kept.shown() == [("It is late.", 1, 172800.0)]


def test_of_one_kind_the_first_is_kept_as_the_first_is_told(kept: Kept) -> None:
    second = ControllerEvent("shop", "disk-full", "Another text.", "failed")
    kept.run(FULL, second)
    assert kept.shown() == [("It is full.", 1, None)]


def test_what_is_of_no_database_is_told_and_not_kept(kept: Kept) -> None:
    assert kept.run(OF_THE_LAB) == [OF_THE_LAB]
    assert kept.shown() == []


def test_what_cannot_be_kept_is_told_all_the_same(kept: Kept) -> None:
    kept.is_unusable = True
    told = kept.run(LATE)
    assert told[0] == LATE
    assert (told[1].level, told[1].text) == ("failed", "The state file cannot be used.")
