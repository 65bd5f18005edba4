"""Whether a host reaches the MONs of its cluster, as seen from the host itself.

A host that only the storage network has lost answers commands. What would wait for the cluster
there, such as unmounting a volume, would end after minutes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from grampus.hosts.port import CommandResult
from grampus.hosts.probing import PROBE_PATIENCE_S, has_heard, parse_probe, probe_argv

CONF = PurePosixPath("/etc/ceph/ceph.conf")
# As long as an answer is kept; it takes 10 ms where the MONs answer.
REACHES_FOR_S = 1.0
_MON_HOST = re.compile(r"^[ \t]*mon[ _-]host[ \t]*=(.*)$", re.MULTILINE | re.IGNORECASE)
_PLACE = re.compile(r"(?:v([12]):)?(\d+\.\d+\.\d+\.\d+)(?::(\d+))?(?:/\d+)?")
MSGR2_PORT = 3300


def parse_mon_places(conf: str) -> list[str]:
    """`ADDRESS:PORT` of each MON that ceph.conf names, one a MON; empty when that is not known.

    Only IPv4 addresses are known: a name, or an address of version 6, makes all of it unknown.
    """
    values = _MON_HOST.findall(conf)
    if not values:
        return []
    value = re.split(r"[#;]", values[-1])[0].strip().strip("\"'")
    if re.sub(r"[\[\],\s]", "", _PLACE.sub("", value)):
        return []
    found = _PLACE.findall(value)
    has_msgr2 = any(version == "2" for version, _, _ in found)
    return [
        f"{address}:{port or MSGR2_PORT}"
        for version, address, port in found
        if version == "2" or not has_msgr2
    ]


@dataclass(frozen=True)
class _Seen:
    at_s: float
    reaches: bool


class ClusterReach:
    """What one host says of its cluster. `run` runs a command there, `read` gives a file's text.

    All that they raise is raised.
    """

    def __init__(
        self,
        run: Callable[[Sequence[str]], CommandResult],
        read: Callable[[PurePosixPath], str | None],
        monotonic_s: Callable[[], float],
    ) -> None:
        self._run, self._read, self._monotonic_s = run, read, monotonic_s
        self._places: list[str] | None = None
        self._seen: _Seen | None = None

    def observe(self) -> bool:
        """False when less than a quorum of MONs gives any answer; True when that is unknown."""
        if self._places is None:
            self._places = parse_mon_places(self._read(CONF) or "")
        if not self._places:
            return True
        if self._seen is None or self._monotonic_s() >= self._seen.at_s + REACHES_FOR_S:
            answers = parse_probe(self._run(probe_argv(self._places, PROBE_PATIENCE_S)).stdout)
            # A MON that is restarted refuses: its host is reached.
            heard = sum(has_heard(answers, [place]) for place in self._places)
            self._seen = _Seen(self._monotonic_s(), 2 * heard > len(self._places))
        return self._seen.reaches
