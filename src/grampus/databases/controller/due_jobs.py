"""What the controller does again and again, and what it tells of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from grampus.core.errors import GrampusError

# `done`: something was changed. `warning`: something needs its user. `failed`: it will be tried
# again. `recovered`: what had failed, or was warned of, is well again.
EventLevel = Literal["done", "warning", "failed", "recovered"]
SessionT = TypeVar("SessionT")


@dataclass(frozen=True)
class ControllerEvent:
    """One thing that a job did or met. A state that lasts is told again by each run of its job.

    The loop shows `warning` and `failed` once, until they are over or read otherwise: so whatever
    changes from run to run (a count, a moment) belongs in `details`, not in `text`.
    """

    database: str  # empty: of the whole lab
    kind: str  # a stable lower-kebab word, such as `grew`
    text: str  # what is so, as sentences
    level: EventLevel = "done"
    details: Mapping[str, object] = field(default_factory=dict)  # numbers, for programs
    remedy: str = ""  # what its user can do, as a sentence


@dataclass(frozen=True)
class DueJob(Generic[SessionT]):
    """Something that is due every `every_s` seconds; each job has a thread of its own.

    `run` gets a session that nobody else uses, and answers with what is to be told. It catches
    what fails for one database (GrampusError) and answers with a `failed` event of that database,
    so that the others have their turn; what it raises (GrampusError) is told, and the job waits
    twice as long each time.
    """

    name: str
    every_s: float
    run: Callable[[SessionT], list[ControllerEvent]]


def failure_of(database: str, error: GrampusError | OSError) -> ControllerEvent:
    """What to tell of an error with one database; empty: with all."""
    if not isinstance(error, GrampusError):
        return ControllerEvent(
            database, "failed", f"The system reported an error: {error}.", "failed"
        )
    code = {"code": error.code}
    return ControllerEvent(database, "failed", error.problem, "failed", code, error.remedy)
