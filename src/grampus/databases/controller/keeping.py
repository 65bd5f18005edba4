"""What the controller warns of, kept with the databases, for `db events` and `db show`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from grampus.core.errors import GrampusError
from grampus.databases.controller.decide_keeping import decide_keeping
from grampus.databases.controller.due_jobs import (
    ControllerEvent,
    DueJob,
    SessionT,
    failure_of,
)
from grampus.state.warnings import WarningHistory


def keep_warnings(
    job: DueJob[SessionT], history_of: Callable[[SessionT], WarningHistory]
) -> DueJob[SessionT]:
    """The job, whose warnings are written down as they begin and when they are over.

    Nothing is remembered but in the state, so a controller that is begun anew goes on with what
    the one before it warned of. A run that fails as a whole has seen nothing: what lasts, lasts.
    """

    def run(session: SessionT) -> list[ControllerEvent]:
        events = job.run(session)
        try:
            history = history_of(session)
            keeping = decide_keeping(history.known(job.name), events)
            history.change(job.name, begun=keeping.begun, again=keeping.again, ended=keeping.ended)
        except GrampusError as error:
            # Whatever the job met is told all the same.
            return [*events, failure_of("", error)]
        return events

    return replace(job, run=run)
