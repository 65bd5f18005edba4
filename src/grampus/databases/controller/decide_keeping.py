"""Which warnings of a run are kept: those that began, and those that are over. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from grampus.databases.controller.decide_telling import decide_news
from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.state.warnings import KeptWarning, Warned, cut_text


@dataclass(frozen=True)
class Keeping:
    """What is to be written down of a run; nothing while all lasts as it did."""

    begun: list[Warned] = field(default_factory=list)
    again: list[KeptWarning] = field(default_factory=list)  # was over a moment ago
    ended: list[KeptWarning] = field(default_factory=list)


def decide_keeping(known: Sequence[KeptWarning], events: Sequence[ControllerEvent]) -> Keeping:
    """What a run of a job changes in what is `known` of it: what lasts, and what was over lately.

    What reads otherwise than it did is over, and another begins. What is of no database is told,
    and kept nowhere.
    """
    keeping = Keeping()
    met = {
        (event.database, event.kind, cut_text(event.text)): event
        for event in decide_news({}, events).lasting.values()
        if event.database
    }
    for warning in known:
        warned = warning.warned
        event = met.pop((warned.subject, warned.kind, warned.text), None)
        if warning.ended_at is None and event is None:
            keeping.ended.append(warning)
        elif warning.ended_at is not None and event is not None:
            keeping.again.append(warning)
    keeping.begun.extend(
        Warned(event.database, event.kind, event.level, text, event.remedy)
        for (_, _, text), event in met.items()
    )
    return keeping
