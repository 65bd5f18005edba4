"""The databases of hosts that are lost, taken from them without being asked: for the controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from grampus.core.clock import format_duration
from grampus.core.errors import GrampusError
from grampus.databases.controller.due_jobs import ControllerEvent, EventLevel
from grampus.databases.controller.retries import Retries
from grampus.databases.failover.decide_failover import HostSigns
from grampus.databases.failover.failovers import DatabaseFailovers, FailedOver
from grampus.databases.failover.host_states import HostState, decide_host_action
from grampus.databases.failover.host_watch import HostMemory, HostWatch, SeenHost
from grampus.databases.operating import DatabaseOperations

# A failover that failed is tried again after so long, then after twice as long, up to a minute.
RETRY_AFTER_S, MOST_RETRY_S = 5.0, 60.0

_REMEDIES = {
    "host-cut-from-controller": "Check the network between this machine and {host}.",
    "controller-cut-off": "Check the network of this machine.",
    "cluster-stuck": "`grampus lab status` shows which MONs are down. Start them again.",
    "flapping": "Check the link and the power supply of {host}.",
}


@dataclass(frozen=True)
class Takeover:
    """What came of one failover that the controller began."""

    outcome: FailedOver | GrampusError
    began_at: datetime
    lost_for_s: float  # from the first look that found the host lost to the beginning


# Begins failovers of databases, and answers with those that have ended, by database.
BeginTakeovers = Callable[[Mapping[str, SeenHost]], Mapping[str, Takeover]]


class AutomaticFailovers:
    """What lasts from look to look. It is kept nowhere: a new controller looks anew."""

    def __init__(self) -> None:
        self._memory = HostMemory()
        self._retries = Retries(RETRY_AFTER_S, MOST_RETRY_S)
        self._hurried: set[str] = set()  # lost hosts whose OSDs the MONs know to be down

    def run(self, operations: DatabaseOperations, begin: BeginTakeovers) -> list[ControllerEvent]:
        """One look at the hosts, and a failover of each database whose host is lost."""
        seen = HostWatch(operations, self._memory).look()
        events: list[ControllerEvent] = []
        lost: dict[str, SeenHost] = {}
        for found in seen.values():
            action = decide_host_action(found.state)
            if action in ("none", "wait"):
                continue
            shall_run = [name for name in found.databases if _shall_run(operations, name)]
            events += [host_event(name, found) for name in shall_run]
            if action == "move":
                lost |= dict.fromkeys(shall_run, found)
        self._retries.keep(lost)
        resting = self._retries.resting(operations.clock.monotonic_s())
        due = {name: found for name, found in lost.items() if name not in resting}
        with ThreadPoolExecutor(1) as pool:
            # Nobody waits for it before a volume is opened.
            hurried = pool.submit(self._hurry, operations, seen)
            ended = begin(due)
            hurried.result()
        for name, takeover in ended.items():
            events.append(self._note(name, takeover, operations.clock.monotonic_s()))
        return [*events, *self._retries.events(but=ended)]

    # -- inside -------------------------------------------------------------------------------

    def _hurry(self, operations: DatabaseOperations, seen: Mapping[str, SeenHost]) -> None:
        """Tell the MONs once that the OSDs of a lost host are down."""
        lost = {
            host: found.state.name == "host-cut-from-ceph"
            for host, found in seen.items()
            if decide_host_action(found.state) == "move"
        }
        for host in sorted(lost.keys() - self._hurried):
            is_cut = lost[host]
            operations.volumes.takeovers.hurry(host, is_silent=not is_cut, is_cut=is_cut)
        self._hurried = set(lost)

    def _note(self, name: str, takeover: Takeover, now_s: float) -> ControllerEvent:
        if isinstance(takeover.outcome, FailedOver):
            self._retries.succeeded(name)
            return done_event(takeover.outcome, takeover)
        event = failed_event(name, takeover.outcome)
        self._retries.failed(event, now_s)
        return event


def take_over(failovers: DatabaseFailovers, name: str, state: HostState, now: datetime) -> Takeover:
    """The database taken from its host, which is in the state `state`."""
    outcome: FailedOver | GrampusError
    try:
        outcome = failovers.fail_over(
            name,
            # A host that is cut off from the cluster alone answers commands: its server is ended.
            force=state.name == "host-cut-from-ceph",
            signs=HostSigns(reachable=False) if state.name == "host-dead" else None,
        )
    except GrampusError as error:
        outcome = error
    return Takeover(outcome, now, state.lasted_s)


def _shall_run(operations: DatabaseOperations, name: str) -> bool:
    record = operations.records.find(name)
    return record is not None and record.phase == "ready" and record.desired == "running"


def host_event(name: str, found: SeenHost) -> ControllerEvent:
    """What to say of the host of a database as long as it is in this state."""
    host, state = found.host, found.state
    text = f"The host of {name} has a problem: {state.evidence}"
    if decide_host_action(state) == "move":
        text += f" Grampus runs {name} on another host."
    remedy = _REMEDIES.get(state.name, "").format(host=host)
    return ControllerEvent(name, state.name, text, "warning", {"host": host}, remedy)


def done_event(done: FailedOver, takeover: Takeover) -> ControllerEvent:
    """What to say of a failover that succeeded."""
    spec, former = done.record.spec, done.former_host
    text = f"The database {spec.name} runs on {spec.host} now. It was on {former}, which is lost."
    if "serving" in done.phases_ms:
        took_s = takeover.lost_for_s + done.phases_ms["serving"] / 1000
        text += f" It serves again {format_duration(took_s)} after the first sign of the loss."
    details = {
        "former_host": former,
        "host": spec.host,
        "detected_ms": round(takeover.lost_for_s * 1000),  # from the first sign on
        "decided_at": takeover.began_at,
        "phases_ms": done.phases_ms,  # from the decision on
        "may_lose_ms": done.may_lose_ms,
        "keeps_certificates": done.keeps_certificates,
    }
    return ControllerEvent(spec.name, "failed-over", text, "done", details)


def failed_event(name: str, error: GrampusError) -> ControllerEvent:
    """What to say of a failover that is tried again, or that needs its user's consent."""
    level: EventLevel = "warning" if error.code == "may-lose" else "failed"
    kind = "failover-refused" if error.code == "may-lose" else "failover-failed"
    text = f"Grampus did not run {name} on another host: {error.problem}"
    return ControllerEvent(name, kind, text, level, {"code": error.code}, error.remedy)
