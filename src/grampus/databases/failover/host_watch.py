"""Looks at the hosts that have databases, as often as the controller asks for it.

A look at hosts that are well costs no command, but one on each host every few seconds.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from grampus.core.errors import GrampusError
from grampus.databases.failover.host_states import (
    CUT_AFTER_S,
    LOST_AFTER_ROUNDS,
    HostSight,
    HostState,
    HostTrack,
    classify_host,
    follow_host,
)
from grampus.databases.operating import DatabaseOperations
from grampus.hosts.port import Host
from grampus.hosts.probing import (
    CLOSED_PORT,
    PlaceAnswer,
    has_heard,
    hears_most,
    parse_probe,
    probe_argv,
)

# How often each host is asked whether it reaches the MONs; in each look, once it does not.
MONS_EVERY_S = 5.0
# So many other hosts look for one that cannot be reached: one that is cut off itself sees nobody.
PEERS = 2
LOOKS_AT_ONCE = 8
# Of one round, in seconds; the next one sends packets anew. Who answers does so in milliseconds.
# With the wait for the host itself and the start of a command elsewhere, one look takes
# LOST_AFTER_S when nobody answers. Three looks of one round took twice as long: each started a
# command anew.
_PATIENCE_S = 0.45
_ROUNDS = LOST_AFTER_ROUNDS
# Of a command that asks places (one that asks for MONs: beside its rounds). On a busy host it takes
# a second and more. A host that is cut off while it is asked for MONs holds up the look, and what
# it cannot say is no sign; without an answer from another host a look tells nothing.
_MONS_TIMEOUT_S, _PEERS_TIMEOUT_S = 1.0, 5.0
# Once a host has not answered a command for so long, other hosts look for it at the same time.
_MANAGED_WITHIN_S = 0.7


class AskedHost:
    """Whether commands run on a host, asked in a thread: one that is lost takes seconds."""

    def __init__(self, ask: Callable[[], bool]) -> None:
        self._answer: Future[bool] = Future()
        self._until_s = time.monotonic() + _MANAGED_WITHIN_S
        threading.Thread(target=self._work, args=(ask,), daemon=True).start()

    def is_managed(self, *, waits: bool = False) -> bool | None:
        """None: it has not answered yet. Raises what asking raised; `waits` to its end."""
        patience_s = None if waits else max(0.0, self._until_s - time.monotonic())
        try:
            return self._answer.result(patience_s)
        except TimeoutError:
            return None

    @property
    def is_over(self) -> bool:
        """Whether the answer is there."""
        return self._answer.done()

    def _work(self, ask: Callable[[], bool]) -> None:
        try:
            self._answer.set_result(ask())
        except BaseException as error:  # noqa: BLE001 - `is_managed` raises it
            self._answer.set_exception(error)


@dataclass
class HostMemory:
    """What outlasts one look; the controller keeps it. Moments are monotonic seconds."""

    tracks: dict[str, HostTrack] = field(default_factory=dict)
    mons: tuple[str, ...] = ()  # `ADDRESS:PORT` of each, as the cluster said when it answered last
    heard_mons_s: dict[str, float] = field(default_factory=dict)  # by host, when it last did
    asked: dict[str, AskedHost] = field(default_factory=dict)  # hosts that are asked now


@dataclass(frozen=True)
class SeenHost:
    """A host with databases, as it was seen now."""

    host: str
    state: HostState
    databases: tuple[str, ...]  # that are recorded there


class HostWatch:
    """One look at the hosts of one lab."""

    def __init__(self, operations: DatabaseOperations, memory: HostMemory) -> None:
        self._operations = operations
        self._fleet = operations.fleet
        self._memory = memory

    def look(self, *, every_host: bool = False) -> dict[str, SeenHost]:
        """Every host that has databases, by name; with `every_host` the others, too.

        What cannot be asked is seen as silent or as unknown; nothing is raised but defects of the
        state (GrampusError).
        """
        databases = defaultdict(list)
        for name, host in self._operations.records.hosts().items():
            databases[host].append(name)
        known = {host.name for host in self._fleet.hosts()}
        looked_at = sorted(known if every_host else known & databases.keys())
        planned, memory = self._operations.records.all_maintenance(), self._memory
        memory.tracks = {host: memory.tracks.get(host, HostTrack()) for host in looked_at}
        clock = self._operations.clock

        def observe(host: str) -> SeenHost:
            began_s = clock.monotonic_s()
            sight = self._observe(host, databases[host])
            # A host that was silent was so from the beginning of the look.
            track = follow_host(memory.tracks[host], sight, began_s)
            memory.tracks[host] = track
            now_s = clock.monotonic_s()
            state = classify_host(host, track, sight, now_s, is_planned=host in planned)
            return SeenHost(host, state, tuple(databases[host]))

        # A host that does not answer takes seconds, which the others need not wait for.
        with ThreadPoolExecutor(LOOKS_AT_ONCE) as pool:
            return {seen.host: seen for seen in pool.map(observe, looked_at)}

    # -- inside -------------------------------------------------------------------------------

    def _observe(self, host: str, databases: Sequence[str]) -> HostSight:
        asked = self._memory.asked.get(host)
        if asked is None or asked.is_over:
            asked = AskedHost(lambda: self._fleet.is_reachable(host))
            self._memory.asked[host] = asked
        is_managed = asked.is_managed()
        if is_managed:
            return self._observe_managed(host, databases)
        sight = self._look_for(host, databases)
        # It may have answered in the meantime. If others hear it, or nobody can tell, it matters
        # whether it is slow, or cut off from this machine.
        if is_managed is None and asked.is_managed(waits=sight.symptom is None):
            return self._observe_managed(host, databases)
        return sight

    def _look_for(self, host: str, databases: Sequence[str]) -> HostSight:
        """What other hosts see of one on which no command runs."""
        peers = self._peers_of(host)
        if not peers:
            return HostSight(managed=False)
        if not self._memory.mons:
            self._cluster_answers()
        mons = self._memory.mons
        # A MON of the host answers on the storage network, where nothing else may.
        own_mons = [mon for mon in mons if self._is_at(mon, host)]
        places = [*self._places_of(host, databases), *own_mons]
        with ThreadPoolExecutor(len(peers)) as pool:
            all_places = [*dict.fromkeys([*places, *mons])]
            asked = pool.map(lambda peer: _probe(peer, all_places, _PEERS_TIMEOUT_S), peers)
            looks = [look for look in asked if look]
        return HostSight(
            managed=False,
            peers=len(looks),
            heard_by=sum(has_heard(look, places) for look in looks),
            cluster_answers=any(hears_most(look, mons) for look in looks),
            rounds=_ROUNDS,
        )

    def _is_at(self, place: str, host: str) -> bool:
        return place.rpartition(":")[0] == self._fleet.host(host).address

    def _peers_of(self, host: str) -> list[Host]:
        others = [one for one in self._fleet.hosts() if one.name != host]
        return [one for one in others if self._fleet.is_reachable(one.name)][:PEERS]

    def _places_of(self, host: str, databases: Sequence[str]) -> list[str]:
        """Where the host, or one of its databases, would answer.

        A database that is worked on is left out: a failover may have given its address to
        another host, which would answer.
        """
        records, at_work = self._operations.records, self._operations.names_at_work()
        found = [records.find(name) for name in databases if name not in at_work]
        return [
            f"{self._fleet.host(host).address}:{CLOSED_PORT}",
            *(f"{record.spec.address}:{record.spec.port}" for record in found if record),
        ]

    def _observe_managed(self, host: str, databases: Sequence[str]) -> HostSight:
        memory, now_s = self._memory, self._operations.clock.monotonic_s()
        if now_s < memory.heard_mons_s.get(host, float("-inf")) + MONS_EVERY_S:
            return HostSight(managed=True)
        if not memory.mons and not self._cluster_answers():
            return HostSight(managed=True)  # nobody knows where the MONs are
        if self._may_reach_mons(host, rounds=1):
            memory.heard_mons_s[host] = now_s
            return HostSight(managed=True)
        # The MONs that have a quorum now go on to listen. So who reaches none of them from here on
        # is cut off; before, they may have been down, as after an outage of the whole cluster.
        answers = self._cluster_answers()
        if answers and self._may_reach_mons(host, rounds=_ROUNDS):
            memory.heard_mons_s[host] = now_s
            return HostSight(managed=True)
        return HostSight(
            managed=True,
            cluster_answers=answers,
            reaches_mons=False,
            silent_volumes=len(self._operations.volumes.find_silent(databases, CUT_AFTER_S)),
            rounds=_ROUNDS,
        )

    def _may_reach_mons(self, host: str, *, rounds: int) -> bool:
        """Whether a MON answers the host; True as well when the host cannot be asked.

        A MON on the host itself is no sign that the host reaches the cluster.
        """
        others = [mon for mon in self._memory.mons if not self._is_at(mon, host)]
        place, timeout_s = self._fleet.host(host), _MONS_TIMEOUT_S + rounds * _PATIENCE_S
        answers = _probe(place, others, timeout_s, rounds=rounds, one_is_enough=True)
        return not answers or has_heard(answers, others)

    def _cluster_answers(self) -> bool:
        """Whether the MONs have a quorum, as seen from a host that is not cut off.

        After the loss of a MON it may take them seconds. So who looks for a lost host only sees
        whether most MONs are there (`hears_most`): the fence waits for a quorum anyway.
        """
        try:
            self._memory.mons = self._operations.volumes.takeovers.mon_places()
        except GrampusError:
            return False
        return True


def _probe(
    host: Host,
    places: Sequence[str],
    timeout_s: float,
    *,
    rounds: int = _ROUNDS,
    one_is_enough: bool = False,
) -> Mapping[str, PlaceAnswer]:
    """What `places` answer to the host; nothing when the host cannot be asked."""
    argv = probe_argv(places, _PATIENCE_S, rounds=rounds, one_is_enough=one_is_enough)
    try:
        asked = host.run(argv, check=False, timeout_s=timeout_s)
    except GrampusError:
        return {}
    return parse_probe(asked.stdout)
