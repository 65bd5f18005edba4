"""A database's memory and CPUs changed while it runs, and its server restarted."""

from __future__ import annotations

from grampus.core.errors import RefusedError
from grampus.databases.administrator import administrator_of
from grampus.databases.instance import observe_daemon_state
from grampus.databases.layout import server_daemon_name
from grampus.databases.live.decide_live_limits import decide_live_pool
from grampus.databases.live.decide_recovery_goal import require_no_parameter
from grampus.databases.live.live_changes import RESTART, SET_LIMITS, LimitsChange
from grampus.databases.live.live_server import observe_pool
from grampus.databases.live.recovery_goal import SET_RECOVERY_GOAL
from grampus.databases.model import DatabaseRecord, DatabaseSpec
from grampus.databases.operating import DatabaseOperations
from grampus.databases.planning import observe_machine
from grampus.databases.request import CreateRequest, require_machine_holds, require_request
from grampus.databases.settings import require_packet_fits, settings_of


class LiveSettings:
    """Limits of databases, and restarts of their servers."""

    def __init__(self, operations: DatabaseOperations) -> None:
        self._operations = operations

    def plan_limits(
        self, name: str, *, memory_bytes: int | None = None, cpus: float | None = None
    ) -> LimitsChange | None:
        """What it takes to give the instance those limits; None when it has them.

        What is None stays. Raises NotFoundError, UsageError with code `too-small`, RefusedError
        with code `not-ready`, `too-big` (the machine has not so much) or `needs-restart`, and
        HostUnreachableError.
        """
        record = self._operations.ready(name)
        spec = record.spec
        changed = spec.model_copy(
            update={
                "memory_bytes": spec.memory_bytes if memory_bytes is None else memory_bytes,
                "cpus": spec.cpus if cpus is None else cpus,
            }
        )
        if changed == spec:
            return None
        request = CreateRequest(
            name=name,
            size_bytes=changed.size_bytes,
            memory_bytes=changed.memory_bytes,
            cpus=changed.cpus,
            flavour=changed.flavour,
        )
        require_request(request)
        packet = spec.parameters.get("max_allowed_packet", "")
        if packet.isdigit() and changed.memory_bytes < spec.memory_bytes:
            require_packet_fits(int(packet), changed.memory_bytes)
        self._operations.require_reachable(spec.host, spec.name)
        machine = observe_machine(self._operations.fleet.host(spec.host))
        require_machine_holds(request, machine, spec.host)
        self._require_live_pool(record, changed)
        return LimitsChange(
            changed=changed,
            former_memory_bytes=spec.memory_bytes,
            former_cpus=spec.cpus,
            former_buffer_pool_bytes=record.buffer_pool_bytes,
            running=record.desired == "running",
        )

    def set_limits(
        self, name: str, *, memory_bytes: int | None = None, cpus: float | None = None
    ) -> None:
        """Give the instance those limits, now and from now on; its clients notice nothing.

        On failure it has its former limits again. Raises what `plan_limits` raises, and
        RefusedError with code `memory-in-use` when the server does not give memory back.
        """
        with self._operations.locked(name):
            self._operations.settle(name)
            change = self.plan_limits(name, memory_bytes=memory_bytes, cpus=cpus)
            if change is not None:
                self._operations.run(SET_LIMITS, change)

    def plan_recovery_goal(self, name: str, goal_s: int | None) -> None:
        """Whether the database can have that goal; None: no goal.

        Raises NotFoundError, RefusedError with code `not-ready` or `parameter-set`.
        """
        spec = self._operations.ready(name).spec
        if goal_s is not None:
            require_no_parameter(spec)

    def set_recovery_goal(self, name: str, goal_s: int | None) -> None:
        """Let its server recover within `goal_s` after a crash, now and from now on.

        Raises what `plan_recovery_goal` raises.
        """
        with self._operations.locked(name):
            self._operations.settle(name)
            self.plan_recovery_goal(name, goal_s)
            spec = self._operations.ready(name).spec
            changed = spec.model_copy(update={"recovery_goal_s": goal_s})
            if changed != spec:
                self._operations.run(SET_RECOVERY_GOAL, changed)

    def restart(self, name: str) -> None:
        """Stop the server in good order and start it, with all that waited for that.

        Raises NotFoundError, RefusedError with code `not-ready`, `not-running` or `pool-full`,
        HostUnreachableError, and GrampusError with code `server-stopped` when it does not come up
        again.
        """
        with self._operations.locked(name):
            self._operations.settle_or_leave(name)
            record = self._operations.ready(name)
            if record.desired != "running":
                raise RefusedError(
                    f"The database {name} is stopped.",
                    f"`grampus db start {name}` starts it.",
                    code="not-running",
                )
            self._operations.require_reachable(record.spec.host, name)
            # One that was stopped could not come back.
            self._operations.volumes.require_writable(name)
            self._operations.run(RESTART, record.spec)

    def _require_live_pool(self, record: DatabaseRecord, changed: DatabaseSpec) -> None:
        host = self._operations.fleet.host(changed.host)
        daemon = server_daemon_name(changed.name)
        if record.desired != "running" or observe_daemon_state(host, daemon) != "running":
            return
        running = observe_pool(administrator_of(self._operations.ports, changed))
        decide_live_pool(settings_of(changed), running, changed.name)
