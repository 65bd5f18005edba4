"""What `grampus serve` says of volumes whose cluster does not answer."""

from __future__ import annotations

from grampus.cli.composition.session import Session
from grampus.core.errors import GrampusError
from grampus.databases.controller.due_jobs import ControllerEvent, failure_of
from grampus.volumes.live import LiveVolume

VOLUMES_EVERY_S = 60.0


def warn_of_silence(session: Session) -> list[ControllerEvent]:
    """Warn of each attached volume whose requests wait for the cluster, as long as they do."""
    events, volumes = [], session.volumes()
    for name, live in volumes.observe_states(volumes.all()).items():
        if isinstance(live, GrampusError):
            events.append(failure_of(name, live))
        elif (event := decide_warning(name, live)) is not None:
            events.append(event)
    return events


def decide_warning(name: str, live: LiveVolume | None) -> ControllerEvent | None:
    """What to say of a volume, seen so."""
    if live is None or not live.is_silent:
        return None
    silent_s = live.journal.silent_s if live.journal else None
    text = f"The cluster does not answer requests of the volume of {name}: reads and writes wait."
    remedy = (
        f"`grampus volume show {name}` shows since when, and `grampus lab status` shows "
        "the health of the cluster."
    )
    details = {} if silent_s is None else {"silent_s": silent_s}
    return ControllerEvent(name, "volume-stalled", text, "warning", details, remedy)
