"""A change of a read-only endpoint, as a list of steps."""

from __future__ import annotations

from pydantic import ConfigDict

from grampus.core.models import Model
from grampus.databases.endpoints.endpoint_work import EndpointWork
from grampus.databases.endpoints.haproxy import Member
from grampus.databases.kinds import DatabaseOperation
from grampus.databases.model import DatabaseSpec, ReadEndpoint
from grampus.databases.step_ports import StepPorts
from grampus.state.operations import Step


class EndpointOrder(Model):
    """An endpoint as it shall be, as its steps need it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database: str
    port: int
    endpoint: ReadEndpoint  # as it shall be
    members: tuple[DatabaseSpec, ...]  # of the replicas that it leads to


def members_of(specs: tuple[DatabaseSpec, ...]) -> tuple[Member, ...]:
    """Replicas as HAProxy is told of them."""
    return tuple(Member(spec.name, spec.address, spec.port) for spec in specs)


def _endpoint_steps(ports: StepPorts, order: EndpointOrder) -> list[Step]:
    endpoint, name = order.endpoint, order.database
    work = EndpointWork(ports, name, order.port, members_of(order.members))
    led_to = ", ".join(endpoint.members) or "no replica"
    record = Step(
        "record",
        f"Record the host of the read-only endpoint of {name}, and its targets: {led_to}",
        lambda: work.record(endpoint),
    )
    leave = Step("leave", "Stop it on all other hosts", work.leave)
    if endpoint.host is None:
        return [record, leave]
    return [record, leave, Step("serve", f"Run it on {endpoint.host}", work.serve)]


CHANGE_ENDPOINT = DatabaseOperation(
    kind="db.read-endpoint",
    what="change of the read-only endpoint of the database",
    document=EndpointOrder,
    build=_endpoint_steps,
    subject=lambda order: order.database,
    when_cut_off="finish",
    goes_with_database=True,
    lane="endpoint",
    is_told_when_settled=False,
)
