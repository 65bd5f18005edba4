"""When several clients start, so that they load the cluster at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grampus.core.errors import RefusedError

# Clients whose clocks are known less well than this would not share whole seconds.
MAX_ERROR_S = 0.25
# What ours and theirs may need besides launching.
MARGIN_S = 0.5


@dataclass(frozen=True)
class ClockOffset:
    """A client's clock less ours. The true offset is at most `error_s` away."""

    offset_s: float
    error_s: float


@dataclass(frozen=True)
class Client:
    """One load generator. It needs `launch_s` from its command to its first request."""

    name: str
    clock: ClockOffset
    launch_s: float


@dataclass(frozen=True)
class StartPlan:
    """A common moment: on our clock, and on each client's. `skew_s` bounds what lies between the
    first and the last of them.
    """

    start_at_s: float
    own_start_at_s: Mapping[str, float]
    skew_s: float


def decide_offset(exchanges: Sequence[tuple[float, float, float]]) -> ClockOffset:
    """The offset of a clock, from exchanges of (asked at, its time, answered at).

    The first and last are on our clock. The answer was given somewhere between them; the
    exchange that took the shortest says it best. Raises ValueError without one, or for an answer
    before its question: our clock was set in between.
    """
    if not exchanges or any(answered < asked for asked, _, answered in exchanges):
        raise ValueError("an offset needs an exchange that ended after it began")
    asked_s, theirs_s, answered_s = min(exchanges, key=lambda one: one[2] - one[0])
    return ClockOffset(theirs_s - (asked_s + answered_s) / 2, (answered_s - asked_s) / 2)


def decide_start(clients: Sequence[Client], *, now_s: float) -> StartPlan:
    """The next whole second at which all `clients` can have launched; times are Unix time.

    Raises RefusedError when a client's clock is not known well enough, or when two clients have
    one name; ValueError without clients.
    """
    if not clients:
        raise ValueError("nobody starts")
    names = [client.name for client in clients]
    if len(set(names)) != len(names):
        raise RefusedError(
            "Two clients of one measurement have the same name.",
            "Give each client its own name.",
            code="client-names",
        )
    worst = max(clients, key=lambda client: client.clock.error_s)
    if worst.clock.error_s > MAX_ERROR_S:
        raise RefusedError(
            f"The clock of client {worst.name} is known to {worst.clock.error_s:.2f} s only, and "
            f"clients that start together need {MAX_ERROR_S:g} s.",
            "Look for load or a slow network on that host, or measure with the other clients.",
            code="client-clock",
        )
    slowest_s = max(client.launch_s for client in clients)
    start_at_s = float(math.ceil(now_s + slowest_s + worst.clock.error_s + MARGIN_S))
    return StartPlan(
        start_at_s=start_at_s,
        own_start_at_s={one.name: start_at_s + one.clock.offset_s for one in clients},
        skew_s=2 * worst.clock.error_s,
    )
