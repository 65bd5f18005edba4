"""Operations as users look at them."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.core.processes import OperationProcess, find_start, observe_own_process
from grampus.core.progress import SilentProgress
from grampus.operations.watching import OperationState, OperationWatch, classify_state
from grampus.state.history import JournaledOperation
from grampus.state.operations import OperationJournal, OperationStatus, Step
from grampus.state.store import Store
from tests.fakes.clock import FakeClock
from tests.unit.waiting_process import waiting_process

LAB = "t"


@pytest.fixture
def store() -> Store:
    return Store(None)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    yield from waiting_process()


def own(command: str = "db stop", token: str = "") -> OperationProcess:
    return OperationProcess(observe_own_process(), command, token)


def of(child: subprocess.Popen[bytes], command: str = "db stop") -> OperationProcess:
    process = replace(observe_own_process(), pid=child.pid, started=find_start(child.pid) or 0)
    return OperationProcess(process, command)


def journal(
    store: Store, process: OperationProcess | None, clock: FakeClock | None = None
) -> OperationJournal:
    text = "" if process is None else process.render()
    return OperationJournal(store, clock or FakeClock(), actor="anna", process=text)


def watch(store: Store, clock: FakeClock | None = None) -> OperationWatch:
    return OperationWatch(store, LAB, clock or FakeClock())


@pytest.mark.parametrize(
    ("status", "is_alive", "state"),
    [
        ("running", True, "running"),
        ("running", False, "interrupted"),
        ("undoing", True, "undoing"),
        ("undoing", False, "interrupted"),
        ("done", True, "done"),
        ("undone", False, "undone"),
    ],
)
def test_an_operation_is_at_work_while_its_process_is_alive(
    status: OperationStatus, is_alive: bool, state: OperationState
) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    operation = JournaledOperation(1, "db.stop", "shop", {}, status, "", "", at, at, "")
    assert classify_state(operation, is_alive=is_alive) == state


def test_a_step_says_what_it_does_and_is_seen_from_outside(store: Store) -> None:
    clock = FakeClock()
    mine = journal(store, own(), clock)
    operation = mine.begin("db.stop", LAB, "shop", {})
    seen: list[tuple[str, float]] = []

    def stop() -> None:
        for text in ("40%", "waits for h1"):
            mine.detail(text)
            clock.sleep(2)
            view = watch(store, clock).get(operation.id)
            seen.append((view.doing, view.took_s))

    mine.apply(operation, [Step("stop", "Stop it", stop)], SilentProgress(), undo_on_failure=False)
    mine.detail("it is over")
    assert seen == [("Stop it: 40%", 2.0), ("Stop it: waits for h1", 4.0)]
    clock.sleep(9)
    view = watch(store, clock).get(operation.id)
    assert (view.state, view.doing, view.took_s, view.what) == ("done", "", 4.0, "db stop")


def test_details_are_written_once_a_second_at_most(store: Store) -> None:
    clock = FakeClock()
    mine = journal(store, own(), clock)
    operation = mine.begin("db.stop", LAB, "shop", {})
    shown: list[str] = []

    def stop() -> None:
        for number in range(5):
            mine.detail(str(number))
            clock.sleep(0.4)
            shown.append(watch(store).get(operation.id).operation.detail)

    mine.apply(operation, [Step("stop", "Stop it", stop)], SilentProgress(), undo_on_failure=False)
    assert shown == ["0", "0", "0", "3", "3"]


def test_those_of_others_and_of_former_releases_are_listed(store: Store) -> None:
    ended = journal(store, own()).begin("db.stop", LAB, "shop", {})
    journal(store, own()).apply(ended, [], SilentProgress(), undo_on_failure=False)
    journal(store, None).begin("db.start", LAB, "shop", {})
    journal(store, own("db move")).begin("db.move", LAB, "shop", {})
    journal(store, own()).begin("db.stop", "other", "shop", {})
    states = [(one.what, one.state) for one in watch(store).last(10)]
    assert states == [("db stop", "done"), ("db start", "interrupted"), ("db move", "running")]
    assert [one.what for one in watch(store).unfinished()] == ["db start", "db move"]
    with pytest.raises(NotFoundError, match="operation 4 does not exist"):
        watch(store).get(4)


def test_it_is_waited_for_until_it_ends(store: Store) -> None:
    mine = journal(store, own())
    operation = mine.begin("db.stop", LAB, "shop", {})

    def end() -> None:
        if clock.slept_s > 3:
            mine.close_unapplied(operation, "the host is down")

    clock = FakeClock(on_sleep=end)
    view = watch(store, clock).wait(operation.id, SilentProgress(), timeout_s=60)
    assert (view.state, view.doing) == ("undone", "the host is down")
    assert 3 < clock.slept_s < 4


def test_a_wait_has_an_end(store: Store) -> None:
    operation = journal(store, own()).begin("db.stop", LAB, "shop", {})
    with pytest.raises(GrampusError, match="has not ended within 5 s") as caught:
        watch(store).wait(operation.id, SilentProgress(), timeout_s=5)
    assert caught.value.code == "timeout"


def test_a_command_in_the_background_is_waited_for_to_its_last_operation(store: Store) -> None:
    """`db create` may make a golden volume first."""
    mine = journal(store, own("db create", "a1b2"))
    first = mine.begin("db.golden", LAB, "golden", {})
    mine.apply(first, [], SilentProgress(), undo_on_failure=False)
    second = mine.begin("db.create", LAB, "shop", {})
    found = watch(store).find_of("a1b2")
    assert found is not None
    assert found.operation.id == second.id
    assert watch(store).find_of("c3d4") is None

    def end() -> None:
        gone = replace(own("db create", "a1b2").id, started=1)
        ended = OperationProcess(gone, "db create", "a1b2")
        journal(store, ended).close_unapplied(second, "no room")

    view = watch(store, FakeClock(on_sleep=end)).wait(first.id, SilentProgress(), timeout_s=60)
    assert (view.operation.id, view.state) == (second.id, "undone")


def test_a_cancelled_one_is_left_by_its_process(
    store: Store, child: subprocess.Popen[bytes]
) -> None:
    operation = journal(store, of(child)).begin("db.stop", LAB, "shop", {})

    clock = FakeClock(on_sleep=lambda: child.wait(30))
    view = watch(store, clock).cancel(operation.id, SilentProgress(), timeout_s=60)
    assert view.state == "interrupted"
    assert child.wait(30) == -signal.SIGTERM


def test_what_nobody_is_at_or_the_controller_is_not_cancelled(
    store: Store, child: subprocess.Popen[bytes]
) -> None:
    ended = journal(store, of(child)).begin("db.stop", LAB, "shop", {})
    journal(store, of(child)).close_unapplied(ended, "over")
    left = journal(store, None).begin("db.stop", LAB, "shop", {})
    served = journal(store, of(child, "serve")).begin("db.grow", LAB, "shop", {})
    codes = {ended.id: "not-running", left.id: "not-running", served.id: "of-controller"}
    for number, code in codes.items():
        with pytest.raises(RefusedError) as refused:
            watch(store).cancel(number, SilentProgress(), timeout_s=60)
        assert refused.value.code == code
    assert child.poll() is None
