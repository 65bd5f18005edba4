"""Growth and the guard as operations: a rule kept, a volume grown by it, writers shut out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pydantic import ConfigDict

from grampus.core.models import Model
from grampus.core.units import format_bytes
from grampus.databases.administrator import Administrator, administrator_of
from grampus.databases.changes import RESIZE
from grampus.databases.growth.growth_rule import GrowthRule, GuardState, describe_rule
from grampus.databases.instance import observe_daemon_state
from grampus.databases.kinds import DatabaseOperation
from grampus.databases.layout import server_daemon_name
from grampus.databases.model import DatabaseSpec
from grampus.databases.step_ports import StepPorts
from grampus.state.operations import Step

# What the image's metadata says of the rule; rbd takes no empty value.
RULE_KEY = "growth"
NO_RULE = "none"
# `SET GLOBAL read_only` waits for every commit under way, and holds new ones up meanwhile. On a
# disk that is full already a commit never ends.
LOCK_WAIT_S = 5
CLOSE_TIMEOUT_S = 15.0


class GrowthChange(Model):
    """Another rule, or none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database: str
    rule: GrowthRule | None
    former: GrowthRule | None
    summary: str  # for the history


class GrowOrder(Model):
    """A growth by rule: the database as it shall be."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    spec: DatabaseSpec
    summary: str


class GuardChange(Model):
    """A database closed to writers, or opened to them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    spec: DatabaseSpec
    guard: GuardState | None
    former: GuardState | None
    summary: str


def make_rule_change(
    database: str, rule: GrowthRule | None, former: GrowthRule | None
) -> GrowthChange:
    """The change, with its line of history."""
    return GrowthChange(database=database, rule=rule, former=former, summary=describe_rule(rule))


def observe_read_only(administrator: Administrator) -> bool:
    """Whether the server lets nobody but administrators write."""
    return administrator.value("@@GLOBAL.read_only") == "1"


def ensure_closed(ports: StepPorts, spec: DatabaseSpec) -> None:
    """Nobody can write; a server that does not run is passed over.

    MySQL's `super_read_only` keeps administrators out too; MariaDB has `read_only` alone, which no
    user that Grampus makes can pass over. Raises StatementFailedError when commits do not end.
    """
    administrator = running_administrator(ports, spec)
    if administrator is None:
        return
    name = "super_read_only" if spec.flavour == "mysql" else "read_only"
    administrator.query(
        f"SET SESSION lock_wait_timeout = {LOCK_WAIT_S}; SET GLOBAL {name} = ON",
        timeout_s=CLOSE_TIMEOUT_S,
    )


def ensure_open(ports: StepPorts, spec: DatabaseSpec) -> None:
    """Users can write; a server that does not run is passed over, since it starts open."""
    administrator = running_administrator(ports, spec)
    if administrator is not None:
        # In MySQL this ends `super_read_only` too.
        administrator.query("SET GLOBAL read_only = OFF", timeout_s=CLOSE_TIMEOUT_S)


def running_administrator(ports: StepPorts, spec: DatabaseSpec) -> Administrator | None:
    """The administrator of a server that runs."""
    administrator = administrator_of(ports, spec)
    state = observe_daemon_state(administrator.host, server_daemon_name(spec.name))
    return administrator if state == "running" else None


def _rule_steps(ports: StepPorts, change: GrowthChange) -> list[Step]:
    name = change.database

    def note(rule: GrowthRule | None) -> None:
        said = NO_RULE if rule is None else rule.model_dump_json()
        ports.volumes.set_metadata(name, {RULE_KEY: said})

    title = (
        f"Remove the growth rule of {name}"
        if change.rule is None
        else f"Set the growth rule of {name}: {change.summary}"
    )
    return [
        Step("record", title, lambda: ports.records.change(name, growth=change.rule)),
        Step("metadata", "Record it in the metadata of the image", lambda: note(change.rule)),
    ]


def _grow_steps(ports: StepPorts, order: GrowOrder) -> list[Step]:
    return RESIZE.build(ports, order.spec)


def _record_step(ports: StepPorts, change: GuardChange, title: str) -> Step:
    def record(guard: GuardState | None) -> Callable[[], None]:
        return lambda: ports.records.change(change.spec.name, guard=guard)

    return Step("record", title, record(change.guard), record(change.former))


def _close_steps(ports: StepPorts, change: GuardChange) -> list[Step]:
    """Undone when the server does not take it: the guard tries again with what it then sees."""
    spec, former = change.spec, change.former
    was_closed = former is not None and former.state == "closed"
    return [
        _record_step(ports, change, f"Record that {spec.name} is read-only"),
        Step(
            "server",
            f"Block writes to {spec.name}",
            lambda: ensure_closed(ports, spec),
            None if was_closed else lambda: ensure_open(ports, spec),
        ),
    ]


def _open_steps(ports: StepPorts, change: GuardChange) -> list[Step]:
    spec = change.spec
    return [
        Step("server", f"Allow writes to {spec.name}", lambda: ensure_open(ports, spec)),
        _record_step(ports, change, f"Record that {spec.name} is writable"),
    ]


def describe_growth(spec: DatabaseSpec, former_bytes: int) -> str:
    """A growth for the history."""
    return f"{format_bytes(former_bytes)} to {format_bytes(spec.size_bytes)}"


SET_RULE = DatabaseOperation(
    kind="db.growth",
    what="change of the growth rule of the database",
    document=GrowthChange,
    build=_rule_steps,
    subject=lambda change: change.database,
    when_cut_off="finish",
    goes_with_database=True,
)
GROW = DatabaseOperation(
    kind="db.grow",
    what="automatic growth of the database",
    document=GrowOrder,
    build=_grow_steps,
    subject=lambda order: order.spec.name,
    when_cut_off="finish",
    opens_volume=True,
)
CLOSE = DatabaseOperation(
    kind="db.close",
    what="closing to writers of the database",
    document=GuardChange,
    build=_close_steps,
    subject=lambda change: change.spec.name,
    when_cut_off="undo",
    goes_with_database=True,
)
OPEN = replace(
    CLOSE,
    kind="db.open",
    what="opening to writers of the database",
    build=_open_steps,
    when_cut_off="finish",
)
