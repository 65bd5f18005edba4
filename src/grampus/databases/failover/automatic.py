"""The databases of hosts that are lost, taken from them without being asked: for the controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from grampus.core.clock import format_duration
from grampus.core.errors import GrampusError
from grampus.databases.controller.due_jobs import ControllerEvent, EventLevel
from grampus.databases.controller.retries import Retries
from grampus.databases.failover.decide_failover import HostSigns
from grampus.databases.failover.failovers import DatabaseFailovers, FailedOver
from grampus.databases.failover.host_states import HostState, decide_host_action
from grampus.databases.failover.host_watch import HostMemory, HostWatch, SeenHost
from grampus.databases.model import DatabaseRecord, FailoverMode
from grampus.databases.operating import DatabaseOperations

# A failover that failed is tried again after so long, then after twice as long, up to a minute.
RETRY_AFTER_S, MOST_RETRY_S = 5.0, 60.0
# While a host is suspect, looks begin so far apart, and so many are one run of the job: a host that
# is silent is lost by then (`host_states`).
SUSPECT_EVERY_S, SUSPECT_LOOKS = 0.7, 5

_REMEDIES = {
    "host-cut-from-controller": "Check the network between this machine and {host}.",
    "controller-cut-off": "Check the network of this machine.",
    "cluster-stuck": "`grampus lab status` or `site check` shows the MONs. Start them again.",
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
# Begins to report the OSDs of hosts that are lost, by host; nobody waits for it.
BeginReports = Callable[[Mapping[str, HostState]], None]


class AutomaticFailovers:
    """What lasts from look to look. It is kept nowhere: a new controller looks anew."""

    def __init__(self) -> None:
        self._memory = HostMemory()
        self._retries = Retries(RETRY_AFTER_S, MOST_RETRY_S)
        self._reported: set[str] = set()  # lost hosts whose OSDs were reported to the MONs

    def run(
        self,
        operations: DatabaseOperations,
        begin: BeginTakeovers,
        report: BeginReports,
        *,
        looks_again: bool = True,
    ) -> list[ControllerEvent]:
        """A look at the hosts, and a failover of each database whose host is lost.

        While a host is suspect, others follow at once, unless `looks_again` is False. One look
        alone takes no host for lost, however long it took: the host may have been busy.

        Neither failovers nor reports of OSDs hold up the next look: without a leader, MONs answer
        nobody for seconds.
        """
        seen = self._look(operations, SUSPECT_LOOKS if looks_again else 1)
        if not looks_again:
            seen = {host: _without_conclusion(found) for host, found in seen.items()}
        events: list[ControllerEvent] = []
        lost: dict[str, SeenHost] = {}
        for found in seen.values():
            action = decide_host_action(found.state)
            if action in ("none", "wait"):
                continue
            for name in found.databases:
                record = operations.records.find(name)
                if record is None or not _shall_run(record):
                    continue
                mode = record.spec.failover
                events.append(host_event(name, found, mode))
                if action == "move" and mode == "automatic":
                    lost[name] = found
        self._retries.keep(lost)
        resting = self._retries.resting(operations.clock.monotonic_s())
        due = {name: found for name, found in lost.items() if name not in resting}
        self._report_osds(seen, report)
        ended = begin(due)
        for name, takeover in ended.items():
            events.append(self._note(name, takeover, operations.clock.monotonic_s()))
        return [*events, *self._retries.events(but=ended)]

    # -- inside -------------------------------------------------------------------------------

    def _look(self, operations: DatabaseOperations, most: int) -> dict[str, SeenHost]:
        """A look at the hosts, repeated at once while one is suspect and none is lost."""
        watch, clock = HostWatch(operations, self._memory), operations.clock
        for left in reversed(range(most)):
            began_s = clock.monotonic_s()
            seen = watch.look()
            actions = {decide_host_action(found.state) for found in seen.values()}
            if not left or "wait" not in actions or "move" in actions:
                break
            clock.sleep(max(0.0, began_s + SUSPECT_EVERY_S - clock.monotonic_s()))
        return seen

    def _report_osds(self, seen: Mapping[str, SeenHost], report: BeginReports) -> None:
        """Tell the MONs once that the OSDs of a lost host are down."""
        lost = {
            host: found.state
            for host, found in seen.items()
            if decide_host_action(found.state) == "move"
        }
        fresh = {host: state for host, state in lost.items() if host not in self._reported}
        self._reported = set(lost)
        if fresh:
            report(fresh)

    def _note(self, name: str, takeover: Takeover, now_s: float) -> ControllerEvent:
        if isinstance(takeover.outcome, FailedOver):
            self._retries.succeeded(name)
            return done_event(takeover.outcome, takeover)
        event = failed_event(name, takeover.outcome)
        self._retries.failed(event, now_s)
        return event


def report_osds(operations: DatabaseOperations, host: str, state: HostState) -> None:
    """Tell the MONs that the OSDs of a lost host are down; what fails costs a wait alone."""
    is_cut = state.name == "host-cut-from-ceph"
    operations.volumes.takeovers.hurry(host, is_silent=not is_cut, is_cut=is_cut)


def take_over(failovers: DatabaseFailovers, name: str, state: HostState, now: datetime) -> Takeover:
    """The database taken from its host, which is in the state `state`."""
    outcome: FailedOver | GrampusError
    try:
        outcome = failovers.fail_over(
            name,
            # A host that is cut off from the cluster alone answers commands: its server is ended.
            force=state.name == "host-cut-from-ceph",
            signs=HostSigns(reachable=False) if state.name == "host-dead" else None,
            detected_ms=round(state.lasted_s * 1000),
        )
    except GrampusError as error:
        outcome = error
    return Takeover(outcome, now, state.lasted_s)


def _without_conclusion(found: SeenHost) -> SeenHost:
    """The same host, suspect where it would be lost."""
    if decide_host_action(found.state) != "move":
        return found
    return replace(found, state=replace(found.state, name="host-suspect"))


def _shall_run(record: DatabaseRecord) -> bool:
    return record.phase == "ready" and record.desired == "running"


def host_event(name: str, found: SeenHost, mode: FailoverMode = "automatic") -> ControllerEvent:
    """What to say of the host of a database as long as it is in this state."""
    host, state = found.host, found.state
    text = f"The host of {name} has a problem: {state.evidence}"
    remedy = _REMEDIES.get(state.name, "").format(host=host)
    if decide_host_action(state) == "move":
        if mode == "automatic":
            text += f" Grampus runs {name} on another host."
        else:
            text += f" The failover of {name} is manual."
            remedy = f"`grampus db failover {name}` runs it on another host."
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
