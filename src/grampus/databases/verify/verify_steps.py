"""A verification kept with its database, as a step."""

from __future__ import annotations

from pydantic import ConfigDict

from grampus.core.models import Model
from grampus.databases.kinds import DatabaseOperation
from grampus.databases.step_ports import StepPorts
from grampus.databases.verify.model import VerificationSummary
from grampus.state.operations import Step


class VerifiedOrder(Model):
    """A verification that is over: nothing is left of it but to be noted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database: str
    verified: VerificationSummary


def _verified_steps(ports: StepPorts, order: VerifiedOrder) -> list[Step]:
    return [
        Step(
            "record",
            f"Record the result with {order.database}",
            lambda: ports.records.change(order.database, last_verification=order.verified),
        )
    ]


VERIFY = DatabaseOperation(
    kind="db.verify",
    what="verification of the database",
    document=VerifiedOrder,
    build=_verified_steps,
    subject=lambda order: order.database,
    when_cut_off="finish",
)
