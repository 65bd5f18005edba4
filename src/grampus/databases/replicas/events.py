"""Scheduled events of a database that followed another one: those that ran there run here.

A replica's server gives every event that it receives the status *disabled on the replica*, whether
its primary had enabled it or not (tried with MySQL 9.7), so only the primary knows. Its statuses
are noted at each look of the controller, and asked for when a replica is promoted. A status counts
for the version of the event that it was seen with: `LAST_ALTERED` is the same in both servers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grampus.core.errors import GrampusError
from grampus.databases.administrator import Administrator, administrator_of, observer_of
from grampus.databases.model import DatabaseSpec, NotedEvent, PromotedEvents
from grampus.databases.step_ports import StepPorts

# How MySQL and MariaDB call it.
_DISABLED_HERE = ("REPLICA_SIDE_DISABLED", "SLAVESIDE_DISABLED")
_ENABLED = "ENABLED"
# Names may hold any character, and the client escapes some.
EVENTS_SQL = (
    "SET SESSION time_zone = '+00:00'; "
    "SELECT HEX(CONVERT(EVENT_SCHEMA USING utf8mb4)), HEX(CONVERT(EVENT_NAME USING utf8mb4)), "
    "HEX(CONVERT(DEFINER USING utf8mb4)), STATUS, LAST_ALTERED, CHARACTER_SET_CLIENT, "
    "COLLATION_CONNECTION FROM information_schema.EVENTS ORDER BY EVENT_SCHEMA, EVENT_NAME"
)


@dataclass(frozen=True)
class Event:
    """A scheduled event as its server has it."""

    schema: str
    name: str
    definer: str  # USER@HOST
    status: str
    altered: str  # in UTC
    character_set: str
    collation: str

    @property
    def title(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def note(self) -> NotedEvent:
        is_enabled = self.status == _ENABLED
        return NotedEvent(event=self.title, altered=self.altered, is_enabled=is_enabled)


def parse_events(rows: Iterable[Sequence[str]]) -> list[Event]:
    """From the rows that EVENTS_SQL asked for."""
    return [Event(*(bytes.fromhex(word).decode() for word in row[:3]), *row[3:]) for row in rows]


def decide_events(
    here: Sequence[Event], noted: Iterable[NotedEvent]
) -> tuple[list[Event], list[Event], list[Event]]:
    """Events that are disabled because they came from a primary, in three parts.

    Those that it had enabled, those that it had disabled, and those of which that is not known.
    """
    known = {(note.event, note.altered): note.is_enabled for note in noted}
    waiting = [event for event in here if event.status in _DISABLED_HERE]
    answers = [known.get((event.title, event.altered)) for event in waiting]
    pairs = list(zip(waiting, answers, strict=True))
    return (
        [event for event, is_enabled in pairs if is_enabled is True],
        [event for event, is_enabled in pairs if is_enabled is False],
        [event for event, is_enabled in pairs if is_enabled is None],
    )


def render_enable_sql(event: Event, *, enabled: bool) -> str:
    """SQL that gives an event the status that its primary had given it; the rest stays.

    Without a definer in the statement, whoever alters an event becomes its definer: it would run
    with the rights of Grampus's administrator. Its body keeps its SQL mode and time zone, but its
    character set would be that of this session.
    """
    user, _, host = event.definer.rpartition("@")
    words = "ENABLE" if enabled else "DISABLE"
    alter = (
        f"ALTER DEFINER = {_quoted(user)}@{_quoted(host)} EVENT {_quoted(event.schema)}."
        f"{_quoted(event.name)} {words}"
    )
    character_set = event.character_set if alter.isascii() else "utf8mb4"
    return (
        f"SET SESSION character_set_client = {character_set}, "
        f"collation_connection = {event.collation}; {alter}"
    )


def observe_events(administrator: Administrator) -> list[Event]:
    """All of a server's. Raises as `query`."""
    return parse_events(administrator.query(EVENTS_SQL))


def observe_notes(ports: StepPorts, primary: str) -> tuple[NotedEvent, ...]:
    """What is to be noted of the events of a primary. Raises as `query`, and NotFoundError."""
    spec = ports.records.get(primary).spec
    return tuple(event.note for event in observe_events(observer_of(ports, spec)))


def enable_events(ports: StepPorts, spec: DatabaseSpec, primary: str) -> PromotedEvents:
    """Give the events of a database that followed `primary` the status that they had there.

    The server is running and can be written to. May be repeated. `primary` is asked if it answers;
    what was noted of it counts too. Raises as `query`.
    """
    administrator = administrator_of(ports, spec)
    here = observe_events(administrator)
    noted = list(ports.records.replica_history(ports.records.get(spec.name)).events)
    # One that is gone is what promotions are for: what was noted of it counts.
    with contextlib.suppress(GrampusError):
        noted += observe_notes(ports, primary)
    enabled, disabled, unknown = decide_events(here, noted)
    for events, is_enabled in ((enabled, True), (disabled, False)):
        for event in events:
            administrator.query(render_enable_sql(event, enabled=is_enabled))
    return PromotedEvents(
        enabled=tuple(event.title for event in enabled),
        disabled=tuple(event.title for event in disabled),
        unknown=tuple(event.title for event in unknown),
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
