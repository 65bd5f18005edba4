"""Looks at all servers that must run, from other hosts, as their clients do.

One host asks all servers of the other hosts, with one command; a second one only where the first
found something wrong. Their own hosts ask the drivers of their volumes, less often.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from grampus.core.errors import GrampusError
from grampus.databases.failover.server_states import (
    DRIVER_SYMPTOMS,
    ServerState,
    ServerTrack,
    classify_server,
    find_symptom,
    follow_server,
    is_suspicious,
)
from grampus.databases.operating import DatabaseOperations
from grampus.databases.records import RunningPlace
from grampus.hosts.probing import (
    GREETING_PATIENCE_S,
    PlaceAnswer,
    parse_probe,
    probe_argv,
)
from grampus.volumes.model import DriverFault

_COMMAND_TIMEOUT_S = 60.0
# How often the drivers of volumes are asked whether they answer: a command on each host.
DRIVERS_EVERY_S = 15.0


@dataclass
class ServerMemory:
    """What outlasts one look; the controller keeps it."""

    tracks: dict[str, ServerTrack] = field(default_factory=dict)
    asked_drivers_s: float = float("-inf")  # when the drivers of all volumes were asked last


@dataclass(frozen=True)
class SeenServer:
    """A server that must run, as it was seen now."""

    database: str
    host: str
    state: ServerState


class ServerWatch:
    """One look at the servers of one lab."""

    def __init__(self, operations: DatabaseOperations, memory: ServerMemory) -> None:
        self._operations = operations
        self._fleet = operations.fleet
        self._memory = memory

    def look(self) -> dict[str, SeenServer]:
        """Every server that must run, and that nobody works on.

        Servers on hosts that cannot be reached, or that are in maintenance, are left out.
        """
        operations, memory = self._operations, self._memory
        at_work, planned = operations.names_at_work(), operations.records.all_maintenance()
        reachable = [one.name for one in self._fleet.hosts() if self._fleet.is_reachable(one.name)]
        places = {
            name: place
            for name, place in operations.records.running_places().items()
            if place.host in reachable and place.host not in planned and name not in at_work
        }
        began_s = operations.clock.monotonic_s()
        answers = self._ask_all(places, reachable)
        faults = self._find_driver_faults(places, began_s)
        now_s = operations.clock.monotonic_s()
        memory.tracks = {
            name: follow_server(
                memory.tracks.get(name, ServerTrack()),
                answers[name],
                began_s,
                driver=faults.get(name),
            )
            for name in places
        }
        return {
            name: SeenServer(name, place.host, classify_server(name, memory.tracks[name], now_s))
            for name, place in places.items()
        }

    def is_still_hung(self, name: str) -> bool:
        """Whether the server accepts connections and greets nobody, asked anew."""
        place = self._operations.records.running_places().get(name)
        if place is None:
            return False
        hosts = [one.name for one in self._fleet.hosts() if self._fleet.is_reachable(one.name)]
        return find_symptom(self._ask_all({name: place}, hosts)[name]) == "hung"

    def is_driver_still_useless(self, name: str) -> bool:
        """Whether the driver of its volume has ended, fails or gives no answer, asked anew."""
        return name in self._operations.volumes.find_driver_faults([name])

    # -- inside -------------------------------------------------------------------------------

    def _find_driver_faults(
        self, places: Collection[str], now_s: float
    ) -> Mapping[str, DriverFault]:
        """Databases whose volume's driver has ended or gives no answer, if it is time to ask.

        Those under suspicion are asked in each look.
        """
        memory = self._memory
        wanted = {name for name in places if _is_suspected(memory.tracks.get(name))}
        if now_s >= memory.asked_drivers_s + DRIVERS_EVERY_S:
            wanted, memory.asked_drivers_s = set(places), now_s
        return self._operations.volumes.find_driver_faults(sorted(wanted)) if wanted else {}

    def _ask_all(
        self, places: Mapping[str, RunningPlace], reachable: Collection[str]
    ) -> dict[str, list[PlaceAnswer]]:
        """What hosts got at the address of each database; nothing if no other host can look."""
        answers: dict[str, list[PlaceAnswer]] = {name: [] for name in places}
        for turn in (0, 1):
            asked = defaultdict(list)
            for name, place in places.items():
                lookers = [host for host in reachable if host != place.host]
                is_wanted = turn == 0 or any(is_suspicious(answer) for answer in answers[name])
                if is_wanted and len(lookers) > turn:
                    asked[lookers[turn]].append(name)
            for host, names in asked.items():
                for name, answer in self._ask(host, {name: places[name] for name in names}).items():
                    answers[name].append(answer)
        return answers

    def _ask(self, host: str, places: Mapping[str, RunningPlace]) -> dict[str, PlaceAnswer]:
        """What one host gets; nothing of what it could not ask."""
        argv = probe_argv([place.place for place in places.values()], GREETING_PATIENCE_S)
        try:
            asked = self._fleet.host(host).run(argv, check=False, timeout_s=_COMMAND_TIMEOUT_S)
        except GrampusError:
            return {}
        found = parse_probe(asked.stdout)
        return {name: found[one.place] for name, one in places.items() if one.place in found}


def _is_suspected(track: ServerTrack | None) -> bool:
    return track is not None and track.symptom in DRIVER_SYMPTOMS
