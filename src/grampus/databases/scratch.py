"""Starting and stopping the scratch instance of a database, as lists of steps."""

from __future__ import annotations

from grampus.databases.kinds import DatabaseOperation
from grampus.databases.model import ScratchOrder, ScratchSpec
from grampus.databases.scratch_work import ScratchWork
from grampus.databases.step_ports import StepPorts
from grampus.state.operations import Step


def _scratch_steps(ports: StepPorts, order: ScratchOrder) -> list[Step]:
    """Undone, one that was there before stays, with its data."""
    scratch, name = order.scratch, order.database.name
    work = ScratchWork(ports, scratch)
    return [
        Step(
            "record",
            f"Record the scratch instance of {name}",
            lambda: ports.records.put_scratch(scratch),
            None if order.existed else lambda: ports.records.remove_scratch(name),
        ),
        Step(
            "files",
            "Write configuration and certificates",
            work.files,
            None if order.existed else work.remove,
        ),
        Step("initialise", "Initialise its data on the host's own disk", work.initialise),
        Step("serve", f"Start it at {scratch.address}", work.serve),
    ]


def _scratch_stop_steps(ports: StepPorts, scratch: ScratchSpec) -> list[Step]:
    work = ScratchWork(ports, scratch)
    return [Step("stop", f"Stop the scratch instance of {scratch.database.name}", work.stop)]


SCRATCH = DatabaseOperation(
    kind="db.scratch",
    what="start of the scratch instance of",
    document=ScratchOrder,
    build=_scratch_steps,
    subject=lambda scratch: scratch.database.name,
    when_cut_off="undo",
    address=lambda scratch: scratch.held_address,
)
SCRATCH_STOP = DatabaseOperation(
    kind="db.scratch-stop",
    what="stop of the scratch instance of",
    document=ScratchSpec,
    build=_scratch_stop_steps,
    subject=lambda scratch: scratch.database.name,
    when_cut_off="finish",
    address=lambda scratch: scratch.held_address,
)
