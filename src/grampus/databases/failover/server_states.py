"""Whether clients can use a server whose host is well, and what is to be done if not. All pure.

A server sends its greeting as soon as it has accepted a connection, before it reads any data: one
that waits for its disk or for its cluster greets all the same. So no greeting for long means that
its process does not run, and no answer at all that clients cannot reach its host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from grampus.hosts.probing import PlaceAnswer
from grampus.volumes.model import DriverFault

ServerStateName = Literal[
    "well",
    "suspect",
    "instance-hung",
    "volume-stuck",
    "driver-ended",
    "driver-failed",
    "clients-cut-off",
]
ServerSymptom = Literal["hung", "stuck", "ended", "failing", "cut-off"]
ServerAction = Literal["none", "restart", "move"]

# A machine that is overloaded greets late: so this is far longer than for a lost host.
HUNG_AFTER_S = 15.0
CUT_OFF_AFTER_S = 10.0
LEAST_SIGHTS = 3
# Of a driver that has ended or failed: that does not happen by the way, and nothing but a start
# brings it back.
LEAST_SIGHTS_OF_END = 2
# Symptoms of a driver, which only its own host sees.
DRIVER_SYMPTOMS: tuple[ServerSymptom, ...] = ("stuck", "ended", "failing")
# One host that sees nobody may be cut off itself.
LEAST_LOOKERS = 2


@dataclass(frozen=True)
class ServerTrack:
    """What the looks before have seen of a server. Moments are monotonic seconds."""

    symptom: ServerSymptom | None = None
    since_s: float = 0.0
    sights: int = 0


@dataclass(frozen=True)
class ServerState:
    """The state of a server, and why."""

    name: ServerStateName
    evidence: str = ""  # a sentence that stays the same as long as the state does


def is_suspicious(answer: PlaceAnswer) -> bool:
    """Whether a second host is to look."""
    return answer not in ("greets", "refused")


def find_symptom(
    answers: Sequence[PlaceAnswer], *, driver: DriverFault | None = None
) -> ServerSymptom | None:
    """What is wrong with a server, from what other hosts got at its address.

    A refused connection is none: the server is starting, or has ended, which its host tells. With
    a `driver` that is stuck a server may greet all the same, and one that does not may wait for its
    volume. If the driver has ended or fails, a server that listens has no disk any more, and may
    not have noticed yet.
    """
    if driver == "stuck":
        return "stuck"
    if driver in ("ended", "failing") and ("greets" in answers or "listens" in answers):
        return driver
    if "greets" in answers or "refused" in answers:
        return None
    if "listens" in answers:
        return "hung"
    return "cut-off" if len(answers) >= LEAST_LOOKERS else None


def follow_server(
    track: ServerTrack,
    answers: Sequence[PlaceAnswer],
    began_s: float,
    *,
    driver: DriverFault | None = None,
) -> ServerTrack:
    """The track after one more look, which began at `began_s`. No answers: nobody looked.

    Then only a driver is known to be well again: its own host asks it.
    """
    if not answers and driver is None:
        return ServerTrack() if track.symptom in DRIVER_SYMPTOMS else track
    symptom = find_symptom(answers, driver=driver)
    if symptom is None:
        return ServerTrack()
    if symptom != track.symptom:
        return ServerTrack(symptom, began_s, 1)
    return ServerTrack(symptom, track.since_s, track.sights + 1)


def classify_server(name: str, track: ServerTrack, now_s: float) -> ServerState:
    """The state of the server of the database `name`."""
    if track.symptom is None:
        return ServerState("well")
    if track.symptom in ("ended", "failing"):
        if track.sights < LEAST_SIGHTS_OF_END:
            return ServerState("suspect")
        if track.symptom == "ended":
            evidence = f"The driver of the volume of {name} has ended, so its server has no disk."
            return ServerState("driver-ended", evidence)
        return ServerState(
            "driver-failed",
            f"The driver of the volume of {name} answers every request with an error: it has "
            "failed, or its client was fenced.",
        )
    after_s = CUT_OFF_AFTER_S if track.symptom == "cut-off" else HUNG_AFTER_S
    if track.sights < LEAST_SIGHTS or now_s - track.since_s < after_s:
        return ServerState("suspect")
    if track.symptom == "stuck":
        return ServerState(
            "volume-stuck",
            f"The driver of the volume of {name} runs, but has not answered its host for "
            f"{HUNG_AFTER_S:.0f} s.",
        )
    if track.symptom == "hung":
        return ServerState(
            "instance-hung",
            f"The server of {name} accepts connections, but has not greeted a client for "
            f"{HUNG_AFTER_S:.0f} s.",
        )
    return ServerState(
        "clients-cut-off",
        f"No other host can connect to the server of {name}, whose host Grampus can reach.",
    )


_ACTIONS: dict[ServerStateName, ServerAction] = {
    "well": "none",
    "suspect": "none",
    "instance-hung": "restart",
    "volume-stuck": "restart",
    "driver-ended": "restart",
    "driver-failed": "restart",
    "clients-cut-off": "move",
}


def decide_server_action(state: ServerState) -> ServerAction:
    """What to do with a server in this state."""
    return _ACTIONS[state.name]
