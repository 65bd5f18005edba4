"""The guard: looks at every database's volume, lets it grow by its rule, keeps it from filling up.

One of it lives as long as the controller, since it remembers what it saw the last time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from grampus.ceph.fullness import PoolRoom
from grampus.core.errors import GrampusError
from grampus.core.units import format_bytes
from grampus.databases.binlog_keeping.keeper import BinlogKeeper
from grampus.databases.catalogue import find_operation_type
from grampus.databases.controller.decide_telling import decide_wait_s
from grampus.databases.controller.due_jobs import ControllerEvent, failure_of
from grampus.databases.growth.decide_growth import (
    LOOK_EVERY_S,
    FileSystem,
    decide_growth,
    decide_guarding,
    is_growth_due,
)
from grampus.databases.growth.file_systems import Mount, observe_mounts
from grampus.databases.growth.growth import DatabaseGrowth, find_mount, reserve_of
from grampus.databases.growth.growth_rule import GuardState
from grampus.databases.growth.growth_steps import (
    ensure_closed,
    ensure_open,
    observe_read_only,
    running_administrator,
)
from grampus.databases.model import DatabaseRecord

# To look at a pool takes three `ceph` commands, more than a second of a CPU.
ROOM_GOOD_FOR_S = 60.0
# For a volume that is to grow; else it would wait for a minute after OSDs were added.
FRESH_ROOM_GOOD_FOR_S = 15.0
CANNOT_GROW = "cannot-grow"


@dataclass
class _Memory:
    """What is remembered of one database between two looks."""

    at_s: float
    file_system: FileSystem
    # Growth that failed: what was said of it, how often in a row, and when it is tried again.
    growth_failure: str | None = None
    growth_failures: int = 0
    grows_again_s: float = 0.0
    # The same of a server that could not be made read-only.
    closing_failure: ControllerEvent | None = None
    closing_failures: int = 0
    closes_again_s: float = 0.0
    # Closed while another command held the database, so that it is not recorded yet.
    unrecorded: GuardState | None = None
    # Told by the last look, and still so while another command holds the database.
    lasting: list[ControllerEvent] = field(default_factory=list)


class GrowthGuard:
    """Looks after the volumes of all databases that shall run."""

    def __init__(self) -> None:
        self._memories: dict[str, _Memory] = {}
        self._rooms: dict[str, tuple[float, PoolRoom | None]] = {}
        self._room_failures: dict[str, ControllerEvent] = {}
        self._keeper = BinlogKeeper()

    def run(self, growth: DatabaseGrowth) -> list[ControllerEvent]:
        """One look at each database, and what it asks for.

        What fails with one keeps none of the others from its own.
        """
        operations = growth.operations
        records = {
            name: record
            for name, record in operations.records.all().items()
            if record.phase == "ready" and record.desired == "running"
        }
        self._memories = {name: self._memories[name] for name in records if name in self._memories}
        events: list[ControllerEvent] = []
        mounts: dict[str, dict[str, Mount]] = {}
        for host in sorted({record.spec.host for record in records.values()}):
            try:
                operations.require_reachable(host)
                mounts[host] = observe_mounts(operations.fleet.host(host))
            except GrampusError as error:
                events.append(failure_of("", error))
        for name, record in records.items():
            mount = find_mount(operations, record, mounts.get(record.spec.host, {}))
            if mount is None:
                continue
            memory, rate = self._remember(name, mount.file_system, operations.clock.monotonic_s())
            try:
                met = self._look_after(growth, memory, record, mount, rate)
            except GrampusError as error:
                met = memory.lasting if error.code == "busy" else [failure_of(name, error)]
            memory.lasting = [event for event in met if event.level != "done"]
            events += met
        return [*events, *self._room_failures.values()]

    def _look_after(
        self,
        growth: DatabaseGrowth,
        memory: _Memory,
        record: DatabaseRecord,
        mount: Mount,
        written_bytes_per_s: float,
    ) -> list[ControllerEvent]:
        name, now_s = record.spec.name, memory.at_s
        events: list[ControllerEvent] = []
        if record.guard is not None:
            memory.unrecorded = None
        elif memory.unrecorded is not None:
            record = record.model_copy(update={"guard": memory.unrecorded})
        is_due = is_growth_due(record.growth, mount.file_system)
        good_for_s = FRESH_ROOM_GOOD_FOR_S if is_due else ROOM_GOOD_FOR_S
        room = self._room(growth, record.spec.pool, now_s, good_for_s)
        look = growth.look(record, mount, written_bytes_per_s=written_bytes_per_s, room=room)
        wanted = decide_growth(look)
        refusal = wanted.refusal
        if wanted.to_bytes is not None:
            grown = self._grow(growth, memory, record, wanted.to_bytes, now_s)
            if grown is not None:
                # Whether that is room enough, the next look says.
                return [grown, *(event for event in memory.lasting if event.kind != CANNOT_GROW)]
            refusal = memory.growth_failure
        elif not is_due:
            memory.growth_failure, memory.growth_failures = None, 0
        if refusal is not None:
            events.append(ControllerEvent(name, CANNOT_GROW, refusal, "warning"))
        guarding = decide_guarding(look)
        if guarding.change is None:
            memory.closing_failure, memory.closing_failures = None, 0
        if guarding.opens:
            return [*events, self._open(growth, memory, record)]
        if guarding.change is not None:
            freed_bytes, told = self._relieve(growth, record, mount)
            events += told
            if freed_bytes >= reserve_of(record).bare_bytes:
                return events  # whether that is room enough, the next look says
            return [*events, self._close(growth, memory, record, guarding.change, mount)]
        if record.guard is not None and record.guard.state == "closed":
            events.append(self._keep_closed(growth, memory, record, record.guard))
        return events

    def _remember(self, name: str, file_system: FileSystem, now_s: float) -> tuple[_Memory, float]:
        """The memory, and bytes written a second since the last look (0: not known)."""
        before = self._memories.get(name)
        if before is None:
            before = self._memories[name] = _Memory(now_s, file_system)
        elapsed_s = now_s - before.at_s
        rate = 0.0
        if elapsed_s >= LOOK_EVERY_S / 2:
            rate = max(0, before.file_system.free_bytes - file_system.free_bytes) / elapsed_s
        before.at_s, before.file_system = now_s, file_system
        return before, rate

    def _room(
        self, growth: DatabaseGrowth, pool: str, now_s: float, good_for_s: float
    ) -> PoolRoom | None:
        seen_s, room = self._rooms.get(pool, (now_s - good_for_s, None))
        if now_s - seen_s >= good_for_s:
            self._room_failures.pop(pool, None)
            try:
                room = growth.observe_room(pool)
            except GrampusError as error:
                # The guard goes on without it: to close a database needs its server alone.
                self._room_failures[pool] = failure_of("", error)
                room = None
            self._rooms[pool] = (now_s, room)
        return room

    def _grow(
        self,
        growth: DatabaseGrowth,
        memory: _Memory,
        record: DatabaseRecord,
        to_bytes: int,
        now_s: float,
    ) -> ControllerEvent | None:
        """What is told of a growth; None: it failed, rests after a failure, or has to wait."""
        name, former_bytes = record.spec.name, record.spec.size_bytes
        if now_s < memory.grows_again_s:
            return None
        try:
            grown = growth.grow(name, to_bytes)
        except GrampusError as error:
            if error.code == "busy":
                # Tried again by each look: whoever has the database may keep it for hours.
                memory.growth_failure = _describe_waiting(growth, name)
                return None
            memory.growth_failures += 1
            wait_s = decide_wait_s(LOOK_EVERY_S, memory.growth_failures)
            memory.grows_again_s = now_s + wait_s
            memory.growth_failure = f"The volume of {name} could not grow by its rule: {error}"
            return None
        memory.growth_failure, memory.growth_failures = None, 0
        size_bytes = grown.spec.size_bytes
        return ControllerEvent(
            name,
            "grew",
            f"The volume of {name} has grown from {format_bytes(former_bytes)} to "
            f"{format_bytes(size_bytes)}.",
            details={"former_bytes": former_bytes, "size_bytes": size_bytes},
        )

    def _close(
        self,
        growth: DatabaseGrowth,
        memory: _Memory,
        record: DatabaseRecord,
        guard: GuardState,
        mount: Mount,
    ) -> ControllerEvent:
        name = record.spec.name
        if memory.closing_failure is not None and memory.at_s < memory.closes_again_s:
            return memory.closing_failure
        try:
            growth.close(name, guard)
        except GrampusError as error:
            if error.code == "busy":
                # Whatever another command is at, the disk must not fill up meanwhile.
                ensure_closed(growth.operations.ports, record.spec)
                memory.unrecorded = guard
                return _closed_event(name, guard)
            memory.closing_failures += 1
            wait_s = decide_wait_s(LOOK_EVERY_S, memory.closing_failures)
            memory.closes_again_s = memory.at_s + wait_s
            is_full = mount.file_system.is_full
            memory.closing_failure = _unclosed_event(name, guard, error, is_full=is_full)
            return memory.closing_failure
        memory.closing_failure, memory.closing_failures = None, 0
        return _closed_event(name, guard)

    def _relieve(
        self, growth: DatabaseGrowth, record: DatabaseRecord, mount: Mount
    ) -> tuple[int, list[ControllerEvent]]:
        """Binary logs that nobody needs are deleted before a database is closed; the bytes freed.

        A server whose disk is full deletes nothing before it goes on, and others may not let it.
        """
        if mount.file_system.is_full:
            return 0, []
        try:
            return self._keeper.relieve(growth.operations, record, mount)
        except GrampusError:
            return 0, []  # it is closed, which says what is wrong with its server

    def _keep_closed(
        self,
        growth: DatabaseGrowth,
        memory: _Memory,
        record: DatabaseRecord,
        guard: GuardState,
    ) -> ControllerEvent:
        """Also after its server was started anew, which lets users in."""
        if memory.unrecorded is not None:
            growth.close(record.spec.name, guard, is_closed=True)
        administrator = running_administrator(growth.operations.ports, record.spec)
        if administrator is not None and not observe_read_only(administrator):
            ensure_closed(growth.operations.ports, record.spec)
        return _closed_event(record.spec.name, guard)

    def _open(
        self, growth: DatabaseGrowth, memory: _Memory, record: DatabaseRecord
    ) -> ControllerEvent:
        name = record.spec.name
        if memory.unrecorded is not None:
            ensure_open(growth.operations.ports, record.spec)
            memory.unrecorded = None
        else:
            growth.open(name)
        return ControllerEvent(name, "opened", f"The database {name} can be written to again.")


def _describe_waiting(growth: DatabaseGrowth, name: str) -> str:
    """Who holds a database that is to grow; the same from look to look, so that it is told once."""
    held_by = "another command"
    for operation in growth.operations.unfinished(name):
        kind = find_operation_type(operation.kind)
        what = "operation" if kind is None else kind.what
        held_by = f"the {what} {name} ({operation.kind})"
    return f"The volume of {name} is due to grow by its rule, but waits for the end of {held_by}."


def _closed_event(name: str, guard: GuardState) -> ControllerEvent:
    return ControllerEvent(
        name,
        "read-only",
        f"The database {name} is read-only: {guard.reason}.",
        "warning",
        {"since": guard.since.isoformat()},
        f"`grampus db resize {name} --size SIZE` grows its volume. `grampus db growth release "
        f"{name}` lets its users free space.",
    )


def _unclosed_event(
    name: str, guard: GuardState, error: GrampusError, *, is_full: bool
) -> ControllerEvent:
    """Of a database that should be read-only and is not, or is so for another reason."""
    resize = f"`grampus db resize {name} --size SIZE` grows its volume"
    if error.code == "read-only":
        text = f"The database {name}, which is read-only anyway, is nearly full: {guard.reason}."
        return ControllerEvent(name, "nearly-full", text, "warning", {}, f"{resize}.")
    if is_full:
        text = f"The volume of {name} is full: its server and its clients wait."
        remedy = f"{resize}. The server then continues within a minute."
        return ControllerEvent(name, "disk-full", text, "failed", {"code": error.code}, remedy)
    return failure_of(name, error)
