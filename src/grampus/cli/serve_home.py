"""What `grampus serve` does for the room under GRAMPUS_HOME."""

from __future__ import annotations

from grampus.cli.composition.session import Session
from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.state.home_space import decide_space, describe_space

HOME_EVERY_S = 60.0


def warn_of_home(session: Session) -> list[ControllerEvent]:
    """Keep the reserve there, and warn while the file system is nearly full."""
    session.space.keep()
    view = session.space.observe()
    text = "" if view is None else describe_space(session.home.root, decide_space(view))
    if view is None or not text:
        return []
    details = {"size_bytes": view.size_bytes, "free_bytes": view.free_bytes}
    return [ControllerEvent("", "home-full", text, "warning", details)]
