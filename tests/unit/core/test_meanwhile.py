from __future__ import annotations

import threading

import pytest

from grampus.core.meanwhile import meanwhile


@pytest.fixture
def one_after_the_other() -> None:
    """Not here: real threads."""


class _OfTheBlockError(Exception):
    pass


class _OfTheWorkError(Exception):
    pass


def test_both_are_done_at_a_time() -> None:
    began, goes_on, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        assert goes_on.wait(10)
        done.set()

    with meanwhile(work):
        assert began.wait(10)
        goes_on.set()
    assert done.is_set()


@pytest.mark.parametrize("error", [_OfTheBlockError(), KeyboardInterrupt()])
def test_what_the_block_raises_comes_after_the_end_of_both(error: BaseException) -> None:
    goes_on, done = threading.Event(), threading.Event()

    def work() -> None:
        assert goes_on.wait(10)
        done.set()
        raise _OfTheWorkError

    def fail() -> None:
        with meanwhile(work):
            goes_on.set()
            raise error

    with pytest.raises(type(error)):
        fail()
    assert done.is_set()


def test_a_failure_of_the_work_is_raised_after_the_block() -> None:
    ended: list[bool] = []

    def work() -> None:
        raise _OfTheWorkError

    with pytest.raises(_OfTheWorkError), meanwhile(work):
        ended.append(True)
    assert ended == [True]
