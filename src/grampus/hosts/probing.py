"""Whether places in the network answer, as seen from a host: a script for it, and its output.

Pure. A refused connection is an answer, too: the kernel of whoever has the address gave it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

# `greets`: who listens there has sent something, as a MySQL server does at once.
PlaceAnswer = Literal["greets", "listens", "refused", "silent"]

# In seconds. Who answers does so within milliseconds; a first packet that is lost is sent again
# after 1 s (RFC 6298), which the next look sees, or a further round of this one.
PROBE_PATIENCE_S = 0.8
# TCPMUX (RFC 1078), which nobody serves: the kernel refuses the connection, or nobody answers.
CLOSED_PORT = 1
# Far past the greeting of a server on a machine that is busy.
GREETING_PATIENCE_S = 3.0
# Open connections of one process; more places are asked one part after the other.
_AT_ONCE = 500
_PROBE = f"""
import errno, selectors, socket, sys, time

def ask(places, patience_s):
    answers, waiting = dict.fromkeys(places, "silent"), selectors.DefaultSelector()
    for place in places:
        address, _, port = place.rpartition(":")
        connection = socket.socket()
        connection.setblocking(False)
        code = connection.connect_ex((address, int(port)))
        if code in (0, errno.EINPROGRESS):
            waiting.register(connection, selectors.EVENT_WRITE, place)
        else:
            answers[place] = "refused" if code == errno.ECONNREFUSED else "silent"
    until_s = time.monotonic() + patience_s
    while waiting.get_map() and (left_s := until_s - time.monotonic()) > 0:
        if is_enough(answers):
            break
        for key, _ in waiting.select(left_s):
            connection, place = key.fileobj, key.data
            try:
                code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code == 0 and answers[place] == "silent":
                    answers[place] = "listens"
                    waiting.modify(connection, selectors.EVENT_READ, place)
                    continue
                if code == 0 and connection.recv(4):
                    answers[place] = "greets"
                elif code == errno.ECONNREFUSED:
                    answers[place] = "refused"
            except OSError:
                pass
            waiting.unregister(connection)
    return answers

def is_enough(answers):
    return one_is_enough and any(answer != "silent" for answer in answers.values())

patience_s, rounds, one_is_enough = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "one"
answers = dict.fromkeys(sys.argv[4:], "silent")
for _ in range(rounds):
    silent = [place for place, answer in answers.items() if answer == "silent"]
    if not silent or is_enough(answers):
        break
    for first in range(0, len(silent), {_AT_ONCE}):
        answers.update(ask(silent[first : first + {_AT_ONCE}], patience_s))
for place, answer in answers.items():
    print(place, answer)
"""


def probe_argv(
    places: Sequence[str], patience_s: float, *, rounds: int = 1, one_is_enough: bool = False
) -> list[str]:
    """The command that asks `places` (`ADDRESS:PORT`) side by side; for a host to run.

    Those that are silent are asked up to `rounds` times, each time with packets of its own and for
    `patience_s` seconds; with `one_is_enough` until one place has answered.
    """
    until = "one" if one_is_enough else "all"
    return ["python3", "-c", _PROBE, str(patience_s), str(rounds), until, *places]


def parse_probe(output: str) -> dict[str, PlaceAnswer]:
    """What each place answered, from the output of the command."""
    answers: dict[str, PlaceAnswer] = {}
    for line in output.splitlines():
        place, _, answer = line.partition(" ")
        if answer in get_args(PlaceAnswer):
            answers[place] = answer  # type: ignore[assignment]
    return answers


def has_heard(answers: Mapping[str, PlaceAnswer], places: Sequence[str]) -> bool:
    """Whether one of these places gave an answer."""
    return any(answers.get(place, "silent") != "silent" for place in places)


def hears_most(answers: Mapping[str, PlaceAnswer], mons: Sequence[str]) -> bool:
    """Whether more than half of the MONs listen: so many can have a quorum. False of none."""
    listening = sum(answers.get(mon) in ("greets", "listens") for mon in mons)
    return 2 * listening > len(mons) > 0
