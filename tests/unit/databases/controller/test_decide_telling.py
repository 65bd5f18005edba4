"""When a job runs next, and which of its events are news."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grampus.databases.controller.decide_telling import decide_news, decide_wait_s
from grampus.databases.controller.due_jobs import ControllerEvent

DONE = ControllerEvent("shop", "grew", "It has grown.")
WARNING = ControllerEvent("shop", "cannot-grow", "It is 80% full.", "warning")
FAILED = ControllerEvent("blog", "failed", "No answer.", "failed", remedy="Look at it.")


@pytest.mark.parametrize(
    ("every_s", "failures", "wait_s"),
    [
        (5, 0, 5),
        (5, 1, 10),
        (5, 3, 40),
        (5, 6, 300),
        (5, 10**6, 300),
        (3600, 0, 3600),
        (3600, 5, 3600),  # it is seldom anyway
    ],
)
def test_waits(every_s: float, failures: int, wait_s: float) -> None:
    assert decide_wait_s(every_s, failures) == wait_s


def test_what_is_done_is_always_news() -> None:
    first = decide_news({}, [DONE, DONE])
    assert first.told == [DONE, DONE]
    assert decide_news(first.lasting, [DONE]).told == [DONE]


def test_what_lasts_is_told_once_and_when_it_is_over() -> None:
    first = decide_news({}, [WARNING, FAILED])
    assert first.told == [WARNING, FAILED]
    second = decide_news(first.lasting, [FAILED, WARNING])
    assert second.told == []
    third = decide_news(second.lasting, [WARNING])
    [over] = third.told
    assert (over.database, over.level, over.text) == ("blog", "recovered", "Resolved: No answer.")
    assert over.remedy == ""
    assert decide_news(third.lasting, [FAILED]).told[0] == FAILED


def test_what_reads_otherwise_is_told_again() -> None:
    first = decide_news({}, [WARNING])
    worse = replace(WARNING, text="It is 90% full.")
    assert decide_news(first.lasting, [worse]).told == [worse]


def test_the_same_of_another_database_is_news() -> None:
    first = decide_news({}, [WARNING])
    other = replace(WARNING, database="blog")
    assert decide_news(first.lasting, [WARNING, other]).told == [other]
