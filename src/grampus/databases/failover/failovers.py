"""Databases whose host is lost: taken from it, and run on another host at the same address."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from grampus.core.errors import GrampusError, NotFoundError
from grampus.databases.failover.decide_failover import (
    HostSigns,
    decide_outcome,
    decide_targets,
    require_consent,
    require_lost,
)
from grampus.databases.failover.decide_rehoming import GIVEN_UP
from grampus.databases.failover.failover_steps import FAIL_OVER, FailoverOrder
from grampus.databases.host_addresses import on_host, require_port_free
from grampus.databases.instance import observe_daemon_state, observe_listening_from
from grampus.databases.layout import server_daemon_name
from grampus.databases.model import DatabaseRecord, DatabaseSpec, LeftInstance
from grampus.databases.operating import DatabaseOperations
from grampus.databases.planning import observe_loads, observe_machine
from grampus.databases.request import CreateRequest, require_machine_holds
from grampus.hosts.port import Host, HostUnreachableError
from grampus.operations.operation_type import NOT_RECOVERED

# Steps after which something is over that a user waits for, and what.
_PHASES = {"fence": "fenced", "attach": "attached", "serve": "serving"}


@dataclass(frozen=True)
class FailedOver:
    """A database that was taken from a lost host."""

    record: DatabaseRecord
    former_host: str
    may_lose_ms: int | None  # None: nothing that was acknowledged is lost
    keeps_certificates: bool  # False: no copies were kept, and the server has new ones
    is_cleared: bool  # nothing of it is left on the former host
    # From the beginning, in order: `fenced`, `attached`, `serving`; none of a stopped database.
    phases_ms: dict[str, int] = field(default_factory=dict)


class DatabaseFailovers:
    """Takes databases from lost hosts."""

    def __init__(self, operations: DatabaseOperations) -> None:
        self._operations = operations

    def fail_over(
        self,
        name: str,
        *,
        to: str | None = None,
        force: bool = False,
        accepts_loss: bool = False,
        signs: HostSigns | None = None,
        detected_ms: int | None = None,
    ) -> FailedOver:
        """Take the database from its lost host, and run it on another one.

        Address, passwords and certificates stay. Until the old host is cut off from the volume a
        failure undoes everything; from then on the next command finishes it, or another failover.
        With `force` it is taken from a host that answers, too. `signs` is what was seen of a host a
        moment ago that cannot be reached: it is not looked for once more. `detected_ms` passed from
        the first sign of the loss to the decision; it is kept with the phases in the history.

        Raises NotFoundError, UsageError, HostUnreachableError for the host asked for, RefusedError
        with code `not-ready`, `host-answers`, `still-serving`, `may-lose` (without `accepts_loss`),
        `no-host` or `too-big`, and GrampusError, as with code `no-volumed` or `no-driver`.
        """
        operations = self._operations
        with operations.locked(name):
            began_s = operations.clock.monotonic_s()
            order = self._plan(name, to=to, force=force, accepts_loss=accepts_loss, signs=signs)
            operations.runner.propose(lambda: operations.describe(FAIL_OVER, order))
            if operations.unfinished(name):
                self._settle_before(name)
                here = operations.records.get(name).spec.host
                if here != order.former_host and operations.fleet.is_reachable(here):
                    return self._answer(order, {})  # an interrupted one was finished
                to = order.changed.host if order.changed.host != here else None
                order = self._plan(name, to=to, force=True, accepts_loss=accepts_loss)
            operations.require_cleared(name, order.changed.host)
            phases_ms: dict[str, int] = {}

            def noting(phase: str) -> Callable[[], None]:
                def note() -> None:
                    passed_s = operations.clock.monotonic_s() - began_s
                    phases_ms[phase] = round(passed_s * 1000)

                return note

            keeps = operations.credentials.find_certificates(name) is not None
            after = {step: noting(phase) for step, phase in _PHASES.items()}
            operation = operations.begin(FAIL_OVER, order)
            operations.apply(operation, FAIL_OVER, order, after=after)
            outcome = decide_outcome(phases_ms, detected_ms)
            operations.runner.note_outcome(operation, outcome)
            self._settle_after(name)
        return self._answer(order, phases_ms, keeps_certificates=keeps)

    # -- inside -------------------------------------------------------------------------------

    def _plan(
        self,
        name: str,
        *,
        to: str | None,
        force: bool,
        accepts_loss: bool,
        signs: HostSigns | None = None,
    ) -> FailoverOrder:
        operations, volumes = self._operations, self._operations.volumes
        record = operations.ready(name)
        spec = record.spec
        target = self._choose(spec, to)
        running = record.desired == "running" or self._was_starting(name)
        is_reachable = operations.fleet.is_reachable(spec.host)
        is_seen = signs is not None and not is_reachable
        if not force:
            if signs is None or is_reachable:
                signs = self._observe(spec, target, shall_run=running)
            require_lost(spec, signs, shall_run=running, forced=force)
        if not (operations.runner.is_planning or is_reachable or is_seen):
            volumes.takeovers.hurry(spec.host)
        needed_log = volumes.takeovers.find_needed_log(name)
        held_by = volumes.get(name).host or needed_log
        return FailoverOrder(
            changed=on_host(spec, target),
            former_host=spec.host,
            fenced_host=held_by if held_by != target.name else None,
            running=running,
            may_lose_ms=require_consent(spec, needed_log, target.name, accepts_loss=accepts_loss),
        )

    def _answer(
        self, order: FailoverOrder, phases_ms: dict[str, int], *, keeps_certificates: bool = True
    ) -> FailedOver:
        left = {one.key for one in self._operations.records.all_left()}
        return FailedOver(
            record=self._operations.records.get(order.changed.name),
            former_host=order.former_host,
            may_lose_ms=order.may_lose_ms,
            keeps_certificates=keeps_certificates,
            is_cleared=f"{order.former_host}/{order.changed.name}" not in left,
            phases_ms=phases_ms if order.running else {},
        )

    def _settle_before(self, name: str) -> None:
        """What was interrupted is settled, if that does without the lost host.

        If not, what a failover does anyway is given up, and the rest is settled on the new host.
        """
        operations = self._operations
        try:
            operations.settle(name)
        except GrampusError as error:
            for operation in operations.unfinished(name):
                if operation.kind in GIVEN_UP:
                    self._note_left(name, operation.spec)
                    operations.give_up(operation, f"a failover replaced it: {error}")

    def _note_left(self, name: str, document: dict[str, object]) -> None:
        """What a move or failover that is given up may have put on the host that it was to."""
        changed = document.get("changed")
        if not isinstance(changed, dict):
            return
        spec, records = DatabaseSpec.model_validate(changed), self._operations.records
        if spec.host != records.get(name).spec.host:
            now = self._operations.clock.now()
            records.put_left(LeftInstance(spec=spec, left_at=now))

    def _settle_after(self, name: str) -> None:
        try:
            for sentence in self._operations.settle(name):
                self._operations.progress.note(sentence)
        except GrampusError as error:
            self._operations.progress.note(
                f"Interrupted work on the database {name} {NOT_RECOVERED}: {error}"
            )

    def _was_starting(self, name: str) -> bool:
        return any(op.kind == "db.start" for op in self._operations.unfinished(name))

    def _choose(self, spec: DatabaseSpec, to: str | None) -> Host:
        """The first host that can run it. Raises what `fail_over` raises."""
        loads = observe_loads(self._operations.records, self._operations.fleet)
        *others, last = decide_targets(loads, spec.host, to)
        for name in others:
            try:
                return self._require_able(spec, name)
            except GrampusError as error:
                self._operations.progress.note(f"{name} is skipped: {error.problem}")
        return self._require_able(spec, last)

    def _require_able(self, spec: DatabaseSpec, name: str) -> Host:
        host = self._operations.fleet.host(name)
        if not self._operations.fleet.is_reachable(name):
            raise HostUnreachableError(
                f"The host {name} cannot be reached.",
                f"Choose another host, or start {name} again.",
            )
        request = CreateRequest(
            name=spec.name,
            size_bytes=spec.size_bytes,
            memory_bytes=spec.memory_bytes,
            cpus=spec.cpus,
        )
        require_machine_holds(request, observe_machine(host), name)
        self._operations.volumes.require_served(name, spec.write_path, spec.encryption)
        require_port_free(host, spec)
        return host

    def _observe(self, spec: DatabaseSpec, target: Host, *, shall_run: bool) -> HostSigns:
        """What is seen of the database at its host, and from the host that it would go to."""
        operations = self._operations
        if operations.fleet.is_reachable(spec.host):
            host = operations.fleet.host(spec.host)
            try:
                volume_alive = operations.volumes.is_attached(spec.name)
            except NotFoundError:
                volume_alive = False
            daemon = observe_daemon_state(host, server_daemon_name(spec.name))
            return HostSigns(
                reachable=True, server_running=daemon == "running", volume_alive=volume_alive
            )
        return HostSigns(
            reachable=False, answers_clients=shall_run and observe_listening_from(target, spec)
        )
