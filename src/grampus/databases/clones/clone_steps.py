"""Cloning a database, and letting a clone stand alone, as lists of steps."""

from __future__ import annotations

from importlib import import_module

from pydantic import ConfigDict

from grampus.core.models import Model
from grampus.core.units import format_bytes
from grampus.databases.creating import copied_steps
from grampus.databases.database_work import DatabaseWork, discard
from grampus.databases.kinds import DatabaseOperation, new_identity
from grampus.databases.model import DatabaseSpec
from grampus.databases.step_ports import StepPorts
from grampus.state.operations import Step
from grampus.volumes.model import CloneSource


class CloneOrder(Model):
    """A clone as its steps need it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    spec: DatabaseSpec
    database: str  # that it is a clone of
    owner: str  # the name of that one's own user
    source: CloneSource
    takes_snapshot: bool  # for this clone alone: nobody sees it once the clone is made
    copies_files: bool = False  # to a volume of another layout, which shares nothing


class FlattenOrder(Model):
    """A database whose volume shall share nothing any more."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str


def clone_steps(ports: StepPorts, order: CloneOrder) -> list[Step]:
    """The clone; undone as a whole."""
    source, snapshot = order.database, order.source.snapshot
    work = DatabaseWork(ports, order.spec)
    clone = Step(
        "volume",
        f"Clone the volume of {source}"
        + ("" if order.takes_snapshot else f" as of its snapshot {snapshot}"),
        lambda: discard(ports.volumes.ensure_cloned(work.volume_spec(), order.source)),
        work.remove_volume,
    )
    fill, meanwhile = [clone], []
    if order.copies_files:
        fill = _copying_steps(ports, order)
    if order.takes_snapshot:
        take = Step(
            "snapshot",
            f"Take a snapshot of {source}",
            lambda: ports.volumes.ensure_snapshot(source, snapshot),
            lambda: ports.volumes.ensure_snapshot_absent(source, snapshot),
        )
        release = Step(
            "release",
            f"Remove that snapshot from {source}"
            + ("" if order.copies_files else ", and keep it for the clone"),
            lambda: ports.volumes.ensure_snapshot_released(source, snapshot),
        )
        fill, meanwhile = [take, *fill], [release]
    return copied_steps(ports, order.spec, fill, owner=order.owner, meanwhile=meanwhile)


def _copying_steps(ports: StepPorts, order: CloneOrder) -> list[Step]:
    """The volume of the copy, with the files on it, attached to its host."""
    copied_files = import_module("grampus.databases.clones.copied_files")  # few clones need it
    copying = copied_files.CopiedFiles(ports, order.spec, order.source)
    source, spec, work = order.database, order.spec, DatabaseWork(ports, order.spec)
    return [
        Step(
            "files-volume",
            f"Clone the volume of {source} as {copying.name}, to copy its files",
            copying.clone,
            copying.remove_clone,
        ),
        Step(
            "volume",
            f"Create a volume of {format_bytes(spec.size_bytes)} with an external log in pool "
            f"{spec.pool}",
            work.create_volume,
            work.remove_volume,
        ),
        Step("copy-files", f"Copy the files of {source}", copying.copy, copying.detach),
        Step("files-volume-away", f"Remove the volume {copying.name}", copying.remove_clone),
    ]


def _flatten_steps(ports: StepPorts, order: FlattenOrder) -> list[Step]:
    return [
        Step(
            "flatten",
            f"Copy the data that the volume of {order.name} shares with others",
            lambda: ports.volumes.ensure_flattened(order.name),
        )
    ]


CLONE = DatabaseOperation(
    kind="db.clone",
    what="creation of the clone",
    document=CloneOrder,
    build=clone_steps,
    subject=lambda order: order.spec.name,
    when_cut_off="undo",
    address=lambda order: order.spec.held_address,
    takes=lambda order: order.spec.name,
    identity=new_identity,
)
# Hours of copying are not for the next command to go on with; what was copied stays copied. In a
# lane of its own, so that meanwhile the volume can grow, which librbd allows: what is flattened is
# what the image shared when that began (Ceph 20.2, `Operations::execute_flatten`), and operations
# of different kinds on one image need not wait for each other.
FLATTEN = DatabaseOperation(
    kind="db.flatten",
    what="flattening of the database",
    document=FlattenOrder,
    build=_flatten_steps,
    subject=lambda order: order.name,
    when_cut_off="undo",
    lane="flatten",
)
