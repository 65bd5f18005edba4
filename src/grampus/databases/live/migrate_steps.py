"""Where a database's volume is, noted: as steps."""

from __future__ import annotations

from pydantic import ConfigDict

from grampus.core.models import Model
from grampus.databases.database_work import DatabaseWork
from grampus.databases.kinds import DatabaseOperation
from grampus.databases.step_ports import StepPorts
from grampus.state.operations import Step


class PoolChange(Model):
    """A move to another pool or back, as its steps need it; the volume's has the rest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database: str


def _note_pool(ports: StepPorts, name: str) -> None:
    record = ports.records.find(name)
    if record is not None:
        pool = ports.volumes.get(name).spec.pool
        ports.records.change(name, spec=record.spec.model_copy(update={"pool": pool}))


def _note_facts(ports: StepPorts, name: str) -> None:
    record = ports.records.find(name)
    if record is not None:
        DatabaseWork(ports, record.spec).write_facts()


def _steps(ports: StepPorts, change: PoolChange) -> list[Step]:
    name = change.database
    return [
        Step("record", f"Record the pool of '{name}'", lambda: _note_pool(ports, name)),
        Step(
            "metadata", "Record it in the metadata of the image", lambda: _note_facts(ports, name)
        ),
    ]


MIGRATE_POOL = DatabaseOperation(
    kind="db.migrate",
    what="migration of the database",
    document=PoolChange,
    build=_steps,
    subject=lambda change: change.database,
    when_cut_off="finish",
    goes_with_database=True,
    takes_volume=True,
    is_told_when_settled=False,  # the volume's migration is, and may not have come to its end
)
