"""When a job runs next, and which of its events are news: decided from what was before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from grampus.databases.controller.due_jobs import ControllerEvent

MAX_WAIT_S = 300.0
# What lasts: told when it begins, when it changes and when it is over.
_LASTING = ("warning", "failed")
Key = tuple[str, str]


def key_of(event: ControllerEvent) -> Key:
    """What an event of a later run must be of to be the same thing, going on."""
    return event.database, event.kind


def decide_wait_s(every_s: float, failures: int, *, most_s: float = MAX_WAIT_S) -> float:
    """Seconds until the next run after `failures` in a row: twice as long each time, to `most_s`.

    A job that is due less often than `most_s` anyway is not tried more often than that.
    """
    # 2**10 times any interval is past every bound; a bigger power would overflow one day.
    doubled_s = every_s * float(2 ** min(failures, 10))
    return min(doubled_s, max(most_s, every_s))


@dataclass(frozen=True)
class News:
    """What is to be told of one run, and what is remembered of it for the next."""

    told: list[ControllerEvent]
    lasting: dict[Key, ControllerEvent]


def decide_news(lasting: Mapping[Key, ControllerEvent], events: Sequence[ControllerEvent]) -> News:
    """News among the `events` of a run, given what lasted after the run before.

    What was done is always news. What lasts is news once, and again when its text differs; what
    lasted and is met no more has recovered.
    """
    now: dict[Key, ControllerEvent] = {}
    told: list[ControllerEvent] = []
    for event in events:
        if event.level not in _LASTING:
            told.append(event)
            continue
        key = key_of(event)
        before = lasting.get(key)
        if key not in now and (before is None or before.text != event.text):
            told.append(event)
        now.setdefault(key, event)
    for key, event in lasting.items():
        if key not in now:
            told.append(
                replace(event, level="recovered", text=f"Resolved: {event.text}", remedy="")
            )
    return News(told, now)
