"""Copies of one state: what one changes, the others have, and nothing is done twice."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from pydantic import BaseModel

from grampus.core.errors import GrampusError
from grampus.core.progress import SilentProgress
from grampus.operations.watching import OperationWatch
from grampus.state import replicated
from grampus.state.log_port import StateUnansweredError
from grampus.state.operations import OperationJournal, Step
from grampus.state.replicated import ReplicatedStore
from grampus.state.warnings import Warned, WarningHistory
from tests.fakes.clock import FakeClock
from tests.fakes.state_log import Disturbance, FakeStateLog

LAB = "prod"


class Note(BaseModel):
    text: str


class Site:
    """A log, and copies of it on machines."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = FakeStateLog()
        self.log.create("log-1")
        self.clock = FakeClock()
        self.secrets: list[tuple[str, str | None]] = []

    def copy(self, name: str) -> ReplicatedStore:
        store = ReplicatedStore(
            self.directory / name,
            LAB,
            self.log,
            clock=self.clock,
            on_secret=lambda *secret: self.secrets.append(secret),
        )
        store.join("log-1")
        return store


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def notes(store: ReplicatedStore) -> dict[str, str]:
    return {name: one.text for name, one in store.all("note", LAB, Note).items()}


def write(store: ReplicatedStore, name: str, text: str) -> None:
    store.put("note", LAB, name, Note(text=text))


def test_each_copy_has_what_the_others_changed(site: Site) -> None:
    a, b = site.copy("a"), site.copy("b")
    write(a, "x", "1")
    write(b, "y", "2")  # b lacks x: it gets that first
    write(a, "x", "3")
    b.remove("note", LAB, "y")
    for store in (a, b):
        store.catch_up()
        assert notes(store) == {"x": "3"}
    assert site.log.head == 4


def test_operations_and_warnings_have_the_same_numbers_everywhere(site: Site) -> None:
    a, b = site.copy("a"), site.copy("b")
    first = OperationJournal(a, site.clock).begin("db.create", LAB, "shop", {"x": 1})
    second = OperationJournal(b, site.clock).begin("db.create", LAB, "other", {})
    assert (first.id, second.id) == (1, 2)
    step = Step("one", "Do it", lambda: None)
    OperationJournal(b, site.clock).apply(second, [step], SilentProgress(), undo_on_failure=True)
    a.catch_up()
    assert [one.id for one in OperationJournal(a, site.clock).unfinished(LAB)] == [1]
    WarningHistory(b, LAB, site.clock).change("j", begun=[Warned("shop", "k", "warning", "Full.")])
    a.catch_up()
    assert [one.warned.text for one in WarningHistory(a, LAB, site.clock).known("j")] == ["Full."]


def test_a_name_is_taken_once(site: Site) -> None:
    """Both look before they take it: the second one looks again, behind the first one's entry."""
    a, b = site.copy("a"), site.copy("b")
    b.catch_up()
    OperationJournal(a, site.clock).begin("db.create", LAB, "shop", {}, takes="shop")
    with pytest.raises(GrampusError) as refused:
        OperationJournal(b, site.clock).begin("db.create", LAB, "shop", {}, takes="shop")
    assert refused.value.code == "name-held"


@pytest.mark.parametrize("disturbed", [["unanswered"], ["unheard"], ["unheard", "unanswered"]])
def test_a_lost_answer_makes_no_change_twice_and_loses_none(
    site: Site, disturbed: list[Disturbance]
) -> None:
    a, b = site.copy("a"), site.copy("b")
    site.log.disturbed = list(disturbed)
    journal = OperationJournal(a, site.clock)
    assert journal.begin("db.create", LAB, "shop", {}).id == 1
    assert journal.begin("db.create", LAB, "other", {}).id == 2
    b.catch_up()
    assert len(OperationJournal(b, site.clock).unfinished(LAB)) == 2


def test_a_lost_answer_that_another_process_of_the_machine_finds(site: Site) -> None:
    """The copy has the entry already when its writer looks for it."""
    a, beside = site.copy("a"), site.copy("a")
    site.log.disturbed = ["unanswered"]
    site.clock.on_sleep = beside.catch_up
    assert OperationJournal(a, site.clock).begin("db.create", LAB, "shop", {}).id == 1
    assert site.log.head == 1


def test_a_process_that_ends_between_the_log_and_its_commit(site: Site) -> None:
    a = site.copy("a")
    append = site.log.append

    def and_end(log: str, head: int, text: str) -> bool:
        append(log, head, text)
        raise KeyboardInterrupt

    site.log.append = and_end  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        write(a, "x", "1")
    site.log.append = append  # type: ignore[method-assign]
    assert notes(a) == {}
    a.catch_up()
    assert notes(a) == {"x": "1"}


def test_nothing_changes_while_the_cluster_does_not_answer(site: Site) -> None:
    a = site.copy("a")
    write(a, "x", "1")
    site.log.is_down = True
    before_s = site.clock.monotonic_s()
    with pytest.raises(StateUnansweredError):
        write(a, "x", "2")
    assert site.clock.monotonic_s() - before_s >= replicated.PATIENCE_S
    assert notes(a) == {"x": "1"}
    site.log.is_down = False
    write(a, "x", "3")
    assert notes(a) == {"x": "3"}


def test_an_outage_is_waited_out(site: Site) -> None:
    a = site.copy("a")
    site.log.is_down = True

    def answer_again() -> None:
        site.log.is_down = False

    site.clock.on_sleep = answer_again
    write(a, "x", "1")
    assert notes(a) == {"x": "1"}


def test_what_changes_nothing_is_not_in_the_log(site: Site) -> None:
    a = site.copy("a")
    a.remove("note", LAB, "absent")
    assert a.change(lambda connection: connection.execute("SELECT 7").fetchone()[0]) == 7
    assert site.log.head == 0


def test_a_change_that_fails_is_in_no_copy(site: Site) -> None:
    a = site.copy("a")

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO records VALUES ('note', 'prod', 'x', '{}')")
        raise GrampusError("no")

    with pytest.raises(GrampusError, match="no"):
        a.change(fail)
    write(a, "y", "1")
    assert notes(a) == {"y": "1"}


def test_the_permission_is_asked_in_the_transaction(site: Site) -> None:
    a = site.copy("a")

    def refuse(_: sqlite3.Connection) -> None:
        raise GrampusError("superseded")

    a.require = refuse
    with pytest.raises(GrampusError, match="superseded"):
        write(a, "x", "1")
    assert (notes(a), site.log.head) == ({}, 0)


def test_a_long_log_becomes_a_snapshot(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicated, "COMPACT_AFTER", 10)
    site.log.part_size = 3
    a, behind = site.copy("a"), site.copy("behind")
    write(behind, "gone", "1")
    for number in range(12):
        write(a, f"n{number % 4}", str(number))
    a.remove("note", LAB, "gone")
    a.catch_up()
    assert (site.log.base, len(site.log.entries)) == (14, 0)
    write(a, "after", "1")
    new = site.copy("new")
    for store in (behind, new):
        store.catch_up()
        assert (
            notes(store)
            == notes(a)
            == {
                **{f"n{number % 4}": str(number) for number in range(8, 12)},
                "after": "1",
            }
        )
    # A copy that is behind the snapshot changes nothing by what it had.
    write(new, "x", "1")
    behind.catch_up()
    assert notes(behind)["x"] == "1"


def test_a_log_that_cannot_be_compacted_serves_all_the_same(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a full pool."""
    monkeypatch.setattr(replicated, "COMPACT_AFTER", 3)

    def refuse(*_: object) -> bool:
        raise GrampusError("No space is left.")

    monkeypatch.setattr(site.log, "compact", refuse)
    a, b = site.copy("a"), site.copy("b")
    for number in range(10):
        write(a, "x", str(number))
    b.catch_up()
    assert notes(b) == {"x": "9"}


def test_secrets_are_told_before_they_count(site: Site) -> None:
    a, b = site.copy("a"), site.copy("b")
    a.change(lambda connection: connection.execute("INSERT INTO secrets VALUES ('prod','n','s')"))
    assert site.secrets == [("n", "s")]
    b.catch_up()
    b.change(lambda connection: connection.execute("DELETE FROM secrets"))
    a.catch_up()
    assert site.secrets[1:] == [("n", "s"), ("n", None), ("n", None)]


def _forget(site: Site) -> None:
    site.log.remove()


def _found_again(site: Site) -> None:
    site.log.remove()
    site.log.create("log-2")


def _put_back(site: Site) -> None:
    site.log.entries = {1: site.log.entries[1]}


def _write_by_a_later_release(site: Site) -> None:
    site.log.entries[3] = '{"format": 99, "entry": "x", "rows": []}'


@pytest.mark.parametrize(
    ("happen", "code"),
    [
        (_forget, "state-gone"),
        (_found_again, "state-gone"),
        (_put_back, "state-older"),
        (_write_by_a_later_release, "state-unreadable"),
    ],
)
def test_a_log_that_is_not_the_one_that_was_joined(
    site: Site, happen: Callable[[Site], None], code: str
) -> None:
    a = site.copy("a")
    write(a, "x", "1")
    write(a, "x", "2")
    happen(site)
    with pytest.raises(GrampusError) as refused:
        a.catch_up()
    assert refused.value.code == code
    assert notes(a) == {"x": "2"}


def test_a_file_that_never_joined(site: Site) -> None:
    store = ReplicatedStore(site.directory / "new", LAB, site.log)
    with pytest.raises(GrampusError) as refused:
        store.catch_up()
    assert refused.value.code == "state-not-joined"


def test_who_looks_all_the_time_sees_what_others_do(site: Site) -> None:
    a, b = site.copy("a"), site.copy("b")
    journal = OperationJournal(a, site.clock)
    operation = journal.begin("db.create", LAB, "shop", {})
    step = Step("one", "Do it", lambda: None)
    b.refresh()
    b.change(
        lambda connection: connection.execute(
            "INSERT INTO held VALUES ('prod', 'db.prod.shop', 'a.1', 'admin1', 0, '2026', 'x')"
        )
    )
    site.clock.on_sleep = lambda: journal.apply(
        operation, [step], SilentProgress(), undo_on_failure=True
    )
    ended = OperationWatch(b, LAB, site.clock).wait(1, SilentProgress(), timeout_s=5)
    assert ended.state == "done"
    assert site.clock.slept_s <= 1.0
    site.clock.on_sleep = lambda: None
    site.log.is_down = True
    site.clock.sleep(1)
    b.refresh()


def test_others_are_asked_as_often_as_needed(site: Site) -> None:
    a = site.copy("a")
    a.catch_up()
    reads = site.log.reads
    a.catch_up(seen_within_s=5)
    assert site.log.reads == reads
    site.clock.sleep(5)
    a.catch_up(seen_within_s=5)
    assert site.log.reads == reads + 1


def test_changes_one_after_the_other_ask_only_to_append(site: Site) -> None:
    a, b = site.copy("a"), site.copy("b")
    write(a, "x", "1")
    before = site.log.reads
    for number in range(5):
        write(a, "x", str(number))
        site.clock.sleep(0.3)
    assert site.log.reads == before
    site.clock.sleep(3)
    write(a, "x", "last")
    assert site.log.reads == before + 1, "it was alone for too long to be sure"
    b.catch_up()
    assert notes(b) == {"x": "last"}


@pytest.mark.parametrize("outcome", ["nothing", "error"])
def test_a_change_that_is_decided_on_an_old_copy_is_decided_again(site: Site, outcome: str) -> None:
    """What the copy lacks decides that something is to be done, or that it is no mistake."""
    a, b = site.copy("a"), site.copy("b")
    write(b, "y", "1")
    write(a, "x", "1")  # b does not have it
    seen: list[bool] = []

    def change(connection: sqlite3.Connection) -> str:
        found = connection.execute("SELECT body FROM records WHERE name = 'x'").fetchone()
        seen.append(found is not None)
        if found is None and outcome == "error":
            raise GrampusError("There is no x.")
        if found is not None:
            connection.execute("DELETE FROM records WHERE name = 'x'")
        return "done"

    assert b.change(change) == "done"
    assert seen == [False, True]
    a.catch_up()
    assert notes(a) == notes(b) == {"y": "1"}
    with pytest.raises(GrampusError, match="no x") if outcome == "error" else nullcontext():
        b.change(change)
