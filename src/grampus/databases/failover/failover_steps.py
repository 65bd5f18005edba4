"""A database taken from a lost host and run on another one, as a list of steps.

The order is that of INV-25: fence, confirm, replay, open. Until the fence is confirmed nothing has
changed for the database, and all is undone; from then on it is finished, by whoever comes next.
"""

from __future__ import annotations

import contextlib
from pathlib import PurePosixPath

from pydantic import ConfigDict

from grampus.core.clock import format_duration
from grampus.core.errors import NotFoundError
from grampus.core.models import Model
from grampus.databases.database_work import DatabaseWork, discard
from grampus.databases.host_addresses import on_host_named, silence_server
from grampus.databases.kept_certificates import place_certificates
from grampus.databases.kinds import DatabaseOperation
from grampus.databases.layout import plan_instance
from grampus.databases.left_instances import clear_left
from grampus.databases.model import DatabaseSpec, LeftInstance
from grampus.databases.step_ports import StepPorts
from grampus.hosts.port import HostUnreachableError
from grampus.state.operations import Step


class FailoverOrder(Model):
    """A failover, as its steps need it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    changed: DatabaseSpec  # as it shall be
    former_host: str
    fenced_host: str | None  # from which its volume is taken; None: it is attached nowhere
    running: bool  # it shall run
    may_lose_ms: int | None = None  # of commits in a log that is given up; None: nothing is lost


class FailoverWork:
    """What the steps of one failover do; every method is idempotent."""

    def __init__(self, ports: StepPorts, order: FailoverOrder) -> None:
        self._ports = ports
        self._order = order
        self._name = order.changed.name
        self._there = DatabaseWork(ports, order.changed)

    def prepare(self) -> None:
        """Its certificates on the new host: those that clients trust."""
        host = self._there.host()
        plan = plan_instance(self._order.changed, host.data_dir, PurePosixPath("/nonexistent"))
        discard(place_certificates(self._ports, host, plan))

    def unprepare(self) -> None:
        with contextlib.suppress(HostUnreachableError):
            self._there.remove_files()

    def fence(self) -> None:
        if self._order.fenced_host is not None:
            self._ports.volumes.takeovers.ensure_fenced(self._name, self._order.fenced_host)

    def silence(self) -> None:
        """No client reaches a server on a host that can be told: its address is taken away, or
        what listens at the host's own address is closed (`silence_server`).

        The server is not ended yet: one that waits for a cluster which its host cannot reach ends
        only when the host does.
        """
        for there in self._left_behind():
            with contextlib.suppress(HostUnreachableError):
                silence_server(self._ports.fleet.host(there.host), there)

    def end(self) -> None:
        """The server there ended, and all removed that it left. On a host that is lost, or cut from
        the cluster, a later command does it."""
        hosts = {there.host for there in self._left_behind()}
        for left in self._ports.records.all_left():
            if left.spec.name == self._name and left.spec.host in hosts:
                for sentence in clear_left(self._ports, left):
                    self._ports.progress.note(sentence)

    def _left_behind(self) -> list[DatabaseSpec]:
        """The database on each host that it leaves, and that can be reached."""
        return [one for one in self._left() if self._ports.fleet.is_reachable(one.host)]

    def _left(self) -> list[DatabaseSpec]:
        """The database as it is on each host that it leaves."""
        order, fleet = self._order, self._ports.fleet
        names = {order.former_host, order.fenced_host or order.former_host} - {order.changed.host}
        return [on_host_named(order.changed, fleet, name) for name in sorted(names)]

    def record(self) -> None:
        """Where it is from now on, and what is to be cleared away where it was."""
        order, records = self._order, self._ports.records
        scratch = records.find_scratch(self._name)
        for spec in self._left():
            left_scratch = scratch if scratch and scratch.database.host == spec.host else None
            known = {left.key: left for left in records.all_left()}.get(f"{spec.host}/{self._name}")
            if known is None:
                now = self._ports.clock.now()
                records.put_left(LeftInstance(spec=spec, left_at=now, scratch=left_scratch))
        if scratch is not None and scratch.database.host != order.changed.host:
            records.remove_scratch(self._name)
        wish = {"desired": "running"} if order.running else {}
        records.change(self._name, spec=order.changed, **wish)

    def attach(self) -> None:
        discard(self._ports.volumes.ensure_attached(self._name, self._order.changed.host))


def _describe_silence(spec: DatabaseSpec, lost: str) -> str:
    if spec.shares_address:
        return f"Close the port {spec.port} on {lost}, if {lost} can be reached"
    return f"Take the address from {lost}, if {lost} can be reached"


def _failover_steps(ports: StepPorts, order: FailoverOrder) -> list[Step]:
    spec, name = order.changed, order.changed.name
    there, lost = spec.host, order.former_host
    work, on_there = FailoverWork(ports, order), DatabaseWork(ports, spec)
    log = (
        ""
        if order.may_lose_ms is None
        else f", and lose the commits of at most {format_duration(order.may_lose_ms / 1000)} "
        "in its log there"
    )
    taking = [
        Step("prepare", f"Write its certificates to {there}", work.prepare, work.unprepare),
        Step("fence", f"Cut {order.fenced_host or lost} off from its volume{log}", work.fence),
        Step("silence", _describe_silence(spec, lost), work.silence),
        Step("record", f"Record that {name} is on {there}", work.record),
    ]
    last = [
        Step("metadata", "Record it in the metadata of the image", on_there.write_facts),
        Step("end", f"Remove the remains on {lost}, if {lost} can be reached", work.end),
    ]
    if not order.running:
        return [*taking, *last]
    return [
        *taking,
        Step("address", on_there.giving, on_there.give_address),
        Step("attach", f"Attach the volume to {there}, and apply its journal", work.attach),
        Step("files", "Write configuration", on_there.files),
        Step("serve", f"Start the server on {there}", on_there.serve),
        *last,
    ]


def _is_undone_now(ports: StepPorts, order: FailoverOrder) -> bool:
    """Until the fence is confirmed, the host that was taken for lost may serve the database."""
    if order.fenced_host is None:
        return False
    try:
        return ports.volumes.get(order.changed.name).host == order.fenced_host
    except NotFoundError:
        return False


FAIL_OVER = DatabaseOperation(
    kind="db.failover",
    what="failover of the database",
    document=FailoverOrder,
    build=_failover_steps,
    subject=lambda order: order.changed.name,
    when_cut_off="finish",
    address=lambda order: order.changed.held_address,
    closes_image=True,
    opens_volume=True,
    is_undone_now=_is_undone_now,
    is_first=True,
)
