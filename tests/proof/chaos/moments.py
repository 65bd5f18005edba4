"""When the database was away, and what the controller did meanwhile: pure.

Moments are monotonic seconds of this machine, on which the controller and all clients run.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

# A controller that notes a moment, and a client that notes an answer, are not exact to less.
TOLERANCE_S = 0.1


@dataclass(frozen=True)
class Outage:
    """The longest time without an answer."""

    began_s: float  # the last answer before it: right before the fault took effect
    lasted_s: float


def find_outage(answers_s: Sequence[float], began_s: float, ended_s: float) -> Outage:
    """The longest pause between two answers that reaches into these two moments.

    `answers_s` are sorted. Raises ValueError when no pause does.
    """
    return max(
        (
            Outage(earlier, later - earlier)
            for earlier, later in itertools.pairwise(answers_s)
            if later > began_s and earlier < ended_s
        ),
        key=lambda outage: outage.lasted_s,
    )


def find_last_answer(answers_s: Sequence[float], until_s: float) -> float:
    """The last answer until then, which is right before whatever was detected then took effect.

    The longest outage may be a later one: two hosts fail, and what one failover brought back
    waits again. Without an answer it is that moment itself. `answers_s` are sorted.
    """
    return max((at_s for at_s in answers_s if at_s <= until_s), default=until_s)


@dataclass(frozen=True)
class Phases:
    """When a failover came how far."""

    detected_s: float
    fenced_s: float
    attached_s: float
    serving_s: float

    def after(self, began_s: float) -> dict[str, float]:
        """Seconds from then on."""
        return {
            name: round(getattr(self, name) - began_s, 2)
            for name in ("detected_s", "fenced_s", "attached_s", "serving_s")
        }


def read_phases(details: Mapping[str, Any]) -> Phases:
    """From the details of the event `failed-over`."""
    # The event has the time of day.
    offset_s = time.time() - time.monotonic()
    decided_s = datetime.fromisoformat(details["decided_at"]).timestamp() - offset_s
    passed_s = {name: ms / 1000 for name, ms in details["phases_ms"].items()}
    return Phases(
        decided_s, *(decided_s + passed_s[name] for name in ("fenced", "attached", "serving"))
    )


def count_late(answers_s: Sequence[float], phases: Phases) -> int:
    """Commits that were acknowledged after the fence, and before the new server served."""
    first_s, last_s = phases.fenced_s + TOLERANCE_S, phases.attached_s - TOLERANCE_S
    return sum(first_s < at_s < last_s for at_s in answers_s)


def count_wrong_moves(moves: Sequence[Mapping[str, Any]], taken: Collection[str]) -> int:
    """Events `failed-over` of databases whose host the fault had not taken."""
    return sum(event["details"]["former_host"] not in taken for event in moves)
