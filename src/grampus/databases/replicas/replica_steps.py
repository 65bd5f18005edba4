"""Operations on replicas, as lists of steps: added, removed, promoted, renewed, scheduled."""

from __future__ import annotations

from dataclasses import replace

from pydantic import ConfigDict

from grampus.core.errors import NotFoundError
from grampus.core.intervals import format_interval
from grampus.core.models import Model
from grampus.databases.clones.clone_steps import CloneOrder, clone_steps
from grampus.databases.creating import copied_steps
from grampus.databases.database_work import DatabaseWork, discard
from grampus.databases.endpoints.endpoint_steps import members_of
from grampus.databases.endpoints.endpoint_work import EndpointWork
from grampus.databases.kinds import DatabaseOperation, new_identity
from grampus.databases.lifecycle import DELETE
from grampus.databases.live.live_changes import LiveWork
from grampus.databases.model import DatabaseSpec, DesiredState, LeftInstance
from grampus.databases.replicas.comparing import ReplicaComparing, require_nothing_lost
from grampus.databases.replicas.replica_work import ReplicaWork
from grampus.databases.step_ports import StepPorts
from grampus.state.operations import Step
from grampus.volumes.model import CloneSource


class AddOrder(Model):
    """A new replica, as its steps need it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    clone: CloneOrder  # its spec names the primary, which `database` is too
    makes_endpoint: bool = False  # it is the first replica that its primary ever has


class RemoveOrder(Model):
    """The end of a replica, as its steps need it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    spec: DatabaseSpec
    primary: str
    leftover_snapshot: str | None = None  # of the primary, by a renewal that was given up


class PromoteOrder(Model):
    """A replica that becomes a database of its own, as its steps need it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    replica: DatabaseSpec  # as it is
    primary: str
    wait_for: str | None  # transactions that the primary had; None: what was received is enough
    # The primary, when its host cannot be reached: it is fenced before anybody writes here.
    fenced: DatabaseSpec | None = None
    fenced_was: DesiredState = "running"  # what was wanted of it until then
    # Those that its primary's read-only endpoint is noted to lead to; None: it is served nowhere.
    endpoint_members: tuple[DatabaseSpec, ...] | None = None

    @property
    def changed(self) -> DatabaseSpec:
        alone = ("replica_of", "renew_every_s", "endpoint_address", "endpoint_port")
        changes = dict.fromkeys(alone)
        return self.replica.model_copy(update=changes)


class RenewOrder(Model):
    """A replica that is filled anew from its primary, as its steps need it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    changed: DatabaseSpec  # its volume may be bigger from now on
    primary: str
    owner: str  # the name of its own user, which is the primary's
    source: CloneSource  # the snapshot is taken for this renewal alone: no other has its name
    discards_errant: bool = False  # also what the replica holds alone, or may hold alone


def _name_endpoint(spec: DatabaseSpec) -> str:
    if spec.endpoint_port is None:
        return str(spec.endpoint_address)
    return f"the port {spec.endpoint_port}"


def _add_steps(ports: StepPorts, order: AddOrder) -> list[Step]:
    """The clone, which follows its primary before it counts as ready; undone as a whole."""
    spec, primary = order.clone.spec, order.clone.database
    work = ReplicaWork(ports, spec, primary)
    record, *steps, finish = clone_steps(ports, order.clone)
    endpoint = Step(
        "endpoint",
        f"Reserve {_name_endpoint(spec)} for the read-only endpoint of {primary}, and keep "
        "the authority of its replicas' certificates",
        work.ensure_endpoint,
        work.remove_endpoint if order.makes_endpoint else None,
    )
    return [
        record,
        endpoint,
        *steps,
        Step("follow", f"Start the replication from {primary}", work.follow, work.forget_account),
        Step("note", "Record the time of the copy", work.note_renewed),
        finish,
    ]


def _remove_steps(ports: StepPorts, order: RemoveOrder) -> list[Step]:
    spec, primary, leftover = order.spec, order.primary, order.leftover_snapshot
    work = ReplicaWork(ports, spec, primary)
    account = Step("account", f"Stop the replication from {primary}", work.forget_account)
    steps = [account, *DELETE.build(ports, spec)]
    if leftover is not None:
        steps.append(
            Step(
                "snapshot",
                f"Remove the snapshot of {primary} that an earlier renewal kept",
                lambda: ports.volumes.ensure_snapshot_absent(primary, leftover),
            )
        )
    return steps


def _promote_steps(ports: StepPorts, order: PromoteOrder) -> list[Step]:
    """Until it lets go it can be undone; what follows needs nobody but its own server."""
    replica, changed, wait_for = order.replica, order.changed, order.wait_for
    name, primary = replica.name, order.primary
    following = ReplicaWork(ports, replica, primary)
    former, live = LiveWork(ports, replica), LiveWork(ports, changed)
    steps, leaves = [], []
    if order.endpoint_members is not None:
        # Also where it is not noted to lead to this one: a change may have been cut off.
        others = tuple(spec for spec in order.endpoint_members if spec.name != name)
        leaves.append(
            Step(
                "endpoint",
                f"Remove it from the read-only endpoint of {primary}",
                EndpointWork(ports, primary, replica.port, members_of(others)).restrict,
                EndpointWork(
                    ports, primary, replica.port, members_of(order.endpoint_members)
                ).take_back,
            )
        )
    if wait_for is not None:
        steps.append(
            Step(
                "catch-up",
                f"Wait until it has all transactions of {primary}",
                lambda: following.catch_up(wait_for),
            )
        )
    fenced = order.fenced
    if fenced is not None:
        steps.append(
            Step(
                "fence",
                f"Cut {primary} off from its volume, and prevent its automatic start",
                lambda: _fence_primary(ports, fenced),
                lambda: ports.records.change(primary, desired=order.fenced_was),
            )
        )
    return [
        *steps,
        Step(
            "apply",
            "Stop receiving, and apply all received transactions",
            following.apply_received,
            following.receive_again,
        ),
        Step("record", f"Record that {name} is independent", live.record, former.record),
        Step(
            "config", "Write it for the server's next start", live.write_config, former.write_config
        ),
        *leaves,
        Step("open", "Remove the replication settings, and allow writes", following.let_go),
        Step(
            "events",
            f"Enable the scheduled events that {primary} had enabled",
            following.enable_events,
        ),
        Step(
            "metadata",
            "Record it in the metadata of the image",
            live.write_facts,
            former.write_facts,
        ),
        Step("account", f"Remove its account on {primary}", following.forget_account),
    ]


def _fence_primary(ports: StepPorts, primary: DatabaseSpec) -> None:
    """Nobody writes to it any more, and it does not come up by itself when its host is back."""
    ports.records.change(primary.name, desired="stopped")
    ports.records.put_left(LeftInstance(spec=primary, left_at=ports.clock.now()))
    ports.volumes.takeovers.ensure_fenced(primary.name, primary.host)


class _RenewWork:
    """What the steps of a renewal do beside those of any copy; every method is idempotent."""

    def __init__(self, ports: StepPorts, order: RenewOrder) -> None:
        self._ports = ports
        self._order = order
        self._work = DatabaseWork(ports, order.changed)

    def take_snapshot(self) -> None:
        if not self._is_cloned():
            self._ports.volumes.ensure_snapshot(self._order.primary, self._order.source.snapshot)

    def remove_snapshot(self) -> None:
        self._ports.volumes.ensure_snapshot_absent(self._order.primary, self._order.source.snapshot)

    def require_nothing_lost(self) -> None:
        """The snapshot is of a primary that had all that the replica has, also of one that crashed
        since somebody last looked. Raises what the function of that name raises."""
        name, primary = self._order.changed.name, self._order.primary
        if not (self._order.discards_errant or self._is_cloned()):
            require_nothing_lost(
                name, primary, ReplicaComparing(self._ports, is_patient=True).compare(name)
            )

    def remove_old(self) -> None:
        """What the replica held is nobody's loss: its primary has it, or the user gave it up."""
        if not self._is_cloned():
            self._work.kill_server()
            self._work.remove_volume()

    def clone(self) -> None:
        spec = self._work.volume_spec()
        discard(self._ports.volumes.ensure_cloned(spec, self._order.source))
        self._ports.records.change(self._order.changed.name, spec=self._order.changed)

    def release(self) -> None:
        self._ports.volumes.ensure_snapshot_released(
            self._order.primary, self._order.source.snapshot
        )

    def _is_cloned(self) -> bool:
        try:
            record = self._ports.volumes.get(self._order.changed.name)
        except NotFoundError:
            return False
        return record.source == self._order.source


def _renew_steps(ports: StepPorts, order: RenewOrder) -> list[Step]:
    """Undone until the old volume is touched, finished from then on.

    Name, address and passwords stay as they are.
    """
    spec, primary = order.changed, order.primary
    renewal = _RenewWork(ports, order)
    work = ReplicaWork(ports, spec, primary)
    fill = [
        Step(
            "snapshot",
            f"Take a snapshot of {primary}",
            renewal.take_snapshot,
            renewal.remove_snapshot,
        ),
        Step(
            "compare",
            f"Check that {primary} has all transactions of {spec.name}"
            if not order.discards_errant
            else f"Discard the transactions of {spec.name} that {primary} lacks",
            renewal.require_nothing_lost,
        ),
        Step("old", "Stop the server and remove its volume", renewal.remove_old),
        Step("volume", f"Clone the volume of {primary}", renewal.clone),
        Step(
            "release",
            f"Remove that snapshot from {primary}, and keep it for the clone",
            renewal.release,
        ),
    ]
    *steps, finish = copied_steps(ports, spec, fill, owner=order.owner)
    return [
        # What making a database anew would undo is the replica's own here.
        *(step if step.name == "snapshot" else replace(step, undo=None) for step in steps),
        Step("follow", f"Start the replication from {primary}", work.follow),
        Step("note", "Record the time of the copy", work.note_renewed),
        finish,
    ]


def _schedule_steps(ports: StepPorts, spec: DatabaseSpec) -> list[Step]:
    title = (
        f"Renew {spec.name} only manually"
        if spec.renew_every_s is None
        else f"Renew {spec.name} every {format_interval(spec.renew_every_s)}"
    )
    return [
        Step("record", title, lambda: ports.records.change(spec.name, spec=spec)),
        Step(
            "metadata",
            "Record it in the metadata of the image",
            DatabaseWork(ports, spec).write_facts,
        ),
    ]


ADD_REPLICA = DatabaseOperation(
    kind="db.replica-add",
    what="creation of the replica",
    document=AddOrder,
    build=_add_steps,
    subject=lambda order: order.clone.spec.name,
    when_cut_off="undo",
    address=lambda order: order.clone.spec.held_address,
    endpoint_address=lambda order: order.clone.spec.held_endpoint,
    takes=lambda order: order.clone.spec.name,
    identity=new_identity,
)
REMOVE_REPLICA = DatabaseOperation(
    kind="db.replica-remove",
    what="removal of the replica",
    document=RemoveOrder,
    build=_remove_steps,
    subject=lambda order: order.spec.name,
    when_cut_off="finish",
    address=lambda order: order.spec.held_address,
    takes_volume=True,
)
PROMOTE_REPLICA = DatabaseOperation(
    kind="db.replica-promote",
    what="promotion of the replica",
    document=PromoteOrder,
    build=_promote_steps,
    subject=lambda order: order.replica.name,
    when_cut_off="finish-or-undo",
)
RENEW_REPLICA = DatabaseOperation(
    kind="db.replica-renew",
    what="renewal of the replica",
    document=RenewOrder,
    build=_renew_steps,
    subject=lambda order: order.changed.name,
    when_cut_off="finish",
    no_way_back="old",
    goes_with_database=True,
    takes_volume=True,
    opens_volume=True,
)
SCHEDULE_RENEWAL = DatabaseOperation(
    kind="db.replica-schedule",
    what="change of the renewal schedule of the replica",
    document=DatabaseSpec,
    build=_schedule_steps,
    subject=lambda spec: spec.name,
    when_cut_off="finish",
)
