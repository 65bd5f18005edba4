"""Whether places in the network answer, as seen from a host: a script for it, and its output.

Pure. A refused connection is an answer, too: the kernel of whoever has the address gave it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

PlaceAnswer = Literal["listens", "refused", "silent"]

# In seconds. Who answers does so within milliseconds; a first packet that is lost is sent again
# after 1 s (RFC 6298), which the next look sees.
PROBE_PATIENCE_S = 0.8
# TCPMUX (RFC 1078), which nobody serves: the kernel refuses the connection, or nobody answers.
CLOSED_PORT = 1
# Each place is asked by a process of its own, so more are not asked at once.
MOST_PLACES = 16
_SCRIPT = """
for place; do
  (
    said=$(LC_ALL=C timeout "$0" bash -c \
      'exec 3<>"/dev/tcp/${0%:*}/${0##*:}"' "$place" 2>&1) && answer=listens || answer=silent
    case $said in *"Connection refused"*) answer=refused ;; esac
    echo "$place $answer"
  ) &
done
wait
"""


def probe_argv(places: Sequence[str]) -> list[str]:
    """The command that asks `places` (`ADDRESS:PORT`) side by side; for a host to run."""
    return ["bash", "-c", _SCRIPT, str(PROBE_PATIENCE_S), *places[:MOST_PLACES]]


def parse_probe(output: str) -> dict[str, PlaceAnswer]:
    """What each place answered, from the output of the command; one without a line is silent."""
    answers: dict[str, PlaceAnswer] = {}
    for line in output.splitlines():
        place, _, answer = line.partition(" ")
        answers[place] = answer if answer in ("listens", "refused") else "silent"  # type: ignore[assignment]
    return answers


def count_heard(answers: Iterable[PlaceAnswer]) -> int:
    """How many places gave an answer."""
    return sum(answer != "silent" for answer in answers)
