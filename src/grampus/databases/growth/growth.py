"""Growth rules of databases, and what can be done to one that is about to fill its volume."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from grampus.ceph.fullness import PoolRoom
from grampus.core.clock import format_moment
from grampus.core.errors import NotFoundError, RefusedError
from grampus.databases.growth.decide_growth import (
    FileSystem,
    Look,
    decide_guarding,
    decide_release_bytes,
    decide_reserve_bytes,
)
from grampus.databases.growth.decide_reserve import Reserve, decide_reserve
from grampus.databases.growth.file_systems import Mount, observe_mounts
from grampus.databases.growth.growth_rule import GrowthRule, GuardState, require_rule
from grampus.databases.growth.growth_steps import (
    CLOSE,
    GROW,
    OPEN,
    SET_RULE,
    GrowOrder,
    GuardChange,
    describe_growth,
    make_rule_change,
    observe_read_only,
    running_administrator,
)
from grampus.databases.model import DatabaseRecord
from grampus.databases.operating import DatabaseOperations
from grampus.databases.settings import settings_of

MAX_RELEASE_S = 24 * 3600


@dataclass(frozen=True)
class GrowthView:
    """A database's rule and guard, and the file system of its volume; None: not mounted."""

    record: DatabaseRecord
    file_system: FileSystem | None
    reserve_bytes: int | None


class DatabaseGrowth:
    """Growth and guard of the databases of one lab or cluster."""

    def __init__(
        self, operations: DatabaseOperations, observe_room: Callable[[str], PoolRoom]
    ) -> None:
        """`observe_room` says how much more a pool takes."""
        self.operations = operations
        self.observe_room = observe_room

    # -- the rule -----------------------------------------------------------------------------

    def put_rule(self, name: str, rule: GrowthRule | None) -> None:
        """Keep the rule with the database.

        Raises NotFoundError, UsageError, RefusedError with code `not-ready`.
        """
        with self.operations.locked(name):
            self.operations.settle(name)
            record = self.operations.ready(name)
            if rule is not None:
                require_rule(rule, record.spec.size_bytes)
            self.operations.run(SET_RULE, make_rule_change(name, rule, record.growth))

    def show(self, name: str) -> GrowthView:
        """Rule, guard and file system. Raises NotFoundError."""
        record = self.operations.records.get(name)
        mount = self._find_mount(record)
        if mount is None:
            return GrowthView(record, None, None)
        reserve_bytes = decide_reserve_bytes(reserve_of(record), mount.file_system)
        return GrowthView(record, mount.file_system, reserve_bytes)

    # -- the volume ---------------------------------------------------------------------------

    def grow(self, name: str, to_bytes: int) -> DatabaseRecord:
        """The volume at that size, by its rule.

        Raises NotFoundError, RefusedError with code `busy`, `not-ready` or what the volume says
        (`shrink`, `cannot-grow`, `pool-full`), HostUnreachableError.
        """
        with self.operations.locked(name, timeout_s=0.0):
            self.operations.settle(name)
            spec = self.operations.ready(name).spec
            size_bytes = self.operations.volumes.plan_resize(name, to_bytes).size_bytes
            grown = spec.model_copy(update={"size_bytes": size_bytes})
            order = GrowOrder(spec=grown, summary=describe_growth(grown, spec.size_bytes))
            self.operations.run(GROW, order)
        return self.operations.records.get(name)

    # -- the guard ----------------------------------------------------------------------------

    def close(self, name: str, guard: GuardState, *, is_closed: bool = False) -> None:
        """Let nobody write, and record it; `is_closed`: that was done without a record.

        Raises RefusedError with code `busy`, `not-ready` or `read-only` (by somebody else), and
        StatementFailedError (or GrampusError with code `timeout`) when the server does not take it.
        """
        if not is_closed:
            self._require_open(self.operations.ready(name))
        with self.operations.locked(name, timeout_s=0.0):
            self.operations.settle(name)
            record = self.operations.ready(name)
            if not is_closed:
                self._require_open(record)
            self.operations.run(CLOSE, _guard_change(record, guard))

    def open(self, name: str) -> None:
        """Let users write again, whatever room there is. Raises RefusedError with code `busy`."""
        with self.operations.locked(name, timeout_s=0.0):
            self.operations.settle(name)
            self._open(self.operations.ready(name), None)

    def open_where_room(self, name: str) -> bool:
        """Let users write again if there is room now, as after a resize; whether they can.

        Raises NotFoundError, RefusedError with code `not-ready`.
        """
        with self.operations.locked(name):
            self.operations.settle(name)
            record = self.operations.ready(name)
            mount = self._find_mount(record)
            if record.guard is None:
                return True
            if mount is None:
                return record.guard.state != "closed"
            # The pool need not be looked at: whoever grew the volume has asked whether it has room.
            opens = decide_guarding(self.look(record, mount, written_bytes_per_s=0.0)).opens
            if opens:
                self._open(record, None)
            return opens or record.guard.state != "closed"

    def release(self, name: str, for_s: int) -> None:
        """Let users write for a while, so that they can make room.

        Raises NotFoundError, RefusedError with code `not-ready` or `not-closed`.
        """
        with self.operations.locked(name):
            self.operations.settle(name)
            record = self.operations.ready(name)
            guard = record.guard or self._find_unrecorded(record)
            if guard is None:
                raise RefusedError(
                    f"The guard does not block writes of the database {name}.",
                    f"`grampus db growth show {name}` shows its free space.",
                    code="not-closed",
                )
            now = self.operations.clock.now()
            until = now + timedelta(seconds=min(for_s, MAX_RELEASE_S))
            self._open(
                record,
                guard.model_copy(update={"state": "released", "since": now, "until": until}),
            )

    def look(
        self,
        record: DatabaseRecord,
        mount: Mount,
        *,
        written_bytes_per_s: float,
        room: PoolRoom | None = None,
    ) -> Look:
        """What the decisions are made from."""
        return Look(
            database=record.spec.name,
            now=self.operations.clock.now(),
            file_system=mount.file_system,
            volume_bytes=record.spec.size_bytes,
            written_bytes_per_s=written_bytes_per_s,
            reserve=reserve_of(record),
            rule=record.growth,
            guard=record.guard,
            room=room,
        )

    def _find_mount(self, record: DatabaseRecord) -> Mount | None:
        host = record.spec.host
        if not self.operations.fleet.is_reachable(host):
            return None
        return find_mount(self.operations, record, observe_mounts(self.operations.fleet.host(host)))

    def _find_unrecorded(self, record: DatabaseRecord) -> GuardState | None:
        """As if it were recorded that the guard closed a database that is read-only.

        A record that was rebuilt, or a controller that was killed while another command held the
        database, leaves it so. A replica is read-only for another reason.
        """
        administrator = running_administrator(self.operations.ports, record.spec)
        if record.spec.replica_of or not administrator or not observe_read_only(administrator):
            return None
        reserve = reserve_of(record)
        return GuardState(
            state="closed",
            since=self.operations.clock.now(),
            reason="it was read-only",
            release_bytes=decide_release_bytes(reserve, reserve.bare_bytes),
        )

    def _open(self, record: DatabaseRecord, guard: GuardState | None) -> None:
        self.operations.run(OPEN, _guard_change(record, guard))

    def _require_open(self, record: DatabaseRecord) -> None:
        """What somebody else made read-only (a replica is) would be opened by us in the end."""
        administrator = running_administrator(self.operations.ports, record.spec)
        if record.guard is None and administrator and observe_read_only(administrator):
            raise RefusedError(
                f"The database {record.spec.name} is already read-only, but not because of "
                "the guard.",
                f"Grow the volume: `grampus db resize {record.spec.name} --size SIZE`.",
                code="read-only",
            )


def find_mount(
    operations: DatabaseOperations, record: DatabaseRecord, mounts: dict[str, Mount]
) -> Mount | None:
    """The database's own among the mounts of its host."""
    try:
        attachment = operations.volumes.get(record.spec.name).attachment
    except NotFoundError:
        return None
    mount = mounts.get(attachment.mount_path) if attachment is not None else None
    if mount is None or attachment is None or mount.device != attachment.device:
        return None
    return mount


def reserve_of(record: DatabaseRecord) -> Reserve:
    """What its server needs to finish what is under way."""
    spec = record.spec
    return decide_reserve(
        settings_of(record.spec),
        (spec.parameters, record.started_parameters),
        is_replica=spec.replica_of is not None,
    )


def _guard_change(record: DatabaseRecord, guard: GuardState | None) -> GuardChange:
    summary = "there is space" if guard is None else guard.reason
    if guard is not None and guard.state == "released" and guard.until is not None:
        summary = f"until {format_moment(guard.until)}, to free space"
    return GuardChange(spec=record.spec, guard=guard, former=record.guard, summary=summary)
