"""Several databases at a time: in order, each by itself, shown as one, ended as one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from grampus.cli.progress_bar import PlainProgress
from grampus.cli.side_by_side import AT_ONCE, SharedProgress, for_each
from grampus.core.progress import Progress
from tests.fakes.progress import RecordedProgress

LONG_S = 20.0


@contextmanager
def shared(progress: PlainProgress) -> Iterator[Progress]:
    """A session is nothing but its progress here."""
    yield progress


def run(names: list[str], work: object, progress: Progress) -> list[str]:
    lanes = {name: name[0] for name in names}
    return for_each(
        lanes,
        work,  # type: ignore[arg-type]
        session=progress,
        open_shared=shared,
        progress=progress,
        title="Do it",
    )


def test_answers_come_in_order_whoever_is_done_first() -> None:
    second_is_done = threading.Event()

    def work(session: Progress, name: str) -> str:
        if name == "a1":
            assert second_is_done.wait(LONG_S)
        if name == "a2":
            second_is_done.set()
        return name.upper()

    assert run(["a1", "a2", "b1"], work, RecordedProgress()) == ["A1", "A2", "B1"]


def test_as_many_of_a_lane_as_it_may_be_are_at_work_at_once() -> None:
    barrier = threading.Barrier(AT_ONCE)
    names = [f"a{number}" for number in range(2 * AT_ONCE)]
    run(names, lambda _session, _name: str(barrier.wait(LONG_S)), RecordedProgress())


def test_one_alone_is_shown_as_ever() -> None:
    progress = RecordedProgress()

    def work(session: Progress, name: str) -> str:
        assert session is progress
        assert threading.current_thread() is threading.main_thread()
        return name

    assert run(["a1"], work, progress) == ["a1"]
    assert run([], work, progress) == []


def test_a_log_has_a_line_for_each_phase_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    shown = SharedProgress(PlainProgress(), "Do it", 2)
    with shown.at("a1"):
        shown.phase("Take it")
        shown.note("It was late.")
    said = capsys.readouterr().err.splitlines()
    assert said == ["Do it ...", "a1: Take it ...", "a1: It was late."]


def test_at_ctrl_c_each_is_undone_and_the_command_ends() -> None:
    progress, undone = RecordedProgress(), list[str]()
    # Locks of C alone: an interrupt in a Condition's own code would leave it locked for the other.
    begun, gate, counting = list[str](), threading.Lock(), threading.Lock()
    main = threading.main_thread().ident
    assert main is not None
    assert gate.acquire()

    def work(session: Progress, name: str) -> str:
        try:
            with counting:
                begun.append(name)
                if len(begun) == 2:
                    signal.pthread_kill(main, signal.SIGINT)  # as the kernel does at Ctrl-C
            for _ in range(1000 * int(LONG_S)):
                assert not gate.acquire(timeout=0.001)
        except KeyboardInterrupt:
            session.note(f"Undoing: {name}")
            undone.append(name)
            raise
        return name

    with pytest.raises(KeyboardInterrupt):
        run(["a1", "a2", "a3"], work, progress)
    assert sorted(undone) == ["a1", "a2"]
    assert "a1: Undoing: a1" in progress.notes
